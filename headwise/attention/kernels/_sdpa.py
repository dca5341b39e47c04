"""PyTorch's scaled dot product attention, and what is done about the derivatives that it has not."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.errors import Unsupported


class NoDerivative(Exception):
    """SDPA lacks a derivative that this call is made for: forward mode, or gradients of gradients by `torch.func`."""


def sdpa(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """`F.scaled_dot_product_attention`, whose gradient refuses to be differentiated by name.

    Raises: NoDerivative: a transform asks for more than gradients; the definition has to compute the call.
    """
    try:
        output = F.scaled_dot_product_attention(query, key, value, **options)
    except NotImplementedError:
        # forward mode
        raise NoDerivative from None
    if torch.compiler.is_compiling() or not output.requires_grad:
        return output
    inner = torch.func.debug_unwrap(output, recurse=False)
    if inner is not output:
        if inner.requires_grad:
            raise NoDerivative
    elif output.grad_fn is not None:
        output.grad_fn.register_prehook(_refuse_second)
    return output


def _refuse_second(gradients: tuple[Tensor | None, ...]) -> None:
    """Raises: Unsupported in a backward pass of which a graph is made."""
    if torch.is_grad_enabled():
        raise Unsupported(
            "kernels 'fused' and 'banded' have no second derivatives (create_graph=True): pass kernel='plain', or build"
            " the layer with Scored(kernel='plain')"
        )
