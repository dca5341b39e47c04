"""Rules of the scripts that need no page, run by node: how numbers read, which lines are drawn, merged words."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from headwise.labels import decimals, percent

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")
CORE = Path(str(files("headwise.explorer") / "static" / "js" / "core"))
NUMBERS = [0, 1, -1, 0.5, 0.996, 0.999989, 0.99999999, -0.99999, 1e-5, -1e-5, 0.0049, 3.14159, 123.456, 1.002]


@pytest.fixture(scope="module")
def answers():
    """All that is asked of node, in one go."""
    return json.loads(
        subprocess.run(
            [NODE, "--input-type=module", "--eval", SCRIPT, CORE.as_uri(), json.dumps(NUMBERS)],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
    )


SCRIPT = """
const [core, numbers] = [process.argv[1], JSON.parse(process.argv[2])];
const { number, decimals, percent } = await import(`${core}/text.js`);
const { strongest } = await import(`${core}/links.js`);
const { folded } = await import(`${core}/folding.js`);
const weights = [0.7, 0.2, 0.1, 0.05, 0.05, 0.9];
const links = (only) => strongest(weights, 2, 3, 0.85, only).links.map(({ q, k }) => [q, k]);
const labels = ["你(1/2)", "你(2/2)好", "a", "b(1/2)"];
const matrix = { weights: new Float32Array(16).fill(0.25), queries: labels, keys: labels };
const words = { words: [0, 0, 1, 1], special: [] };
console.log(JSON.stringify({
  number: numbers.map(number),
  decimals: numbers.map((one) => decimals(one, 2)),
  percent: numbers.map((one) => percent(one, 1)),
  all: links({ q: -1, k: -1 }), query: links({ q: 1, k: -1 }), pair: links({ q: 0, k: 1 }), key: links({ q: -1, k: 1 }),
  merged: folded(matrix, { queries: words, keys: words }, { merged: true, special: "" }).keys,
}));
"""


def test_a_rounded_number_is_no_bound_that_it_has_not_reached(answers):
    found = dict(zip(NUMBERS, answers["number"], strict=True))
    assert found[0.999989] == ">0.999"
    assert found[-0.99999] == "<-0.999"
    assert (found[0], found[1], found[0.996], found[1e-5]) == ("0", "1", "0.996", "1.00e-5")
    # as near as sums of float32 come
    assert found[0.99999999] == "1"


def test_pages_round_as_figures_do(answers):
    assert answers["decimals"] == [decimals(one) for one in NUMBERS]
    assert answers["percent"] == [percent(one, 1).replace("%", " %") for one in NUMBERS]
    assert percent(0.0004, 1) == "<0.1%"


def test_lines_are_those_of_the_chosen_token(answers):
    assert answers["all"] == [[0, 0], [0, 1], [1, 2]]
    assert (answers["query"], answers["pair"], answers["key"]) == ([[1, 2]], [[0, 0], [0, 1]], [[0, 1]])


def test_a_merged_word_has_its_characters_whole(answers):
    assert answers["merged"] == ["你好", "ab(1/2)"]
