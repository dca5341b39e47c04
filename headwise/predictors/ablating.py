"""How much a model needs each of its heads: what changes in its answers when one head alone is muted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import Unsupported
from headwise.predictors.looking import Pass, passes
from headwise.predictors.predictor import Predictor
from headwise.predictors.saying import Said, difference, said
from headwise.records import LayerRecord, Mute


@dataclass(frozen=True, eq=False)
class Example:
    """One pass of a model, and what it says in it."""

    seen: Pass
    said: Said


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
        pairs.append(Example(model_pass, said(predictor, model_pass)))
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
        effects = [difference(case.said, said(predictor, case.seen, [Mute(layer, head)])).effect for case in cases]
        yield Ablated(layer, head, {name: sum(row[name] for row in effects) / len(effects) for name in effects[0]})
