"""Greedy search: always the most probable token."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import constraints
from headwise.decoding.hypotheses import LENGTH_PENALTY, Hypothesis, StepDecoder
from headwise.decoding.rows import follow
from headwise.decoding.top import argmax


def greedy(
    decoder: StepDecoder,
    cache: Cache,
    *,
    bos_id: int | Sequence[int],
    eos_id: int,
    max_len: int | Sequence[int],
    min_len: int | Sequence[int] = 0,
    length_penalty: float = LENGTH_PENALTY,
    no_repeat_ngram: int = 0,
    banned: Sequence[int] = (),
    prefix: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis a sentence, in the order of the sentences; among equally probable tokens the lowest id.

    The same tokens and scores as beam search with one beam, in less time.

    Args:
        cache: what the decoder's `start` returned; it is used up
        bos_id: the token that the first step reads, one for all sentences or one each
        max_len: most tokens of a hypothesis, prefix included; one that has them all is not asked for its end
        min_len: fewest tokens, prefix included
        length_penalty: only the score depends on it
        no_repeat_ngram: no n-gram of this many tokens occurs twice in a hypothesis; 0 is off
        banned: tokens that are never chosen
        prefix: forced first tokens of each sentence; their log-probabilities count

    Raises:
        ConfigError: for contradicting lengths or tokens outside the vocabulary
        Diverged: if a logit is NaN or plus infinity

    >>> import torch
    >>> from headwise.caches import Cache
    >>> class Bigrams(Cache):
    ...     sentences = 1
    ...     expand = reorder = keep = lambda self, _: None
    >>> class Table:
    ...     probabilities = torch.tensor([[0.0, 0.7, 0.3], [0.9, 0.0, 0.1], [1.0, 0.0, 0.0]])
    ...     def step(self, tokens, cache):
    ...         return self.probabilities[tokens].log()
    >>> best = greedy(Table(), Bigrams(), bos_id=0, eos_id=0, max_len=5)[0][0]
    >>> best.tokens, round(2.718281828**best.log_prob, 2)
    ([1], 0.63)
    """
    rules = constraints(
        cache,
        bos_id=bos_id,
        eos_id=eos_id,
        max_len=max_len,
        min_len=min_len,
        no_repeat_ngram=no_repeat_ngram,
        banned=banned,
        prefix=prefix,
    )
    return follow(decoder, cache, rules, per_sentence=1, choose=_most_probable, length_penalty=length_penalty)


def _most_probable(log_probs: Tensor, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    tokens = argmax(log_probs)
    return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
