"""How much a model needs its attention: what changes as heads are muted, one alone or more and more, or reweighted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cancellation import poll_cancellation
from headwise.errors import ShapeError, Unsupported
from headwise.predictors.looking import Pass, passes
from headwise.predictors.outputs import Outputs, difference, outputs_of
from headwise.predictors.predictor import Predictor
from headwise.records import LayerRecord, Mute, Replace, edit


@dataclass(frozen=True, eq=False)
class Example:
    """One pass of a model, and what it says in it."""

    seen: Pass
    outputs: Outputs


@dataclass(frozen=True)
class Ablated:
    """What changes without one head: means over the examples, by what is measured."""

    layer: str
    head: int
    effect: dict[str, float]


def examples(predictor: Predictor[Any, Any, Any], items: Sequence[Any]) -> list[Example]:
    """The passes in which a model answers these inputs. Raises: Unsupported for a model without attention."""
    pairs = []
    for item in items:
        with passes() as model_passes:
            predictor.explain(item)
        if not model_passes:
            raise Unsupported("this model has no attention, so it has no heads to mute")
        model_pass = model_passes[-1].model_pass
        pairs.append(Example(model_pass, outputs_of(predictor, model_pass)))
    return pairs


def heads_of(example: Example) -> dict[str, int]:
    """The number of heads of each layer that takes part in a pass."""
    trace = example.seen.again()
    return {record.name: record.num_heads for record in trace if isinstance(record, LayerRecord) and record.calls}


def ablated(predictor: Predictor[Any, Any, Any], cases: Sequence[Example], layer: str, heads: int) -> Iterator[Ablated]:
    """The effect of muting each head of a layer alone, over these examples.

    The answers are those of the whole model: each place is asked how likely it still finds them. Nothing is searched
    for anew, and no weight is learned again, so heads that could stand in for each other look needless one by one.

    Source: Michel, Levy, Neubig 2019, arXiv:1905.10650, section 3.
    """
    for head in range(heads):
        effects = [
            difference(case.outputs, outputs_of(predictor, case.seen, [Mute(layer, head)])).effect for case in cases
        ]
        yield Ablated(layer, head, {name: sum(row[name] for row in effects) / len(effects) for name in effects[0]})


Head = tuple[str, int]


@dataclass(frozen=True)
class Muted:
    """The head that was muted next, and what remains without it and all before it; the first row is without none."""

    layer: str | None
    head: int | None
    score: float


def muted_in_turn(score: Callable[[Sequence[Mute]], float], heads: Sequence[Head]) -> Iterator[Muted]:
    """Heads muted one after another, each the one without which the score stays highest, until none is left.

    The order is greedy: which head comes next is found anew after each one, so that a head that stands in for one
    that is gone counts again. That takes about half the square of the number of heads in calls of `score`.

    Args:
        score: what a model is worth under these edits; larger is better.
        heads: (layer, number).
    Source: Michel, Levy, Neubig 2019, arXiv:1905.10650, section 4, whose order is fixed beforehand by a gradient.

    >>> worth = {("a", 0): 1.0, ("a", 1): 0.0}
    >>> score = lambda gone: 3.0 - sum(worth[edit.pattern, edit.heads] for edit in gone)
    >>> [(row.head, row.score) for row in muted_in_turn(score, list(worth))]
    [(None, 3.0), (1, 3.0), (0, 2.0)]
    """
    left, gone = list(heads), list[Mute]()
    yield Muted(None, None, score(gone))
    while left:
        scores = []
        for layer, head in left:
            poll_cancellation()
            scores.append(score([*gone, Mute(layer, head)]))
        place = max(range(len(left)), key=scores.__getitem__)
        layer, head = left.pop(place)
        gone.append(Mute(layer, head))
        yield Muted(layer, head, scores[place])


def likelihood(predictor: Predictor[Any, Any, Any], cases: Sequence[Example]) -> Callable[[Sequence[Mute]], float]:
    """What `muted_in_turn` keeps high: the mean log-probability, in nats, of what the whole model answered.

    Of a model that says numbers the mean size of their change, below 0.
    """

    def score(edits: Sequence[Mute]) -> float:
        effects = [difference(case.outputs, outputs_of(predictor, case.seen, edits)).effect for case in cases]
        return sum(effect["log_prob"] if "log_prob" in effect else -effect["change"] for effect in effects) / len(cases)

    return score


def reweighted(seen: Pass, layer: str, weights: Float[Tensor, "rows keys"]) -> Float[Tensor, "rows outputs"]:
    """What a model gives of one input with each of these rows in place of the weights of a layer with one query.

    All heads of the layer get the same row.

    Raises: ShapeError: the pass is of several inputs.
    """
    if any(isinstance(part, Tensor) and len(part) != 1 for part in seen.inputs):
        raise ShapeError("weights are replaced in the pass of one input")
    copies = [part.expand(len(weights), *part.shape[1:]) for part in seen.inputs]
    with edit(seen.model, Replace(layer, weights[:, None, None])), torch.no_grad():
        outputs: Tensor = Pass(seen.model, tuple(copies)).run()
    return outputs
