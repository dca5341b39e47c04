"""Claims that train models, with scores that are drawn in place of trained: which verdict follows by their rules."""

from pathlib import Path

import pytest

from headwise.compare.bench import Bench, Comparison
from headwise.compare.claim import run_claim
from headwise.compare.claims import CLAIMS
from headwise.compare.experiment import Trained

# a little apart from seed to seed
SPREAD = (0.0, 0.004, -0.003, 0.002, -0.002, 0.001)


class Drawn(Bench):
    """Trains nothing: a side has the score that a function of condition and side gives it."""

    def __init__(self, score, full=False):
        super().__init__(full, Path("nowhere"), lambda name, settings: Path(name))
        self.score = score

    def drawn(self, problem, count, **sizes):
        return [f"data.train={problem}"]

    def train(self, where, design):
        sides = {}
        for name in design.sides:
            by_seed = {seed: self.score(where, name) + SPREAD[seed] for seed in self.seeds}
            sides[name] = Trained({}, {}, by_seed, "0.004", False)
        return Comparison(design.metric, "low" if design.metric == "loss" else "high", sides)


def of(**scores):
    """Scores by side, whatever the condition."""
    return lambda where, side: scores.get(side.replace(" ", "_").replace(",", ""), scores.get("other", 0.5))


CASES = [
    ("relu-beats-softmax", of(relu=0.93, softmax=0.9), "holds"),
    ("relu-beats-softmax", of(relu=0.9, softmax=0.9), "holds only where"),
    ("relu-beats-softmax", of(relu=0.8, softmax=0.9), "does not hold"),
    # at the ceiling nothing is told apart
    ("relu-beats-softmax", of(relu=0.99, softmax=0.99), "invalid"),
    ("relu-beats-softmax", of(relu=0.2, softmax=0.2), "invalid"),
    ("distance-score-finds-the-odd-one", of(distance=0.95, scaled_dot=0.8, additive=0.7), "holds"),
    # the better one of the others counts
    ("distance-score-finds-the-odd-one", of(distance=0.8, scaled_dot=0.7, additive=0.8), "does not hold"),
    ("distance-score-finds-the-odd-one", of(distance=0.5, scaled_dot=0.5, additive=0.5), "invalid"),
    ("static-mixing-is-poorer", of(scored=0.9, other=0.7), "holds"),
    (
        "static-mixing-is-poorer",
        lambda where, side: 0.9 if side == "scored" or "br" in where else 0.6,
        "holds only where",
    ),
    ("more-heads-help", lambda where, side: {"1": 0.5, "2": 0.6}.get(side, 0.7), "holds"),
    ("more-heads-help", of(other=0.7), "does not hold"),
    ("more-heads-help", of(other=0.995), "invalid"),
    ("depth-expresses-context", lambda where, side: {"1": 0.4, "2": 0.93}.get(side[0], 0.97), "holds"),
    ("depth-expresses-context", lambda where, side: 0.95, "does not hold"),
    # no depth can do it
    ("depth-expresses-context", lambda where, side: {"1": 0.4}.get(side[0], 0.7), "invalid"),
    ("residuals-and-norms-speed-learning", of(layer_norm_residual=0.9, other=0.6), "holds"),
    ("residuals-and-norms-speed-learning", of(layer_norm_residual=0.9, none_norm_residual=0.9), "holds only where"),
    # a residual that the model cannot do without is refuted where all are level
    ("residuals-and-norms-speed-learning", of(other=0.9), "does not hold"),
    ("scheduled-sampling-helps", lambda where, side: 0.8 if side == "0.25" else 0.7, "holds"),
    ("scheduled-sampling-helps", of(other=0.7), "does not hold"),
    ("pooling-by-attention-is-best", of(attention=0.9, other=0.8), "holds"),
    ("pooling-by-attention-is-best", of(attention=0.9, max=0.95, other=0.8), "does not hold"),
    ("width-hardly-matters", of(other=0.8), "holds"),
    ("width-hardly-matters", lambda where, side: 0.8 if side == "64" else 0.85, "does not hold"),
    ("additive-a-little-better", lambda where, side: 30 if side == "additive" else 29, "holds"),
    ("additive-a-little-better", lambda where, side: 30 if side == "additive" else 31, "does not hold"),
    # nothing was learned
    ("additive-a-little-better", lambda where, side: 3, "invalid"),
    ("additive-wins-at-large-dk", of(additive=0.9, dot=0.9, scaled_dot=0.9), "holds only where"),
]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("name", "score", "verdict"), CASES)
def test_a_verdict_follows_from_the_scores(name, score, verdict, full):
    record = run_claim(CLAIMS[name], bench=Drawn(score, full))
    assert record.verdict == verdict, record.why
    assert record.variant == ("full" if full else "quick")


