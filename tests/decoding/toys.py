"""Decoders small enough to be searched by hand, and a cache that shows its mistakes."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.constraints import Constraints, constraints

BOS, EOS = 0, 1


class Prefixes(Cache):
    """Remembers the tokens of each row: what a wrong reorder or keep does to it changes every later answer."""

    def __init__(self, sentences: int):
        self.sentences = sentences
        self.beams = 1
        self.source = list(range(sentences))
        self.rows: list[tuple[int, ...]] = [() for _ in range(sentences)]
        self.reorders: list[list[int]] = []
        self.sizes: list[int] = []

    def expand(self, beams: int) -> None:
        assert self.length <= 1
        assert self.beams == 1
        self.beams = beams
        self.source = [s for s in self.source for _ in range(beams)]
        self.rows = [row for row in self.rows for _ in range(beams)]

    def reorder(self, index: Tensor) -> None:
        order = index.tolist()
        assert len(order) == len(self.rows)
        assert all(old // self.beams == new // self.beams for new, old in enumerate(order))
        assert order != list(range(len(order)))
        self.reorders.append(order)
        self.rows = [self.rows[old] for old in order]

    def keep(self, sentences: Tensor) -> None:
        kept = [s * self.beams + beam for s in sentences.tolist() for beam in range(self.beams)]
        assert len(kept) > 0
        assert len(kept) < len(self.rows)
        self.rows = [self.rows[row] for row in kept]
        self.source = [self.source[row] for row in kept]


def rules_for(sentences: Sequence[object], max_len: int | Sequence[int], **options: Any) -> Constraints:
    """Constraints of these sentences; one maximum length stands for all."""
    limits = [max_len] * len(sentences) if isinstance(max_len, int) else max_len
    return constraints(limits, **{"bos_id": BOS, "eos_id": EOS, **options})


class Table:
    """Logits from a function of (sentence, tokens so far with the begin of sentence)."""

    def __init__(self, sentences: Sequence["Logits"]):
        self.sentences = sentences

    def step(self, tokens: Tensor, cache: Prefixes) -> Tensor:
        assert len(tokens) == len(cache.rows)
        cache.rows = [(*row, token) for row, token in zip(cache.rows, tokens.tolist(), strict=True)]
        cache.length += 1
        cache.sizes.append(len(tokens))
        return torch.stack([self.sentences[s](row) for s, row in zip(cache.source, cache.rows, strict=True)])


class Logits:
    """Random but fixed logits for every prefix of one sentence."""

    def __init__(
        self, seed: int, vocab: int, *, levels: int = 0, holes: float = 0.0, dtype: torch.dtype = torch.float64
    ):
        self.seed, self.vocab, self.levels, self.holes, self.dtype = seed, vocab, levels, holes, dtype
        self.known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, prefix: tuple[int, ...]) -> Tensor:
        if prefix not in self.known:
            self.known[prefix] = self._new(prefix)
        return self.known[prefix]

    def _new(self, prefix: tuple[int, ...]) -> Tensor:
        random = np.random.default_rng([self.seed, *prefix])
        numbers = random.normal(size=self.vocab) * 2
        if self.levels:
            numbers = random.integers(0, self.levels, size=self.vocab).astype(float)
        numbers[random.random(self.vocab) < self.holes] = -math.inf
        return torch.from_numpy(numbers).to(self.dtype)


class Given:
    """Probabilities written out: tokens after the begin of sentence -> {token: probability}."""

    def __init__(self, vocab: int, table: dict[tuple[int, ...], dict[int, float]]):
        self.vocab, self.table = vocab, table

    def __call__(self, prefix: tuple[int, ...]) -> Tensor:
        row = torch.zeros(self.vocab, dtype=torch.float64)
        for token, probability in self.table.get(prefix[1:], {}).items():
            row[token] = probability
        return row.log()


def exhaustive(
    logits: Logits, max_len: int, alpha: float, min_len: int = 0
) -> list[tuple[float, list[int], float, bool]]:
    """All hypotheses of one sentence as (score, tokens, log_prob, finished), best first, by loops over everything."""
    found = []
    words = [token for token in range(logits.vocab) if token != EOS]
    for length in range(max_len + 1):
        for tokens in itertools.product(words, repeat=length):
            log_prob, prefix = 0.0, (BOS,)
            for token in tokens:
                log_prob += float(logits(prefix).log_softmax(0)[token])
                prefix = (*prefix, token)
            if length < max_len and length >= min_len:
                closed = log_prob + float(logits(prefix).log_softmax(0)[EOS])
                found.append((closed / (length + 1) ** alpha, list(tokens), closed, True))
            if length == max_len:
                found.append((log_prob / length**alpha, list(tokens), log_prob, False))
    found = [entry for entry in found if entry[2] > -math.inf]
    return sorted(found, key=lambda entry: -entry[0])


@torch.inference_mode()
def forced_scores(decoder: Any, cache: Cache, targets: Sequence[Sequence[int]], bos_id: int = BOS) -> list[list[float]]:
    """Log-probability of each target token after those before it, one list a sentence."""
    steps = itertools.zip_longest(*targets, fillvalue=bos_id)
    last, scores = [bos_id] * len(targets), []
    for tokens in steps:
        log_probs = decoder.step(torch.tensor(last), cache).log_softmax(1).tolist()
        scores.append([row[token] for row, token in zip(log_probs, tokens, strict=True)])
        last = list(tokens)
    return [[step[sentence] for step in scores[: len(target)]] for sentence, target in enumerate(targets)]
