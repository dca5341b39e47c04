"""Claims on length, recall and long-range tasks, with drawn scores in place of trained ones."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from headwise.compare.bench import Bench, Comparison
from headwise.compare.claim import run_claim
from headwise.compare.claims import CLAIMS, long_range, reach, recall
from headwise.compare.experiment import Trained
from headwise.compare.verdicts import Interval

SPREAD = (0.0, 0.004, -0.003, 0.002, -0.002, 0.001)


class Drawn(Bench):
    """Trains nothing: a side has the score that a function of condition and side gives it."""

    def __init__(self, score, full=False):
        super().__init__(full, Path("nowhere"), lambda name, settings: Path(name))
        self.score = score

    def drawn(self, problem, count, **sizes):
        return [f"data.train={problem}"]

    def train(self, where, design):
        sides = {
            name: Trained({}, {}, {seed: self.score(where, name) + SPREAD[seed] for seed in self.seeds}, None, False)
            for name in design.sides
        }
        return Comparison(design.metric, "low" if design.metric == "loss" else "high", sides)


def judged(name, score, full=False):
    return run_claim(CLAIMS[name], bench=Drawn(score, full))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("name", "scores", "verdict"),
    [
        ("fixed-state-fails-recall", {"scored": 0.9, "other": 0.4}, "holds"),
        ("fixed-state-fails-recall", {"scored": 0.9, "other": 0.85}, "does not hold"),
        # nothing was learned
        ("fixed-state-fails-recall", {"scored": 0.1, "other": 0.1}, "invalid"),
        # the ceiling
        ("fixed-state-fails-recall", {"other": 0.995}, "invalid"),
        (
            "long-range-table",
            {"scored": 0.5, "bigbird": 0.55, "linear": 0.4, "performer": 0.45, "reformer": 0.42, "local": 0.3},
            "holds",
        ),
        (
            "long-range-table",
            {"scored": 0.5, "bigbird": 0.45, "linear": 0.6, "performer": 0.55, "reformer": 0.57, "local": 0.7},
            "does not hold",
        ),
        ("no-mechanism-wins-everywhere", {"scored": 0.7, "other": 0.6}, "does not hold"),
    ],
)
def test_a_verdict_follows_from_the_scores(name, scores, verdict, full):
    record = judged(name, lambda where, side: scores.get(side, scores.get("other")), full)
    assert record.verdict == verdict, record.why


def test_one_fixed_state_may_fail_and_another_not():
    record = judged("fixed-state-fails-recall", lambda where, side: 0.4 if side == "linear" else 0.9, True)
    assert record.verdict == "holds only where", record.why


def test_mechanisms_that_are_level_do_not_rank_as_the_paper_says():
    record = judged("long-range-table", lambda where, side: {"local": 0.3}.get(side, 0.5))
    assert record.verdict == "holds only where"
    assert [cell.where for cell in record.cells if cell.outcome == "refuted"] == [
        "scored (54.4) ahead of linear (50.6)"
    ]
    # the order alone is kept by a hair
    assert judged(
        "long-range-table", lambda where, side: {"scored": 0.502, "linear": 0.501}.get(side, 0.5)
    ).verdict == ("does not hold")


def test_no_mechanism_wins_where_each_loses_once():
    def score(where, side):
        return 0.7 if (where == "ListOps") == (side == "scored") else 0.6

    assert judged("no-mechanism-wins-everywhere", score).verdict == "holds"
    assert judged("no-mechanism-wins-everywhere", score, True).verdict == "holds"


@pytest.mark.parametrize(
    ("one", "two", "matching", "verdict"),
    [
        (0.2, 0.99, 0.8, "holds"),
        (0.9, 0.99, 0.8, "holds only where"),
        (0.9, 0.6, 0.1, "does not hold"),
        (0.05, 0.1, 0.1, "invalid"),
    ],
)
def test_induction(monkeypatch, one, two, matching, verdict):
    monkeypatch.setattr(recall, "_matching", lambda compared: Interval.of([matching, matching + 0.01, matching]))
    record = judged("induction-needs-two-layers", lambda where, side: one if side == "1 layer" else two)
    assert record.verdict == verdict, record.why


def by_length(monkeypatch, table):
    """Scores by length that hang on nothing that is trained: (side, length) -> score."""

    def drawn(compared, metric, times):
        return {
            name: {
                number: {}
                if (value := table(name, number, metric)) is None
                else {seed: value + SPREAD[seed] for seed in compared.sides[name].scores}
                for number in times
            }
            for name in compared.sides
        }

    monkeypatch.setattr(reach, "_by_length", drawn)


@pytest.mark.parametrize(
    ("alibi", "others", "verdict"),
    [
        (0.0, 0.5, "holds"),
        (-0.2, 0.5, "holds"),
        (0.3, 0.5, "holds only where"),
        (0.3, 0.01, "does not hold"),
        (0.0, 0.01, "holds only where"),
    ],
)
def test_alibi(monkeypatch, alibi, others, verdict):
    by_length(monkeypatch, lambda name, times, metric: 2.2 + (times > 1) * (alibi if name == "alibi" else others))
    record = judged("alibi-extrapolates", lambda where, side: 2.2)
    assert record.verdict == verdict, record.why


def test_positions(monkeypatch):
    def no_best(name, times, metric):
        if name == "learned" and times > 1:
            return None
        first = times == 1
        good = (name == "rotary") if first else (name == "alibi")
        return (2.2 if good else 2.6) if metric == "loss" else (0.9 if good else 0.6)

    loss_or_share = lambda where, side: 2.2 if where == "characters" else 0.8  # noqa: E731
    by_length(monkeypatch, no_best)
    assert judged("best-position-unknown", loss_or_share).verdict == "holds"
    # one that is the best everywhere refutes it
    by_length(
        monkeypatch,
        lambda name, times, metric: (
            None
            if (name, times > 1) == ("learned", True)
            else (2.2 if metric == "loss" else 0.9)
            if name == "alibi"
            else (2.6 if metric == "loss" else 0.6)
        ),
    )
    assert judged("best-position-unknown", loss_or_share).verdict == "does not hold"
    # a table that goes on has not the size that is said
    by_length(monkeypatch, lambda name, times, metric: 2.2 if metric == "loss" else 0.9)
    assert judged("best-position-unknown", loss_or_share, True).verdict == "invalid"


@pytest.mark.parametrize(("none", "verdict"), [(0.8, "holds"), (0.5, "does not hold")])
def test_no_positions(monkeypatch, none, verdict):
    by_length(monkeypatch, lambda name, times, metric: none if name == "none" else 0.6)
    for full in (False, True):
        assert judged("no-positions-generalise", lambda where, side: 0.8, full).verdict == verdict


@pytest.mark.parametrize(
    ("share", "lost", "verdict"),
    [
        (0.3, 0.0, "holds"),
        (1.5, 0.0, "does not hold"),
        (0.3, 0.2, "does not hold"),
        (0.9, 0.0, "undecided"),
        (0.3, 0.03, "undecided"),
    ],
)
def test_what_efficiency_costs(monkeypatch, share, lost, verdict):
    # full attention that does not grow with the square was not measured well
    for power, judged_so in ((lambda length: length**2, verdict), (lambda length: length, "invalid")):
        record = efficiency(monkeypatch, power, share, lost)
        assert record.verdict == judged_so, record.why


def efficiency(monkeypatch, power, share, lost):
    monkeypatch.setattr(long_range, "one_pass", lambda what, length, width, backward: length)
    monkeypatch.setattr(
        long_range,
        "seconds",
        lambda passes, rounds: [power(passes[0]) * part for part in (1, *[share] * (len(passes) - 1))],
    )
    return judged(
        "efficient-loses-a-little-gains-speed",
        lambda where, side: 0.5 if side in ("scored", "local") else 0.5 - lost,
    )


def test_regret_counts_what_is_absent_as_the_last():
    conditions = [
        {name: by_seed(score) for name, score in {"a": 1.0, "b": 0.5, "c": 1.0}.items()},
        {"a": by_seed(0.8), "b": by_seed(1.0), "c": {}},
    ]
    # a: 20 % behind in the second; b: half in the first; c: as bad as a
    assert reach.regret(conditions, (0, 1)).value == pytest.approx(0.2)


def by_seed(score, seeds=(0, 1)):
    return dict.fromkeys(seeds, score)


def test_regret_pairs_runs_by_their_seed_and_counts_one_that_failed_as_the_worst():
    even = {"a": by_seed(1.0, range(3)), "b": by_seed(0.9, range(3)), "c": by_seed(0.5, range(3))}
    # the run of seed 1 has no score: the others keep their own seeds
    failed = {**even, "a": {0: 1.0, 2: 1.0}}
    assert reach.regret([even], range(3)).value == pytest.approx(0.0)
    lost = [reach.regret([failed], [0, 1, 2]), reach.regret([{**even, "a": {0: 1.0, 1: 0.5, 2: 1.0}}], [0, 1, 2])]
    assert lost[0] == lost[1]


def test_regret_of_noise_is_about_nothing():
    draw = random.Random(0)
    regrets = [
        reach.regret(
            [{name: {seed: draw.gauss(1, 0.05) for seed in range(6)} for name in "abcd"} for _ in range(4)], range(6)
        ).value
        for _ in range(300)
    ]
    # what is measured where it was chosen is 6 % here
    assert abs(sum(regrets) / len(regrets)) < 0.01


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("attention", "gru", "carried", "verdict"),
    [
        (0.52, 0.99, 0.99, "holds"),
        (0.99, 0.99, 0.99, "holds only where"),
        (0.52, 0.99, 0.6, "holds only where"),
        (0.99, 0.7, 0.6, "does not hold"),
        (0.52, 0.52, 0.52, "invalid"),
    ],
)
def test_parity(monkeypatch, attention, gru, carried, verdict, full):
    scores = {"attention": attention, "gru": gru}
    monkeypatch.setattr(
        recall, "_last_half", lambda compared, side: Interval.of([scores[side], scores[side] + 0.002, scores[side]])
    )
    record = judged("soft-attention-cannot-parity", lambda where, side: scores.get(side, carried), full)
    assert record.verdict == verdict, record.why


def test_what_is_right_in_the_last_half_is_counted(monkeypatch):
    rows = [Row(["a"] * 5), Row(["b"] * 2)]
    monkeypatch.setattr(recall, "examples", lambda run, split: rows)
    monkeypatch.setattr(recall, "load", lambda run: Tagger([["b", "b", "a", "b", "a"], ["b", "a"]]))
    # a a of the last three, none of the last one
    assert recall._right_at_last(Path("run")) == [pytest.approx(2 / 3), 0.0]


class Row(NamedTuple):
    tags: list[str]


class Tagger(NamedTuple):
    tags: list[list[str]]

    def tag(self, rows):
        return self.tags


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("slow", "verdict"), [((True, False, True), "holds"), ((False, True, False), "does not hold")])
def test_medium_lengths(monkeypatch, slow, verdict, full):
    """Full attention is as good as the others; where it is slower it is off the front."""

    def time(compared, side, count, rounds):
        length = 4096 // count
        place = 0 if length == 16 else 2 if length == (1024 if full else 256) else 1
        return [2.0 if side != "scored" else 3.0 if slow[place] else 1.0] * rounds

    monkeypatch.setattr(long_range, "_answer_s", time)
    record = judged("medium-lengths-suit-attention", lambda where, side: 2.5 if side == "scored" else 2.3, full)
    assert record.verdict == verdict, record.why


def test_the_front_of_score_and_time():
    scores, times = {"a": [0.5, 0.5], "b": [0.9, 0.9], "c": [0.9, 0.9]}, {"a": [1.0], "b": [2.0], "c": [3.0]}
    shares = {name: share.value for name, share in long_range.on_front(scores, times).items()}
    # c is as good as b and slower
    assert shares == {"a": 1.0, "b": 1.0, "c": 0.0}
    noisy = long_range.on_front({"a": [0.5, 0.6], "b": [0.5, 0.6]}, {"a": [1.0], "b": [2.0]})
    # the slower one is better in half of the draws
    assert noisy["a"].value == 1.0
    assert noisy["b"].low < 0.5 < noisy["b"].high
