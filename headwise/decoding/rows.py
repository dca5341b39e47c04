"""The loop of greedy search and sampling, where no hypothesis depends on another; and where tokens are sent."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import Constraints, allowed_log_probs
from headwise.decoding.hypotheses import Hypothesis, StepDecoder, length_norms
from headwise.decoding.watching import Beginnings, Searched, watcher

Choose = Callable[
    [Float[Tensor, "rows vocab"], Int[np.ndarray, "rows"]],
    tuple[Int[Tensor, "rows"], Float[Tensor, "rows"]],
]


def device_of(decoder: StepDecoder) -> torch.device:
    """The device of a module's first parameter; the CPU for anything else."""
    weights = decoder.parameters() if isinstance(decoder, torch.nn.Module) else iter(())
    return next((weight.device for weight in weights), torch.device("cpu"))


@torch.inference_mode()
def follow(
    decoder: StepDecoder, cache: Cache, rules: Constraints, *, per_sentence: int, choose: Choose
) -> list[list[Hypothesis]]:
    """Continues `per_sentence` hypotheses of each sentence by the tokens that `choose` takes.

    A hypothesis ends with the end of sentence, at its maximum length, or where no token is allowed. A sentence
    leaves the batch when all of its hypotheses have ended.

    Args:
        choose: (log-probabilities, number of each row in the first batch) -> tokens and their log-probabilities
    """
    rules.check_cache(cache)
    norms = length_norms(rules.longest, rules.length_penalty)
    device = device_of(decoder)
    rows = _Rows.start(rules, per_sentence)
    results: dict[int, Hypothesis] = {}
    tokens, told = rules.bos_id.repeat(per_sentence), watcher()
    if per_sentence > 1:
        cache.expand(per_sentence)
    for step in range(rules.longest):
        logits = decoder.step(torch.from_numpy(tokens).to(device), cache)
        if step == 0:
            rules.check_logits(logits, len(tokens))
        chosen, gained = choose(allowed_log_probs(logits, [(rules, rows.history[:, :step])]), rows.number)
        tokens, gain, alive = chosen.cpu().numpy(), gained.double().cpu().numpy(), rows.open.copy()
        before = None if told is None else rows.beginnings(step, alive, per_sentence)
        ended = rows.extend(step, tokens, gain, rules.eos_id, norms)
        results.update(ended)
        if told is not None and before is not None:
            after = rows.beginnings(step + 1, alive & (gain > float("-inf")), per_sentence)
            told(Searched(step, before, after, [(row // per_sentence, found) for row, found in ended.items()]))
        stay = rows.open.reshape(-1, per_sentence).any(axis=1)
        if not stay.any():
            break
        if not stay.all():
            kept = np.flatnonzero(stay)
            cache.keep(torch.from_numpy(kept).to(device))
            rules, stay = rules.keep(kept), stay.repeat(per_sentence)
            rows, tokens = rows.keep(stay), tokens[stay]
    ordered = [results[number] for number in range(len(results))]
    return [ordered[start : start + per_sentence] for start in range(0, len(ordered), per_sentence)]


@dataclass(slots=True)
class _Rows:
    """The hypotheses under way: number in the first batch, length limit, tokens, log-probability, not yet ended."""

    number: np.ndarray
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

    def beginnings(self, length: int, told: np.ndarray, per_sentence: int) -> Beginnings:
        """Copies of these rows, to be told."""
        return Beginnings(self.number[told] // per_sentence, self.history[told, :length], self.total[told])

    def extend(
        self, step: int, tokens: np.ndarray, gain: np.ndarray, eos_id: int, norms: np.ndarray
    ) -> dict[int, Hypothesis]:
        """Appends a token to every row; returns the hypotheses that ended with it, by row number."""
        dead = gain == float("-inf")
        finished = (tokens == eos_id) & ~dead
        self.history[:, step] = tokens
        self.total += np.where(dead, 0.0, gain)
        ended = {}
        ending = (finished | dead | (self.limit == step + 1)) & self.open
        for row in np.flatnonzero(ending).tolist():
            words = self.history[row, : step if finished[row] or dead[row] else step + 1]
            log_prob = float(self.total[row])
            score = log_prob / float(norms[step if dead[row] else step + 1])
            ended[int(self.number[row])] = Hypothesis(words.tolist(), score, log_prob, bool(finished[row]))
            self.open[row] = False
        return ended

    def keep(self, stay: np.ndarray) -> "_Rows":
        return _Rows(*(getattr(self, field.name)[stay] for field in fields(self)))
