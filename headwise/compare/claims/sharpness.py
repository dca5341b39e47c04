"""Claims about where softmax puts weight that has nowhere to go, or too many places to go to."""

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwise.compare.bench import Bench, Design, budget, by_group
from headwise.compare.claim import Claim, Evidence
from headwise.compare.experiment import Arm
from headwise.compare.verdicts import Cell, Control, Interval, below, beyond
from headwise.predictors.predictor import Predictor
from headwise.training import loading

_WRITTEN = datetime.date(2026, 11, 26)
_ONE_HEAD = "{kind='attention',d_model=64,d_ff=0,num_heads=1,encoder_layers=1,causal=true,position='rotary',dropout=0.0"
# where the first place is too near, and of how many times its fair share a sink has
_NEAR, _SINK = 8, 5.0


def weight_of_largest(predictor: Predictor[Any, Any, Any], texts: Sequence[str]) -> float:
    """The mean weight of the word with the largest number in a pooling, of texts of `headwise data make largest`."""
    weights = []
    for text in texts:
        place = max(enumerate(text.split()), key=lambda word: int(word[1][:2]))[0]
        layers = predictor.explain(predictor.parse(text)).layers.values()
        weights.append(next(layer.mean()[0, place] for layer in layers if layer.kind == "pooled"))
    return float(np.mean(weights))


def _dilutes(bench: Bench) -> Evidence:
    lengths, count = ((16, 64, 256, 1024), 200) if bench.full else ((16, 128, 1024), 60)
    settings = [*bench.drawn("largest", 10_000 if bench.full else 4_000, test=400), "data.max_len=2048"]
    settings += ["model={kind='token',d_model=64,d_ff=64,dropout=0.0}", "training.learning_rate=5e-3"]
    settings += budget(1500 if bench.full else 600, 2048)
    longer = {
        length: bench.drawn("largest", 1, test=count, shortest=length, longest=length)[2].partition("=")[2]
        for length in lengths
    }
    # the scale is about what the paper of scalable softmax finds learned: arXiv:2501.19399
    names = {"softmax": "softmax", "scalable softmax": "scalable:scale=0.43", "1.5-entmax": "entmax15"}
    sides = {what: Arm("odd", (f"pooling={{kind='attention',normalizer='{name}'}}",)) for what, name in names.items()}
    trained = bench.train("the largest of 2 to 16 numbers", Design(sides, "accuracy", settings))
    cells: list[Cell] = []
    for name in sides:
        slopes, right = [], []
        for run in trained.folders(name).values():
            predictor = loading.load(run)
            parts = [loading.examples(run, "test", {"test": path}) for path in longer.values()]
            weights = [weight_of_largest(predictor, [case.text for case in part]) for part in parts]
            slopes.append(float(np.polyfit([math.log2(length) for length in longer], weights, 1)[0]))
            right.append(by_group(predictor, parts[-1], "accuracy"))
        cells.append(beyond(f"{name}: weight of the largest, a doubling", Interval.of(slopes), -0.02, 0.0))
        where = f"{name}: right answers among {lengths[-1]:,}, trained with 16"
        cells.append(below(where, Interval.across(right), 0.9))
    return cells, [
        Control(f"{name}: finds the largest at the lengths of training", trained.mean(name) > 0.85, trained.mean(name))
        for name in sides
    ]


def first_weight(predictor: Predictor[Any, Any, Any], texts: Sequence[str], copies: str) -> float:
    """The weight of the first place as a multiple of a fair share, where the next symbol is no copy of an earlier one.

    Args:
        texts: of `headwise data make backcopy`. copies: the symbols that a copy follows.
    """
    shares = []
    for text in texts:
        symbols = text.split()
        (layer,) = (layer for layer in predictor.explain(predictor.parse(text)).layers.values() if layer.kind == "self")
        rows = [place for place, symbol in enumerate(symbols) if place >= _NEAR and symbol not in copies]
        shares += [float(layer.mean()[place, 0]) * (place + 1) for place in rows]
    return float(np.mean(shares))


