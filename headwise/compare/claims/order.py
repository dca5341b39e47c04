"""Claims about where things stand in a sequence, by models that are trained: forgetting, position, pooling."""

import datetime
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from headwise.compare.bench import Bench, Comparison, Design, budget, rates
from headwise.compare.claim import Claim, Evidence
from headwise.compare.claims.weighing import dropped, guessed, learned, scores, told_apart
from headwise.compare.experiment import Arm
from headwise.compare.sides import examples_variance
from headwise.compare.verdicts import Cell, Control, Interval, above, larger, trend
from headwise.training.loading import examples, load

_WRITTEN = datetime.date(2026, 11, 26)
# of four symbols
_GUESSED = 0.25


def _forgetting(bench: Bench) -> Evidence:
    """The first of 2 to 12 symbols (full: 48), named after all were read, by how many they were."""
    full = bench.full
    # a plain recurrent network learns nothing of inputs of up to 24 in a quick run, so that it has nothing to forget
    longest, near, between = (48, 8, 16) if full else (12, 6, 9)
    data = bench.drawn("recall", 10_000 if full else 4000, symbols=4, shortest=2, longest=longest)
    spans = {"near": range(near + 1), "between": range(near + 1, between + 1), "far": range(between + 1, longest + 1)}
    settings = [*data, *budget(2000 if full else 500, 512)]
    cells = ("rnn", "gru", "lstm") if full else ("rnn", "gru")
    sides = {cell: Arm("recall", (f"model.cell={cell}", "model.score=none")) for cell in cells}
    if full:
        sides["attention"] = Arm("recall", ("model.cell=gru",))
    where = "recall"
    compared = bench.train(where, Design(sides, "exact", settings, rates(5e-3)))

    def span(pair: Any) -> str:
        return next(name for name, lengths in spans.items() if len(pair.source.split()) in lengths)

    trends = []
    for cell in cells:
        scores_of = [bench.score_by(run, "exact", span) for run in compared.folders(cell).values()]
        rows = [[1 - by_span[name].value() for name in spans] for by_span in scores_of]
        if rows and 1 - fmean(row[0] for row in rows) < _GUESSED + 0.1:
            bench.notes.append(f"{where}: {cell} dropped by rule, no better than guessing where it is near")
        elif len(rows) > 1:
            # near and far are other examples
            spread = sum(examples_variance([by_span[name] for by_span in scores_of]) for name in ("near", "far"))
            trends.append(trend(f"{cell}: errors by distance", rows, 0.05, spread))
    best = compared.best()
    return trends, [learned(where, compared, best, 0.9), guessed(where, compared, _GUESSED), told_apart(trends)]


def _field(bench: Bench) -> Evidence:
    """One head that has to look so many symbols back, before and after training."""
    # below 8, where t5 has a number for each distance
    distances = (1, 2, 6) if bench.full else (1, 4)
    data = {
        amount: bench.drawn("shift", 4000 if bench.full else 1000, test=300, symbols=12, shortest=10, amount=amount)
        for amount in distances
    }
    sides = {f"{amount} back": Arm("shift", tuple(data[amount])) for amount in distances}
    trained = bench.train("training", Design(sides, "accuracy", budget(400 if bench.full else 150, 1024), rates(8e-3)))
    still = [*budget(1, 64), "training.learning_rate=1e-9"]
    fresh = bench.train("before training", Design(sides, "accuracy", still))
    cells, controls = list[Cell](), list[Control]()
    for amount in distances:
        name = f"{amount} back"
        cells.append(above(f"weight {amount} back", _weight(trained, name, amount), 0.5))
        before, other = _weight(fresh, name, amount), max(set(distances) - {amount})
        controls.append(Control(f"{amount} back before training: weights are even", before.value < 0.25, before.value))
        elsewhere = _weight(trained, name, other)
        controls.append(
            Control(f"trained for {amount} back, {other} back has less", elsewhere.value < 0.3, elsewhere.value)
        )
        controls.append(learned("training", trained, name, 0.7))
    return cells, controls


def _weight(compared: Comparison, side: str, distance: int) -> Interval:
    """The mean weight that far back, over seeds: of the head that has the most."""
    return Interval.of([_weight_of(run, distance) for run in compared.folders(side).values()])


def _weight_of(run: Path, distance: int) -> float:
    predictor, weights = load(run), list[Any]()
    for sentence in examples(run, "test")[:30]:
        (layer,) = (layer for layer in predictor.explain(sentence).layers.values() if layer.kind == "self")
        weights.append(np.diagonal(layer.weights, -distance, 1, 2).mean(1))
    return float(np.mean(weights, 0).max())


def _first_word(bench: Bench) -> Evidence:
    """Parts of speech by the place of the word, by a Transformer that knows places and by one that does not."""
    full = bench.full
    model = (
        "{" + f'kind="attention",d_model={128 if full else 64},d_ff=128,num_heads=4,encoder_layers=1,dropout=0.3' + "}"
    )
    settings = [f"model={model}", *budget(600 if full else 100, 2048)]
    settings += [] if full else ["data.limit=1500", "spelling.vocab_size=3000", "tokenizer.vocab_size=2000"]
    names = ("none", "sinusoidal", "rotary") if full else ("none", "sinusoidal")
    compared = bench.train(
        "parts of speech", Design(scores("ewt-upos", "model.position", names), "accuracy", settings, rates(4e-3))
    )
    firsts = {name: {seed: _first_right(run) for seed, run in compared.folders(name).items()} for name in names}
    cells = []
    for name in names[1:]:
        seeds = sorted(firsts[name].keys() & firsts["none"].keys())
        gains = [(firsts[name][seed] - firsts["none"][seed]).tolist() for seed in seeds]
        cells.append(larger(f"{name}: first word", Interval.across(gains), 0.01))
    run = next(iter(compared.folders("none").values()))
    first, all_words = _verbs(examples(run, "train"))
    cells.append(larger("verbs are rarer at the beginning", Interval.exact(all_words - first), 0.01))
    return cells, [guessed("parts of speech", compared, 0.2)]


