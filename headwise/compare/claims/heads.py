"""Claims about heads: how many of them a trained model needs, and what for."""

import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import headwise
from headwise.compare.claim import Claim, Evidence
from headwise.compare.trained import by_group, drawn, trained
from headwise.compare.verdicts import Cell, Control, Interval, above
from headwise.data.synthetic import Sizes
from headwise.predictors.ablating import examples, heads_of, likelihood, muted_in_turn
from headwise.predictors.predictor import Predictor
from headwise.records import Mute, edit
from headwise.training import loading

# of a share of right answers, what is no loss
_LOSS = 0.01


class Removals(NamedTuple):
    """What a model loses without heads: the scores of groups of the test data, and how many heads can go one by one.

    Args:
        whole, fifth, half, none: of all heads, without a fifth of them, without half, without any.
        single: share of the heads whose removal alone costs at most 0.01.
    """

    whole: list[float]
    fifth: list[float]
    half: list[float]
    none: list[float]
    single: float


def removals(predictor: Predictor[Any, Any, Any], valid: Sequence[Any], test: Sequence[Any], metric: str) -> Removals:
    """What a model loses of a score, its heads muted in the order in which answers to the validation data need them."""
    cases = examples(predictor, [predictor.input_of(case) for case in valid])
    # what makes one vector of a text is no part of the encoder
    heads = [
        (name, head)
        for name, count in heads_of(cases[0]).items()
        if not name.startswith("pooling")
        for head in range(count)
    ]
    turns = itertools.islice(muted_in_turn(likelihood(predictor, cases), heads), 1, 1 + len(heads) // 2)
    order = [Mute(muted.layer or "", muted.head or 0) for muted in turns]

    def scores(gone: Sequence[Mute]) -> list[float]:
        with edit(predictor.model, *gone):
            return by_group(predictor, test, metric)

    whole = scores([])
    alone = [sum(whole) - sum(scores([Mute(*head)])) for head in heads]
    return Removals(
        whole,
        scores(order[: -(-len(heads) // 5)]),
        scores(order),
        scores([Mute(*head) for head in heads]),
        sum(loss <= _LOSS * len(whole) for loss in alone) / len(heads),
    )


def _of_task(
    where: str, recipe: str, settings: Sequence[str], metric: str, *, seeds: int, sample: int, count: int
) -> Evidence:
    """The claim of one task, with so many seeds, validation examples to find an order, and test examples."""
    with trained(recipe, settings, range(1, 1 + seeds)) as runs:
        rows = []
        for run in runs:
            valid, test = loading.examples(run, "valid")[:sample], loading.examples(run, "test")[:count]
            rows.append(removals(headwise.load(run), valid, test, metric))
    cells: list[Cell] = []
    for what, fewer in (
        ("a fifth of the heads", [row.fifth for row in rows]),
        ("half of them", [row.half for row in rows]),
    ):
        gains = np.subtract(fewer, [row.whole for row in rows]).tolist()
        cells.append(above(f"{where}: without {what}, it scores", Interval.across(gains), -_LOSS))
    singles = Interval.of([row.single for row in rows])
    cells.append(above(f"{where}: share of heads that can go alone", singles, 0.5))
    whole, none = (Interval.across(table).value for table in ([row.whole for row in rows], [row.none for row in rows]))
    return cells, [
        Control(f"{where}: whole models know their task", whole > 0.6, whole),
        Control(f"{where}: a model without heads is worse", none < whole - 0.01, none),
    ]


def _can_go(full: bool) -> Evidence:
    seeds = 6 if full else 4
    settings = ["model={kind='attention',d_model=32,d_ff=64,num_heads=4,encoder_layers=2,dropout=0.3}"]
    if not full:
        settings += ["data.limit=2000", "training.max_epochs=6"]
    cells, controls = _of_task("sentiment", "sst2", settings, "accuracy", seeds=seeds, sample=16, count=600)
    with TemporaryDirectory(prefix="headwise-claim-") as scratch:
        settings = drawn("sort", Path(scratch), Sizes() if full else Sizes(count=4000, symbols=6, longest=6))
        if not full:
            small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
            settings += ["training.learning_rate=5e-3", "training.batch_tokens=512"]
            settings += [f"model.{key}={value}" for key, value in small.items()]
        sample, count = (16, 500) if full else (8, 100)
        others = _of_task("sorting", "sort", settings, "exact", seeds=seeds, sample=sample, count=count)
    return [*cells, *others[0]], [*controls, *others[1]]


CLAIMS = [
    Claim(
        name="most-heads-can-go",
        sentence="Most heads of a trained model can be removed when it is used, at next to no loss.",
        source=(
            "Michel et al. 2019, Are sixteen heads really better than one?, arXiv:1905.10650; Voita et al. 2019, "
            "arXiv:1905.09418"
        ),
        rule=(
            "without a fifth, and without half of the heads (muted in the order in which the answers to validation "
            "data need them least) a model has at most 0.01 fewer right answers on test data, and more than half of "
            "the heads cost no more than that alone; with all of the 95 % interval over seeds and examples, refuted "
            "where all of it is beyond; a cell for each task"
        ),
        written=datetime.date(2026, 11, 26),
        measure=_can_go,
    ),
]
