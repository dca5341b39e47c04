"""Masks in words: which part forbids a pair, and which queries see nothing."""

from jaxtyping import Int
from torch import Tensor

from headwise.attention.masks.mask import Mask
from headwise.errors import ShapeError


def explain(mask: Mask, query: int, key: int, *, batch: int = 0, head: int = 0) -> str:
    """Whether the pair may meet, and if not, each part of the mask that forbids it.

    Raises:
        ShapeError: a position that the mask has no entry for.

    >>> import torch
    >>> from headwise.attention.masks import Causal, Padding
    >>> explain(Causal() & Padding(torch.tensor([4])), query=2, key=5)
    'query 2 may not attend to key 5: key 5 comes after query 2; and key 5 is padding: sequence 0 has 4 keys'
    """
    try:
        if mask.allows(batch, head, query, key):
            return f"query {query} may attend to key {key}"
        return f"query {query} may not attend to key {key}: {mask.reason(batch, head, query, key)}"
    except IndexError:
        place = f"batch {batch}, head {head}, query {query}, key {key}"
        raise ShapeError(f"the mask has no entry for {place}; it was made for a smaller input") from None


def empty_rows(
    mask: Mask, batch: int, heads: int, query_len: int, key_len: int, *, query_start: int = 0
) -> Int[Tensor, "rows 3"]:
    """(batch, head, query) of every query that no key is allowed to, whose output is zero.

    A batch or head axis on which the mask does not depend is listed once, as 0.

    >>> import torch
    >>> from headwise.attention.masks import Padding
    >>> empty_rows(Padding(torch.tensor([0, 3])), 2, 1, 2, 3).tolist()
    [[0, 0, 0], [0, 0, 1]]
    """
    keep = mask.dense(batch, heads, query_len, key_len, query_start=query_start)
    none = ~keep.any(-1)
    rows = none.expand(none.shape[0], none.shape[1], query_len).nonzero()
    return rows + rows.new_tensor([0, 0, query_start])