def _sinks(bench: Bench) -> Evidence:
    settings = bench.drawn("backcopy", 10_000 if bench.full else 2_000, test=200, symbols=24, shortest=24, longest=32)
    settings += budget(2_000 if bench.full else 400, 1024)
    sides = {
        name: Arm("shift", (f"model={_ONE_HEAD},normalizer='{name}'}}",)) for name in ("softmax", "softmax1", "sigmoid")
    }
    trained = bench.train("a chain with copies", Design(sides, "accuracy", settings))
    multiples: dict[str, list[float]] = {}
    for name in sides:
        runs = trained.folders(name).values()
        multiples[name] = [_multiple(run) for run in runs]
    (before,) = bench.models(
        "before training", "shift", [*settings, sides["softmax"].settings[0], "training.max_steps=1"], [0]
    )
    floor, chance = _multiple(before), 1 / 3
    where = "softmax: weight of the first place, as a multiple of its share"
    # sinks grow late and with depth: a share between a fair one and a sink's refutes nothing
    cells = [beyond(where, Interval.of(multiples["softmax"]), _SINK, 1.0)]
    if cells[0].outcome == "holds":
        cells += [
            below(f"{name}: the same, of which it has none", Interval.of(multiples[name]), _SINK)
            for name in ("softmax1", "sigmoid")
        ]
    else:
        # that others have none says something where softmax has one
        others = ", ".join(f"{name} {np.mean(multiples[name]):.3g}" for name in ("softmax1", "sigmoid"))
        bench.notes.append(f"not judged, since softmax has no sink to be without: {others}")
    learned = min(trained.mean(name) for name in sides)
    return cells, [
        Control("the models tell the next symbol better than its predecessor alone allows", learned > chance, learned),
        Control("a model before training has no sink", floor < _SINK / 3, floor),
    ]


def _multiple(run: Path) -> float:
    texts = [case.text for case in loading.examples(run, "test")[:50]]
    # the last eighth of 24 letters
    return first_weight(loading.load(run), texts, "vwx")


CLAIMS = [
    Claim(
        name="attention-dilutes",
        sentence="A softmax head that is sharp at the lengths of training is not at lengths far beyond.",
        source="Veličković et al. 2024, softmax is not enough (for sharp out-of-distribution), arXiv:2410.01104",
        rule=(
            "of a pooling that finds the largest of 2 to 16 numbers, the weight of the largest falls by more than"
            " 0.02 with each doubling of the numbers up to 1,024, refuted where it does not fall, and it is right on"
            " less than 0.9 of texts of 1,024; with all of the 95 % interval over seeds, of right answers over texts"
            " too; a cell for each normalizer"
        ),
        weakness="one problem, one pooling head; the scale of scalable softmax is a constant here, not learned",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_dilutes,
    ),
    Claim(
        name="first-token-sink",
        sentence=(
            "A softmax head with nothing to attend to puts its weight on the first token; where weights need not sum "
            "to one, it does not."
        ),
        source=(
            "Xiao et al. 2023, Efficient streaming language models with attention sinks, arXiv:2309.17453; on the "
            "drawn chain of Guo et al. 2024, arXiv:2410.13835; its cause, Gu et al. 2024, arXiv:2410.10781"
        ),
        rule=(
            "where nothing is to be copied, the weight of the first place is more than 5 times 1 / i for a query at "
            "place i with softmax (refuted where it is less than 1 / i); and, judged where that holds, less than"
            " 5 times "
            "that with softmax1 and with sigmoid; with all of the 95 % interval over seeds; a cell for each normalizer"
        ),
        weakness=(
            "one head and 400 steps (full: 2,000): sinks grow late and with depth (arXiv:2410.10781), so that a "
            "small weight refutes nothing"
        ),
        across="multiple of a fair share",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_sinks,
    ),
]
