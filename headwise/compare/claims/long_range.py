"""Claims about long inputs: whether the ranks of the Long Range Arena are found again, and what efficiency costs."""

import datetime
from collections.abc import Sequence

from scipy import stats

from headwise.compare.bench import Bench, Comparison, Design, budget, rates
from headwise.compare.claim import Claim, Evidence
from headwise.compare.claims.reach import regret
from headwise.compare.claims.weighing import guessed
from headwise.compare.costs import one_pass, seconds
from headwise.compare.subjects import subject
from headwise.compare.suite import PUBLISHED, SUITES, arm
from headwise.compare.verdicts import Cell, Control, Interval, Outcome, larger

_WRITTEN = datetime.date(2026, 11, 26)
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
    """Kendall's tau between mean scores and the averages of the paper, seed by seed."""
    tasks = {"ListOps": _lists(bench), **({"Text": _characters(bench)} if bench.full else {}), **_others(bench)}
    names = _names(bench)
    paper = [sum(PUBLISHED[name]) for name in names]
    taus = []
    for seed in range(len(bench.seeds)):
        means = [sum(compared.scores(name)[seed] for compared in tasks.values()) for name in names]
        taus.append(float(stats.kendalltau(means, paper).statistic))
    controls = [_above_guessing(name, compared) for name, compared in tasks.items()]
    return [larger("Kendall's tau with the paper's averages", Interval.of(taus), 0.3)], controls


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
    outcome: Outcome = "undecided"
    if ahead.low > -0.02 and ratio.high < 0.8:
        outcome = "holds"
    elif ahead.high < -0.05 or ratio.low > 1:
        outcome = "refuted"
    lost = f"{100 * ahead.value:+.1f} points [{100 * ahead.low:.1f}, {100 * ahead.high:.1f}]"
    return Cell(f"{where} ({lost} on lists)", ratio.value, ratio.low, ratio.high, outcome)


def _no_winner(bench: Bench) -> Evidence:
    """How far the most even mechanism is behind the best of its worst task."""
    tasks = {"ListOps": _lists(bench), "Text": _characters(bench), **_others(bench)}
    conditions = [{name: compared.scores(name) for name in _names(bench)} for compared in tasks.values()]
    cell = larger("the most even mechanism is behind the best somewhere", regret(conditions, len(bench.seeds)), 0.02)
    return [cell], [_above_guessing(name, compared) for name, compared in tasks.items()]


CLAIMS = [
    Claim(
        name="long-range-table",
        sentence="Mechanisms rank on long-range tasks as the Long Range Arena says.",
        source="lecture notes, row S83; Tay et al. 2021, arXiv:2011.04006, table 1",
        rule=(
            "Kendall's tau between the mechanisms' mean scores and the paper's averages is 0.3 or more, with all of the"
            " 95 % interval over seeds above 0; refuted where all of it is below 0.3. With three mechanisms (quick) or"
            " six it is likely undecided"
        ),
        written=_WRITTEN,
        trial=_table,
    ),
    Claim(
        name="efficient-loses-a-little-gains-speed",
        sentence="Efficient attention loses a little quality and gains much speed.",
        source="lecture notes, row S84",
        rule=(
            "holds for a mechanism and a length where its accuracy on ListOps is less than 2 points below that of full"
            " attention and its pass forward and backward, without projections, takes less than 0.8 of the CPU time,"
            " each with all of the 95 % interval (over seeds, over repeats); refuted where all of an interval is more"
            " than 5 points below, or slower. Full attention has the kernel that is planned for it"
        ),
        written=_WRITTEN,
        trial=_efficient,
    ),
    Claim(
        name="no-mechanism-wins-everywhere",
        sentence="No mechanism is the best on every long-range task.",
        source="Tay et al. 2021, arXiv:2011.04006; Tay et al. 2020, Efficient Transformers, arXiv:2009.06732",
        rule=(
            "in every mechanism's worst task the least that it is behind the best one there is 2 % of the best score or"
            " more, with all of the 95 % interval over seeds above 0; refuted where all of it is below 2 %; nothing is"
            " tuned in the quick variant"
        ),
        written=_WRITTEN,
        trial=_no_winner,
        version=2,
    ),
]
