"""The cases in which a mechanism is tried: shapes, masks, types, modes and seeds, from small to large."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Edges, Mask, Padding, Table, Window
from headwise.testing.numbers import drawn

HEAD_DIM = 4
# unlike the width of a key, so that the two cannot be mixed up
VALUE_DIM = 5
MAX_LEN = 96


@dataclass(frozen=True)
class Case:
    """One trial. `mask` names one of MASKS; `size` is the standard deviation of queries and keys.

    >>> Case(heads=2, kv_heads=1, query_len=3, key_len=5, mask="padding").call().shape
    (1, 2, 3, 5)
    """

    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    query_len: int = 1
    key_len: int = 1
    mask: str = "none"
    dtype: torch.dtype = torch.float64
    training: bool = False
    size: float = 1.0
    seed: int = 0

    def call(self, *, learns: bool = False) -> Call:
        """The attention of this case, the same numbers at each call."""
        shapes = [(self.batch, self.heads, self.query_len, HEAD_DIM)]
        shapes += [(self.batch, self.kv_heads, self.key_len, width) for width in (HEAD_DIM, VALUE_DIM)]
        sizes = (self.size, self.size, 1.0)
        tensors = [drawn(s, self.dtype, self.seed + i, z) for i, (s, z) in enumerate(zip(shapes, sizes, strict=True))]
        return called((tensor.requires_grad_(learns) for tensor in tensors), MASKS[self.mask](self))

    def keep(self) -> Tensor:
        """Which pairs may meet, (batch, heads, query_len, key_len)."""
        shape = (self.batch, self.heads, self.query_len, self.key_len)
        mask = MASKS[self.mask](self)
        return torch.ones(shape, dtype=torch.bool) if mask is None else mask.dense(*shape).expand(shape)

    def seen(self) -> Tensor:
        """Which keys some query may see, (batch, kv_heads, key_len, 1)."""
        return self.keep().any(2).unflatten(1, (self.kv_heads, -1)).any(2).unsqueeze(-1)

    def __str__(self) -> str:
        settings = [(field.name, getattr(self, field.name)) for field in fields(self)]
        default = Case()
        return f"Case({', '.join(f'{name}={value!r}' for name, value in settings if value != getattr(default, name))})"


def called(tensors: Iterable[Tensor], mask: Mask | None) -> Call:
    """The attention of a query, a key and a value."""
    query, key, value = tensors
    return Call(query, key, value, mask=mask)


def _lens(case: Case) -> Tensor:
    """At least one key is hidden, and at least one is left, where there are two."""
    return torch.tensor([max(1, case.key_len - 1 - row) for row in range(case.batch)], dtype=torch.int64)


def _empty_lens(case: Case) -> Tensor:
    lens = _lens(case)
    lens[:1] = 0
    return lens


def _table(case: Case) -> Table:
    """Random by head, with a query that sees nothing and a key that nobody sees."""
    allowed = drawn((case.batch, case.heads, case.query_len, case.key_len), torch.float64, case.seed + 11) > -0.5
    allowed[:, :, case.query_len // 2] = False
    allowed[:, :, :, -1:] = False
    return Table(allowed)


def _graph(case: Case) -> Edges:
    """Each node looks at up to two others; an edge is listed twice; the last node is isolated."""
    nodes = max(case.query_len, case.key_len)
    pairs = [(j, i) for i in range(nodes - 1) for j in (i, (i * 3 + case.seed + 1) % nodes) if j != nodes - 1]
    return Edges(torch.tensor(pairs + pairs[:1], dtype=torch.int64).reshape(-1, 2).mT, nodes)


MASKS: dict[str, Callable[[Case], Mask | None]] = {
    "none": lambda case: None,
    "causal": lambda case: Causal(),
    "padding": lambda case: Padding(_lens(case)),
    "empty": lambda case: Padding(_empty_lens(case)),
    "causal padding": lambda case: Causal() & Padding(_lens(case)),
    "causal empty": lambda case: Causal() & Padding(_empty_lens(case)),
    "window": lambda case: Window(1, 0),
    "table": _table,
    "graph": _graph,
}
CAUSAL = ("causal", "causal padding", "causal empty")
KEYS = ("none", "causal", "padding", "empty", "causal padding", "causal empty")
PATTERNS = ("window", "table", "graph")

# (batch, heads, kv_heads, query_len, key_len)
Sizes = tuple[int, int, int, int, int]
SIZES: tuple[Sizes, ...] = (
    (1, 1, 1, 1, 1),
    (1, 1, 1, 2, 3),
    (1, 2, 2, 3, 3),
    (2, 4, 2, 3, 5),
    (2, 3, 1, 5, 3),
    (3, 6, 3, 7, 7),
    (1, 2, 1, 67, 71),
)
QUICK: tuple[Sizes, ...] = (SIZES[1], SIZES[3])
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
WIDE = DTYPES[:2]
EXACT = DTYPES[:1]
EVAL = (False,)


def over(
    masks: Sequence[str] | None = None,
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    modes: Sequence[bool] = (False, True),
    longest: int = MAX_LEN,
    square: bool = False,
) -> Callable[[Any, bool], Iterator[Case]]:
    """Cases of a subject from small to large, every combination; quick: few sizes, types and modes in turn.

    Args:
        masks: those of them that the subject honours are tried; None: all that it honours.
        longest: no sequence is longer.
        square: whether query and key lengths are equal even if the subject takes others.
    """

    def cases(subject: Any, quick: bool) -> Iterator[Case]:
        honoured = [mask for mask in subject.masks if masks is None or mask in masks]
        alike = square or not subject.facts.cross
        fitting = [size for size in (QUICK if quick else SIZES) if max(size[3:]) <= longest]
        for number, (batch, heads, kv_heads, query_len, key_len) in enumerate(fitting):
            small = Case(batch, heads, kv_heads, key_len if alike else query_len, key_len)
            if quick:
                for turn, mask in enumerate(honoured if number == len(fitting) - 1 else honoured[:1], number):
                    dtype, training = dtypes[turn % len(dtypes)], modes[turn % len(modes)]
                    yield replace(small, mask=mask, dtype=dtype, training=training)
                continue
            for dtype, mask, training, seed in product(dtypes, honoured, modes, (0,) if key_len > 3 else (0, 100)):
                yield replace(small, mask=mask, dtype=dtype, training=training, seed=seed)

    return cases
