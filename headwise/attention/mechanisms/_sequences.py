"""What the mechanisms share that read whole sequences: which tokens exist, and refusals of everything else."""

from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attention.call import Call, check
from headwise.attention.mechanisms._masks import Split, hidden, per_head, refuse, split
from headwise.errors import ShapeError, Unsupported

Existing = Bool[Tensor, "#batch #heads 1 key_len"]


def read_mask(name: str, call: Call, *, causal: bool) -> Split:
    """The mask of a call in parts, for a mechanism that reads whole sequences.

    Args:
        name: of the mechanism, for messages.
        causal: whether it can hide later keys.
    Raises:
        ShapeError: tensors that do not fit.
        Unsupported: another mask, a bias, relative positions, or queries that do not start at position 0.
    """
    check(call)
    added = "a bias" if call.bias is not None else "relative positions" if call.relative is not None else None
    if added is not None:
        raise Unsupported(f"{name} cannot honour {added}: not every pair has a score in it; use mechanism 'scored'")
    if call.query_start != 0:
        raise Unsupported(
            f"{name} reads a sequence as a whole and cannot go on from position {call.query_start};"
            " pass the whole sequence, or use mechanism 'scored'"
        )
    parts = split(call.mask, *call.shape, 0, call.query.device)
    if call.mask is not None and (parts is None or (parts.causal and not causal)):
        can = "Causal(), padding of keys, and both together" if causal else "padding of keys"
        raise refuse(name, call.mask, can)
    assert parts is not None
    return parts


def check_self_attention(name: str, query: Tensor, key: Tensor) -> None:
    """Raises: Unsupported if query and key cannot be of one sequence."""
    if query.shape[2] != key.shape[2]:
        raise Unsupported(
            f"{name} is self-attention: query_len ({query.shape[2]}) and key_len ({key.shape[2]}) must be equal;"
            " use mechanism 'scored' to attend to another sequence"
        )


def check_length(name: str, length: int, max_len: int) -> None:
    """Raises: ShapeError if a mechanism with a weight for each position meets more of them."""
    if length > max_len:
        raise ShapeError(
            f"{name} was built for max_len ({max_len}) positions, got {length}; shorten the input, or train with a"
            " larger max_len"
        )


def existing(
    tensor: Float[Tensor, "batch kv_heads key_len dim"], keys: Existing | None, heads: int
) -> Float[Tensor, "batch _ key_len dim"]:
    """Keys or values with zeros for those that do not exist; one for each head if that depends on the head."""
    by_head = keys is not None and keys.shape[1] not in (1, tensor.shape[1])
    return hidden(per_head(tensor, heads) if by_head else tensor, keys)
