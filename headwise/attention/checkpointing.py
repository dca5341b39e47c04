"""What is computed again for the gradient in place of being kept."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def checkpointed(function: Callable[..., Tensor], *inputs: object) -> Tensor:
    """function(*inputs), of which nothing but the inputs is kept: the backward pass runs it once more.

    Modules in it are to be `with_tensors_of_now`. Only where `can_checkpoint`.
    """
    output: Tensor = checkpoint(function, *inputs, use_reentrant=False)
    return output


def can_checkpoint(tensors: Iterable[Tensor]) -> bool:
    """Whether what is made of these tensors can be made again: transforms of `torch.func` have no hooks for it."""
    return torch.compiler.is_compiling() or all(torch.func.debug_unwrap(tensor) is tensor for tensor in tensors)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a module by all their names, as they are now."""
    parameters, buffers = module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    return {**dict(parameters), **dict(buffers)}


def with_tensors_of_now(module: nn.Module) -> Callable[..., Tensor]:
    """The module with its parameters as they are now: computed again later, it must not meet others in their place.

    Under `torch.func.functional_call` a module holds the given parameters only until the call returns.
    """
    tensors = _places(module)
    if not tensors:
        return module
    return lambda *inputs: torch.func.functional_call(module, tensors, inputs, tie_weights=False)


def call_with(
    module: nn.Module, tensors: Mapping[str, Tensor], inputs: tuple[Any, ...], options: dict[str, Any] | None = None
) -> Any:
    """module(*inputs, **options) with these in place of its parameters and buffers; what is tied needs one name.

    `torch.func.functional_call` exchanges what a part with two names holds twice, and gives back the wrong tensor
    (PyTorch's issue 164759): here every place is exchanged once.
    """
    own = tensors_of(module)
    replacements = {id(own[name]): tensor for name, tensor in tensors.items()}
    named = {name: replacements[id(tensor)] for name, tensor in _places(module).items() if id(tensor) in replacements}
    return torch.func.functional_call(module, named, inputs, options, tie_weights=False)


def _places(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of every part, each part under one of its names."""
    tensors: dict[str, Tensor] = {}
    for path, part in module.named_modules():
        own = (
            *part.named_parameters(path, recurse=False, remove_duplicate=False),
            *part.named_buffers(path, recurse=False, remove_duplicate=False),
        )
        tensors.update(own)
    return tensors
