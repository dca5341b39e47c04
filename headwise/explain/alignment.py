"""Alignments from weights: links between tokens, words from sub-words, focus, a table for the terminal."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from headwise.errors import ShapeError
from headwise.explain.heads import entropy
from headwise.explain.values import Array, array
from headwise.labels import columns, decimals, padded, shorten, visible

BAR = 8  # columns of a bar of weight 1
_EIGHTHS = " ▏▎▍▌▋▊▉"


def links(weights: Float[Array, "targets sources"], *, mutual: bool = False) -> list[tuple[int, int]]:
    """(source, target) pairs: each target token with the source token it attends to most, the first of equals.

    A target token without any weight has no link.

    Args:
        weights: rows are target tokens, columns source tokens.
        mutual: only pairs where the source token, too, is attended to most by this target token.

    >>> links(np.array([[0.9, 0.1], [0.6, 0.4]]))
    [(0, 0), (0, 1)]
    >>> links(np.array([[0.9, 0.1], [0.6, 0.4]]), mutual=True)
    [(0, 0)]
    """
    values = array(weights)
    if values.size == 0:
        return []
    chosen = _strongest(values) & _strongest(values.T).T if mutual else _strongest(values)
    return sorted((int(source), int(target)) for target, source in np.argwhere(chosen))


def diagonal(sources: int, targets: int) -> list[tuple[int, int]]:
    """The links of a baseline aligner: each target word with the source word at the same relative position.

    >>> diagonal(3, 6)
    [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    """
    return [((2 * target + 1) * sources // (2 * targets), target) for target in range(targets if sources else 0)]


def near_diagonal(targets: int, sources: int, strength: float) -> Float[np.ndarray, "targets sources"]:
    """exp(-strength * |i / sources - j / targets|) for source word i and target word j, counted from their middles.

    >>> near_diagonal(1, 2, 4.0).round(3).tolist(), near_diagonal(2, 2, 4.0).round(3).tolist()
    ([[0.368, 0.368]], [[1.0, 0.135], [0.135, 1.0]])
    """
    across, down = ((np.arange(count) + 0.5) / max(1, count) for count in (sources, targets))
    return np.exp(-strength * np.abs(across[None, :] - down[:, None]))


def words(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """For each token, given by its offsets in the text, the index of its whitespace-separated word.

    A token without a character of its own, such as the end of the sentence, gets -1.

    >>> words("chez moi.", [(0, 4), (4, 8), (8, 9)])
    [0, 1, 1]
    """
    starts = [not character.isspace() and (i == 0 or text[i - 1].isspace()) for i, character in enumerate(text)]
    word_at = np.cumsum(starts, dtype=int) - 1
    numbers = []
    for start, end in offsets:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip())
        numbers.append(int(word_at[first]) if piece.strip() else -1)
    return numbers


def merge(
    weights: Float[Array, "queries keys"], query_words: Sequence[int], key_words: Sequence[int]
) -> Float[np.ndarray, "query_groups key_groups"]:
    """Weights of tokens as weights of words: summed over the keys of a word, averaged over the queries of a word.

    Rows that sum to one still do if no key is left out.

    Args:
        query_words: the word of each query, from 0; -1 leaves the query out.
        key_words: the word of each key, from 0; -1 leaves the key out.

    >>> merge(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), [0, 0], [0, 0, 1]).round(3).tolist()
    [[0.5, 0.5]]
    """
    values = array(weights)
    if values.shape != (len(query_words), len(key_words)):
        raise ShapeError(f"weights {values.shape} do not fit {len(query_words)} queries and {len(key_words)} keys")
    rows, groups = _membership(query_words), _membership(key_words)
    return rows @ values @ groups.T / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)


def focus(weights: Float[Array, "queries keys"]) -> float:
    """The mutual information of query and key attended to, in nats.

    H(mean row) - mean of H(row), each query equally likely. High where each query attends to few keys of its own; 0
    where all rows are alike, whether uniform or all on one key such as the full stop.

    >>> round(focus(np.eye(4)), 4), focus(np.ones((4, 4)) / 4), focus(np.eye(4)[[0, 0, 0]])
    (1.3863, 0.0, 0.0)
    """
    values = array(weights)
    return max(0.0, float(entropy(values.mean(axis=0)) - entropy(values).mean()))


def table(weights: Float[Array, "queries keys"], queries: Sequence[str], keys: Sequence[str], *, top: int = 3) -> str:
    r"""The strongest keys of each query, by absolute weight, as lines for a terminal, with a bar for each weight.

    Control characters are written as escapes; wide characters count as two columns.

    >>> print(table(np.array([[0.75, 0.25]]), ["va"], ["go", "!"], top=2))
    va  go 0.75 ██████    !  0.25 ██
    """
    values = array(weights)
    if values.shape != (len(queries), len(keys)):
        raise ShapeError(f"weights {values.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    left = [_cell(query) for query in queries]
    names = [_cell(key) for key in keys]
    left_width = max(map(columns, left), default=0)
    name_width = max(map(columns, names), default=0)
    lines = []
    for query, row in zip(left, values, strict=True):
        best = np.argsort(-np.abs(row), kind="stable")[:top]
        cells = [f"{padded(names[key], name_width)} {decimals(row[key])} {padded(bar(row[key]), BAR)}" for key in best]
        lines.append(f"{padded(query, left_width)}  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def bar(weight: float) -> str:
    """A bar of eighths of a column, eight columns for weight 1.

    >>> bar(0.52)
    '████▏'
    """
    eighths = round(min(max(float(weight), 0.0), 1.0) * BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _strongest(values: np.ndarray) -> np.ndarray:
    chosen = np.zeros(values.shape, dtype=bool)
    chosen[np.arange(len(values)), values.argmax(axis=1)] = True
    return chosen & (values > 0)


def _membership(groups: Sequence[int]) -> Int[np.ndarray, "groups tokens"]:
    numbers = np.arange(max(groups, default=-1) + 1)
    return (numbers[:, None] == np.asarray(groups)[None, :]).astype(int)


def _cell(token: str) -> str:
    return shorten(visible(token).strip() or "␣", 16)
