"""The cases in which a mechanism is tried: shapes, masks, types, modes and seeds, from small to large."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from headwise.attention.masks import Blocks, Causal, Dilated, Edges, Mask, Padding, Table, Window
from headwise.certify.numbers import drawn

HEAD_DIM = 4
# unlike the width of a key, so that the two cannot be mixed up
VALUE_DIM = 5
MAX_LEN = 96


@dataclass(frozen=True)
class Case:
    """One trial. `mask` names one of MASKS; `size` is the standard deviation of queries and keys."""

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

    def tensors(self, *, learns: bool = False) -> list[Tensor]:
        """Query, key and value of this case."""
        shapes = [(self.batch, self.heads, self.query_len, HEAD_DIM)]
        shapes += [(self.batch, self.kv_heads, self.key_len, width) for width in (HEAD_DIM, VALUE_DIM)]
        sizes = (self.size, self.size, 1.0)
        made = [drawn(s, self.dtype, self.seed + i, z) for i, (s, z) in enumerate(zip(shapes, sizes, strict=True))]
        return [tensor.requires_grad_() for tensor in made] if learns else made

    def made_mask(self) -> Mask | None:
        """The mask object, new at each call."""
        return MASKS[self.mask][1](self)

    def keep(self) -> Tensor:
        """Which pairs may meet, (batch, heads, query_len, key_len)."""
        shape = (self.batch, self.heads, self.query_len, self.key_len)
        mask = self.made_mask()
        if mask is None:
            return torch.ones(shape, dtype=torch.bool)
        return mask.dense(*shape).expand(shape)

    def seen(self) -> Tensor:
        """Which keys some query may see, (batch, kv_heads, key_len)."""
        return self.keep().any(2).unflatten(1, (self.kv_heads, self.heads // max(1, self.kv_heads))).any(2)

    def __str__(self) -> str:
        kv = "" if self.kv_heads == self.heads else f" (key and value {self.kv_heads})"
        size = "" if self.size == 1.0 else f", numbers of size {self.size:g}"
        return (
            f"batch {self.batch}, heads {self.heads}{kv}, query_len {self.query_len}, key_len {self.key_len},"
            f" head_dim {HEAD_DIM}, mask {self._mask_words()}, {str(self.dtype).removeprefix('torch.')},"
            f" {'train' if self.training else 'eval'}, seed {self.seed}{size}"
        )

    def _mask_words(self) -> str:
        words = MASKS[self.mask][0]
        return words.format(lens=_lens(self).tolist(), empty=_empty_lens(self).tolist())


def _lens(case: Case) -> Tensor:
    """At least one key is hidden, and at least one is left, where there are two."""
    return torch.tensor([max(1, case.key_len - 1 - row) for row in range(case.batch)], dtype=torch.int64)


def _empty_lens(case: Case) -> Tensor:
    lens = _lens(case)
    lens[:1] = 0
    return lens


def _table(case: Case) -> Table:
    """Random by head, with a query that sees nothing and a key that nobody sees."""
    shape = (case.batch, case.heads, case.query_len, case.key_len)
    allowed = drawn(shape, torch.float64, case.seed + 11) > -0.5
    allowed[:, :, case.query_len // 2] = False
    allowed[:, :, :, -1:] = False
    return Table(allowed)


def _graph(case: Case) -> Edges:
    """Each node looks at up to two others; the last one is isolated."""
    nodes = max(case.query_len, case.key_len)
    pairs = [(j, i) for i in range(nodes - 1) for j in (i, (i * 3 + case.seed + 1) % nodes) if j != nodes - 1]
    return Edges(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).mT, nodes)


# name: words, how it is made
MASKS: dict[str, tuple[str, Callable[[Case], Mask | None]]] = {
    "none": ("none", lambda case: None),
    "causal": ("Causal()", lambda case: Causal()),
    "padding": ("Padding({lens})", lambda case: Padding(_lens(case))),
    "empty": ("Padding({empty})", lambda case: Padding(_empty_lens(case))),
    "causal padding": ("Causal() & Padding({lens})", lambda case: Causal() & Padding(_lens(case))),
    "causal empty": ("Causal() & Padding({empty})", lambda case: Causal() & Padding(_empty_lens(case))),
    "window": ("Window(1, 0)", lambda case: Window(1, 0)),
    "dilated": ("Dilated(1, 1, 2)", lambda case: Dilated(1, 1, 2)),
    "blocks": ("Blocks(2)", lambda case: Blocks(2)),
    "table": ("Table(random by head)", _table),
    "graph": ("Edges(random graph)", _graph),
}
CAUSAL = ("causal", "causal padding", "causal empty")
PADDED = ("padding", "empty", "causal padding", "causal empty")
PATTERNS = ("window", "dilated", "blocks", "table", "graph")

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
# masks of small sizes and narrow types, when time is short
FEW = ("none", "causal", "empty", "table")
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def cases(
    masks: Sequence[str],
    quick: bool,
    *,
    square: bool = False,
    longest: int = MAX_LEN,
    dtypes: Sequence[torch.dtype] = DTYPES,
    modes: Sequence[bool] = (False, True),
) -> Iterator[Case]:
    """Every combination from small to large; quick: few sizes and modes, and all masks only in one of them.

    Args:
        square: whether query and key lengths are equal.
        longest: no sequence is longer.
    """
    fitting = [size for size in (QUICK if quick else SIZES) if max(size[3:]) <= longest]
    few = [mask for mask in masks if mask in FEW] or list(masks[:1])
    for number, (batch, heads, kv_heads, query_len, key_len) in enumerate(fitting):
        small = Case(batch, heads, kv_heads, key_len if square else query_len, key_len)
        if not quick:
            for dtype, mask, training, seed in product(dtypes, masks, modes, (0,) if key_len > 3 else (0, 100)):
                yield replace(small, mask=mask, dtype=dtype, training=training, seed=seed)
            continue
        last = number == len(fitting) - 1
        for mask in masks if last else few:
            yield replace(small, mask=mask, dtype=dtypes[0], training=modes[0])
        for dtype, mask in product(dtypes[1:] if last else (), few[-2:]):
            yield replace(small, mask=mask, dtype=dtype, training=modes[-1])
