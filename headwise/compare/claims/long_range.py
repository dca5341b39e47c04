"""Claims about long inputs: whether the ranks of the Long Range Arena are found again, and what efficiency costs."""

import datetime
import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy import stats

from headwise.compare.bench import Bench, Comparison, Design, budget, rates
from headwise.compare.claim import Claim, Evidence
from headwise.compare.claims.reach import regret
from headwise.compare.claims.weighing import guessed
from headwise.compare.costs import one_pass, rounds_of, seconds
from headwise.compare.experiment import Arm
from headwise.compare.subjects import subject
from headwise.compare.suite import PUBLISHED, SUITES, arm
from headwise.compare.verdicts import Cell, Control, Interval, Outcome, beyond, larger
from headwise.training.loading import examples, load

# points between two averages of the paper from which they are an order
_APART = 2.0
_QUICK = ("scored", "linear", "local")
_FULL = ("scored", "linear", "local", "bigbird", "performer", "reformer")


def _names(bench: Bench) -> Sequence[str]:
    return _FULL if bench.full else _QUICK


def _lists(bench: Bench) -> Comparison:
    """ListOps."""
    full = bench.full
    data = bench.drawn(
        "listops", 20_000 if full else 4000, test=500, shortest=16, longest=128 if full else 48, amount=3
    )
    small = [] if full else ["model.d_model=32", "model.d_ff=64"]
    settings = [*data, *small, *budget(3000 if full else 200, 4096 if full else 1024)]
    sides = {name: arm("listops", name) for name in _names(bench)}
    return bench.train("ListOps", Design(sides, "accuracy", settings, rates(1e-3) if full else None))


def _characters(bench: Bench) -> Comparison:
    """Reviews of films, character by character."""
    small = [] if bench.full else ["model.d_model=32", "model.d_ff=64", "data.max_len=96"]
    settings = [*small, *budget(2000 if bench.full else 100, 4096 if bench.full else 1024)]
    sides = {name: arm("sst2-characters", name) for name in _names(bench)}
    design = Design(sides, "accuracy", settings, rates(1e-3) if bench.full else None, limit=None if bench.full else 600)
    return bench.train("text", design)


def _others(bench: Bench) -> dict[str, Comparison]:
    """The other tasks of the suite, in the full variant alone."""
    trained = {}
    for task in SUITES["long-range"]:
        if bench.full and task.averaged and task.name not in ("ListOps", "Text"):
            settings = bench.drawn(task.drawn, 10_000) if task.drawn else []
            sides = {name: arm(task.recipe, name) for name in _names(bench)}
            trained[task.name] = bench.train(task.name, Design(sides, "accuracy", settings, rates(1e-3)))
    return trained


def _table(bench: Bench) -> Evidence:
    """Each two mechanisms that the averages of the paper tell apart: whether ours are as far apart, the same way."""
    tasks = {"ListOps": _lists(bench), **({"Text": _characters(bench)} if bench.full else {}), **_others(bench)}
    paper = {name: fmean(PUBLISHED[name]) for name in _names(bench)}
    cells = [
        larger(
            f"{first} ({paper[first]:.1f}) ahead of {second} ({paper[second]:.1f})",
            _mean_ahead(tasks, first, second),
            0.01,
        )
        for first, second in itertools.permutations(paper, 2)
        if paper[first] - paper[second] > _APART
    ]
    means = [fmean(compared.mean(name) for compared in tasks.values()) for name in paper]
    tau = stats.kendalltau(means, list(paper.values())).statistic
    bench.notes.append(f"Kendall's tau of the means with the paper's averages: {tau:.2f}")
    return cells, [_above_guessing(name, compared) for name, compared in tasks.items()]


def _mean_ahead(tasks: Mapping[str, Comparison], side: str, other: str) -> Interval:
    """How far a side is ahead, on average over tasks, over seeds and examples."""
    rows = zip(*(compared.ahead(side, other) for compared in tasks.values()), strict=True)
    spread = sum(compared.variance(side, other) for compared in tasks.values()) / len(tasks) ** 2
    return Interval.of([fmean(row) for row in rows], variance=spread)


def _above_guessing(name: str, compared: Comparison) -> Control:
    return guessed(name, compared, 0.1 if name in ("ListOps", "Image") else 0.4)


