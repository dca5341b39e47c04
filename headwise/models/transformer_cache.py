"""The cache of a Transformer's decoder between two steps."""

from jaxtyping import Int
from torch import Tensor

from headwise.attention.masks import Padding
from headwise.caches import SIDE_BY_SIDE, Ancestry, AttentionStep, Cache, KeyValues, States
from headwise.errors import ShapeError
from headwise.layers.compiled import NativeSearch
from headwise.layers.inference import Step


class TransformerCache(Cache):
    """Keys and values of every decoder layer, and which of them each beam descends from.

    Args:
        own: the cache of the self-attention of each layer.
        rows: one per sentence; only their number and device matter.
        memory_lens: tokens of the memory of each sentence; None: no memory.
        placed: whether a layer needs the positions of the stored keys.

    `native`: its steps in C++; None: by blocks.
    """

    def __init__(
        self, own: list[KeyValues | States], rows: Tensor, memory_lens: Int[Tensor, "batch"] | None, placed: bool
    ):
        self.length, self.beams, self.sentences, self.device = 0, 1, rows.shape[0], rows.device
        self.layers = [(cache, KeyValues()) for cache in own]
        self._remember(memory_lens)
        self.ancestry: Ancestry | None = None
        self.placed = placed
        self.native: NativeSearch | None = None

    def check_rows(self, rows: int) -> None:
        """Raises: ShapeError: a step of this many rows is of other hypotheses than those here."""
        if rows != self.sentences * self.beams:
            raise ShapeError(
                f"a step takes one token of each hypothesis, here {self.sentences} sentences x {self.beams}, got {rows}"
            )

    def expand(self, beams: int) -> None:
        assert self.beams == 1, "beams are made once"
        self.beams = beams
        for own, _ in self.layers:
            if isinstance(own, KeyValues) and beams > SIDE_BY_SIDE:
                own.shares_beams = False
            own.expand(beams)
        if any(own.shares_beams for own, _ in self.layers) and beams > 1:
            self.ancestry = Ancestry(self.sentences, beams, self.length, self.device)

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        if self.ancestry is not None:
            self.ancestry.reorder(index)
        for own, _ in self.layers:
            own.reorder(index)

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        for own, cross in self.layers:
            own.keep(sentences)
            cross.keep(sentences)
        self._remember(None if self.memory_lens is None else self.memory_lens.index_select(0, sentences))
        self.sentences = sentences.shape[0]
        if self.ancestry is not None:
            self.ancestry.keep(sentences)

    def state_bytes(self) -> int:
        return sum(kept.state_bytes() for layer in self.layers for kept in layer)

    def advance(self) -> Tensor | None:
        """Counts one more step; which of the keys each beam sees, None: all."""
        self.length += 1
        return None if self.ancestry is None else self.ancestry.step()

    def next_step(self) -> list[Step]:
        """Counts one more step and returns the input of each layer for it."""
        ancestry = self.advance()
        places = self.ancestry.positions() if self.ancestry is not None and self.placed else None
        return [
            Step(
                self.sentences,
                self.beams,
                self.memory_mask,
                self.memory_lens,
                AttentionStep(own, self.length - 1, ancestry, places, self.beams),
                AttentionStep(cross, 0),
            )
            for own, cross in self.layers
        ]

    def _remember(self, memory_lens: Tensor | None) -> None:
        self.memory_lens = memory_lens
        self.memory_mask = None if memory_lens is None else Padding(memory_lens).shared()
