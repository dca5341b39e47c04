"""The weights of a model as named tensors and back: exact names, shapes and types, tied weights tied, no casts."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import CheckpointError
from headwise.runs.tensors import TensorFile, local, shard_rows

_TIED = "tied"
_SHOWN = 5


def weights_file(model: nn.Module) -> TensorFile:
    """The weights as the content of a safetensors file; a tied tensor is written once, its other names as metadata."""
    return weights_as_file(model.state_dict(), ties(model))


def weights_as_file(tensors: Mapping[str, Tensor], tied: Mapping[str, str]) -> TensorFile:
    """Named tensors, without those that `ties` found, as the content of a safetensors file."""
    return TensorFile({name: tensor for name, tensor in tensors.items() if name not in tied}, metadata_of(tied))


def ties(model: nn.Module) -> dict[str, str]:
    """Names of tensors that are the same parameter or buffer as an earlier one, with that one's name.

    By identity: so it works on the meta device, and two parameters that are views of the same memory are two.

    >>> model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    >>> model[1].weight = model[0].weight
    >>> ties(model)
    {'1.weight': '0.weight'}
    """
    first: dict[int, str] = {}
    named = [(name, first.setdefault(id(tensor), name)) for name, tensor in model.state_dict(keep_vars=True).items()]
    return {name: earlier for name, earlier in named if earlier != name}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], name: str) -> None:
    """Copies tensors into the model if each fits exactly; otherwise nothing is changed.

    Raises: CheckpointError naming the file and the first five differences.
    """
    with torch.no_grad():
        for target, source in match_weights(model, tensors, metadata, name):
            copy_into(target, source)


def copy_into(target: Tensor, source: Tensor) -> None:
    """Copies a tensor; into one that processes share, each its rows of a whole one, or of one shared alike."""
    if hasattr(target, "device_mesh") and not hasattr(source, "device_mesh"):
        mesh: Any = target.device_mesh
        first, end = shard_rows(len(target), mesh.get_local_rank(), mesh.size())
        source = source[first:end]
    local(target).copy_(local(source))


def match_weights(
    model: nn.Module, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], name: str
) -> list[tuple[Tensor, Tensor]]:
    """Each tensor of the model with the saved one.

    Raises: CheckpointError naming the file and the first five differences.
    """
    tied = ties(model)
    expected = {key: value for key, value in model.state_dict().items() if key not in tied}
    problems = [f"'{key}' is missing" for key in expected if key not in tensors]
    problems += [f"'{key}' is not in this model" for key in tensors if key not in expected]
    problems += [_mismatch(key, tensors[key], value) for key, value in expected.items() if key in tensors]
    problems = [problem for problem in problems if problem]
    if not problems and read_ties(metadata, name) != tied:
        problems = ["other weights are tied to each other"]
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise CheckpointError(f"{name}: the weights do not fit the model: {'; '.join(problems[:_SHOWN])}{more}")
    return [(value, tensors[key]) for key, value in expected.items()]


def metadata_of(tied: Mapping[str, str]) -> dict[str, str]:
    return {"format": "pt", _TIED: json.dumps(dict(tied), sort_keys=True)}


def _mismatch(key: str, saved: Tensor, expected: Tensor) -> str:
    if saved.shape != expected.shape:
        return f"'{key}' has shape {list(saved.shape)}, the model {list(expected.shape)}"
    if saved.dtype != expected.dtype:
        return f"'{key}' has type {saved.dtype}, the model {expected.dtype}"
    return ""


def read_ties(metadata: Mapping[str, str], name: str) -> dict[str, str]:
    """The `ties` in the metadata of weights file `name`. Raises: CheckpointError if damaged."""
    try:
        tied = json.loads(metadata.get(_TIED, "{}"))
    except ValueError:
        tied = None
    if not isinstance(tied, dict):
        raise CheckpointError(f"{name}: its note on tied weights is not valid")
    return tied
