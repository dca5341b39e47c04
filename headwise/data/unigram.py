"""Training of a Unigram vocabulary that gives the same pieces and scores in every process and on any thread count."""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import models

_SEEDS_PER_PIECE = 8
_KEPT_PER_ROUND = 0.6
_MAX_PIECE = 16
_ROUNDS_AT_ONE_SIZE = 2
# an unknown character must cost more than any known piece
_UNKNOWN_SCORE = -1e4

Pieces = list[tuple[str, float]]


def train_unigram(words: Mapping[str, int], size: int) -> Pieces:
    """The `size` pieces, with log probabilities, under which the words are most likely; fewer if there are no more.

    Starts from frequent substrings, then alternates best segmentation, re-estimation and removal of the pieces whose
    loss costs least. Single characters stay unless they alone exceed the size; then the most frequent stay.

    Args:
        words: word -> how often it occurs.

    Source: Kudo 2018, arXiv 1804.10959, section 3.2; here the expectation is over best segmentations only (hard EM)
        and ties are broken by the piece's text, so that no order of summation can change the outcome.
    """
    frequencies = sorted(words.items())
    letters = Counter[str]()
    for word, count in frequencies:
        for letter in word:
            letters[letter] += count
    alphabet = [letter for letter, _ in sorted(letters.items(), key=_by_count)][:size]
    counts = _seeds(frequencies, (size - len(alphabet)) * _SEEDS_PER_PIECE)
    counts.update({letter: letters[letter] for letter in alphabet})
    fixed = set(alphabet)
    texts = [word for word, _ in frequencies]
    weights = np.array([count for _, count in frequencies], dtype=np.int64)
    while True:
        for _ in range(_ROUNDS_AT_ONE_SIZE):
            pieces = _scored(counts)
            counts = _recount(pieces, texts, weights, fixed)
        if len(counts) <= size:
            return _scored(counts)
        target = max(size, int(len(counts) * _KEPT_PER_ROUND))
        counts = _pruned(counts, fixed, target)


def _seeds(frequencies: list[tuple[str, int]], size: int) -> dict[str, int]:
    """Substrings of two or more characters that occur twice or more, the ones that cover most text."""
    counts = Counter[str]()
    for word, count in frequencies:
        for start in range(len(word) - 1):
            for end in range(start + 2, min(len(word), start + _MAX_PIECE) + 1):
                counts[word[start:end]] += count
    useful = [(piece, count) for piece, count in counts.items() if count > 1]
    useful.sort(key=lambda item: (-item[1] * len(item[0]), item[0]))
    return dict(useful[: max(size, 0)])


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _scored(counts: Mapping[str, int]) -> Pieces:
    total = sum(counts.values())
    return [(piece, math.log(count / total)) for piece, count in sorted(counts.items(), key=_by_count)]


def _recount(pieces: Pieces, texts: list[str], weights: np.ndarray, fixed: set[str]) -> dict[str, int]:
    """How often each piece stands in the best segmentations; unused pieces go, single characters stay with one."""
    backend = Backend(models.Unigram([("", _UNKNOWN_SCORE), *pieces], unk_id=0))
    rows = [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    ids = np.fromiter((token for row in rows for token in row), dtype=np.int64, count=int(lengths.sum()))
    # integers up to 2^53 add exactly in float64
    totals = np.bincount(ids, weights=np.repeat(weights, lengths), minlength=len(pieces) + 1)[1:].astype(np.int64)
    return {
        piece: max(int(count), 1) for (piece, _), count in zip(pieces, totals, strict=True) if count or piece in fixed
    }


def _pruned(counts: Mapping[str, int], fixed: set[str], size: int) -> dict[str, int]:
    """Keeps the `size` pieces whose removal would lower the likelihood most."""
    scores = dict(_scored(counts))
    losses = [
        (-count * (scores[piece] - _best_split(piece, scores)), piece)
        for piece, count in counts.items()
        if piece not in fixed
    ]
    losses.sort()
    chosen = fixed.union(piece for _, piece in losses[: size - len(fixed)])
    return {piece: count for piece, count in counts.items() if piece in chosen}


def _best_split(piece: str, scores: Mapping[str, float]) -> float:
    """The log probability of the best segmentation of a piece into two or more pieces."""
    length = len(piece)
    best = [0.0] + [-math.inf] * length
    for end in range(1, length + 1):
        for start in range(end):
            if end - start == length:
                continue
            score = scores.get(piece[start:end])
            if score is not None and best[start] + score > best[end]:
                best[end] = best[start] + score
    return best[length]
