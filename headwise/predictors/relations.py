"""How often heads of attention find the words that words depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from headwise.data.dependencies import Parsed
from headwise.errors import DataError, Unsupported
from headwise.explain.explanation import Explanation
from headwise.explain.folding import Fold, fold_weights
from headwise.predictors.predictor import Predictor

# words between a word and the one that it depends on, for the best fixed distance
_FARTHEST = 10

Direction = Literal["to", "from"]
# (layer, head, direction)
Finder = tuple[str, int, Direction]


@dataclass(frozen=True)
class RelationScore:
    """How often the best head finds the word that another one depends on by a relation, and the best fixed distance.

    Both are chosen on other sentences than they are counted on.

    Args:
        count: words with this relation.
        direction: "to": the word that the dependent one attends to most; "from": the word that attends to it most.
        accuracy: share of them that the head finds.
        offset: the distance that is right most often: 1: the word behind.
        baseline: share of them that the offset finds.
    """

    relation: str
    count: int
    layer: str
    head: int
    direction: Direction
    accuracy: float
    offset: int
    baseline: float


@dataclass
class _Tally:
    """Right answers by relation and finder or offset, and how many words there are with each relation."""

    right: dict[str, dict[Finder, int]]
    at: dict[str, dict[int, int]]
    count: dict[str, int]


def relation_scores(
    predictor: Predictor[Any, Any, Any], valid: Sequence[Parsed], test: Sequence[Parsed], *, fewest: int = 20
) -> list[RelationScore]:
    """For each relation the head of self-attention that finds it best, those furthest above the best distance first.

    Args:
        valid, test: sentences to choose heads and distances on, and to count right answers on.
        fewest: words that a relation must have in both.
    Raises:
        Unsupported: a model without self-attention between words.
        DataError: no relation is as frequent as that.
    Source: Clark et al. 2019, arXiv:1906.04341, section 4.2.
    """
    chosen, counted = _tally(predictor, valid), _tally(predictor, test)
    scores = []
    for relation, count in counted.count.items():
        if min(count, chosen.count.get(relation, 0)) < fewest:
            continue
        layer, head, direction = finder = _best(chosen.right[relation])
        offset = _best(chosen.at[relation])
        right, near = counted.right[relation].get(finder, 0), counted.at[relation].get(offset, 0)
        scores.append(RelationScore(relation, count, layer, head, direction, right / count, offset, near / count))
    if not scores:
        raise DataError(f"no relation has {fewest} words or more in both files; give larger ones")
    return sorted(scores, key=lambda score: score.baseline - score.accuracy)


def _best(counts: Mapping[Any, int]) -> Any:
    return max(counts, key=lambda key: counts[key])


def _tally(predictor: Predictor[Any, Any, Any], sentences: Sequence[Parsed]) -> _Tally:
    tally = _Tally({}, {}, {})
    for sentence in sentences:
        guesses = finders(predictor.explain(predictor.parse(" ".join(sentence.words))), len(sentence.words))
        for place, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            if head < 0:
                continue
            tally.count[relation] = tally.count.get(relation, 0) + 1
            right = tally.right.setdefault(relation, {})
            for finder, words in guesses.items():
                right[finder] = right.get(finder, 0) + int(words[place] == head)
            at = tally.at.setdefault(relation, {1: 0})
            if abs(head - place) <= _FARTHEST:
                at[head - place] = at.get(head - place, 0) + 1
    return tally


def finders(explanation: Explanation, length: int) -> dict[Finder, Int[np.ndarray, "words"]]:
    """Of each word the one that each head joins it with most, itself left out: that it attends to, and the reverse.

    Sub-words count as their word, and special tokens as none.

    Raises: Unsupported: no layer of self-attention has a row and a column for each of so many words.
    """
    guesses: dict[Finder, Int[np.ndarray, "words"]] = {}
    for name, layer in explanation.layers.items():
        sides = layer.queries, layer.keys
        if layer.kind != "self":
            continue
        weights = fold_weights(layer.weights, sides, explanation.tokens, Fold(True, "hide"))
        if weights.shape[1:] != (length, length):
            continue
        others = np.where(np.eye(length, dtype=bool), -np.inf, weights)
        for head, table in enumerate(others):
            guesses[name, head, "to"] = table.argmax(1)
            guesses[name, head, "from"] = table.argmax(0)
    if not guesses:
        raise Unsupported("this model has no self-attention with a row and a column for each word of a sentence")
    return guesses
