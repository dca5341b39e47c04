"""Heads as words see them: sub-words merged, special tokens hidden, as the pages do with a single head."""

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
        special: "hide" leaves special tokens out; "share" too, and the rest of each row sums to what the row did.
    """

    merged: bool = False
    special: Special = ""


def known(labels: Sequence[str], tokens: Sequence[Tokens]) -> Tokens | None:
    """What is known of the tokens with these labels."""
    return next((one for one in tokens if list(one.labels) == list(labels)), None)


def numbered(labels: Sequence[str], tokens: Sequence[Tokens], fold: Fold) -> list[int]:
    """The number of the row or column that each token is in; -1: it is hidden. Special tokens alone are not.

    >>> labels = ["un", "do", "it", "<eos>"]
    >>> numbered(labels, [Tokens(labels, [0, 0, 1, -1], [3])], Fold(True, "hide"))
    [0, 0, 1, -1]
    """
    one = known(labels, tokens) or Tokens(labels, [-1] * len(labels), [])
    hidden = set(one.special) if fold.special and len(one.special) < len(labels) else set()
    found: list[int] = []
    last = -1
    for token in range(len(labels)):
        word = one.words[token]
        # a word goes on where its last token stands right before
        goes_on = fold.merged and token and found[-1] >= 0 and word >= 0 and word == one.words[token - 1]
        last += token not in hidden and not goes_on
        found.append(-1 if token in hidden else last)
    return found


def folded(
    weights: Float[np.ndarray, "heads queries keys"], sides: Sides, tokens: Sequence[Tokens], fold: Fold
) -> Float[np.ndarray, "heads rows columns"]:
    """The weights of a layer between what is shown.

    Args:
        sides: the labels of its queries and of its keys.
        tokens: what is known of tokens, on whichever side.
    """
    rows, columns = (numbered(side, tokens, fold) for side in sides)
    if fold.special == "share":
        left, whole = weights[..., np.array(columns) >= 0].sum(-1, keepdims=True), weights.sum(-1, keepdims=True)
        # a row whose weights cancel, as differences of attention may, has no rest to share
        weights = weights * np.divide(whole, left, out=np.ones_like(left), where=(left > 0) & (whole > 0))
    return weights if fold == Fold() else np.stack([merge(head, rows, columns) for head in weights])


def folds(sides: Sides, tokens: Sequence[Tokens]) -> list[Fold]:
    """All that change something between these labels."""
    found = [one for labels in sides if (one := known(labels, tokens))]
    merged = any(word >= 0 and word == before for one in found for before, word in itertools.pairwise(one.words))
    special: list[Special] = ["", "hide", "share"] if any(len(one.special) for one in found) else [""]
    every = [Fold(words, how) for words in (False, True) if merged or not words for how in special]
    return every[1:]
