"""Outputs that are written while more join: what a service asks of a model that writes token by token."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch

from headwise.data.batches import PairBatch, Ragged
from headwise.decoding.flow import Flow, Member
from headwise.decoding.search import DecodingConfig
from headwise.models.protocols import Memory
from headwise.predictors.writing import Translation, Writing

# padding, in tokens, that takes longer to read than sentences that attend by themselves
_PADDING = 12


class WritingFlow:
    """Outputs under way: those of `Writing.found`, but each is told as it ends, and more sources may join.

    Args:
        read: sources as tokens.
        collate: tokens of sources as a batch.
        config: how to search, by a beam or greedily.
        prefix: tokens that every output begins with.
        room: tokens of sources under way at most, padding included; one that is longer goes alone.
    """

    def __init__(
        self,
        writing: Writing,
        read: Callable[[Sequence[Any]], Ragged],
        collate: Callable[[Ragged], PairBatch],
        config: DecodingConfig,
        prefix: Sequence[int],
        room: int,
    ):
        self._writing, self._read, self._collate = writing, read, collate
        self._config, self._prefix, self._room = config, prefix, room
        self._model = writing.decoding_model(config.precision)
        self._flow: Flow[int] = Flow(self._model.decoder)
        self._unread: list[tuple[int, Any]] = []
        self._waiting: list[tuple[int, np.ndarray]] = []
        self._added = 0

    def add(self, items: Sequence[Any]) -> range:
        """Sources that join when it pays; the numbers by which they are told."""
        numbers = range(self._added, self._added + len(items))
        self._unread.extend(zip(numbers, items, strict=True))
        self._added += len(items)
        return numbers

    def drop(self, numbers: Collection[int]) -> None:
        """Nobody waits for these any more; nothing is told of them."""
        self._unread = [pair for pair in self._unread if pair[0] not in numbers]
        self._waiting = [pair for pair in self._waiting if pair[0] not in numbers]
        self._flow.drop(set(numbers))

    def step(self, beside: Callable[[], object] = lambda: None) -> list[tuple[int, list[Translation]]]:
        """One token more for all; the sources that are done with it and their outputs, best first."""
        found: list[tuple[int, list[Translation]]] = []
        if self._unread and self._enough(len(self._waiting) + len(self._unread)):
            found = [(number, []) for number in self._read_all()]
        if self._waiting and self._enough(len(chosen := self._chosen())):
            self._begin(chosen)
        found += [(number, self._writing.written(hypotheses)) for number, hypotheses in self._flow.step(beside)]
        return found

    def _enough(self, count: int) -> bool:
        """Whether it pays to begin so many: whoever begins together attends by itself, at every step to come."""
        return count >= len(self._flow)

    def _read_all(self) -> list[int]:
        """Reads what came, together, which takes less time; returns those that are empty."""
        (numbers, items), self._unread = zip(*self._unread, strict=True), []
        read = list(zip(numbers, self._read(items), strict=True))
        self._waiting += [(number, tokens) for number, tokens in read if len(tokens)]
        return [number for number, tokens in read if not len(tokens)]

    def _chosen(self) -> list[int]:
        """Places among those that wait: the first, and the nearest to it in length, as many as there is room for."""
        lengths = np.array([len(tokens) for _, tokens in self._waiting])
        order = np.abs(lengths - lengths[0]).argsort(kind="stable")
        padded = np.maximum.accumulate(lengths[order]) * np.arange(1, len(order) + 1)
        count = int((padded <= self._room - self._flow.tokens).sum())
        # what is too long for all the room goes alone
        return order[: max(count, not len(self._flow))].tolist()

    @torch.inference_mode()
    def _begin(self, places: list[int]) -> None:
        chosen = sorted((self._waiting[place] for place in places), key=lambda pair: len(pair[1]))
        self._waiting = [pair for place, pair in enumerate(self._waiting) if place not in places]
        rows = [tokens for _, tokens in chosen]
        batches = [self._collate(Ragged.of(rows[part])) for part in by_length([len(row) for row in rows])]
        memory = Memory.joined(self._model.encoder.read_all([(batch.src, batch.src_lens) for batch in batches]))
        lens = torch.cat([batch.src_lens for batch in batches])
        search = self._writing.begun(self._model, memory, lens, self._config, self._prefix)
        self._flow.join(Member(search, [number for number, _ in chosen], len(rows[-1])))


def by_length(lengths: Sequence[int]) -> list[slice]:
    """Ascending lengths in parts, where a part of its own saves more padding than it costs.

    >>> by_length([3, 3, 4, 5]), by_length([3] * 20 + [20] * 2)
    ([slice(0, 4, None)], [slice(0, 20, None), slice(20, 22, None)])
    """
    saved = [place * (lengths[-1] - lengths[place - 1]) for place in range(1, len(lengths))]
    if not saved or max(saved) <= _PADDING:
        return [slice(0, len(lengths))]
    cut = saved.index(max(saved)) + 1
    rest = [slice(cut + part.start, cut + part.stop) for part in by_length(lengths[cut:])]
    return [*by_length(lengths[:cut]), *rest]
