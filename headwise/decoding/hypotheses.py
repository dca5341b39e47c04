"""What decoding returns, how it is ranked, and what it asks of a decoder."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headwise.errors import ConfigError

# 1 ranks by the mean log-probability of a token, 0 by the log-probability of the whole
LENGTH_PENALTY = 1.0


@runtime_checkable
class StepDecoder(Protocol):
    """A decoder that is asked for one token at a time."""

    def step(self, tokens: Int[Tensor, "rows"], cache: Any) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that follows `tokens`, one row a hypothesis; the cache remembers the step."""
        ...


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