def test_depths_that_are_half_trained_make_no_trend():
    """In the quick variant, of two depths, there is none."""
    shallow, name = {"1": 0.7, "2": 0.93}, "depth-expresses-context"
    risen = run_claim(CLAIMS[name], bench=Drawn(lambda where, side: shallow.get(side[0], 0.97), True))
    assert risen.verdict == "holds only where"
    behind = run_claim(CLAIMS[name], bench=Drawn(lambda where, side: {"1": 0.97}.get(side[0], 0.7), True))
    assert behind.verdict == "does not hold"
    assert all(cell.where.endswith("one layer is below 60 %") for cell in behind.cells)
    assert "2 layers and 4 layers not trained to 0.9" in behind.notes[0]


def test_the_lead_of_additive_has_to_grow():
    def growing(where, side):
        # none at the least width, more at the largest; scaled dot is level with additive
        widths = ("16", "32", "64", "256", "512")
        return 0.9 - (0.03 * widths.index(where.split()[-1]) if side == "dot" else 0.0)

    assert run_claim(CLAIMS["additive-wins-at-large-dk"], bench=Drawn(growing)).verdict == "holds"
    assert run_claim(CLAIMS["additive-wins-at-large-dk"], bench=Drawn(growing, True)).verdict == "holds"


def test_a_lead_has_to_shrink_and_to_turn():
    def lead(turns):
        places = {"300": 0, "600": 0, "6,000": 1, "3,000": 2, "60,000": 2}

        def score(where, side):
            behind = 0.1 - places[where.split()[0]] * (0.1 if turns else 0.03)
            return 0.8 - (behind if side == "vit" else 0.0)

        return score

    claim = CLAIMS["transformer-needs-more-data"]
    for full in (False, True):
        assert run_claim(claim, bench=Drawn(lead(True), full)).verdict == "holds"
        assert run_claim(claim, bench=Drawn(lead(False), full)).verdict == "holds only where"


def losses(with_norm, without):
    """At each rate, of a model with normalized queries and keys and of one without: the best, too small, too large."""
    by_rate = {"1e-1": 0, "3e-1": 2}
    return lambda where, side: (with_norm if "true" in side else without)[by_rate.get(side.split()[-1], 1)]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("with_norm", "without", "verdict"),
    [
        # the best rate, one that is too small, one that is too large
        ((2.5, 2.6, 2.6), (2.5, 2.7, 4.0), "holds"),
        ((2.5, 2.7, 4.0), (2.5, 2.7, 4.0), "holds only where"),
        # worse at the best rate, and as sensitive
        ((2.7, 2.9, 4.1), (2.5, 2.7, 3.9), "does not hold"),
        # beyond even guesses nothing is worse
        ((2.5, 2.7, 4.5), (2.5, 2.7, 99.0), "holds only where"),
        # rates that do not matter
        ((2.5, 2.5, 2.5), (2.5, 2.5, 2.5), "invalid"),
        ((3.5, 3.7, 4.0), (3.5, 3.7, 4.0), "invalid"),
    ],
)
def test_rates_matter_less(with_norm, without, verdict, full):
    record = run_claim(CLAIMS["qk-norm-widens-rates"], bench=Drawn(losses(with_norm, without), full))
    assert record.verdict == verdict, record.why


def test_what_is_undecided_says_how_wide_its_interval_is():
    noisy = iter((0.90, 0.86, 0.91, 0.88, 0.90, 0.89))
    record = run_claim(CLAIMS["relu-beats-softmax"], bench=Drawn(lambda where, side: next(noisy)))
    undecided = [cell for cell in record.cells if cell.outcome == "undecided"]
    assert undecided
    for cell in undecided:
        half = (cell.high - cell.low) / 2
        assert f"{cell.where}: with 3 seeds, half of the interval is {half:.2g}" in record.notes


def test_claims_that_train_name_their_rules_once():
    trained = [claim for claim in CLAIMS.values() if claim.trial]
    assert len(trained) >= 14
    assert all("over seeds" in claim.rule or "seeds" in claim.rule for claim in trained)
