"""Weights between words in place of tokens: sub-words merged, special tokens hidden, as the pages do for one head."""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from headwise.explain.alignment import merge
from headwise.explain.places import Tokens

Special = Literal["", "hide", "share"]
Sides = tuple[Sequence[str], Sequence[str]]


class Fold(NamedTuple):
    """How tokens are shown.

    Args:
        merged: words in place of sub-words.
        special: "hide" leaves special tokens out; "share" does too and scales the rest of each row to the old sum.
    """

    merged: bool = False
    special: Special = ""


def tokens_of(labels: Sequence[str], tokens: Sequence[Tokens]) -> Tokens | None:
    """The tokens with these labels; None: there are none."""
    return next((side for side in tokens if list(side.labels) == list(labels)), None)


def group_numbers(labels: Sequence[str], tokens: Sequence[Tokens], fold: Fold) -> list[int]:
    """The row or column of each token; -1: it is hidden. Tokens that are all special are not hidden.

    >>> labels = ["un", "do", "it", "<eos>"]
    >>> group_numbers(labels, [Tokens(labels, [0, 0, 1, -1], [3])], Fold(True, "hide"))
    [0, 0, 1, -1]
    """
    text = tokens_of(labels, tokens) or Tokens(labels, [-1] * len(labels), [])
    hidden = set(text.special) if fold.special and len(text.special) < len(labels) else set()
    numbers: list[int] = []
    last = -1
    for token in range(len(labels)):
        word = text.words[token]
        # a word continues if its last token is the one right before
        continues = fold.merged and token and numbers[-1] >= 0 and word >= 0 and word == text.words[token - 1]
        last += token not in hidden and not continues
        numbers.append(-1 if token in hidden else last)
    return numbers


def fold_labels(labels: Sequence[str], tokens: Sequence[Tokens], fold: Fold) -> tuple[list[str], list[bool]]:
    """The text of each row or column that is shown, and whether it is a separator: special tokens or punctuation.

    >>> labels = ["un", "do", ".", "<eos>"]
    >>> fold_labels(labels, [Tokens(labels, [0, 0, 1, -1], [3])], Fold(merged=True))
    (['undo', '.', '<eos>'], [False, True, True])
    """
    numbers, text = group_numbers(labels, tokens, fold), tokens_of(labels, tokens)
    special = set() if text is None else set(text.special)
    texts, words = [""] * (max(numbers, default=-1) + 1), set()
    for token, (number, label) in enumerate(zip(numbers, labels, strict=True)):
        if number >= 0:
            texts[number] += label
            if token not in special and any(map(str.isalnum, label)):
                words.add(number)
    return texts, [number not in words for number in range(len(texts))]


def fold_weights(
    weights: Float[np.ndarray, "heads queries keys"], sides: Sides, tokens: Sequence[Tokens], fold: Fold
) -> Float[np.ndarray, "heads rows columns"]:
    """The weights of a layer between the rows and columns that are shown.

    Args:
        sides: the labels of its queries and of its keys.
    """
    rows, columns = (group_numbers(side, tokens, fold) for side in sides)
    if fold.special == "share":
        visible, total = weights[..., np.array(columns) >= 0].sum(-1, keepdims=True), weights.sum(-1, keepdims=True)
        # a row whose weights cancel, as differences of attention may, cannot be scaled
        weights = weights * np.divide(total, visible, out=np.ones_like(visible), where=(visible > 0) & (total > 0))
    return weights if fold == Fold() else np.stack([merge(head, rows, columns) for head in weights])


def useful_folds(sides: Sides, tokens: Sequence[Tokens]) -> list[Fold]:
    """All folds that change something between these labels."""
    texts = [text for labels in sides if (text := tokens_of(labels, tokens))]
    merged = any(word >= 0 and word == before for text in texts for before, word in itertools.pairwise(text.words))
    special: list[Special] = ["", "hide", "share"] if any(len(text.special) for text in texts) else [""]
    folds = [Fold(words, how) for words in (False, True) if merged or not words for how in special]
    return folds[1:]
