"""Beam search: the most probable beginnings side by side."""

from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.beams import Beams
from headwise.decoding.constraints import Constraints, allowed_log_probs
from headwise.decoding.hypotheses import Hypothesis, StepDecoder, length_norms
from headwise.decoding.rows import device_of
from headwise.decoding.top import continuations
from headwise.decoding.watching import Searched, watcher
from headwise.errors import ConfigError, ShapeError


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
        self.beams = Beams(rules, beam_size, n_best, length_norms(rules.longest, rules.length_penalty))

    @property
    def open(self) -> int:
        """Sentences that are not done."""
        return len(self.beams.places)

    @property
    def done(self) -> list[int]:
        """Sentences that the latest step has ended, by their number in the batch; not those that were dropped."""
        return self.beams.done

    def tokens(self) -> Int[Tensor, "rows"]:
        """The last token of every hypothesis."""
        return torch.from_numpy(self.beams.tokens[self._rows()])

    def take(self, logits: Float[Tensor, "rows vocab"]) -> None:
        """One step: what follows those tokens.

        Raises: as `beam_search`.
        """
        take_all([self], logits)

    def go_on(self, totals: np.ndarray, parents: np.ndarray, tokens: np.ndarray, device: torch.device) -> None:
        """One step, from the continuations of its sentences as `Beams.advance` takes them."""
        beams, cache, rows, first = self.beams, self.cache, self._rows(), self.beams.step == 0
        before = None if self._told is None else beams.beginnings(rows)
        moved, kept = beams.advance(totals, parents, tokens)
        if self._told is not None and before is not None:
            self._told(Searched(beams.step - 1, before, beams.beginnings(slice(None)), beams.fresh))
        if first and beams.size > 1:
            cache.expand(beams.size)
            moved = None
        if kept is not None and len(kept):
            cache.keep(torch.from_numpy(kept).to(device))
        if moved is not None:
            cache.reorder(torch.from_numpy(moved).to(device))

    def drop(self, sentences: Collection[int]) -> None:
        """These sentences leave with the next step, whatever was found."""
        self.beams.dropped |= np.isin(self.beams.places, list(sentences))

    def result(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is done, best first."""
        # stable: among equal scores the one that ended first
        found = sorted(self.beams.ended[sentence], key=lambda hypothesis: -hypothesis.score)
        return found[: self.beams.n_best]

    def results(self) -> list[list[Hypothesis]]:
        """Those of all."""
        return [self.result(sentence) for sentence in range(len(self.beams.ended))]

    @property
    def history(self) -> Int[np.ndarray, "rows steps"]:
        """All tokens of every hypothesis."""
        return self.beams.history[self._rows(), : self.beams.step]

    def _rows(self) -> slice:
        return slice(None, None, self.beams.size // self.beams.width)


@torch.inference_mode()
def take_all(searches: Sequence[BeamSearch], logits: Float[Tensor, "rows vocab"]) -> None:
    """A step of several searches, all of them open, from what follows the tokens of one after another.

    What costs a call for each search and little for each row is done once.

    Raises: as `beam_search`.
    """
    asked, row = [(search.beams.rules, search.history) for search in searches], 0
    rows = sum(len(history) for _, history in asked)
    if len(logits) != rows:
        raise ShapeError(f"the decoder returned {len(logits)} rows of logits for {rows} tokens")
    for search in searches:
        if search.beams.step == 0:
            search.beams.rules.check_logits(logits, rows)
    log_probs = allowed_log_probs(logits, asked)
    for (width, size), group in groupby(searches, key=lambda search: (search.beams.width, search.beams.size)):
        alike = list(group)
        totals = np.concatenate([search.beams.totals[:, :width] for search in alike])
        found = continuations(log_probs[row : row + totals.size], totals, 2 * size)
        row, sentence = row + totals.size, 0
        for search in alike:
            totals, parents, tokens = (table[sentence : sentence + search.open] for table in found)
            sentence += search.open
            search.go_on(totals, parents - (sentence - search.open) * width, tokens, logits.device)
