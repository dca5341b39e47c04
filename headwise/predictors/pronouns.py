"""A probe of what a word such as "it" relates to: the share of its attention on each of two words, head by head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.labels import decimals, padded
from headwise.predictors.predictor import Predictor, Unknown

# what tokenizers write in front of a word, or of the rest of one
_MARKS = ("##", "\u2581", "\u0120")


class Sentence(NamedTuple):
    """A sentence, the word that is looked at, and two words that it may relate to, the right one first."""

    text: str
    word: str
    meant: str
    other: str


# Levesque et al. 2012, "The Winograd schema challenge" (pairs); the notes' own; the animal is of Uszkoreit 2017
SENTENCES = (
    Sentence("The animal didn't cross the street because it was too tired", "it", "animal", "street"),
    Sentence("The animal didn't cross the street because it was too wide", "it", "street", "animal"),
    Sentence("The cat drank the milk because it was hungry", "it", "cat", "milk"),
    Sentence("The cat drank the milk because it was sweet", "it", "milk", "cat"),
    Sentence("The cat sat on the mat", "sat", "cat", "mat"),
)


@dataclass(frozen=True)
class Probe:
    """How much of the row of a word falls on each of two words.

    Args:
        shares: of every head; the meant word first.
        even: what a row that spreads its weight evenly over the tokens it may see would give.
        causal: the word sees nothing behind it.
    """

    layers: list[str]
    shares: Float[np.ndarray, "layers heads 2"]
    even: tuple[float, float]
    causal: bool

    @property
    def mean(self) -> tuple[float, float]:
        """Over all layers and heads."""
        meant, other = self.shares.mean((0, 1))
        return float(meant), float(other)

    @property
    def score(self) -> float:
        """The share of heads that give the meant word more than the other: 0.5 is chance."""
        first, second = self.shares[..., 0], self.shares[..., 1]
        return float(((first > second) + 0.5 * (first == second)).mean())

    @property
    def best(self) -> tuple[str, int, tuple[float, float]]:
        """The layer and head that prefer the meant word most, and their shares."""
        difference = self.shares[..., 0] - self.shares[..., 1]
        layer, head = np.unravel_index(int(difference.argmax()), difference.shape)
        meant, other = self.shares[layer, head]
        return self.layers[layer], int(head), (float(meant), float(other))


def probe(explanation: Explanation, word: str, meant: str, other: str) -> Probe:
    """The shares of a word's row in every self-attention that reads the sentence; words may be several tokens.

    A word of several tokens looks from its last one; what it gives a word is the sum over that word's tokens.

    Raises: Unsupported: the model has no such attention, its tokens do not spell one of the words, or the word does not
        see both.

    >>> weights = np.array([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.7, 0.2, 0.1]]])
    >>> layer = Layer(weights, ["a", "cat", "it"], ["a", "cat", "it"], "self")
    >>> found = probe(Explanation("a cat it", "", {"only": layer}), "it", "a", "cat")
    >>> found.mean, found.score
    ((0.7, 0.2), 1.0)
    """
    layers = {name: layer for name, layer in explanation.layers.items() if layer.kind == "self"}
    if not layers:
        raise Unsupported("this model has no self-attention over what it reads, so no word looks at another")
    chosen = _reading(layers)
    first = next(iter(chosen.values()))
    # rows may be labelled by more than their token, such as a tag
    places = [tokens_of(first.keys, word)[-1:], tokens_of(first.keys, meant), tokens_of(first.keys, other)]
    if lost := [name for name, place in zip((word, meant, other), places, strict=True) if not place]:
        raise Unsupported(f"the tokens of this model do not spell {', '.join(map(repr, lost))}")
    row = places[0][0]
    behind = [name for name, place in zip((meant, other), places[1:], strict=True) if place[-1] > row]
    if first.causal and behind:
        raise Unsupported(
            f"'{word}' cannot see {', '.join(map(repr, behind))} behind it, so the two cannot be compared"
        )
    shares = np.stack(
        [np.stack([layer.weights[:, row, place].sum(-1) for place in places[1:]], -1) for layer in chosen.values()]
    )
    visible = row + 1 if first.causal else len(first.keys)
    even = len(places[1]) / visible, len(places[2]) / visible
    return Probe(list(chosen), shares, even, first.causal)


def tokens_of(labels: Sequence[str], word: str) -> list[int]:
    """The places of the first run of tokens that spell a word, whatever its case; none: there is no such run.

    >>> tokens_of(["the", "an", "##imal", "it"], "animal"), tokens_of(["\u2581It", "s"], "it"), tokens_of(["cat"], "it")
    ([1, 2], [0], [])
    """
    bare = [_bare(label) for label in labels]
    for start in range(len(bare)):
        spelled, end = "", start
        while end < len(bare) and word.startswith(spelled + bare[end]) and len(spelled) < len(word):
            spelled, end = spelled + bare[end], end + 1
        if spelled == word and bare[start]:
            return list(range(start, end))
    return []


def lines(predictor: Predictor[Any, Any, Any], sentences: Sequence[Sentence] = SENTENCES) -> list[str]:
    """The probe of every sentence as lines for a terminal, and what a pair of sentences says together."""
    shown, probes = list[str](), dict[Sentence, Probe]()
    for sentence in sentences:
        item = predictor.parse(sentence.text)
        shown += ["", sentence.text, *_unknown(predictor.unknown([item]))]
        try:
            probed = probe(predictor.explain(item), *sentence[1:])
        except Unsupported as error:
            shown.append(f"  {error}")
            continue
        probes[sentence] = probed
        layer, head, best = probed.best
        for name, mean, even in zip((sentence.meant, sentence.other), probed.mean, probed.even, strict=True):
            shown.append(f"  {padded(f'{sentence.word} → {name}', 16)} {_share(mean)} of the row; even: {_share(even)}")
        heads = f"{probed.score:.0%} of {probed.shares[..., 0].size} heads"
        most = f"most in {layer}, head {head}: {_share(best[0])} to {_share(best[1])}"
        shown.append(f"  {sentence.meant} has more in {heads}; {most}")
    return [*shown, *_summary(probes)][1:]


def _unknown(unknown: Unknown) -> list[str]:
    """What training has not taught the model, which makes a probe of it meaningless."""
    if not unknown.count:
        return []
    return [
        f"  unknown to this model: {unknown.count} of {unknown.total} {unknown.what}, {', '.join(unknown.examples)}"
    ]


def _summary(probes: Mapping[Sentence, Probe]) -> list[str]:
    if not probes:
        return []
    score = np.mean([probe.score for probe in probes.values()])
    shown = [
        "",
        f"score: {score:.2f} of the heads prefer the word that is meant (chance: 0.50), {len(probes)} sentences",
    ]
    for one in probes:
        for two in probes:
            if (one.word, one.meant, one.other) == (two.word, two.other, two.meant) and one.text < two.text:
                shown.append(_moved(one, two, 100 * (probes[one].mean[0] - probes[two].mean[1]), probes[one].causal))
    return [
        *shown,
        "That is where heads look, not what a model takes a word to mean. Small models learn no such relation.",
    ]


def _moved(one: Sentence, two: Sentence, points: float, causal: bool) -> str:
    """What another last word changes."""
    last, other = one.text.split()[-1], two.text.split()[-1]
    why = f" ('{one.word}' cannot see a word behind it)" if causal else ""
    return f"'{last}' in place of '{other}': {points:+.2f} points of the row of '{one.word}' for '{one.meant}'{why}"


def _reading(layers: Mapping[str, Layer]) -> dict[str, Layer]:
    """The layers over the tokens that are read: those with the tokens of the first."""
    first = next(iter(layers.values()))
    return {name: layer for name, layer in layers.items() if layer.queries == first.queries}


def _bare(label: str) -> str:
    text = label.strip()
    for mark in _MARKS:
        text = text.removeprefix(mark)
    return text.strip().lower()


def _share(value: float) -> str:
    return f"{decimals(100 * value)} %"
