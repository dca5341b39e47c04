"""Claims about positions and length: which scheme is best, and which goes on beyond the lengths of training."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from headwise.compare.bench import Bench, Comparison, Design, budget, rates
from headwise.compare.claim import Claim, Evidence
from headwise.compare.claims.weighing import guessed, learned
from headwise.compare.experiment import Arm
from headwise.compare.lengths import resampled_at, scores_at
from headwise.compare.sides import examples_variance
from headwise.compare.verdicts import Cell, Control, Interval, above, below, larger

_WRITTEN = datetime.date(2026, 11, 26)
# characters of a training window of text, and symbols of a drawn input at most
_WINDOW, _SYMBOLS = 64, 8
# windows are as long as the learned table, which ends there
_SPOKEN = [f"length={_WINDOW}", 'tokenizer={kind="char",spaces="kept"}', "model.dropout=0", "ngram=0", "show=[]"]

# the scores of a side at a length, by seed
Scores = dict[int, dict[int, float]]


def _spoken(bench: Bench, names: Sequence[str], times: Sequence[int]) -> tuple[Comparison, dict[str, Scores]]:
    """Language models of characters: nats at the same places, with contexts of so many times a training window."""
    full = bench.full
    model = ["model.d_model=128", "model.d_ff=512", "model.num_layers=4"] if full else []
    model = model or ["model.d_model=64", "model.d_ff=128", "model.num_layers=2"]
    settings = [*_SPOKEN, *model, f"model.max_len={_WINDOW}", "decoding.max_len=8", "training.schedule=budget"]
    settings += [
        *budget(2000 if full else 200, 2048 if full else 1024),
        "training.valid_limit=64",
        "training.warmup_steps=25",
    ]
    sides = {name: Arm("tiny-shakespeare", (f"model.position={name}",)) for name in names}
    design = Design(sides, "loss", settings, rates(4e-3) if full else None, limit=None if full else 400)
    compared = bench.train("characters", design)
    return compared, _by_length(compared, "loss", times)


def _drawn(bench: Bench, problem: str, names: Sequence[str]) -> tuple[Comparison, dict[str, Scores]]:
    """Causal taggers that answer in one sequence: the share of right symbols, of inputs of so many times the length."""
    full = bench.full
    times = (1, 2, 4) if full else (1, 2)
    data = bench.drawn(problem, 10_000 if full else 3000, test=200, longest=_SYMBOLS, lengths=times, tagged=True)
    sizes = "d_model=64,d_ff=128,num_heads=4,encoder_layers=2,dropout=0"
    model = f'{{kind="attention",causal=true,{sizes},max_len={2 * _SYMBOLS + 1}}}'
    settings = [*data, f"model={model}", *budget(1500 if full else 300, 1024 if full else 512)]
    sides = {name: Arm("repeat", (f"model.position={name}",)) for name in names}
    compared = bench.train(problem, Design(sides, "accuracy", settings, rates(2e-3) if full else None))
    return compared, _by_length(compared, "accuracy", times)


def _by_length(compared: Comparison, metric: str, times: Sequence[int]) -> dict[str, Scores]:
    """The score of each side at each length, by seed; without lengths that a side cannot read, and runs that failed."""
    table: dict[str, Scores] = {}
    for name in compared.sides:
        table[name] = {number: {} for number in times}
        for seed, run in compared.folders(name).items():
            by_length, _ = scores_at(run, times)
            for number, scores in by_length.items():
                table[name][number][seed] = scores[metric]
    return table


def _spread(compared: Comparison, times: int, side: str, other: str) -> float:
    """How much the mean lead of a side at so many times the length varies with the examples, which both have."""
    several, others = (
        [resampled_at(run, times, compared.metric) for run in compared.folders(name).values()] for name in (side, other)
    )
    return examples_variance(several, others) if len(several) == len(others) else 0.0


def regret(
    conditions: Sequence[Mapping[str, Mapping[int, float]]],
    seeds: Sequence[int],
    spread: Callable[[int, str, str], float] = lambda place, side, other: 0.0,
) -> Interval:
    """How far behind the best the most even side is in its worst condition, as a share of the best; over seeds.

    Which side that is, in which condition and behind whom, the other seeds say: a maximum that is measured where it was
    chosen is never below 0, however little there is.

    Args:
        conditions: goodness of each side, by seed; a side that is absent in one is last there, and so is, with its
            seed, a run that failed.
        spread: of the place of a condition and two sides, the variance of their mean difference over the examples;
            the largest of those that seeds choose is the interval's.
    """

    def values(condition: Mapping[str, Mapping[int, float]], over: Sequence[int]) -> dict[str, float]:
        worst = {seed: min(scores[seed] for scores in condition.values() if seed in scores) for seed in over}
        means = {
            name: fmean(scores.get(seed, worst[seed]) for seed in over) for name, scores in condition.items() if scores
        }
        last = min(means.values())
        return {name: means.get(name, last) for name in condition}

    def behind(goodness: dict[str, float], name: str, best: str) -> float:
        return (goodness[best] - goodness[name]) / abs(goodness[best])

    regrets, variances = list[float](), list[float]()
    for seed in seeds:
        others = [values(condition, [other for other in seeds if other != seed]) for condition in conditions]
        best = [max(goodness, key=goodness.__getitem__) for goodness in others]
        lost = {
            name: [behind(goodness, name, first) for goodness, first in zip(others, best, strict=True)]
            for name in conditions[0]
        }
        even = min(lost, key=lambda name: max(lost[name]))
        worst = max(range(len(conditions)), key=lambda place: lost[even][place])
        measured = values(conditions[worst], [seed])
        regrets.append(behind(measured, even, best[worst]))
        variances.append(spread(worst, best[worst], even) / measured[best[worst]] ** 2)
    return Interval.of(regrets, variance=max(variances))


def _best_position(bench: Bench) -> Evidence:
    """Copying in one sequence and characters of text, at the length of training and at twice it."""
    names = ["sinusoidal", "rotary", "alibi", *(["none", "learned", "t5", "shaw"] if bench.full else [])]
    times = (1, 2, 4) if bench.full else (1, 2)
    spoken, text = _spoken(bench, names, times)
    problems = ("copy", "reverse") if bench.full else ("copy",)
    conditions: list[dict[str, dict[int, float]]] = [
        {name: {seed: -loss for seed, loss in by_length[number].items()} for name, by_length in text.items()}
        for number in times
    ]
    controls = [
        Control("characters: the best is below 2.8 nats", spoken.mean(spoken.best()) < 2.8, spoken.mean(spoken.best()))
    ]
    drawn: dict[int, tuple[Comparison, int]] = {}
    for problem in problems:
        compared, table = _drawn(bench, problem, names)
        drawn |= {len(conditions) + place: (compared, number) for place, number in enumerate((1, 2))}
        conditions += [{name: by_length[number] for name, by_length in table.items()} for number in (1, 2)]
        controls.append(guessed(problem, compared, 1 / 12))

    def spread(place: int, side: str, other: str) -> float:
        # of text, scores at a length come without rows; a side that cannot read it is no pair
        absent = place not in drawn or not (conditions[place][side] and conditions[place][other])
        return 0.0 if absent else _spread(*drawn[place], side, other)

    if bench.full:
        absent = len(conditions[1]["learned"])
        controls.append(Control("a learned table cannot go on", absent == 0, float(absent)))
    return [
        larger("the most even scheme is behind the best somewhere", regret(conditions, bench.seeds, spread), 0.02)
    ], controls


def _alibi(bench: Bench) -> Evidence:
    """Nats at the same last places with contexts of 1, 2 and 4 training windows."""
    times = (1, 2, 4, 8) if bench.full else (1, 2, 4)
    compared, table = _spoken(bench, ("alibi", "sinusoidal", "rotary"), times)
    cells = []
    for name in compared.sides:
        excess = Interval.of([after - table[name][1][seed] for seed, after in table[name][4].items()])
        if name == "alibi":
            cells.append(below("alibi: excess at 4 times the length", excess, 0.02))
        else:
            cells.append(above(f"{name}: excess at 4 times the length", excess, 0.1))
    best = compared.mean(compared.best())
    return cells, [Control("the best is below 2.8 nats at the length of training", best < 2.8, best)]


def _no_positions(bench: Bench) -> Evidence:
    """Right symbols at twice the length, without positions and with the best of others."""
    names = ["none", "sinusoidal", "rotary", "alibi", *(["t5", "shaw"] if bench.full else [])]
    cells, controls = list[Cell](), list[Control]()
    for problem in ("copy", "reverse", "sort") if bench.full else ("copy", "sort"):
        compared, table = _drawn(bench, problem, names)
        # of a run that failed nothing is right
        right = {name: [scores[2].get(seed, 0.0) for seed in bench.seeds] for name, scores in table.items()}
        best = max((name for name in names if name != "none"), key=lambda name: sum(right[name]))
        ahead = [a - b for a, b in zip(right["none"], right[best], strict=True)]
        spread = _spread(compared, 2, "none", best)
        where = f"{problem}: ahead of {best} at twice the length"
        cells.append(larger(where, Interval.of(ahead, variance=spread), 0.02))
        controls += [guessed(problem, compared, 1 / 12), learned(problem, compared, compared.best(), 0.5)]
    return cells, controls


CLAIMS = [
    Claim(
        name="best-position-unknown",
        sentence="No position scheme is best everywhere.",
        source="lecture notes, row S76",
        rule=(
            "in every scheme's worst condition (characters of text, and answers to drawn problems, at the length of"
            " training and at multiples of it) the least that it is behind the best one there is 2 % of the best score"
            " or more, with all of the 95 % interval over seeds, and examples of drawn problems, above 0; refuted where"
            " all of it is below 2 %. A scheme that cannot read a length is as bad as the last one there;"
            " nothing is tuned in the quick variant"
        ),
        weakness=(
            "two kinds of data (and three schemes in the quick variant), and small models after few steps;"
            " schemes are not tuned apart in the quick variant; a"
            " scheme that cannot read a length counts as the last; intervals of text are over seeds alone"
        ),
        across="share of the best score that is lost",
        written=datetime.date(2026, 11, 27),
        trial=_best_position,
        version=3,
    ),
    Claim(
        name="alibi-extrapolates",
        sentence="ALiBi keeps its loss on inputs that are longer than those of training, and other schemes do not.",
        source="Press et al. 2022, Train short, test long, arXiv:2108.12409",
        rule=(
            "on the same last places, the loss with a context of 4 training windows exceeds that with one by less than"
            " 0.02 nats for ALiBi, and by more than 0.1 nats for sinusoids and rotary, with all of the 95 % interval"
            " over seeds; a cell for each scheme; refuted where none of the interval is so"
        ),
        weakness=(
            "one text and small models; equal loss at longer contexts says that nothing is lost, not that they "
            "are used; nothing is tuned in the quick variant; intervals are of three seeds on the same windows of text"
        ),
        across="nats, longer - training length",
        written=_WRITTEN,
        trial=_alibi,
    ),
    Claim(
        name="no-positions-generalise",
        sentence="Causal models without positions generalise best to longer inputs.",
        source="Kazemnejad et al. 2023, The impact of positional encoding on length generalization, arXiv:2305.19466",
        rule=(
            "at twice the length of training, the share of right symbols without positions is 2 points or more above"
            " that of the best other scheme, with all of the 95 % interval over seeds and examples above 0;"
            " refuted where"
            " all of it is below 2 points; a cell for each drawn problem; nothing is tuned in the quick variant"
        ),
        weakness=(
            "two problems at twice the length; the best other scheme is chosen by the same scores, against the "
            "claim; nothing is tuned in the quick variant"
        ),
        across="right symbols, difference",
        written=datetime.date(2026, 11, 27),
        version=2,
        trial=_no_positions,
    ),
]