def _first_right(run: Path) -> np.ndarray:
    """Whether the first word of each test sentence is tagged right."""
    sentences = examples(run, "test")
    predictor: Any = load(run)
    pairs = zip(sentences, predictor.tag(sentences), strict=True)
    return np.array([tags[0] == sentence.tags[0] for sentence, tags in pairs if sentence.tags], dtype=float)


def _verbs(sentences: Iterable[Any]) -> tuple[float, float]:
    """The share of verbs among first words, and among all."""
    tags = [sentence.tags for sentence in sentences if sentence.tags]
    every = [tag for row in tags for tag in row]
    return sum(row[0] == "VERB" for row in tags) / len(tags), every.count("VERB") / len(every)


def _pooling(bench: Bench) -> Evidence:
    """Whether brackets are balanced, and in full sentiment, by how states become one vector."""
    full = bench.full
    brackets = bench.drawn("brackets", 10_000 if full else 4000, longest=12 if full else 8)
    designs = {"brackets": ("brackets", [*brackets, "model.hidden_dim=32", *budget(400 if full else 150, 512)])}
    if full:
        designs["sentiment"] = ("sst2", budget(400, 1024))
    cells, controls = list[Cell](), list[Control]()
    for where, (recipe, settings) in designs.items():
        sides = scores(recipe, "pooling.kind", ("attention", "last", "mean", "max"))
        compared = bench.train(where, Design(sides, "accuracy", settings, rates(4e-3)))
        if dropped(bench, where, compared, 0.6):
            continue
        best = compared.best(["last", "mean", "max"])
        cells.append(larger(f"{where}: ahead of {best}", compared.difference("attention", best), 0.01))
        controls.append(guessed(where, compared, 0.6))
    return cells, [*controls, told_apart(cells)]


CLAIMS = [
    Claim(
        name="rnn-forgets",
        sentence="Recurrent networks forget what was far back.",
        source="lecture notes, row S131; Bengio et al. 1994, Learning long-term dependencies is difficult",
        rule=(
            "errors in naming the first symbol of up to 12 rise with the distance from up to 6 over 7 to 9 to more"
            " (full: of up to 48, from up to 8 over 9 to 16 to more; Page's test, p < 0.05) by 5 points or more, with"
            " all of the 95 % interval above 0; refuted where the 95 % interval of the rise, over seeds and"
            " examples, is"
            " below that; a condition for each kind of cell, each with the rate that validation chose; a kind that does"
            " no better than guessing where it is near has nothing to forget, and is dropped"
        ),
        weakness=(
            "one symbol of short drawn inputs (version 3 counted up to 4 as near, of which the test has 19);"
            " rates are tuned on all distances together; a plain network that is"
            " trained for longer goes on to learn far ones, so that errors are of one point of training"
        ),
        across="rise of errors, far - near",
        written=datetime.date(2026, 11, 27),
        version=4,
        trial=_forgetting,
    ),
    Claim(
        name="attention-learns-its-receptive-field",
        sentence="Training sets how far attention looks, and it fits the data.",
        source="lecture notes, row S142",
        rule=(
            "after training, the mean weight of a single head at the distance that the task asks for is above 0.5 with"
            " all of the 95 % interval over seeds; a cell for each distance; controls: before training it is below"
            " 0.25, and a head that is trained for one distance has less than 0.3 at another"
        ),
        weakness=(
            "the task asks for one distance, text for many; t5 has a number for each distance below 8 and shares one"
            " from 8 on: version 1 asked for 8 back too, where a head reaches 0.47, which tells of the scheme, not of"
            " training; the best rate is among the largest tried"
        ),
        across="mean weight at the distance",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_field,
    ),
    Claim(
        name="position-cues-the-first-word",
        sentence="Positions help to tag the first word, since verbs rarely open a sentence.",
        source="lecture notes, row S143",
        rule=(
            "the accuracy of first words with positions is 1 point or more above that without, with all of the 95 %"
            " interval over seeds and sentences above 0, a cell for each kind of position; and the share of verbs"
            " among first words is 1 point or more below that among all"
        ),
        weakness=(
            "places help by neighbours too, which a flag of first words alone would tell apart; the best rate is "
            "the largest one tried, for both sides alike"
        ),
        across="right first words, difference",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_first_word,
    ),
    Claim(
        name="pooling-by-attention-is-best",
        sentence="States are best joined by attention.",
        source="lecture notes, row S144; Wiegreffe and Pinter 2019, arXiv:1908.04626, finds the mean level",
        rule=(
            "the accuracy of attention pooling is 1 point or more above that of the best one of last, mean and max,"
            " with all of the 95 % interval over seeds and examples above 0; a cell for each data set; data at which"
            " all are above 98 % or at chance are dropped"
        ),
        weakness=(
            "attention pooling has more parameters than its rivals (30 against 13 thousand); the best other is chosen"
            " by the same scores, against the claim; last and mean have their best rate at the end of those tried, and"
            " all are near the ceiling; sentiment is in the full variant alone"
        ),
        across="accuracy, attention - the best other",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_pooling,
    ),
]
