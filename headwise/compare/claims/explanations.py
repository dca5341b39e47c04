"""Claims about attention as an explanation: whether its weights say why, by two definitions that disagree."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from headwise.compare.bench import GROUPS, Bench, Design, by_group
from headwise.compare.claim import Claim, Evidence
from headwise.compare.experiment import Arm
from headwise.compare.verdicts import Cell, Control, Interval, beyond, larger
from headwise.predictors.ablating import reweighted
from headwise.predictors.attribution.attribute import attribute
from headwise.predictors.looking import passes
from headwise.predictors.predictor import Predictor
from headwise.training.loading import examples, load

# words from which a sentence has enough places to rank
_SHORTEST = 6
_PERMUTATIONS = 50
# of a probability, what is as good as the same answer
_SAME = 0.01
_CELLS = (
    "tau of weights and gradient",
    "tau of weights and what hiding a word changes",
    "share of sentences with another word that alone gives the same answer",
)


def uniqueness(predictor: Predictor[Any, Any, Any], text: str, seed: int = 0) -> dict[str, float]:
    """How far the weights of a pooling over one text are an explanation as Jain and Wallace mean it.

    gradient, occlusion: Kendall's tau of the weights with |gradient x input|, and with the size of the change where a
    token is hidden; permuted: the median change of the probabilities (total variation) where weights change places;
    other: 1 where all weight on another token than the heaviest gives the same answer within 0.01; sure: 1 where the
    answer is above 0.99, which hardly anything changes; shuffled: tau of the weights with themselves in another order.
    """
    with passes() as model_passes:
        layers = predictor.explain(text).layers
    name = next(name for name in layers if layers[name].kind == "pooled")
    weights = torch.as_tensor(layers[name].mean()[0], dtype=torch.float32)
    random = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(weights), generator=random) for _ in range(_PERMUTATIONS)]
    rows = torch.stack([weights, *(weights[order] for order in orders), *torch.eye(len(weights))])
    answers = reweighted(model_passes[-1].model_pass, f"{name}*", rows).softmax(-1)
    changes = (answers[1:] - answers[0]).abs().sum(-1) / 2
    alone = changes[len(orders) :].clone()
    alone[weights.argmax()] = torch.inf
    importance = {by: attribute(predictor, text, by).layers[by].mean()[0] for by in ("gradient", "occlusion")}
    return {
        **{by: float(stats.kendalltau(weights, sizes).statistic) for by, sizes in importance.items()},
        "permuted": float(changes[: len(orders)].median()),
        "other": float(alone.min() <= _SAME),
        "sure": float(answers[0].max() > 1 - _SAME),
        "shuffled": float(stats.kendalltau(weights, weights[orders[0]]).statistic),
    }


def _rows(run: Path, count: int) -> Iterator[dict[str, float]]:
    texts = [example.text for example in examples(run, "test")]
    chosen = [text for text in texts if len(text.split()) >= _SHORTEST][:count]
    predictor = load(run)
    yield from (uniqueness(predictor, text, seed) for seed, text in enumerate(chosen))


def _not_unique(bench: Bench) -> Evidence:
    settings = [] if bench.full else ["data.limit=2000", "training.max_epochs=5"]
    seeds, count = (range(1, 7), 100) if bench.full else (range(1, 4), 40)
    bounds = {"gradient": (0.5, 0.7), "occlusion": (0.5, 0.7), "other": (0.5, 0.2)}
    cells, controls = [], []
    for encoder, kind in (("GRU", []), ("tokens alone", ["model={kind='token',d_model=64,dropout=0.5}"])):
        runs = bench.models(encoder, "sst2", [*settings, *kind], seeds)
        table = [list(_rows(run, count)) for run in runs]
        right = min(sum(by_group(load(run), examples(run, "test"), "accuracy")) / GROUPS for run in runs)
        means = {name: Interval.across([[row[name] for row in seed] for seed in table]) for name in table[0][0]}
        for (name, (holds, refuted)), what in zip(bounds.items(), _CELLS, strict=True):
            cells.append(beyond(f"{encoder}: {what}", means[name], holds, refuted))
        chance, sure = means["shuffled"].value, means["sure"].value
        controls += [
            Control(f"{encoder}: the models classify better than chance", right > 0.6, right),
            Control(f"{encoder}: not all answers are sure", sure < 0.6, sure),
            Control(f"{encoder}: weights in another order agree by chance alone", abs(chance) < 0.1, chance),
        ]
    return cells, controls


# pairs of a letter and a digit and one of the letters as a text, and the digit that stood behind it as its label
_LOOKUP = (
    "data.columns=[0,1]",
    "tokenizer={kind='word',min_frequency=1}",
    "model={kind='rnn',cell='gru',d_model=32,hidden_dim=32,num_layers=1,dropout=0.0}",
    "training.learning_rate=1e-2",
    "training.max_epochs=10",
)


def _uniform(number: int, weights: np.ndarray) -> np.ndarray:
    return np.full_like(weights, 1 / max(1, len(weights)))


def guides(run: Path, test: int | None) -> dict[str, list[float]]:
    """For each test text whether a classifier of single words is right that is given weights, by whose they are.

    learned: the model's own; uniform; adversary: those of a model that answers alike. whole, other: whether the model,
    and this other one, are right.
    """
    model: Any = load(run)
    parts = examples(run, "train"), examples(run, "test")[:test]
    other = model.adversary(parts[0])
    texts, labels = [example.text for example in parts[1]], [str(example.label) for example in parts[1]]
    rows = {
        "learned": model.guide(*parts),
        "uniform": model.guide(*parts, _uniform),
        "adversary": other.guide(*parts),
        "whole": [verdict.label == label for verdict, label in zip(model.predict(texts), labels, strict=True)],
        "other": [verdict.label == label for verdict, label in zip(other.predict(texts), labels, strict=True)],
    }
    return {name: [float(right) for right in row] for name, row in rows.items()}


def _sides(query: str) -> dict[str, Arm]:
    """A pooling with weights of its own, and one with all alike."""
    learned = f"pooling={{kind='attention',query='{query}'}}"
    return {"learned": Arm("sst2", (learned,)), "uniform": Arm("sst2", ("pooling={kind='mean'}",))}


def _not_not(bench: Bench) -> Evidence:
    cells: list[Cell] = []
    small = [] if bench.full else ["data.limit=1500", "training.max_epochs=5"]
    sentiment = bench.train("sentiment", Design(_sides("learned"), "accuracy", small))
    drawn = (
        bench.drawn("lookup", 10_000) if bench.full else bench.drawn("lookup", 4_000, test=400, symbols=6, longest=3)
    )
    lookup = bench.train("looking up a letter", Design(_sides("last"), "accuracy", [*drawn, *_LOOKUP]))
    for where, comparison in (("sentiment", sentiment), ("looking up a letter", lookup)):
        difference = comparison.difference("learned", "uniform")
        cells.append(larger(f"{where}: learned weights above uniform ones", difference, 0.01))
    size = None if bench.full else 600
    rows = [guides(run, size) for run in sentiment.folders("learned").values()]
    tables = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for name, what in (("adversary", "those of an adversary"), ("uniform", "uniform ones")):
        difference = Interval.across((tables["learned"] - tables[name]).tolist())
        cells.append(
            larger(f"sentiment by single words that are given weights: learned above {what}", difference, 0.01)
        )
    worse, right = float((tables["whole"] - tables["other"]).mean()), float(tables["learned"].mean())
    looked_up = lookup.mean("learned")
    return cells, [
        Control("the adversary is right as often as the model", worse < 0.03, worse),
        Control("a classifier of single words is better than chance", right > 0.6, right),
        Control("with a letter asked for, learned weights look it up", looked_up > 0.8, looked_up),
    ]


CLAIMS = [
    Claim(
        name="weights-are-not-unique",
        sentence=(
            "Attention weights are no explanation: they hardly agree with gradients or with leaving words out, and "
            "other weights give the same answer."
        ),
        source="Jain and Wallace 2019, Attention is not explanation, arXiv:1902.10186",
        rule=(
            "on sentences of SST-2 of 6 words or more, Kendall's tau of the weights of a pooling with |gradient x "
            "input| and with the change by hiding each word is below 0.5, refuted above 0.7; another word alone gives "
            "the same answer within 0.01 in more than half of the sentences, refuted below a fifth; with all of the "
            "95 % interval over seeds and sentences; a cell for each measure and encoder"
        ),
        weakness=(
            "a weight on a state that has read its neighbours is no weight on a word, and shuffled weights are "
            "none that training gives"
        ),
        written=datetime.date(2026, 11, 26),
        trial=_not_unique,
    ),
    Claim(
        name="attention-is-not-not-explanation",
        sentence=(
            "Attention weights are not no explanation: learned ones do better than uniform ones, and what they say "
            "helps another model, which weights of an adversary do not."
        ),
        source="Wiegreffe and Pinter 2019, Attention is not not explanation, arXiv:1908.04626",
        rule=(
            "a classifier with learned weights is right 0.01 more often than one with uniform weights, trained alike, "
            "and so is one that reads single words and is given the learned weights, than one that is given those of a "
            "model that answers alike with other weights, or uniform ones; with all of the 95 % interval above 0, over "
            "seeds and sentences; a cell for each task and kind of weights"
        ),
        weakness=(
            "nothing is tuned; learned weights bring parameters of their own; the adversary is one way to find "
            "other weights"
        ),
        across="accuracy, difference",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_not_not,
    ),
]
