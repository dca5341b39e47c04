"""Given pairs through a trained translator: links, JSON, scores against gold links."""

import json

import pytest

PAIRS = "one and two .\tun et deux .\nsix .\tsix .\n"


@pytest.fixture
def pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    return tmp_path / "pairs.tsv"


def test_a_line_of_links_for_each_pair(headwise, trained, pairs):
    code, out, err = headwise("align", trained, pairs)
    assert (code, err) == (0, "")
    lines = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in out.splitlines()]
    assert [sorted(target for _, target in links) for links in lines] == [[0, 1, 2, 3], [0, 1]]
    assert all(source < 4 for source, _ in lines[0])
    code, out, _ = headwise("align", trained, pairs, "--diagonal", 1000)
    assert out == "0-0 1-1 2-2 3-3\n0-0 1-1\n"


def test_parallel_files_give_the_same_as_json_in_a_file(headwise, trained, pairs, tmp_path):
    rows = [line.split("\t") for line in PAIRS.splitlines()]
    for name, column in (("en", 0), ("fr", 1)):
        (tmp_path / name).write_text("".join(f"{row[column]}\n" for row in rows))
    options = ["--layer", 0, "--heads", 1, "--shift", "--diagonal", 0, "--mutual"]
    plain = headwise("align", trained, pairs, *options)[1]
    sides = [tmp_path / "en", "--target-data", tmp_path / "fr"]
    assert headwise("align", trained, *sides, *options, "--json", "--output", tmp_path / "out")[:2] == (0, "")
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [(row["source"], row["target"]) for row in found] == [tuple(row) for row in rows]
    assert [" ".join(f"{s}-{t}" for s, t in row["links"]) for row in found] == plain.splitlines()


@pytest.mark.parametrize("reverse", [False, True])
def test_links_are_scored_beside_the_diagonal(headwise, trained, pairs, tmp_path, reverse):
    (tmp_path / "gold").write_text("0-0 2-1 1p2\n0-0\n" if reverse else "0-0 1-2 2p1\n0-0\n")
    options = ["--gold", tmp_path / "gold", "--diagonal", 1000, *["--gold-reversed"] * reverse]
    code, out, err = headwise("align", trained, pairs, *options, "--json")
    assert (code, err) == (0, "")
    # the diagonal: 6 links, of 3 sure ones 2, and 2 of the possible
    wanted = {"aer": 100 * (1 - 4 / 9), "precision": 100 * 2 / 6, "recall": 100 * 2 / 3}
    scores = json.loads(out)
    assert scores.pop("pairs") == 2
    assert scores == pytest.approx(wanted | {f"{name}_diagonal": value for name, value in wanted.items()})
    code, out, _ = headwise("align", trained, pairs, *options, "--longest", 3)
    assert code == 0
    assert "1 pairs of" in out
    assert "aer_diagonal" in out


@pytest.mark.parametrize(
    ("gold", "options", "message"),
    [
        ("0-0\n", [], "1 lines of links for 2 pairs; each pair needs its line"),
        ("0-0\n2-0\n", [], "gold:2: link 2-0 (source-target) is outside the 2 source and 2 target words"),
        ("0-0\n0:0\n", [], "gold:2: '0:0' is no link"),
        ("0-0\n0-0\n", ["--longest", 1], "no pair to align of at most 1 words"),
    ],
)
def test_gold_links_of_other_pairs_are_refused(headwise, trained, pairs, tmp_path, gold, options, message):
    (tmp_path / "gold").write_text(gold)
    code, out, err = headwise("align", trained, pairs, "--gold", tmp_path / "gold", *options)
    assert (code, out) == (3, "")
    assert message in err
