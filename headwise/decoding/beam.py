"""Beam search: the most probable beginnings side by side."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import Constraints, allowed_log_probs
from headwise.decoding.hypotheses import Hypothesis, StepDecoder, length_norms
from headwise.decoding.rows import device_of
from headwise.decoding.top import continuations
from headwise.decoding.watching import Beginnings, Searched, watcher
from headwise.errors import ConfigError


def beam_search(
    decoder: StepDecoder,
    cache: Cache,
    rules: Constraints,
    *,
    beam_size: int,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, best first, in the order of the sentences.

    Each step ranks all continuations of the `beam_size` hypotheses of a sentence by log-probability. Those among the
    first `beam_size` that end the sentence are finished and set aside; the best others go on, so the beam stays full.
    A sentence is done when `beam_size` hypotheses have finished, when none that goes on could still be among the
    `n_best` (its log-probability can only fall), or at its maximum length, where what is left counts as it is.
    Then all are ranked by `score = log_prob / length ** length_penalty`, the length including the end of sentence.
    One beam is greedy search; as many beams as there are beginnings are exhaustive search. Equal scores keep the
    order of beams and token ids. A hypothesis that no token can continue is dropped, unless it is all there is; so
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
            search.take(decoder.step(search.tokens().to(device), cache))
    return search.results()


class BeamSearch:
    """`beam_search` from outside: says what the decoder reads next and is told its logits, until nothing is open.

    So that several searches can share the steps of a decoder, all of it within `torch.inference_mode()`.

    Args:
        cache, rules, beam_size, n_best: as for `beam_search`.
    """

    def __init__(self, cache: Cache, rules: Constraints, *, beam_size: int, n_best: int = 1):
        if not 1 <= n_best <= beam_size:
            raise ConfigError(f"n_best ({n_best}) must be from 1 to beam_size ({beam_size})")
        rules.check_cache(cache)
        self.cache, self._told = cache, watcher()
        self._beams = _Beams(rules, beam_size, n_best, length_norms(rules.longest, rules.length_penalty))

    @property
    def open(self) -> int:
        """Sentences that are not done."""
        return len(self._beams.places)

    @property
    def done(self) -> list[int]:
        """Sentences that the latest step has ended, by their number in the batch; not those that were dropped."""
        return self._beams.done

    def tokens(self) -> Int[Tensor, "rows"]:
        """The last token of every hypothesis."""
        return torch.from_numpy(self._beams.tokens[self._rows()])

    @torch.inference_mode()
    def take(self, logits: Float[Tensor, "rows vocab"]) -> None:
        """One step: what follows those tokens.

        Raises: as `beam_search`.
        """
        beams, cache, rows = self._beams, self.cache, self._rows()
        first = beams.step == 0
        if first:
            beams.rules.check_logits(logits, beams.rules.sentences)
        before = None if self._told is None else beams.beginnings(rows)
        parents, kept = beams.advance(allowed_log_probs(logits, beams.rules, beams.history[rows, : beams.step]))
        if self._told is not None and before is not None:
            self._told(Searched(beams.step - 1, before, beams.beginnings(slice(None)), beams.fresh))
        if first and beams.size > 1:
            cache.expand(beams.size)
            parents = None
        if kept is not None and len(kept):
            cache.keep(torch.from_numpy(kept).to(logits.device))
        if parents is not None:
            cache.reorder(torch.from_numpy(parents).to(logits.device))

    def drop(self, sentences: Collection[int]) -> None:
        """These sentences leave with the next step, whatever was found."""
        self._beams.dropped |= np.isin(self._beams.places, list(sentences))

    def result(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is done, best first."""
        # stable: among equal scores the one that ended first
        found = sorted(self._beams.ended[sentence], key=lambda hypothesis: -hypothesis.score)
        return found[: self._beams.n_best]

    def results(self) -> list[list[Hypothesis]]:
        """Those of all."""
        return [self.result(sentence) for sentence in range(len(self._beams.ended))]

    def _rows(self) -> slice:
        # before the first step the hypotheses of a sentence are one: it takes a row, not `size` rows
        return slice(None, None, 1 if self._beams.step else self._beams.size)


