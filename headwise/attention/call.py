"""One attention as data: what a kernel is asked to compute."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.masks import Mask, Prepared
from headwise.attention.normalizers import Normalizer, softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Score
from headwise.errors import ShapeError


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """normalizer(scale * score(query, key) + bias + relative, mask) @ value, with dropout on the weights.

    Key and value may have fewer heads than the query (a divisor: grouped-query, or one: multi-query attention); head
    h of the query then meets head h // (heads / kv_heads). `query_start` is the position of the first query, for
    masks. `finite` promises that keys and values hold no NaN or infinity, which saves looking.
    """

    query: Float[Tensor, "batch heads query_len query_dim"]
    key: Float[Tensor, "batch kv_heads key_len key_dim"]
    value: Float[Tensor, "batch kv_heads key_len value_dim"]
    score: Score
    normalizer: Normalizer = softmax
    mask: Mask | None = None
    bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None
    relative: Relative | None = None
    scale: float = 1.0
    dropout: float = 0.0
    query_start: int = 0
    finite: bool = False

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.query.shape[1] // max(1, self.key.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, query_len, key_len)."""
        batch, heads, query_len, _ = self.query.shape
        return batch, heads, query_len, self.key.shape[2]

    @property
    def learns(self) -> bool:
        """Whether a gradient will be asked for."""
        if not torch.is_grad_enabled():
            return False
        for tensor in (self.query, self.key, self.value, self.bias, *self.relative_tensors):
            if tensor is not None and tensor.requires_grad:
                return True
        return any(parameter.requires_grad for parameter in self.score.parameters())

    @property
    def relative_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the relative positions."""
        return () if self.relative is None else self.relative.tensors

    @property
    def bias_learns(self) -> bool:
        """Whether a gradient will be asked of what is added to the scores or to the values."""
        if not torch.is_grad_enabled():
            return False
        if self.bias is not None and self.bias.requires_grad:
            return True
        return any(tensor.requires_grad for tensor in self.relative_tensors)

    def prepared(self) -> Prepared | None:
        """The mask as tensors for this shape."""
        if self.mask is None:
            return None
        return self.mask.prepared(*self.shape, self.query_start, self.query.device)

    def replaced(self, query: Tensor, key: Tensor, value: Tensor) -> "Call":
        """The same attention over other tensors."""
        return replace(self, query=query, key=key, value=value)


def wide(tensor: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The tensor in the type that scores are computed in: float32 in place of half precision."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def check(call: Call) -> Call:
    """Returns the call. Raises: ShapeError that names the axis which does not fit."""
    query, key, value = call.query, call.key, call.value
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.ndim != 4:
            raise ShapeError(f"{name} must be (batch, heads, length, head_dim), got {tuple(tensor.shape)}")
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(f"batch differs: query {query.shape[0]}, key {key.shape[0]}, value {value.shape[0]}")
    if key.shape[1:3] != value.shape[1:3]:
        raise ShapeError(f"key {tuple(key.shape[1:3])} and value {tuple(value.shape[1:3])} differ in (heads, length)")
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise ShapeError(f"heads of key and value ({key.shape[1]}) must divide heads of query ({query.shape[1]})")
    call.score.check(query.shape[-1], key.shape[-1])
    if call.bias is not None:
        _check_bias(call.bias, call.shape)
    if not 0.0 <= call.dropout < 1.0:
        raise ShapeError(f"dropout ({call.dropout}) must be at least 0 and below 1")
    return call


def _check_bias(bias: Tensor, wanted: tuple[int, int, int, int]) -> None:
    if bias.ndim != 4 or any(have not in (1, want) for have, want in zip(bias.shape, wanted, strict=True)):
        raise ShapeError(f"bias {tuple(bias.shape)} does not fit (batch, heads, query_len, key_len) = {wanted}")
