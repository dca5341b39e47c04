"""What mechanisms share that cannot honour every mask: a call in parts, and zeros where no key exists."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention import masks
from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms.mechanism import Mechanism, table_of_two
from headwise.attention.precision import wide
from headwise.attention.zeros import zeroed
from headwise.errors import ShapeError

Keys = Bool[Tensor, "#batch #heads key_len"]


class Parts(NamedTuple):
    """Tensors in float32 or wider, zero where no key exists; whether later keys are hidden; the keys that exist.

    Key and value have a head for each of the query if it depends on the head which keys exist. None: all exist.
    """

    query: Float[Tensor, "batch heads query_len query_dim"]
    key: Float[Tensor, "batch kv_heads key_len key_dim"]
    value: Float[Tensor, "batch kv_heads key_len value_dim"]
    causal: bool
    keys: Keys | None


def parts(call: Call) -> Parts:
    """The parts of a clean call under a mask of keys; under a causal one without the keys behind the last query.

    >>> from headwise.attention.masks import Causal, Padding
    >>> x = torch.ones(1, 1, 3, 4)
    >>> parts(Call(x, x, x, mask=Causal() & Padding(torch.tensor([2]))))[3:]
    (True, tensor([[[ True,  True, False]]]))
    """
    causal, keys = False, None
    for part in masks.parts(call.mask):
        if part.structure().causal:
            causal = True
            continue
        shown = table_of_two(part, call).squeeze(2).expand(-1, -1, call.shape[3])
        keys = shown if keys is None else keys & shown
    query, key, value = wide(call.query), wide(call.key), wide(call.value)
    if causal:
        end = call.query_start + call.shape[2]
        key, value, keys = key[:, :, :end], value[:, :, :end], None if keys is None else keys[..., :end]
    if keys is not None and keys.shape[1] > 1:
        # what one head of a group does not see, another one may
        key, value = (hidden(per_head(tensor, call.shape[1]), keys) for tensor in (key, value))
    return Parts(query, key, value, causal, keys)


def hidden(tensor: Float[Tensor, "batch heads key_len dim"], keys: Keys | None) -> Float[Tensor, "_ _ key_len dim"]:
    """Keys or values with zeros, NaN included, in place of those that do not exist."""
    return tensor if keys is None else zeroed(tensor, keys.unsqueeze(-1))


def at_most(limit: int, size: int) -> int:
    """min(limit, size) where the size is a number; the limit in a traced program, which serves all sizes."""
    return limit if torch.compiler.is_compiling() else min(limit, size)


def chunks(length: int, size: int) -> int:
    """How many chunks hold a length, 1 at least; never 1 in a traced program, which would take it for the rule."""
    if torch.compiler.is_compiling():
        return (length + 2 * size - 1) // size
    return max(1, -(-length // size))


def front(tensor: Float[Tensor, "..."], length: int, axis: int = 2) -> Float[Tensor, "..."]:
    """The first positions; a traced program cannot prove that a slice of chunks, or of all there are, is one."""
    if torch.compiler.is_compiling():
        return tensor.index_select(axis, torch.arange(length, device=tensor.device))
    return tensor.narrow(axis, 0, length)


def check_length(mechanism: Mechanism, max_len: int, length: int) -> None:
    """Raises: ShapeError if a mechanism with a weight for each position meets more of them."""
    if length > max_len:
        raise ShapeError(
            f"{type(mechanism).__name__} was built for max_len ({max_len}) positions, got {length}; shorten the input,"
            " or train with a larger max_len"
        )
