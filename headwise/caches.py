"""What a decoder remembers between steps: the cache protocol, and keys and values that beams share uncopied."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Cache(ABC):
    """The memory of a decoding loop over `rows` = sentences x beams hypotheses, sentence by sentence.

    `length` is the number of steps taken, `sentences` how many are in the cache. The loop calls `expand` at most once,
    when the hypotheses of a sentence part (after the first step, which they share), `reorder` when hypotheses change
    places, and `keep` when finished sentences leave.
    """

    length: int = 0
    sentences: int

    @abstractmethod
    def expand(self, beams: int) -> None:
        """Every sentence becomes `beams` adjacent rows that share all steps so far."""

    @abstractmethod
    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        """Row i continues what row `index[i]` was; an index stays inside its sentence."""

    @abstractmethod
    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        """Only these sentences stay, in this order, each with all its beams."""


class Ancestry:
    """Which stored step each beam descends from, as a bias on scores: 0 for an ancestor, minus infinity for others.

    Beams of one sentence lie side by side on the key axis and are never copied when hypotheses change places: only
    this table of (beams, steps x beams) is reordered. One table serves every layer.
    """

    def __init__(self, batch: int, beams: int, shared: int, device: torch.device):
        self.batch, self.beams, self.used = batch, beams, shared
        self._own = torch.full((beams, beams), float("-inf"), device=device).fill_diagonal_(0.0)
        self._table = torch.empty(batch, beams, shared + 16 * beams, device=device)
        # steps before the hypotheses parted are everybody's ancestors
        self._table[:, :, :shared] = 0.0

    def step(self) -> Float[Tensor, "batch 1 beams keys"]:
        """Adds the keys of a new step, each seen by its own beam, and returns the bias over all keys."""
        end = self.used + self.beams
        if end > self._table.shape[-1]:
            self._table = grown(self._table, -1, end)
        self._table[:, :, self.used : end] = self._own
        self.used = end
        return self._table[:, :, :end].unsqueeze(1)

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        # a new table, since a record may hold the old one
        self._table = self._table.flatten(0, 1).index_select(0, index).unflatten(0, (self.batch, self.beams))

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        self._table = self._table.index_select(0, sentences)
        self.batch = sentences.shape[0]


@dataclass(slots=True)
class KeyValues:
    """Keys and values of one attention layer in one tensor (batch, 2 x kv_heads, capacity, head_dim), keys first.

    Preallocated and grown by doubling. `used` counts the stored keys. With `fixed` the content is complete
    (cross-attention) and is only read.
    """

    both: Tensor | None = None
    used: int = 0
    fixed: bool = False

    def append(self, both: Float[Tensor, "batch twice new head_dim"]) -> tuple[Tensor, Tensor]:
        """Stores new keys and values behind the old ones and returns views of all of them."""
        end = self.used + both.shape[2]
        if self.both is None:
            batch, twice, new, dim = both.shape
            self.both = both.new_empty(batch, twice, max(16, 2 * new), dim)
        if end > self.both.shape[2]:
            self.both = grown(self.both, 2, end)
        self.both[:, :, self.used : end] = both
        self.used = end
        return self.read()

    def fill(self, both: Float[Tensor, "batch twice memory_len head_dim"]) -> None:
        """Stores the projected memory of a cross-attention, once."""
        self.both, self.used, self.fixed = both, both.shape[2], True

    def read(self) -> tuple[Tensor, Tensor]:
        """All stored keys and values."""
        assert self.both is not None
        heads = self.both.shape[1] // 2
        return self.both[:, :heads, : self.used], self.both[:, heads:, : self.used]

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        if self.both is not None:
            self.both = self.both.index_select(0, sentences)


@dataclass(slots=True)
class AttentionStep:
    """What one attention layer gets for a cached call.

    `position` is the position of the first new token. With `ancestry` the new tokens are beams that share one
    position; without it they are consecutive tokens of one sequence.
    """

    memory: KeyValues
    position: int
    ancestry: Float[Tensor, "batch 1 beams keys"] | None = None


def grown(tensor: Tensor, dim: int, needed: int) -> Tensor:
    """A copy with at least twice the room along `dim`; the new part is not initialised."""
    size = list(tensor.shape)
    old = size[dim]
    size[dim] = max(needed, 2 * old)
    larger = tensor.new_empty(size)
    larger.narrow(dim, 0, old).copy_(tensor)
    return larger
