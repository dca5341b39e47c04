"""Beam search: the most probable partial hypotheses side by side; several searches may share a decoder's steps."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import Constraints, allowed_log_probs, compiled_continuations
from headwise.decoding.hypotheses import (
    OBSERVER,
    Hypothesis,
    PartialHypotheses,
    SearchStep,
    StepDecoder,
    device_of,
    length_norms,
)
from headwise.decoding.top import continuations
from headwise.errors import ConfigError

N = TypeVar("N")


def beam_search(
    decoder: StepDecoder, cache: Cache, rules: Constraints, *, beam_size: int, n_best: int = 1
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, best first, in the order of the sentences.

    Each step ranks all continuations of the `beam_size` hypotheses of a sentence by log-probability. Those among the
    first `beam_size` that end the sentence are finished and set aside; the best others go on, so the beam stays full.
    A sentence is done when `beam_size` hypotheses have finished, when none that goes on could still be among the
    `n_best` (its log-probability can only fall), or at its maximum length, where unfinished hypotheses count as they
    are; `rules.stopping` may ask for more. Then all are ranked by
    `score = log_prob / length ** length_penalty`, the length including the end of sentence.
    One beam is greedy search; as many beams as there are partial hypotheses are exhaustive search. Equal scores keep
    the order of beams and token ids. A hypothesis that no token can continue is dropped, unless it is the only one; so
    there may be fewer than `n_best`, but always one.

    Besides `decoder.step`, a step costs one log-softmax and one pass for the largest, O(sentences x beams x vocab).

    Args:
        cache: what the decoder's `start` returned; it is used up
        rules: lengths, first and last tokens and what else a hypothesis must obey, from `constraints`
        beam_size: hypotheses a sentence that go on, at least `n_best`
    Raises:
        ConfigError: for contradicting sizes, tokens outside the vocabulary or another number of sentences than the
            cache has
        Diverged: if a logit is NaN or plus infinity

    >>> import torch
    >>> from headwise.caches import Cache
    >>> from headwise.decoding.constraints import constraints
    >>> class Bigrams(Cache):
    ...     sentences = 1
    ...     expand = reorder = keep = lambda self, _: None
    >>> class Table:
    ...     probabilities = torch.tensor([[0.0, 0.6, 0.4], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    ...     def step(self, tokens, cache):
    ...         return self.probabilities[tokens].log()
    >>> rules = constraints([5], bos_id=0, eos_id=0, length_penalty=0.0)
    >>> best = beam_search(Table(), Bigrams(), rules, beam_size=2)[0][0]
    >>> best.tokens, round(2.718281828**best.log_prob, 2)
    ([2], 0.36)
    """
    search, device = BeamSearch(cache, rules, beam_size=beam_size, n_best=n_best), device_of(decoder)
    with torch.inference_mode():
        while search.open:
            take_all([search], decoder.step(search.tokens().to(device), cache))
    return search.results()