def _efficient(bench: Bench) -> Evidence:
    """What is lost in accuracy on lists, and the time of a pass forward and backward at several lengths."""
    compared = _lists(bench)
    names = [name for name in _names(bench) if name in ("linear", "performer", "reformer")]
    lengths = (256, 1024, 4096, 8192) if bench.full else (256, 2048)
    cells, full_s = list[Cell](), list[float]()
    for length in lengths:
        passes = [one_pass(subject(name), length, 64, backward=True) for name in ("scored", *names)]
        # each draw is the least of a few rounds
        draws = [seconds(passes, 3) for _ in range(len(bench.seeds))]
        full_s.append(min(draw[0] for draw in draws))
        for place, name in enumerate(names, 1):
            ratio = Interval.of([draw[place] / draw[0] for draw in draws])
            cells.append(_bargain(f"{name}, {length} tokens: time of full attention's", ratio, compared, name))
    longer, slower = lengths[-1] / lengths[0], full_s[-1] / full_s[0]
    grown = Control("full attention's time grows faster than the length", slower > longer, slower)
    return cells, [_above_guessing("ListOps", compared), grown]


def _bargain(where: str, ratio: Interval, compared: Comparison, name: str) -> Cell:
    """Holds where at most 2 points are lost and a fifth of the time is saved; refuted beyond 5 points, or if slower."""
    ahead = compared.difference(name, "scored")

    def judge(ratio: Interval, ahead: Interval) -> Outcome:
        if ahead.low > -0.02 and ratio.high < 0.8:
            return "holds"
        return "refuted" if ahead.high < -0.05 or ratio.low > 1 else "undecided"

    lost = f"{100 * ahead.value:+.1f} points [{100 * ahead.low:.1f}, {100 * ahead.high:.1f}]"
    return Cell.of(f"{where} ({lost} on lists)", ratio, judge, ahead)


def _no_winner(bench: Bench) -> Evidence:
    """How far the most even mechanism is behind the best of its worst task."""
    tasks = {"ListOps": _lists(bench), "Text": _characters(bench), **_others(bench)}
    conditions = [{name: compared.sides[name].scores for name in _names(bench)} for compared in tasks.values()]
    compared_of = list(tasks.values())
    lost = regret(conditions, bench.seeds, lambda place, side, other: compared_of[place].variance(side, other))
    cell = larger("the most even mechanism is behind the best somewhere", lost, 0.02)
    return [cell], [_above_guessing(name, compared) for name, compared in tasks.items()]


