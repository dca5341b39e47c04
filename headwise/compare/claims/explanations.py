"""Claims about attention as an explanation: whether its weights say why, by two definitions that disagree."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from scipy import stats

import headwise
from headwise.compare.claim import Claim, Evidence
from headwise.compare.trained import GROUPS, by_group, trained
from headwise.compare.verdicts import Control, Interval, beyond
from headwise.predictors.ablating import reweighted
from headwise.predictors.attribution.attribute import attribute
from headwise.predictors.looking import passes
from headwise.predictors.predictor import Predictor
from headwise.training.loading import examples

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
    answers = reweighted(model_passes[-1], f"{name}*", rows).softmax(-1)
    changes = (answers[1:] - answers[0]).abs().sum(-1) / 2
    alone = changes[len(orders) :].clone()
    alone[weights.argmax()] = torch.inf
    found = {by: attribute(predictor, text, by).layers[by].mean()[0] for by in ("gradient", "occlusion")}
    return {
        **{by: float(stats.kendalltau(weights, sizes).statistic) for by, sizes in found.items()},
        "permuted": float(changes[: len(orders)].median()),
        "other": float(alone.min() <= _SAME),
        "sure": float(answers[0].max() > 1 - _SAME),
        "shuffled": float(stats.kendalltau(weights, weights[orders[0]]).statistic),
    }


def _rows(run: Path, count: int) -> Iterator[dict[str, float]]:
    texts = [example.text for example in examples(run, "test")]
    chosen = [text for text in texts if len(text.split()) >= _SHORTEST][:count]
    predictor = headwise.load(run)
    yield from (uniqueness(predictor, text, seed) for seed, text in enumerate(chosen))


def _not_unique(full: bool) -> Evidence:
    settings = [] if full else ["data.limit=2000", "training.max_epochs=5"]
    seeds, count = (range(1, 7), 100) if full else (range(1, 4), 40)
    bounds = {"gradient": (0.5, 0.7), "occlusion": (0.5, 0.7), "other": (0.5, 0.2)}
    cells, controls = [], []
    for encoder, kind in (("GRU", []), ("tokens alone", ["model={kind='token',d_model=64,dropout=0.5}"])):
        with trained("sst2", [*settings, *kind], seeds) as runs:
            table = [list(_rows(run, count)) for run in runs]
            right = min(sum(by_group(headwise.load(run), examples(run, "test"), "accuracy")) / GROUPS for run in runs)
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
        written=datetime.date(2026, 11, 26),
        measure=_not_unique,
    ),
]