class BeamSearch:
    """`beam_search` driven from outside: `tokens` are what the decoder reads next, `take_all` takes its logits.

    Runs within `torch.inference_mode()`, until no sentence is open. The open sentences have `size` adjacent rows each,
    the best first.

    Args:
        cache, rules, beam_size, n_best: as for `beam_search`.
    """

    def __init__(self, cache: Cache, rules: Constraints, *, beam_size: int, n_best: int = 1):
        if not 1 <= n_best <= beam_size:
            raise ConfigError(f"n_best ({n_best}) must be from 1 to beam_size ({beam_size})")
        rules.check_cache(cache)
        self.cache, self.rules, self.size, self.step = cache, rules, beam_size, 0
        self._n_best, self._norms = n_best, length_norms(rules.longest, rules.length_penalty)
        self._observer = OBSERVER.get()
        sentences = rules.sentences
        # of each open sentence: its index in the input, and whether it was dropped
        self._sentences, self._dropped = np.arange(sentences), np.zeros(sentences, dtype=bool)
        # of each row: its last token, and all its tokens
        self._tokens = rules.bos_id.repeat(beam_size)
        self._history = np.zeros((sentences * beam_size, rules.longest), dtype=np.int64)
        # log-probabilities, minus infinity for a row without hypothesis; all beams begin as one, which goes on alone
        self._totals = np.full((sentences, beam_size), float("-inf"))
        self._totals[:, 0] = 0.0
        # of each sentence of the input: its ended hypotheses, their number, and the score of the n_best-th of them
        self._ended: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._count, self._bar = np.zeros(sentences, dtype=np.int64), np.full(sentences, float("-inf"))
        # hypotheses that the latest step has ended, with the index of their sentence
        self._ended_now: list[tuple[int, Hypothesis]] = []
        # sentences that the latest step has ended, by their index in the input; not those that were dropped
        self.done: list[int] = []

    @property
    def open(self) -> int:
        """The number of sentences that are not done."""
        return len(self._sentences)

    @property
    def width(self) -> int:
        """Rows of a sentence that the decoder reads: before the first step its hypotheses are one."""
        return self.size if self.step else 1

    @property
    def totals(self) -> Float[np.ndarray, "sentences width"]:
        """The log-probabilities of these rows."""
        return self._totals[:, : self.width]

    @property
    def history(self) -> Int[np.ndarray, "rows steps"]:
        """All tokens of these rows."""
        return self._history[self._read_rows(), : self.step]

    def tokens(self) -> Int[Tensor, "rows"]:
        """The last tokens of these rows."""
        return torch.from_numpy(self._tokens[self._read_rows()])

    def drop(self, sentences: Collection[int]) -> None:
        """These sentences leave with the next step, without a result."""
        self._dropped |= np.isin(self._sentences, list(sentences))

    def result(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is done, best first."""
        # stable: among equal scores the one that ended first
        ranked = sorted(self._ended[sentence], key=lambda hypothesis: -hypothesis.score)
        return ranked[: self._n_best]

    def results(self) -> list[list[Hypothesis]]:
        """The hypotheses of all sentences."""
        return [self.result(sentence) for sentence in range(len(self._ended))]

    def advance(self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray, device: torch.device) -> None:
        """One step of all beams.

        Args:
            totals, parents, tokens: `continuations` of these beams, twice as many as there are: each has one ending,
                so enough go on.
        """
        self._ended_now, self.done = [], []
        step, before = self.step, None if self._observer is None else self._partial(self._read_rows())
        order, remaining = self._move(*self._select(totals, parents * (1 if step else self.size), tokens))
        if self._observer is not None and before is not None:
            self._observer(SearchStep(step, before, self._partial(slice(None)), self._ended_now))
        if step == 0 and self.size > 1:
            self.cache.expand(self.size)
            order = None
        if remaining is not None and len(remaining):
            self.cache.keep(torch.from_numpy(remaining).to(device))
        if order is not None:
            self.cache.reorder(torch.from_numpy(order).to(device))

    def _select(
        self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends the hypotheses that are finished; the best others: totals, the row that each continues, tokens."""
        ends = tokens == self.rules.eos_id
        if ends.any():
            for sentence, rank in np.argwhere(ends[:, : self.size]).tolist():
                row, log_prob = int(parents[sentence, rank]), float(totals[sentence, rank])
                self._end(sentence, row, log_prob, finished=True)
            # the others move up; stable, so that they keep their order
            order = ends.argsort(axis=1, kind="stable")[:, : self.size]
            totals, parents, tokens = (np.take_along_axis(a, order, 1) for a in (totals, parents, tokens))
        totals, parents, tokens = totals[:, : self.size], parents[:, : self.size], tokens[:, : self.size]
        missing = tokens < 0
        if missing.any():
            # a row without hypothesis stays where it is, with any token that was chosen
            parents = np.where(missing, np.arange(parents.size).reshape(parents.shape), parents)
            tokens = np.where(missing, tokens[:, :1], tokens)
            # of sentences that cannot go on, and of which nothing has ended, the partial hypotheses are the result
            for sentence in missing[:, 0].nonzero()[0].tolist():
                if not self._ended[self._sentences[sentence]]:
                    self._end_all(sentence)
        return totals, parents.reshape(-1), tokens.reshape(-1)

    def _move(
        self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Moves the rows to their new places, ends the sentences that are done and lets them leave.

        Returns: the row that each row continues, counted after the others have left, and the sentences that stay; None
            where nothing changes.
        """
        # the usual case once the beams have settled: each row continues itself
        moved = bool((parents != np.arange(len(parents))).any())
        if moved:
            self._history[:, : self.step] = self._history[parents, : self.step]
        self._history[:, self.step] = tokens
        self.step += 1
        self._totals, self._tokens = totals, tokens
        full = self.rules.max_len == self.step
        for sentence in full.nonzero()[0].tolist():
            self._end_all(sentence)
        done = full | self._settled() | self._dropped
        if not done.any():
            return parents if moved else None, None
        self.done = self._sentences[done & ~self._dropped].tolist()
        remaining, stay = (~done).nonzero()[0], (~done).repeat(self.size)
        self.rules, self._totals = self.rules.keep(remaining), totals[remaining]
        self._sentences, self._dropped = self._sentences[remaining], self._dropped[remaining]
        self._tokens, self._history = tokens[stay], self._history[stay]
        gone = ((remaining - np.arange(len(remaining))) * self.size).repeat(self.size)
        parents = parents[stay] - gone
        return parents if (parents != np.arange(len(parents))).any() else None, remaining

    def _settled(self) -> np.ndarray:
        """Which sentences have no better hypothesis left to find."""
        stopping = self.rules.stopping if self.size > 1 else "full"
        if stopping == "estimate":
            return attainable(self._totals[:, 0], self._norms[self.step]) <= self._bar[self._sentences]
        bounds = attainable(self._totals[:, 0], self._norms[self.rules.max_len])
        if stopping == "bound":
            return bounds <= self._bar[self._sentences]
        return (self._count[self._sentences] >= self.size) | (bounds <= self._bar[self._sentences])

    def _end_all(self, sentence: int) -> None:
        for beam, log_prob in enumerate(self._totals[sentence].tolist()):
            if log_prob > float("-inf"):
                self._end(sentence, sentence * self.size + beam, log_prob, finished=False)

    def _end(self, sentence: int, row: int, log_prob: float, *, finished: bool) -> None:
        score = log_prob / float(self._norms[self.step + finished])
        index, tokens = int(self._sentences[sentence]), self._history[row, : self.step].tolist()
        hypothesis = Hypothesis(tokens, score, log_prob, finished)
        self._ended[index].append(hypothesis)
        self._ended_now.append((index, hypothesis))
        self._count[index] += 1
        rank = self._n_best if self.rules.stopping == "full" else self.size
        if self._count[index] >= rank:
            self._bar[index] = sorted(hypothesis.score for hypothesis in self._ended[index])[-rank]

    def _read_rows(self) -> slice:
        return slice(None, None, self.size // self.width)

    def _partial(self, rows: slice) -> PartialHypotheses:
        sentences, totals = self._sentences.repeat(self.size)[rows], self._totals.reshape(-1)[rows]
        return PartialHypotheses(sentences, self._history[rows, : self.step].copy(), totals.copy())


def attainable(log_probs: np.ndarray, norms: np.ndarray | np.floating) -> np.ndarray:
    """The best score that a partial hypothesis can still reach: no further loss, at the longest length."""
    return log_probs / norms


@torch.inference_mode()
def take_all(searches: Sequence[BeamSearch], logits: Float[Tensor, "rows vocab"]) -> None:
    """One step of several open searches, from the logits that follow the `tokens` of one after another.

    What costs a call for each search and little for each row is done once.

    Raises: as `beam_search`; ShapeError for another number of rows.
    """
    histories, row = [(search.rules, search.history) for search in searches], 0
    for search in searches:
        if search.step == 0:
            search.rules.check_ids(logits.shape[1])
    rows = sum(search.totals.size for search in searches)
    if len(logits) == rows and all(search.cache.compiled for search in searches) and _take_compiled(searches, logits):
        return
    log_probs = allowed_log_probs(logits, histories)
    for (width, size), group in groupby(searches, key=lambda search: (search.width, search.size)):
        alike = list(group)
        totals = np.concatenate([search.totals for search in alike])
        best = continuations(log_probs[row : row + totals.size], totals, 2 * size)
        row, first = row + totals.size, 0
        for search in alike:
            last = first + search.open
            totals, parents, tokens = (table[first:last] for table in best)
            search.advance(totals, parents - first * width, tokens, logits.device)
            first = last


def _take_compiled(searches: Sequence[BeamSearch], logits: Tensor) -> bool:
    """The same in C++; whether it could."""
    rows, bests = logits.split([search.totals.size for search in searches]), []
    for search, own in zip(searches, rows, strict=True):
        totals = np.ascontiguousarray(search.totals)
        best = compiled_continuations(own, search.rules, search.step, totals, 2 * search.size)
        if best is None:
            return False
        bests.append(best)
    for search, best in zip(searches, bests, strict=True):
        search.advance(*best, logits.device)
    return True


@runtime_checkable
class JointDecoder(StepDecoder, Protocol):
    """A decoder that takes a step of several searches at once."""

    def step_all(
        self, tokens: Sequence[Int[Tensor, "_"]], caches: Sequence[Cache], beside: Callable[[], object]
    ) -> Float[Tensor, "rows vocab"]:
        """What `step` returns for one search after another; `beside` is called before the longest product."""
        ...


@dataclass(frozen=True, slots=True)
class Member(Generic[N]):
    """A search that takes part, the names of its sentences, and the length that all their sources are padded to."""

    search: BeamSearch
    names: Sequence[N]
    width: int


class Flow(Generic[N]):
    """Continuous batching: searches of one decoder, each with its own sentences, that others join between two steps.

    A decoder's products read all its parameters, for one row as for hundreds. So a search that began earlier and has
    few sentences left costs next to nothing beside one that has just begun.

    Source: Yu et al. 2022, "Orca", OSDI: iterations are scheduled, not requests; products over the rows of all,
    attention within each. Here a batch joins, whose sentences have the same number of steps behind them.
    """

    def __init__(self, decoder: JointDecoder):
        self._decoder, self._device = decoder, device_of(decoder)
        self._members: list[Member[N]] = []

    def __len__(self) -> int:
        """The number of open sentences."""
        return sum(member.search.open for member in self._members)

    @property
    def tokens(self) -> int:
        """The tokens of their sources, padding included."""
        return sum(member.search.open * member.width for member in self._members)

    def join(self, member: Member[N]) -> None:
        """Takes part from the next step on. Raises: ConfigError where it does already, or is done."""
        if not member.search.open or any(member.search is other.search for other in self._members):
            raise ConfigError("a search joins once, while it has open sentences")
        self._members.append(member)

    def drop(self, names: set[N]) -> None:
        """These sentences leave with the next step, without a result."""
        for member in self._members:
            member.search.drop([index for index, name in enumerate(member.names) if name in names])

    @torch.inference_mode()
    def step(self, beside: Callable[[], object] = lambda: None) -> list[tuple[N, list[Hypothesis]]]:
        """One more token for all; the sentences that are done with it and their hypotheses, best first.

        Args:
            beside: called before the longest product, so that threads that it wakes run beside that.
        Raises: Diverged as `beam_search`; no member can go on after it.
        """
        if not self._members:
            return []
        searches = [member.search for member in self._members]
        tokens = [search.tokens().to(self._device) for search in searches]
        take_all(searches, self._decoder.step_all(tokens, [search.cache for search in searches], beside))
        results = [
            (member.names[index], member.search.result(index))
            for member in self._members
            for index in member.search.done
        ]
        self._members = [member for member in self._members if member.search.open]
        return results