def _medium(bench: Bench) -> Evidence:
    """Loss on windows of text, and the time of the same trained models to read them, by the length of a window."""
    full = bench.full
    lengths = (16, 64, 256, 1024) if full else (16, 64, 256)
    sizes = ["d_model=128", "d_ff=256", "num_layers=4"] if full else ["d_model=32", "d_ff=64", "num_layers=2"]
    names = ("scored", "linear", *(["retention", "gated_linear"] if full else []))
    settings = ['tokenizer={kind="char",spaces="kept"}', "ngram=0", "show=[]", "model.dropout=0"]
    settings += [*(f"model.{size}" for size in sizes), "training.schedule=budget", "training.warmup_steps=20"]
    settings += [*budget(1000 if full else 120, 2048 if full else 1024), "training.valid_limit=20"]
    settings += [] if full else ["training.learning_rate=1e-2"]
    cells, controls = list[Cell](), list[Control]()
    for length in lengths:
        where = f"windows of {length} characters"
        sides = {name: Arm("tiny-shakespeare", (f"length={length}", f"model.mechanism={name}")) for name in names}
        limit = None if full else 16_384 // length
        compared = bench.train(where, Design(sides, "loss", settings, rates(4e-3) if full else None, limit=limit))
        share = on_front(
            {name: [-loss for loss in compared.scores(name)] for name in sides},
            {name: _answer_s(compared, name, 4096 // length, 5 if full else 3) for name in sides},
        )["scored"]
        inside = length not in (lengths[0], lengths[-1])
        bounds = (0.95, 0.05) if inside else (0.05, 0.95)
        known = f"{where}: draws in which full attention is on the front"
        cells.append(beyond(f"{known}{'' if inside else ', of which there are to be few'}", share, *bounds))
        best = compared.mean(compared.best())
        controls.append(Control(f"{where}: the best is below 3 nats", best < 3, best))
    return cells, controls


def _answer_s(compared: Comparison, side: str, count: int, rounds: int) -> list[float]:
    """CPU seconds in which a trained model is scored on so many tests, of several rounds."""
    run = next(iter(compared.folders(side).values()))
    predictor, cases = load(run), examples(run, "test")[:count]

    def answer() -> None:
        predictor.evaluate(cases)

    return rounds_of([answer], rounds)[0]


def on_front(
    scores: Mapping[str, Sequence[float]], times: Mapping[str, Sequence[float]], draws: int = 1000
) -> dict[str, Interval]:
    """The share of draws in which no other side is as good, or better, in less time (Pareto), with its 95 % interval.

    A draw of a score is its mean plus Student's t times its standard error over seeds; of a time the least of rounds
    that are drawn again.

    >>> on_front({"a": [0.5, 0.5], "b": [0.9, 0.9]}, {"a": [2.0, 2.0], "b": [1.0, 1.0]})["b"].value
    1.0
    """
    numbers = np.random.default_rng(0)
    score = {
        name: np.mean(values) + numbers.standard_t(len(values) - 1, draws) * stats.sem(values)
        for name, values in scores.items()
    }
    time = {name: numbers.choice(values, (draws, len(values))).min(axis=1) for name, values in times.items()}
    on = dict.fromkeys(scores, draws)
    for name in on:
        beaten = [(score[other] >= score[name]) & (time[other] < time[name]) for other in on if other != name]
        on[name] -= int(np.logical_or.reduce(beaten).sum())
    ends = {name: stats.binomtest(count, draws).proportion_ci(method="wilson") for name, count in on.items()}
    return {name: Interval(count / draws, ends[name].low, ends[name].high) for name, count in on.items()}


CLAIMS = [
    Claim(
        name="long-range-table",
        sentence="Mechanisms rank on long-range tasks as the Long Range Arena says.",
        source="lecture notes, row S83; Tay et al. 2021, arXiv:2011.04006, table 1",
        rule=(
            "of each two mechanisms whose averages in the paper are more than 2 points apart, the mean accuracy of the"
            " one that is ahead there is 1 point or more above that of the other, with all of the 95 % interval over"
            " seeds and examples above 0; refuted where all of it is below 1 point; a cell for each two; of ListOps"
            " alone in the quick variant, where nothing is tuned"
        ),
        weakness=(
            "sizes that two cores train, a small part of the paper's steps; ListOps alone in the quick variant, "
            "where linear attention was poor in the paper and is not here"
        ),
        across="accuracy, difference",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_table,
    ),
    Claim(
        name="efficient-loses-a-little-gains-speed",
        sentence="Efficient attention loses a little quality and gains much speed.",
        source="lecture notes, row S84",
        rule=(
            "holds for a mechanism and a length where its accuracy on ListOps is less than 2 points below that of"
            " full attention and its pass forward and backward, without projections, takes less than 0.8 of the CPU"
            " time, each with all of the 95 % interval (over seeds and examples, over repeats); refuted where all of"
            " an interval is more than 5 points below, or slower. Full attention has the kernel that is planned for"
            " it"
        ),
        weakness=(
            "accuracy is of short lists, time of longer inputs; 500 test lists tell apart 5 points, and the rule asks"
            " for 2; one processor; full attention has its fastest kernel"
        ),
        across="time, as a multiple of full attention's",
        written=datetime.date(2026, 11, 27),
        version=3,
        trial=_efficient,
    ),
    Claim(
        name="no-mechanism-wins-everywhere",
        sentence="No mechanism is the best on every long-range task.",
        source="Tay et al. 2021, arXiv:2011.04006; Tay et al. 2020, Efficient Transformers, arXiv:2009.06732",
        rule=(
            "in every mechanism's worst task the least that it is behind the best one there is 2 % of the best score or"
            " more, with all of the 95 % interval over seeds and examples above 0; refuted where all of it is"
            " below 2 %;"
            " nothing is tuned in the quick variant"
        ),
        weakness=(
            "two tasks and three mechanisms in the quick variant, where text is hardly above guessing: the more "
            "tasks, the harder it is to win all"
        ),
        across="share of the best score that is lost",
        written=datetime.date(2026, 11, 27),
        trial=_no_winner,
        version=3,
    ),
    Claim(
        name="medium-lengths-suit-attention",
        sentence="Attention is right for sequences of medium length: neither the shortest nor the longest.",
        source="lecture notes, row S133",
        rule=(
            "on windows of text of each length, language models with full and with linear attention (full: retention"
            " and gated linear attention too) are trained for the same steps; full attention is on the front of"
            " loss and CPU time (no other is as good in"
            " less time) in more than 95 % of draws from their intervals at lengths in the middle, and in less than 5 %"
            " at the shortest and at the longest; refuted where it is the other way round; a cell for each length,"
            " scores over seeds; nothing is tuned in the quick variant"
        ),
        weakness=(
            "time is of models in evaluation on one processor, at one width, and a faster kernel moves the lengths; at"
            " equal steps and one rate a loss is that of models half trained; the interval is that of 1,000"
            " draws, which"
            " hold the spread over seeds"
        ),
        across="share of draws on the front",
        written=datetime.date(2026, 11, 27),
        version=3,
        trial=_medium,
    ),
]
