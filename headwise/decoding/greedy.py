"""Greedy search: always the most probable token."""

import numpy as np
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import Constraints
from headwise.decoding.hypotheses import Hypothesis, StepDecoder
from headwise.decoding.rows import follow
from headwise.decoding.top import argmax


def greedy(decoder: StepDecoder, cache: Cache, rules: Constraints) -> list[list[Hypothesis]]:
    """One hypothesis a sentence, in the order of the sentences; among equally probable tokens the lowest id.

    The same tokens and scores as beam search with one beam, in less time.

    Args:
        cache: what the decoder's `start` returned; it is used up
        rules: lengths, first and last tokens and what else a hypothesis must obey, from `constraints`

    Raises:
        ConfigError: for tokens outside the vocabulary or another number of sentences than the cache has
        Diverged: if a logit is NaN or plus infinity

    >>> import torch
    >>> from headwise.caches import Cache
    >>> from headwise.decoding.constraints import constraints
    >>> class Bigrams(Cache):
    ...     sentences = 1
    ...     expand = reorder = keep = lambda self, _: None
    >>> class Table:
    ...     probabilities = torch.tensor([[0.0, 0.7, 0.3], [0.9, 0.0, 0.1], [1.0, 0.0, 0.0]])
    ...     def step(self, tokens, cache):
    ...         return self.probabilities[tokens].log()
    >>> best = greedy(Table(), Bigrams(), constraints([5], bos_id=0, eos_id=0))[0][0]
    >>> best.tokens, round(2.718281828**best.log_prob, 2)
    ([1], 0.63)
    """
    return follow(decoder, cache, rules, per_sentence=1, choose=_most_probable)


def _most_probable(log_probs: Tensor, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    tokens = argmax(log_probs)
    return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
