"""What decoding returns, how it is ranked, what it needs of a decoder, and how its steps are observed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.errors import ConfigError

# 1 ranks by the mean log-probability of a token, 0 by the log-probability of the whole
LENGTH_PENALTY = 1.0


@runtime_checkable
class StepDecoder(Protocol):
    """A decoder that takes one step at a time."""

    def step(self, tokens: Int[Tensor, "rows"], cache: Any) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that follows `tokens`, one row a hypothesis; the step is added to the cache."""
        ...


def device_of(decoder: StepDecoder) -> torch.device:
    """The device of a module's first parameter; the CPU for anything else."""
    parameters = decoder.parameters() if isinstance(decoder, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One decoded sentence.

    Args:
        tokens: without the begin and end of sentence; a forced prefix is part of them
        score: what hypotheses are ranked by, `log_prob / length ** length_penalty`
        log_prob: natural logarithm of the probability of the tokens, and of the end of sentence if `finished`
        finished: whether the end of sentence was reached
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool


def length_norms(longest: int, length_penalty: float) -> Float[np.ndarray, "lengths"]:
    """The divisors `length ** length_penalty` for lengths 0 to `longest`; 1 for length 0.

    The length counts the generated tokens and the end of sentence.
    Source: Wu et al. 2016, arXiv 1609.08144, equation 14, divides by `((5 + length) / 6) ** alpha` instead, which
    favours long hypotheses less at small lengths; a plain power gives the mean log-probability at 1.

    >>> length_norms(3, 1.0).tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    if not 0 <= length_penalty < float("inf"):
        raise ConfigError(f"length_penalty ({length_penalty}) must be zero or a positive number")
    return np.maximum(np.arange(longest + 1, dtype=np.float64), 1.0) ** length_penalty


@dataclass(frozen=True)
class PartialHypotheses:
    """Hypotheses that have not ended, a row each; valid while the observer runs.

    Args:
        sentences: the index of each one's sentence in the batch.
        totals: the log-probability of each; minus infinity for a row without hypothesis.
    """

    sentences: Int[np.ndarray, "rows"]
    tokens: Int[np.ndarray, "rows length"]
    totals: Float[np.ndarray, "rows"]


@dataclass(frozen=True)
class SearchStep:
    """One step of a search over a batch of sentences.

    Args:
        step: from 0.
        before: the hypotheses that were continued.
        after: those that go on; rows that ended in this step, and those of finished sentences, may be left out.
        ended: the hypotheses that ended, each with the index of its sentence.
    """

    step: int
    before: PartialHypotheses
    after: PartialHypotheses
    ended: Sequence[tuple[int, Hypothesis]]


Observer = Callable[[SearchStep], None]
# of a search that begins now
OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observe_search(observer: Observer) -> Iterator[None]:
    """While open, `observer` is called with every step of every search of this thread; its exception ends the search.

    An observer that is open already is called first. The search itself is the same.
    """
    outer = OBSERVER.get()

    def both(step: SearchStep) -> None:
        if outer is not None:
            outer(step)
        observer(step)

    token = OBSERVER.set(both)
    try:
        yield
    finally:
        OBSERVER.reset(token)