@dataclass(slots=True)
class _Beams:
    """The hypotheses of all sentences that are not done; `size` adjacent rows a sentence, the best first."""

    rules: Constraints
    size: int
    n_best: int
    norms: np.ndarray
    step: int = 0
    # of each sentence here its place in the input
    places: np.ndarray = field(init=False)
    # of each row: the last token, all tokens, and the log-probability, minus infinity for a row without hypothesis
    tokens: np.ndarray = field(init=False)
    history: np.ndarray = field(init=False)
    totals: np.ndarray = field(init=False)
    rows: np.ndarray = field(init=False)
    # of each place in the input: what has ended, how many, and the score of the n_best-th of them
    ended: list[list[Hypothesis]] = field(init=False)
    count: np.ndarray = field(init=False)
    bar: np.ndarray = field(init=False)
    # what has ended in the latest step, and which sentences are done with it
    fresh: list[tuple[int, Hypothesis]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    # of each sentence here, whether nobody wants it any more
    dropped: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        sentences = self.rules.sentences
        self.places, self.rows = np.arange(sentences), np.arange(sentences * self.size)
        self.tokens = self.rules.bos_id.repeat(self.size)
        self.history = np.zeros((len(self.rows), self.rules.longest), dtype=np.int64)
        # all beams begin as one: only the first may be continued
        self.totals = np.full((sentences, self.size), float("-inf"))
        self.totals[:, 0] = 0.0
        self.ended, self.dropped = [[] for _ in range(sentences)], np.zeros(sentences, dtype=bool)
        self.count, self.bar = np.zeros(sentences, dtype=np.int64), np.full(sentences, float("-inf"))

    def beginnings(self, rows: slice) -> Beginnings:
        """Copies of these rows, to be told."""
        places, totals = self.places.repeat(self.size)[rows], self.totals.reshape(-1)[rows]
        return Beginnings(places, self.history[rows, : self.step].copy(), totals.copy())

    def advance(self, log_probs: Tensor) -> tuple[np.ndarray | None, np.ndarray | None]:
        """One step of all beams: the row that each row continues, and the sentences that stay.

        The rows are counted as they are after the other sentences have left. None where nothing changes.
        """
        self.fresh, self.done = [], []
        # each row has one ending, so of twice as many as there are rows enough go on
        so_far = self.totals[:, :1] if self.step == 0 else self.totals
        totals, parents, tokens = continuations(log_probs, so_far, 2 * self.size)
        if self.step == 0:
            parents = parents * self.size
        ends = tokens == self.rules.eos_id
        if ends.any():
            for sentence, rank in np.argwhere(ends[:, : self.size]).tolist():
                row, log_prob = int(parents[sentence, rank]), float(totals[sentence, rank])
                self._end(sentence, row, self.step, log_prob, finished=True)
            # the others move up; stable, so that they keep their order
            order = ends.argsort(axis=1, kind="stable")[:, : self.size]
            totals, parents, tokens = (np.take_along_axis(a, order, 1) for a in (totals, parents, tokens))
        totals, parents, tokens = totals[:, : self.size], parents[:, : self.size], tokens[:, : self.size]
        missing = tokens < 0
        if missing.any():
            # a row without hypothesis stays where it is, with any token that was chosen
            parents = np.where(missing, self.rows.reshape(parents.shape), parents)
            tokens = np.where(missing, tokens[:, :1], tokens)
            self._save_last(missing[:, 0])
        return self._move(totals, parents.reshape(-1), tokens.reshape(-1))

    def _move(
        self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Puts the rows in their new places, ends the sentences that are done and lets them leave."""
        # the usual case once the beams have settled: each row continues itself
        moved = bool((parents != self.rows).any())
        if moved:
            self.history[:, : self.step] = self.history[parents, : self.step]
        self.history[:, self.step] = tokens
        self.step += 1
        self.totals, self.tokens = totals, tokens
        full = self.rules.max_len == self.step
        for sentence in full.nonzero()[0].tolist():
            self._end_all(sentence)
        done = full | self._settled() | self.dropped
        if not done.any():
            return parents if moved else None, None
        self.done = self.places[done & ~self.dropped].tolist()
        kept, stay = (~done).nonzero()[0], (~done).repeat(self.size)
        self.dropped = self.dropped[kept]
        self.rules, self.places, self.totals = self.rules.keep(kept), self.places[kept], totals[kept]
        self.tokens, self.history = tokens[stay], self.history[stay]
        self.rows = np.arange(len(self.tokens))
        gone = ((kept - np.arange(len(kept))) * self.size).repeat(self.size)
        parents = parents[stay] - gone
        return parents if (parents != self.rows).any() else None, kept

    def _settled(self) -> np.ndarray:
        """Which sentences have nothing left to win."""
        hopes = attainable(self.totals[:, 0], self.norms[self.rules.max_len])
        return (self.count[self.places] >= self.size) | (hopes <= self.bar[self.places])

    def _save_last(self, lost: np.ndarray) -> None:
        """Of sentences that cannot go on, and where nothing ended, returns what there is."""
        for sentence in lost.nonzero()[0].tolist():
            if not self.ended[self.places[sentence]]:
                self._end_all(sentence)

    def _end_all(self, sentence: int) -> None:
        for beam, log_prob in enumerate(self.totals[sentence].tolist()):
            if log_prob > float("-inf"):
                self._end(sentence, sentence * self.size + beam, self.step, log_prob, finished=False)

    def _end(self, sentence: int, row: int, length: int, log_prob: float, *, finished: bool) -> None:
        score = log_prob / float(self.norms[length + finished])
        place, words = self.places[sentence], self.history[row, :length].tolist()
        found = Hypothesis(words, score, log_prob, finished)
        self.ended[place].append(found)
        self.fresh.append((int(place), found))
        self.count[place] += 1
        if self.count[place] >= self.n_best:
            self.bar[place] = sorted(hypothesis.score for hypothesis in self.ended[place])[-self.n_best]


def attainable(log_probs: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """The best score a live hypothesis can still reach: no further loss, at the longest length."""
    return log_probs / norms
