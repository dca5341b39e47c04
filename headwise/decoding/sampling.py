"""Greedy search and sampling: no hypothesis depends on another."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

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
from headwise.decoding.top import argmax, top
from headwise.errors import ConfigError

# below it fp32 quotients leave their range; so sharp a distribution is its largest entry anyway
COLDEST = 1e-30

Choose = Callable[[Float[Tensor, "rows vocab"], Int[np.ndarray, "rows"]], Int[Tensor, "rows"]]
Chosen = tuple[Int[np.ndarray, "rows"], Float[np.ndarray, "rows"]]


def greedy(decoder: StepDecoder, cache: Cache, rules: Constraints) -> list[list[Hypothesis]]:
    """One hypothesis a sentence, in the order of the sentences; among equally probable tokens the lowest id.

    The same tokens and scores as beam search with one beam, in less time.

    Args:
        cache, rules: as for `beam_search`, whose errors it raises.
    """
    return follow(decoder, cache, rules, per_sentence=1, choose=None)


class Draws:
    """The random numbers of all samples that one predictor draws: a stream that goes on from call to call.

    They come from a generator of its own on the host, so they are the same on every device and leave PyTorch's random
    state as it is. Without a seed the stream begins, at its first use, from the seed that PyTorch was given last
    (`torch.manual_seed`), whatever has been drawn since.

    Args:
        seed: where the stream begins; None: PyTorch's seed.

    >>> draws = Draws(5)
    >>> first, second = (torch.rand(1, generator=draws.generator()) for _ in range(2))
    >>> draws.seed(5)
    >>> bool(first == torch.rand(1, generator=draws.generator())), bool(first == second)
    (True, False)
    """

    def __init__(self, seed: int | None = None):
        self._generator: torch.Generator | None = None
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begins the stream anew."""
        self._generator = torch.Generator(device="cpu").manual_seed(seed)

    def generator(self) -> torch.Generator:
        """The generator, at the place where the last sample left it."""
        if self._generator is None:
            self.seed(torch.initial_seed())
        assert self._generator is not None
        return self._generator


