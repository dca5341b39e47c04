"""Masks that depend on positions alone: causal, windows, dilated, strided, blocks, global tokens, shifts by head."""

import functools
import operator
from abc import ABC
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.attention.masks.band import Band
from headwise.attention.masks.checks import are_whole, check_sizes
from headwise.attention.masks.mask import Mask
from headwise.errors import ShapeError


class _Near(Mask, ABC):
    """Base of patterns in which each query sees the key at its own position."""

    def sees_itself(self) -> bool:
        return True

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "#batch #heads key_len"] | None:
        if query_start == 0 and key_len <= query_len:
            return None
        return super().seen(batch, heads, query_len, key_len, query_start, device)


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """No query sees a later key: `key <= query`."""

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query

    def band(self) -> Band:
        return (None, 0)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} comes after query {query}"


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys at most `left` positions before and `right` positions after the query (truncated self-attention).

    >>> int(Window(5, 5).dense(1, 1, 1000, 1000).sum())
    10970
    """

    left: int
    right: int

    def __post_init__(self) -> None:
        check_sizes(self, left=0, right=0)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= query - self.left) & (key <= query + self.right)

    def band(self) -> Band:
        return (self.left, self.right)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} is {_apart(query, key)}; it allows {self.left} before and {self.right} after"


@dataclass(frozen=True, eq=False)
class Dilated(_Near):
    """Every `step`-th key, at most `left` such steps before and `right` after the query: a window with gaps.

    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1 (dilated sliding window).

    >>> Dilated(1, 1, 2).dense(1, 1, 1, 5, query_start=2).flatten().int().tolist()
    [1, 0, 1, 0, 1]
    """

    left: int
    right: int
    step: int

    def __post_init__(self) -> None:
        check_sizes(self, left=0, right=0, step=1)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        far = key - query
        near = (far >= -self.left * self.step) & (far <= self.right * self.step)
        return near & (far.remainder(self.step) == 0)

    def within(self) -> Band:
        return (self.left * self.step, self.right * self.step)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        allows = f"it allows {self.left} steps of {self.step} before and {self.right} after"
        return f"key {key} is {_apart(query, key)}; {allows}"


@dataclass(frozen=True, eq=False)
class Strided(_Near):
    """The last `step` keys, and before and after them every key whose distance is a multiple of `step`.

    With `Causal()` it is the strided pattern of the Sparse Transformer: any key is reached in two layers at a cost of
    n^1.5 for step = sqrt(n).

    Source: Child et al. 2019, arXiv:1904.10509, section 4.3 (both heads of the strided pattern joined into one).

    >>> (Strided(3) & Causal()).dense(1, 1, 1, 8, query_start=7).flatten().int().tolist()
    [0, 1, 0, 0, 1, 1, 1, 1]
    """

    step: int

    def __post_init__(self) -> None:
        check_sizes(self, step=1)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        far = (query - key).abs()
        return (far <= self.step) | (far.remainder(self.step) == 0)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} is {_apart(query, key)}, more than {self.step} and no multiple of it"


@dataclass(frozen=True, eq=False)
class Shifts(Mask):
    """Head h sees one key only, `steps[h]` positions after the query: heads that form a convolution.

    Args:
        steps: one for each head; negative ones look back.
    Source: Cordonnier et al. 2020, arXiv:1911.03584, theorem 1, in one dimension.

    >>> Shifts((-1, 1)).dense(1, 2, 1, 3, query_start=1)[0, :, 0].int().tolist()
    [[1, 0, 0], [0, 0, 1]]
    """

    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        if not are_whole(self.steps) or not self.steps:
            raise ShapeError("Shifts needs a whole number of steps for each head, such as Shifts((-1, 0, 1))")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # sums in place of a table, which a compiled program cannot make for each pair
        return key - query == sum(step * (head == number) for number, step in enumerate(self.steps))

    def within(self) -> Band:
        return (max(0, -min(self.steps)), max(0, max(self.steps)))

    def check(self, batch: int, heads: int, query_len: int, key_len: int, query_start: int) -> None:
        if heads > len(self.steps):
            raise ShapeError(f"Shifts has steps for {len(self.steps)} heads, got {heads} heads")

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"head {head} sees the key {self.steps[head]} positions after the query only"


@dataclass(frozen=True, eq=False)
class Blocks(_Near):
    """Query and key lie in the same block of `size` positions.

    Source: Qiu et al. 2019, arXiv:1911.02972 (block-diagonal attention).

    >>> Blocks(2).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    size: int

    def __post_init__(self) -> None:
        check_sizes(self, size=1)

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query // self.size == key // self.size

    def within(self) -> Band:
        return (self.size - 1, self.size - 1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return (
            f"query {query} is in block {query // self.size} of {self.size} positions, key {key} in {key // self.size}"
        )


@dataclass(frozen=True, eq=False)
class Global(Mask):
    """Some positions see all keys and are seen by all queries.

    `Global(2) | Window(256, 256)` is Longformer's pattern with its global tokens in front. Longformer projects the
    global tokens' queries, keys and values by matrices of their own; here one set serves all.

    Args:
        tokens: how many of the first positions, or which positions.
    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1 (global attention).

    >>> Global(1).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    >>> Global((0, 2)).dense(1, 1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 1], [1, 0, 1], [1, 1, 1]]
    """

    tokens: int | tuple[int, ...]

    def __post_init__(self) -> None:
        tokens = (self.tokens,) if isinstance(self.tokens, int) else self.tokens
        if not are_whole(tokens) or min(tokens, default=0) < 0:
            raise ShapeError(f"Global({self.tokens}): the number of tokens and their positions must be 0 or more")

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self._among(query) | self._among(key)

    def seen(
        self, batch: int, heads: int, query_len: int, key_len: int, query_start: int, device: torch.device
    ) -> Bool[Tensor, "1 1 key_len"] | None:
        first = range(self.tokens) if isinstance(self.tokens, int) else self.tokens
        if any(query_start <= token < query_start + query_len for token in first):
            return None
        return self._among(torch.arange(key_len, device=device)).view(1, 1, -1)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        if isinstance(self.tokens, int):
            return f"neither query {query} nor key {key} is among the first {self.tokens} positions"
        return f"neither query {query} nor key {key} is among the positions {', '.join(map(str, self.tokens))}"

    def _among(self, position: Tensor) -> Tensor:
        if isinstance(self.tokens, int):
            return position < self.tokens
        # without a table, which a compiled program cannot make for each pair
        return functools.reduce(operator.or_, (position == token for token in self.tokens), position < 0)


def _apart(query: int, key: int) -> str:
    return f"{abs(key - query)} {'before' if key < query else 'after'} query {query}"
