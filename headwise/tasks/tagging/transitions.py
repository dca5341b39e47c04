"""Which transitions of a chain of tags mattered: words whose tag is surer, or another, than from the word alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from headwise.labels import columns, decimals, padded, shorten, visible

_WORDS = 8


class Transitions(NamedTuple):
    """The scores that a linear chain learned: of tags that begin, that follow each other (rows first), that end."""

    first: Float[np.ndarray, "tags"]
    between: Float[np.ndarray, "tags tags"]
    last: Float[np.ndarray, "tags"]


def transitions_table(
    words: Sequence[str],
    tags: Sequence[str],
    names: Sequence[str],
    alone: Float[np.ndarray, "words tags"],
    together: Float[np.ndarray, "words tags"],
    scores: Transitions,
) -> str:
    """The words whose probabilities the transitions changed most, in their order, as lines for a terminal.

    Of each word: what it would be alone, what it is in the sentence, with probabilities, and the scores in nats of the
    transitions to its neighbours.

    Args:
        tags: those that were chosen.
        names: all tags, by their numbers.
        alone: the probabilities without transitions.
        together: the probabilities given the sentence.

    >>> scores = Transitions(np.zeros(2), np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros(2))
    >>> odds = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.95, 0.05], [0.2, 0.8]])
    >>> print(transitions_table(["to", "saw"], ["TO", "VERB"], ["TO", "VERB"], *odds, scores))
    word  alone    in the sentence  from the left  to the right
    to    TO 0.90  TO 0.95          begin +0.00    VERB +2.00
    saw   TO 0.60  VERB 0.80        TO +2.00       end +0.00
    """
    number = {name: place for place, name in enumerate(names)}
    path = [number[tag] for tag in tags]
    changes = np.abs(together - alone).sum(1)
    rows = [["word", "alone", "in the sentence", "from the left", "to the right"]]
    for place in sorted(np.argsort(-changes, kind="stable")[:_WORDS].tolist()):
        here, guess = path[place], int(alone[place].argmax())
        left = ("begin", scores.first[here])
        if place:
            left = (tags[place - 1], scores.between[path[place - 1], here])
        right = ("end", scores.last[here])
        if place + 1 < len(path):
            right = (tags[place + 1], scores.between[here, path[place + 1]])
        cells = [f"{names[guess]} {decimals(alone[place, guess])}", f"{tags[place]} {decimals(together[place, here])}"]
        cells += [f"{name} {value:+.2f}" for name, value in (left, right)]
        rows.append([shorten(visible(words[place]), 16), *map(visible, cells)])
    widths = [max(columns(row[place]) for row in rows) for place in range(5)]
    return "\n".join("  ".join(map(padded, row, widths)).rstrip() for row in rows)
