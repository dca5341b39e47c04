"""Sub-words merged and special tokens hidden: pages and server fold a matrix alike."""

import numpy as np
import pytest
from browsing import IN_BROWSER

from headwise.explain.folding import Fold, fold_weights, group_numbers, useful_folds
from headwise.explain.places import Tokens
from headwise.explorer import bundle

pytestmark = IN_BROWSER
EVERY = [Fold(merged, special) for merged in (False, True) for special in ("", "hide", "share")]
FOLDED = """async (cases) => {
    %s
    const { folded, splits } = modules["core/folding.js"];
    return cases.map(([weights, queries, keys, spelled, options]) => {
        const values = Float32Array.from(weights, (one) => one === null ? -Infinity : one);
        const found = folded({ weights: values, queries, keys }, spelled, options);
        const merges = splits(spelled.queries) || splits(spelled.keys);
        return { ...found, merges, weights: [...found.weights].map((one) => one === -Infinity ? null : one) };
    });
}"""


@pytest.fixture(scope="module")
def fold(browser):
    """What the scripts make of matrices."""
    context = browser.new_context()
    page = context.new_page()
    script = FOLDED % bundle.script("core/folding.js")
    yield lambda cases: page.evaluate(script, cases)
    context.close()


def tokens(random, name):
    """Up to seven tokens in words, some special, some in none; a word may come again after others."""
    length = int(random.integers(1, 8))
    words = np.where(random.random(length) < 0.2, -1, random.integers(0, 3, length))
    if random.random() < 0.5:
        words = np.where(words < 0, -1, np.sort(random.integers(0, 4, length)))
    special = np.flatnonzero(random.random(length) < random.choice([0, 0.3, 1]))
    return Tokens([f"{name}{place}" for place in range(length)], words.tolist(), special.tolist())


def matrix(random, shape):
    """Weights, some of which are exactly zero or below zero, and which pairs are forbidden."""
    weights = random.dirichlet(np.full(shape[1], 0.3), shape[0])
    # rows of differences of attention, and rows that hold nothing
    weights *= random.choice([-1.0, 0.0, 1.0], shape, p=random.choice([[0, 0, 1], [0, 0.5, 0.5], [0.3, 0.2, 0.5]]))
    forbidden = random.random(shape) < random.choice([0, 0.3, 0.9])
    return np.where(forbidden, 0, weights).astype(np.float32), forbidden


def asked(weights, forbidden, sides, fold):
    told = [None if off else float(one) for one, off in zip(weights.flat, forbidden.flat, strict=True)]
    spelled = {
        name: {"words": list(one.words), "special": list(one.special)}
        for name, one in zip(("queries", "keys"), sides, strict=True)
    }
    return [told, sides[0].labels, sides[1].labels, spelled, fold._asdict()]


def parts(numbers):
    return [[token for token, row in enumerate(numbers) if row == one] for one in range(max(numbers) + 1)]


def test_pages_and_server_fold_alike(fold):
    random = np.random.default_rng(0)
    cases = []
    for _ in range(200):
        sides = (tokens(random, "q"), tokens(random, "k"))
        weights, forbidden = matrix(random, (len(sides[0].labels), len(sides[1].labels)))
        cases += [(weights, forbidden, sides, how) for how in EVERY]
    for case, found in zip(cases, fold([asked(*case) for case in cases]), strict=True):
        weights, forbidden, sides, how = case
        labels = (sides[0].labels, sides[1].labels)
        rows, columns = (parts(group_numbers(side, sides, how)) for side in labels)
        assert (found["rows"], found["columns"]) == (rows, columns), case
        (exact,) = fold_weights(weights[None].astype(float), labels, sides, how)
        told = np.array([np.nan if one is None else one for one in found["weights"]]).reshape(exact.shape)
        # forbidden is what holds no pair that is allowed
        held = np.array([[forbidden[np.ix_(down, across)].all() for across in columns] for down in rows])
        np.testing.assert_array_equal(np.isnan(told), held)
        np.testing.assert_allclose(np.where(held, 0, told), exact, rtol=1e-5, atol=1e-6, err_msg=str(case))
        if how.special == "hide":
            assert found["left"] == pytest.approx(kept(weights.astype(float), rows, columns), rel=1e-5, abs=1e-6)
        assert found["merges"] == any(one.merged for one in useful_folds(labels, sides))


def kept(weights, rows, columns):
    """The mean share of a row that lies in columns that are shown; all of one that sums to nothing."""
    shown, shares = [token for column in columns for token in column], []
    for token in [token for row in rows for token in row]:
        whole = sum(weights[token])
        shares.append(sum(weights[token, shown]) / whole if whole > 0 else 1.0)
    return sum(shares) / len(shares)


def test_a_row_of_differences_that_cancel_shares_nothing(fold):
    # what is left is less than nothing, as of differential attention
    weights = np.array([[0.75, 0.5, -0.75], [-0.5, 0.25, 0.0], [0.5, 0.25, 0.25]], np.float32)
    sides = (Tokens(["a", "b", "c"], [-1] * 3), Tokens(["<bos>", "b", "c"], [-1] * 3, [0]))
    (exact,) = fold_weights(weights[None], (sides[0].labels, sides[1].labels), sides, Fold(special="share"))
    np.testing.assert_allclose(exact, [[0.5, -0.75], [0.25, 0.0], [0.5, 0.5]])
    (found,) = fold([asked(weights, np.zeros((3, 3), bool), sides, Fold(special="share"))])
    assert found["weights"] == pytest.approx(exact.flatten())


def test_what_is_forbidden_stays_apart_and_words_are_joined(fold):
    spelled = {"words": [0, 0, 1, -1], "special": [3]}
    names = ["play", "##ing", "now", "<eos>"]
    weights = [1, None, None, None, 0.5, 0.5, None, None, 0.25, 0.25, 0.5, None, 0.1, 0.2, 0.3, 0.4]
    given = [weights, names, names, {"queries": spelled, "keys": spelled}]
    of_two = [[1, 0], ["a"], ["<bos>", "<eos>"], {"queries": {}, "keys": {"special": [0, 1]}}]
    told = [[*given, Fold()._asdict()], [*given, Fold(True, "hide")._asdict()], [*of_two, Fold(True, "hide")._asdict()]]
    plain, found, alone = fold(told)
    assert (plain["weights"], plain["queries"], plain["left"]) == (pytest.approx(weights), names, 1)
    assert found["queries"] == found["keys"] == ["playing", "now"]
    assert (found["rows"], found["left"]) == ([[0, 1], [2]], 1)
    # no pair of the word and the token behind it is allowed
    assert found["weights"] == [1, None, 0.5, 0.5]
    assert alone["keys"] == ["<bos>", "<eos>"]
