"""What parts of a vector carry: a linear probe from frozen vectors to labels, its control, and the dimensions."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.data.buckets import permutation
from headwise.errors import DataError

# share of the words that the probe is scored on, in parts
_FOLDS = 5
_FEWEST = 20
_DECAY = 1e-3
_STEPS = 100
_TOP = 10
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Probed:
    """How well labels can be read off vectors; shares from 0 to 1, all of words that the probe has not seen.

    Args:
        accuracy: of the probe.
        majority: of the most frequent label.
        control: of a probe that learned labels which were handed to the words at random.
        top: of a probe that sees only the `_TOP` dimensions which tell most about the label.
        dimensions: numbers of these from the most telling one, each with the share of its variance between labels.
        labels: how many there are.
        words: how many the probe learned from, and how many it was scored on.
    """

    accuracy: float
    majority: float
    control: float
    top: float
    dimensions: tuple[tuple[int, float], ...]
    labels: int
    words: tuple[int, int]

    def scores(self) -> dict[str, float | str]:
        """The numbers by name, and the dimensions as text."""
        named = ", ".join(f"{place} ({share:.2f})" for place, share in self.dimensions[:_NAMED])
        return {
            "probe_accuracy": self.accuracy,
            "baseline": self.majority,
            "control_accuracy": self.control,
            "selectivity": self.accuracy - self.control,
            f"top_{len(self.dimensions)}_accuracy": self.top,
            "labels": float(self.labels),
            "probe_train": float(self.words[0]),
            "probe_test": float(self.words[1]),
            "dimensions": f"{named} (share of the variance that lies between labels)",
        }


def probe(vectors: Float[Tensor, "words dim"], labels: Sequence[str], seed: int = 0) -> Probed:
    """Learns labels from four fifths of the words, chosen by the seed, and scores itself on the others.

    Multinomial logistic regression on standardised vectors, with a little weight decay, solved in float64. Dimensions
    are ranked on the words learned from. The axes of a vector are those that training happened to choose: what one of
    them carries is told as it is, not as the best direction.

    Source: Alain and Bengio 2016, arXiv 1610.01644; the control: Hewitt and Liang 2019, arXiv 1909.03368.

    Raises: DataError for fewer than 20 words, or where the words learned from have one label only.
    """
    if len(labels) < _FEWEST:
        raise DataError(
            f"{len(labels)} words with a vector and a label are too few for a probe; give {_FEWEST} or more"
        )
    names = sorted(set(labels))
    gold = torch.tensor([names.index(label) for label in labels])
    order = torch.from_numpy(permutation(len(labels), seed, 0))
    held, known = order[: len(labels) // _FOLDS], order[len(labels) // _FOLDS :]
    counts = Counter(gold[known].tolist())
    if len(counts) < 2:
        raise DataError("all words that the probe would learn from have one label; give words with several")
    x = vectors.detach().cpu().double()
    x = (x - x[known].mean(0)) / x[known].std(0, correction=0).clamp(min=1e-12)
    shuffled = gold[torch.from_numpy(permutation(len(labels), seed, 1))]
    between = _between(x[known], gold[known], len(names))
    best = np.argsort(-between, kind="stable")[:_TOP]
    most = max(counts, key=lambda label: (counts[label], -label))
    return Probed(
        _accuracy(x, gold, known, held, len(names)),
        float((gold[held] == most).double().mean()),
        _accuracy(x, shuffled, known, held, len(names)),
        _accuracy(x[:, best.copy()], gold, known, held, len(names)),
        tuple((int(place), float(between[place])) for place in best),
        len(names),
        (len(known), len(held)),
    )


def _accuracy(x: Tensor, gold: Tensor, known: Tensor, held: Tensor, labels: int) -> float:
    weight = torch.zeros(x.shape[1] + 1, labels, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=_STEPS, line_search_fn="strong_wolfe")
    given, right = x[known], gold[known]

    def loss() -> Tensor:
        optimizer.zero_grad()
        told = F.cross_entropy(given @ weight[1:] + weight[0], right) + _DECAY * weight[1:].square().sum()
        told.backward()
        return told

    with torch.enable_grad():
        optimizer.step(loss)
    said = (x[held] @ weight[1:] + weight[0]).argmax(-1)
    return float((said == gold[held]).double().mean())


def _between(x: Tensor, gold: Tensor, labels: int) -> np.ndarray:
    """Of each dimension the share of its variance that lies between the means of labels (eta squared)."""
    sizes = torch.bincount(gold, minlength=labels).double()
    means = torch.zeros(labels, x.shape[1], dtype=x.dtype).index_add_(0, gold, x) / sizes.clamp(min=1)[:, None]
    centred = means - x.mean(0)
    total = x.var(0, correction=0).clamp(min=math.ulp(1.0))
    return ((sizes / len(gold)) @ centred.square() / total).numpy()
