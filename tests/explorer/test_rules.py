"""Rules of the scripts that need no page, run by node: how numbers read, which lines are drawn, merged words."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from headwise.labels import decimals, percent

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")
CORE = Path(str(files("headwise.explorer") / "static" / "js" / "core"))
NUMBERS = [
    0,
    1,
    -1,
    0.5,
    0.996,
    0.999989,
    0.99999999,
    -0.99999,
    1e-5,
    -1e-5,
    6e-8,
    -6e-8,
    0.0049,
    3.14159,
    123.456,
    1.002,
]


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
const { number, decimals, percent, scored, share } = await import(`${core}/text.js`);
const { sentencePair, strongest } = await import(`${core}/links.js`);
const { folded, perPiece } = await import(`${core}/folding.js`);
const { apart, isOwn, molecule, roomFor } = await import(`${core}/placing.js`);
const { fit } = await import(`${core}/fit.js`);
const { evenShare } = await import(`${core}/even.js`);
const { signedTicks, ticks } = await import(`${core}/bar.js`);
const room = { rows: 7, columns: 7, width: 560, height: 480, label: 40, most: 58 };
const rooms = [{}, { label: 60 }, { width: 330 }, { rows: 40, columns: 40 }, { rows: 900, columns: 900 }];
const weights = [0.7, 0.2, 0.1, 0.05, 0.05, 0.9];
const links = (only) => strongest(weights, 2, 3, 0.85, only).links.map(({ q, k }) => [q, k]);
const labels = ["你(1/2)", "你(2/2)好", "a", "b(1/2)"];
const matrix = { weights: new Float32Array(16).fill(0.25), queries: labels, keys: labels };
const chain = [[0, 0], [20, 0], [40, 0]];
const ends = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]];
const corner = { spots: [[22, 22], [82, 22], [52, 70]], pairs: ends, field: [104, 92], nearer: 2 };
const tall = Array.from({ length: 14 }, (_, at) => ({ x: at / 13, y: 0.02 * (at % 2) }));
const bonds = tall.slice(1).map((_, at) => [at, at + 1]);
const words = { words: [0, 0, 1, 1], special: [] };
console.log(JSON.stringify({
  number: numbers.map(number),
  decimals: numbers.map((one) => decimals(one, 2)),
  percent: numbers.map((one) => percent(one, 1)),
  shares: [0, 1, 0.00499, 0.005, 0.893, 0.9951, -0.124, 1.5].map(share),
  scores: [-0.04, 7.75, -123.4].map(scored),
  fits: rooms.map((one) => fit({ ...room, ...one })),
  ticks: [ticks(1, "sqrt"), ticks(0.444, "linear"), ticks(2.5e-6, "sqrt"), signedTicks(7.8, "sqrt")],
  all: links({ q: -1, k: -1 }), query: links({ q: 1, k: -1 }), pair: links({ q: 0, k: 1 }), key: links({ q: -1, k: 1 }),
  pairs: [sentencePair([0, 3, 6], 7), sentencePair([0, 3], 4), sentencePair([2, 4], 7)],
  even: [[19, true, "previous"], [19, true, "first"], [19, false, "previous"], [1, true, "previous"]]
    .map((one) => evenShare(...one)),
  pieces: Array.from(perPiece({ weights: new Float32Array([0.5, 0.25, 0.5, 0.25]), columns: [[0, 1], [2]] })),
  own: [[5, 4], [20, 4], [30, 4], [20, 12]].map((point) => isOwn(point, chain, [[0, 1], [1, 2]], [0, 1])),
  name: roomFor(1, [17, 7], { ...corner, boxes: corner.spots.map((spot) => [...spot, 7, 7]) }),
  apart: apart(Array.from({ length: 40 }, (_, at) => [240 + 12 * (at % 8), 100 + 3 * at]), 34, [340, 400]),
  upright: [molecule(tall, bonds, 340, 500).height, molecule(tall, bonds, 340, 500, { upright: 500 }).height],
  merged: folded(matrix, { queries: words, keys: words }, { merged: true, special: "" }).keys,
}));
"""


