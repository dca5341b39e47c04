"""The hypotheses of a beam search, sentence by sentence: which go on, which have ended, and who is done."""

from dataclasses import dataclass, field

import numpy as np

from headwise.decoding.constraints import Constraints
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.watching import Beginnings


@dataclass(slots=True)
class Beams:
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

    @property
    def width(self) -> int:
        """Rows of a sentence: before the first step its hypotheses are one, which takes a row."""
        return self.size if self.step else 1

    def advance(
        self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """One step of all beams: the row that each row continues, and the sentences that stay.

        The rows are counted as they are after the other sentences have left. None where nothing changes.

        Args:
            totals, parents, tokens: `continuations` of these beams, twice as many as there are: each has one ending,
                so enough go on.
        """
        self.fresh, self.done = [], []
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
