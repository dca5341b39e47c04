"""Claims about heads: how many of them a trained model needs, and what for."""

import datetime
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headwise.compare.bench import Bench, by_group
from headwise.compare.claim import Claim, Evidence
from headwise.compare.verdicts import Cell, Control, Interval, above, beyond
from headwise.data.dependencies import Parsed, read_dependencies
from headwise.explain.heads import describe, roles
from headwise.predictors.ablating import examples, heads_of, likelihood, muted_in_turn
from headwise.predictors.predictor import Predictor
from headwise.predictors.relations import relation_scores
from headwise.records import Mute, edit
from headwise.training import loading
from headwise.training.loading import recipe_of

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
    bench: Bench, where: str, recipe: str, settings: Sequence[str], metric: str, *, seeds: int, sample: int, count: int
) -> Evidence:
    """The claim of one task, with so many seeds, validation examples to find an order, and test examples."""
    rows = []
    for run in bench.models(where, recipe, settings, range(1, 1 + seeds)):
        valid, test = loading.examples(run, "valid")[:sample], loading.examples(run, "test")[:count]
        rows.append(removals(loading.load(run), valid, test, metric))
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


def _can_go(bench: Bench) -> Evidence:
    seeds = 6 if bench.full else 4
    settings = ["model={kind='attention',d_model=32,d_ff=64,num_heads=4,encoder_layers=2,dropout=0.3}"]
    if not bench.full:
        settings += ["data.limit=2000", "training.max_epochs=6"]
    cells, controls = _of_task(bench, "sentiment", "sst2", settings, "accuracy", seeds=seeds, sample=16, count=600)
    if bench.full:
        settings = bench.drawn("sort", 10_000)
    else:
        settings = bench.drawn("sort", 4000, test=400, symbols=6, longest=6)
        small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
        settings += ["training.learning_rate=5e-3", "training.batch_tokens=512"]
        settings += [f"model.{key}={value}" for key, value in small.items()]
    sample, count = (16, 500) if bench.full else (8, 100)
    others = _of_task(bench, "sorting", "sort", settings, "exact", seeds=seeds, sample=sample, count=count)
    return [*cells, *others[0]], [*controls, *others[1]]


def roles_of(predictor: Predictor[Any, Any, Any], sentences: Sequence[Parsed]) -> dict[str, list[list[float]]]:
    """The mean weight of each head on the word before, on the word behind, and on punctuation: a list a sentence."""
    rows: dict[str, list[list[float]]] = {"previous": [], "next": [], "separator": []}
    for sentence in sentences:
        explanation = predictor.explain(predictor.parse(" ".join(sentence.words)))
        marks = np.array([not any(map(str.isalnum, word)) for word in sentence.words])
        layers = [layer for layer in explanation.layers.values() if layer.kind == "self"]
        tables = [
            describe(layer.weights, one_sequence=True) | roles(layer.weights, sentence.words, marks, causal=False)
            for layer in layers
        ]
        for role, row in rows.items():
            if all(role in table for table in tables):
                row.append([float(weight) for table in tables for weight in table[role]])
    return rows


def _role(predictor: Predictor[Any, Any, Any], valid: Sequence[Parsed], test: Sequence[Parsed]) -> dict[str, float]:
    """The weight that the best head of each role has, and how far the best head for a relation is above a distance.

    What is best is chosen on the one part and measured on the other.
    """
    chosen, measured = (roles_of(predictor, part) for part in (valid, test))
    accuracies = {
        role: float(np.mean(measured[role], 0)[np.mean(chosen[role], 0).argmax()])
        for role in ("previous", "next", "separator")
    }
    # the relation is chosen on the first half, as the head is, and measured on the other
    first = relation_scores(predictor, valid[::2], valid[1::2])[0].relation
    score = next(score for score in relation_scores(predictor, valid, test) if score.relation == first)
    return {**accuracies, "relation": score.accuracy - score.baseline, "offset": score.baseline}


def _have_roles(bench: Bench) -> Evidence:
    count = 500 if bench.full else 150
    settings = ["model={kind='attention',d_model=64,d_ff=128,num_heads=4,encoder_layers=2,dropout=0.1}"]
    settings += ["training.validate_every_epochs=0"]
    if not bench.full:
        settings += ["data.limit=4000", "training.max_steps=400"]
    runs = bench.models("parts of speech", "ewt-upos", settings, range(1, 7 if bench.full else 4))
    data = recipe_of(runs[0]).model_dump()["data"]
    parts = [list(itertools.islice(read_dependencies(data[part]), count)) for part in ("valid", "test")]
    rows = [_role(loading.load(run), *parts) for run in runs]
    right = min(loading.load(run).evaluate(loading.examples(run, "test")[:count])["accuracy"] for run in runs)
    (untrained,) = bench.models("before training", "ewt-upos", [*settings, "training.max_steps=1"], [1])
    floor = _role(loading.load(untrained), *parts)
    names = {"previous": "the word before", "next": "the word behind", "separator": "punctuation"}
    cells = [
        beyond(f"weight of a head on {what}", Interval.of([row[role] for row in rows]), 0.5, 0.25)
        for role, what in names.items()
    ]
    margins = Interval.of([row["relation"] for row in rows])
    cells.append(above("a head for a relation, above the best distance", margins, 0.1))
    return cells, [
        Control("the models tag words", float(right) > 0.75, float(right)),
        Control("a model before training has no head for the word before", floor["previous"] < 0.25, floor["previous"]),
    ]


CLAIMS = [
    Claim(
        name="heads-have-roles",
        sentence=(
            "Some heads attend to the word before, some to the word behind, some to punctuation, and some join words "
            "as a grammar does."
        ),
        source="Clark et al. 2019, What does BERT look at?, arXiv:1906.04341",
        rule=(
            "in taggers of UD English EWT, the head that gives most weight to the word before (behind, to "
            "punctuation) gives it more than 0.5, refuted below 0.25; the head that finds a relation best, relation "
            "and head chosen on validation sentences, finds it in test sentences more than 0.1 more often than the "
            "best fixed distance does; with all of the 95 % interval over seeds"
        ),
        weakness=(
            "small taggers of one corpus in place of BERT; a role that no head of two layers has may need more of them"
        ),
        across="weight",
        written=datetime.date(2026, 11, 26),
        trial=_have_roles,
    ),
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
        weakness=(
            "eight heads at most: a fifth is two of them; the order of removal is greedy, and another order may "
            "lose less"
        ),
        written=datetime.date(2026, 11, 26),
        trial=_can_go,
    ),
]