def test_a_rounded_number_is_no_bound_that_it_has_not_reached(answers):
    found = dict(zip(NUMBERS, answers["number"], strict=True))
    assert found[0.999989] == ">0.999"
    assert found[-0.99999] == "<-0.999"
    assert (found[0], found[1], found[0.996], found[1e-5]) == ("0", "1", "0.996", "0.00001")
    assert (found[6e-8], found[-6e-8]) == ("<0.00001", ">-0.00001")
    # as near as sums of float32 come
    assert found[0.99999999] == "1"


def test_a_head_that_looks_everywhere_alike_gives_less_where_a_row_has_more_keys(answers):
    rows = [1 / (row + 1) for row in range(19)]
    assert answers["even"] == pytest.approx([sum(rows[1:]) / 18, sum(rows) / 19, 1 / 19, 0])


def test_pages_round_as_figures_do(answers):
    assert answers["decimals"] == [decimals(one) for one in NUMBERS]
    assert answers["percent"] == [percent(one, 1).replace("%", " %") for one in NUMBERS]
    assert percent(0.0004, 1) == "<0.1%"


def test_cells_show_no_rounded_bound(answers):
    assert answers["shares"] == ["0", "1", "·", ".01", ".89", ">.99", "−.12", "1.50"]
    assert answers["scores"] == ["0.0", "7.8", "−123"]


def test_cells_are_as_large_as_fit(answers):
    fits = [(found["side"], found["turn"]) for found in answers["fits"]]
    assert fits == [(58, "level"), (58, "slanted"), (47, "level"), (10, "upright"), (430 / 900, "upright")]


def test_marks_of_a_bar_are_round_numbers_up_to_the_largest(answers):
    roots, linear, small, signed = answers["ticks"]
    assert [text for _, text in roots] == ["0", ".025", ".1", ".25", ".5", "1"]
    assert all(at == pytest.approx(float(text) ** 0.5) for at, text in roots)
    assert [text for _, text in linear] == ["0", ".05", ".1", ".25", ".444"]
    assert [text for _, text in small] == ["0", ".00000025", ".000001", ".0000025"]
    assert [text for _, text in signed] == ["−7.8", "−1.9", "0", "+1.9", "+7.8"]
    assert [at for at, _ in signed] == [0, 0.25, 0.5, 0.75, 1]


def test_lines_are_those_of_the_chosen_token(answers):
    assert answers["all"] == [[0, 0], [0, 1], [1, 2]]
    assert (answers["query"], answers["pair"], answers["key"]) == ([[1, 2]], [[0, 0], [0, 1]], [[0, 1]])


def test_a_merged_word_has_its_characters_whole(answers):
    assert answers["merged"] == ["你好", "ab(1/2)"]


def test_a_pair_of_sentences_stands_between_special_tokens(answers):
    assert answers["pairs"] == [[-1, 0, 0, -1, 1, 1, -1], None, None]


def test_a_long_word_is_no_darker_for_its_length(answers):
    assert answers["pieces"] == [0.25, 0.25, 0.25, 0.25]


def test_a_name_stands_on_no_line_however_small_the_picture_is(answers):
    across, down = answers["name"]
    # in the corner of a triangle: above the line that goes through its node, within the picture
    assert 17 <= across <= 104 - 17
    assert 7 <= down <= 22 - 7 - 7


def test_nodes_of_a_heap_lie_on_no_other_and_within_the_field(answers):
    spots = np.array(answers["apart"])
    far = np.linalg.norm(spots[:, None] - spots[None], axis=-1) + 100 * np.eye(len(spots))
    assert far.min() >= 34
    assert (spots >= 17).all()
    assert (spots <= np.array([340, 400]) - 17).all()


def test_a_number_stands_beside_its_own_bond(answers):
    # on its own, at the end that it shares with the next bond, on the next one, beside that end
    assert answers["own"] == [True, True, False, True]


def test_a_long_molecule_that_stands_upright_may_be_higher(answers):
    assert answers["upright"] == [pytest.approx(650), pytest.approx(500)]
