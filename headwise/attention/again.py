"""What is computed again for the gradient in place of being kept."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def again(function: Callable[..., Tensor], *inputs: object) -> Tensor:
    """function(*inputs), of which nothing but the inputs is kept: the backward pass runs it once more.

    Modules in it are to be `bound`. Only where `can_run_again`.
    """
    output: Tensor = checkpoint(function, *inputs, use_reentrant=False)
    return output


def can_run_again(tensors: Iterable[Tensor]) -> bool:
    """Whether what is made of these tensors can be made again: transforms of `torch.func` have no hooks for it."""
    return torch.compiler.is_compiling() or all(torch.func.debug_unwrap(tensor) is tensor for tensor in tensors)


def held(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a module by all their names, as they are now."""
    parameters, buffers = module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    return {**dict(parameters), **dict(buffers)}


def bound(module: nn.Module) -> Callable[..., Tensor]:
    """The module with its parameters as they are now: computed again later, it must not meet others in their place.

    Under `torch.func.functional_call` a module holds the given parameters only until the call returns.
    """
    tensors = held(module)
    if not tensors:
        return module
    return lambda *inputs: torch.func.functional_call(module, tensors, inputs)