def sample(
    decoder: StepDecoder,
    cache: Cache,
    rules: Constraints,
    *,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """`num_samples` independent hypotheses of each sentence, in the order they were drawn.

    The log-probabilities reported are the model's own, before temperature and cuts. One number is drawn a step and
    hypothesis of the first batch, whatever the others do: a result depends on the generator, the number of sentences
    and its own place among them, not on their content.

    Args:
        cache, rules: as for `beam_search`
        temperature: log-probabilities are divided by it; towards 0 this is greedy search
        top_k: only the k most probable tokens; 0 is all
        top_p: of these only the fewest most probable ones that together have this share (Holtzman et al. 2019,
            arXiv 1904.09751, section 3.1); 1 is all
        generator: of random numbers, on the CPU; None is torch's global one
    Raises: ConfigError for values out of range; else as `beam_search`.
    """
    _check(num_samples, temperature, top_k, top_p)
    count = rules.sentences * num_samples

    def choose(log_probs: Tensor, rows: np.ndarray) -> Tensor:
        noise = torch.rand(count, generator=generator, dtype=torch.float64, device="cpu")[torch.from_numpy(rows)]
        return draw(log_probs, noise.to(log_probs.device), temperature=temperature, top_k=top_k, top_p=top_p)

    return follow(decoder, cache, rules, per_sentence=num_samples, choose=choose)


@torch.inference_mode()
def follow(
    decoder: StepDecoder, cache: Cache, rules: Constraints, *, per_sentence: int, choose: Choose | None
) -> list[list[Hypothesis]]:
    """Continues `per_sentence` hypotheses of each sentence by the tokens that `choose` takes.

    A hypothesis ends with the end of sentence, at its maximum length, or where no token is allowed. A sentence
    leaves the batch when all of its hypotheses have ended.

    Args:
        choose: (log-probabilities, index of each row in the first batch) -> tokens; None: the most probable ones
    """
    rules.check_cache(cache)
    norms = length_norms(rules.longest, rules.length_penalty)
    device, observer = device_of(decoder), OBSERVER.get()
    rows = _Rows.start(rules, per_sentence)
    results: dict[int, Hypothesis] = {}
    tokens = rules.bos_id.repeat(per_sentence)
    if per_sentence > 1:
        cache.expand(per_sentence)
    for step in range(rules.longest):
        logits = decoder.step(torch.from_numpy(tokens).to(device), cache)
        if step == 0:
            rules.check_ids(logits.shape[1])
        chosen = _most_probable(logits, rules, step) if choose is None and cache.compiled else None
        tokens, gain = chosen or _by_log_probs(logits, rules, rows, step, choose)
        alive = rows.open.copy()
        before = None if observer is None else rows.partial(step, alive, per_sentence)
        ended = rows.extend(step, tokens, gain, rules.eos_id, norms)
        results.update(ended)
        if observer is not None and before is not None:
            after = rows.partial(step + 1, alive & (gain > float("-inf")), per_sentence)
            of_sentences = [(row // per_sentence, hypothesis) for row, hypothesis in ended.items()]
            observer(SearchStep(step, before, after, of_sentences))
        stay = rows.open.reshape(-1, per_sentence).any(axis=1)
        if not stay.any():
            break
        if not stay.all():
            remaining = np.flatnonzero(stay)
            cache.keep(torch.from_numpy(remaining).to(device))
            rules, stay = rules.keep(remaining), stay.repeat(per_sentence)
            rows, tokens = rows.keep(stay), tokens[stay]
    ordered = [results[index] for index in range(len(results))]
    return [ordered[start : start + per_sentence] for start in range(0, len(ordered), per_sentence)]


def _by_log_probs(logits: Tensor, rules: Constraints, rows: "_Rows", step: int, choose: Choose | None) -> Chosen:
    log_probs = allowed_log_probs(logits, [(rules, rows.history[:, :step])])
    chosen = argmax(log_probs) if choose is None else choose(log_probs, rows.index)
    return chosen.cpu().numpy(), log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1).double().cpu().numpy()


def _most_probable(logits: Tensor, rules: Constraints, step: int) -> Chosen | None:
    """The same in C++, of one row a sentence; None where it cannot."""
    best = compiled_continuations(logits, rules, step, np.zeros((rules.sentences, 1)), 1)
    # a row without any token that is allowed ends with the lowest one
    return None if best is None else (np.maximum(best[2][:, 0], 0), best[0][:, 0])


@dataclass(slots=True)
class _Rows:
    """The rows of open sentences: index in the first batch, length limit, tokens, log-probability, not yet ended."""

    index: np.ndarray
    limit: np.ndarray
    history: np.ndarray
    total: np.ndarray
    open: np.ndarray

    @classmethod
    def start(cls, rules: Constraints, per_sentence: int) -> "_Rows":
        count = rules.sentences * per_sentence
        history = np.zeros((count, rules.longest), dtype=np.int64)
        limit = rules.max_len.repeat(per_sentence)
        return cls(np.arange(count), limit, history, np.zeros(count), np.ones(count, dtype=bool))

    def partial(self, length: int, chosen: np.ndarray, per_sentence: int) -> PartialHypotheses:
        """A copy of the chosen rows."""
        return PartialHypotheses(self.index[chosen] // per_sentence, self.history[chosen, :length], self.total[chosen])

    def extend(
        self, step: int, tokens: np.ndarray, gain: np.ndarray, eos_id: int, norms: np.ndarray
    ) -> dict[int, Hypothesis]:
        """Appends a token to every row; returns the hypotheses that ended with it, by row index."""
        dead = gain == float("-inf")
        finished = (tokens == eos_id) & ~dead
        self.history[:, step] = tokens
        self.total += np.where(dead, 0.0, gain)
        ended = {}
        ending = (finished | dead | (self.limit == step + 1)) & self.open
        for row in np.flatnonzero(ending).tolist():
            ids = self.history[row, : step if finished[row] or dead[row] else step + 1]
            log_prob = float(self.total[row])
            score = log_prob / float(norms[step if dead[row] else step + 1])
            ended[int(self.index[row])] = Hypothesis(ids.tolist(), score, log_prob, bool(finished[row]))
            self.open[row] = False
        return ended

    def keep(self, stay: np.ndarray) -> "_Rows":
        return _Rows(*(getattr(self, field.name)[stay] for field in fields(self)))


def draw(
    log_probs: Float[Tensor, "rows vocab"],
    noise: Float[Tensor, "rows"],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
) -> Int[Tensor, "rows"]:
    """The token at which the cumulated probability first exceeds `noise`, a number from 0 to below 1, of the whole.

    >>> draw(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([0.6]), temperature=1.0, top_k=0, top_p=1.0).item()
    1
    """
    weights, tokens = _candidates(log_probs, max(temperature, COLDEST), top_k, top_p)
    # fp64, so that the share of a rare token among ten thousand is not lost in rounding
    cumulated = weights.cumsum(1, dtype=torch.float64)
    mark = noise.double().unsqueeze(1) * cumulated[:, -1:]
    # right: a token of weight 0 does not move the sum and is passed over
    place = torch.searchsorted(cumulated, mark, right=True).clamp_max(weights.shape[1] - 1)
    return (place if tokens is None else tokens.gather(1, place)).squeeze(1)


def _candidates(log_probs: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[Tensor, Tensor | None]:
    """Weights of the tokens that may be drawn, and their ids; None for ids in their own order."""
    vocab = log_probs.shape[1]
    # a row without any allowed token has a largest entry of minus infinity; its weights are 0, not NaN
    largest = log_probs.amax(1, keepdim=True).clamp_min(torch.finfo(log_probs.dtype).min)
    weigh = partial(_weights, largest=largest, temperature=temperature)
    if top_p == 1.0:
        if top_k == 0 or top_k >= vocab:
            return weigh(log_probs), None
        values, tokens = top(log_probs, top_k)
        return weigh(values), tokens
    if top_k:
        values, tokens = top(log_probs, min(top_k, vocab))
        weights = weigh(values)
        return _nucleus(weights, weights.sum(1, keepdim=True, dtype=torch.float64) * top_p), tokens
    share = weigh(log_probs).sum(1, keepdim=True, dtype=torch.float64) * top_p
    # mostly a few dozen tokens have the share; sorting all of them is the last resort
    for width in (64, vocab):
        values, tokens = top(log_probs, min(width, vocab))
        weights = weigh(values)
        if width >= vocab or (weights.sum(1, keepdim=True, dtype=torch.float64) >= share).all():
            break
    return _nucleus(weights, share), tokens


def _weights(log_probs: Tensor, largest: Tensor, temperature: float) -> Tensor:
    return ((log_probs - largest) / temperature).exp_()


def _nucleus(weights: Tensor, share: Tensor) -> Tensor:
    """Sorted weights without those behind the first ones that reach the share."""
    before = weights.cumsum(1, dtype=torch.float64) - weights
    return weights.masked_fill(before >= share, 0.0)


def _check(num_samples: int, temperature: float, top_k: int, top_p: float) -> None:
    if num_samples < 1:
        raise ConfigError(f"num_samples ({num_samples}) must be 1 or more")
    if not 0 < temperature < float("inf"):
        raise ConfigError(f"temperature ({temperature}) must be a positive number; greedy search is its limit at 0")
    if top_k < 0:
        raise ConfigError(f"top_k ({top_k}) must be 0 (all tokens) or more")
    if not 0 < top_p <= 1:
        raise ConfigError(f"top_p ({top_p}) must be above 0 and at most 1")
