"""A run folder back to something that predicts, and to the examples it is scored on: `load` and `examples`."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.errors import CheckpointError, ConfigError, DataError, unknown
from headwise.predictors.predictor import Predictor
from headwise.runs.publish import CONFIG, OWN_FILES, evaluated, read_run
from headwise.runs.reading import Saved
from headwise.runs.weights import fitting, load_weights
from headwise.tasks import registry
from headwise.tasks.task import Assets
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, parse_recipe, read_recipe

_DRAWS = frozenset({"normal_", "uniform_", "bernoulli_", "exponential_", "random_"})
# what PyTorch's default type may be while a model trains
_TRAINED = frozenset({torch.float32, torch.float64})
SPLITS = ("train", "valid", "test")


def load(folder: str | os.PathLike[str]) -> Predictor[Any, Any, Any]:
    """The predictor of a run folder, every file verified first.

    Where the model is damaged, the best or else the newest good checkpoint takes its place, with a warning that names
    the damaged file.

    Raises: CheckpointError naming the file when nothing good is left.
    """
    return read_run(Path(folder), warned, _predictor)


def examples(folder: str | os.PathLike[str], split: str = "test", data: Mapping[str, Any] | None = None) -> list[Any]:
    """The labelled examples of a run's recipe, for its predictor's `evaluate`.

    Args:
        folder: the run folder.
        split: "train", "valid" or "test".
        data: keys of the recipe's `[data]` to put in place of its own, such as `{"test": "other.tsv"}`; None is the
            key's default.

    Raises:
        CheckpointError: no recipe in the folder, or none of this program.
        ConfigError: keys that the recipe's data does not have.
        DataError: files that are not there or are wrong, or no such split.
    """
    if split not in SPLITS:
        raise ConfigError(unknown("split", split, SPLITS))
    path = Path(folder) / CONFIG
    recipe = read_run(path.parent, warned, _recipe)
    if data:
        values = recipe.model_dump(mode="json", exclude_none=True)
        changed = {**values.get("data", {}), **data}
        values["data"] = {key: value for key, value in changed.items() if value is not None}
        recipe = read_recipe(values)
    found = registry.task_type(recipe.task).examples(recipe, split)
    if not found:
        raise DataError(f"{path}: the recipe has no {split} part; name a file of examples")
    return found


def warned(text: str) -> None:
    """Warns the caller of this file's functions."""
    warnings.warn(text, stacklevel=4)


def _recipe(saved: Saved) -> Recipe:
    return parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))


class _Undrawn(TorchFunctionMode):
    """Inside, nothing is drawn into tensors: on the meta device PyTorch would import its compiler to draw nothing."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") in _DRAWS:
            return args[0] if args else (options or {})["tensor"]
        return function(*args, **(options or {}))


def _predictor(saved: Saved) -> Predictor[Any, Any, Any]:
    recipe = _recipe(saved)
    files = {name: data for name, data in saved.files.items() if name not in OWN_FILES}
    try:
        task = registry.task_type(recipe.task)(recipe, Assets(files))
    except DataError as error:
        # files of the folder, not of the user
        raise CheckpointError(f"{saved.folder}: {error}") from None
    name, tensors, metadata = evaluated(saved)
    with isolated(recipe.seed):
        with torch.device("meta"), _Undrawn():
            # a recipe that asks for more than the weights have is refused before such a model takes memory
            fitting(_typed(task.build(), tensors), tensors, metadata, str(saved.folder / name))
        model = _typed(task.build(), tensors)
    load_weights(model, tensors, metadata, str(saved.folder / name))
    return task.predictor(model.eval())


def _typed(model: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """The model in the type that its weights were saved in, whatever the default type is now."""
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    return model.to(kinds.pop()) if len(kinds) == 1 and kinds <= _TRAINED else model
