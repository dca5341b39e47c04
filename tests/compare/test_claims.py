"""Claims: experiments that are cheap are run; records are kept, judged again and refused where they are damaged."""

import dataclasses
import datetime
import json
import math
from pathlib import Path

import pytest
import torch

from headwise.compare.claim import Claim, add_record, earlier, newest, read_records, run_claim
from headwise.compare.claims import CLAIMS
from headwise.compare.claims.costs import crossings
from headwise.compare.claims.scores import excess
from headwise.compare.costs import Growth
from headwise.compare.report import draw, page, picture_names
from headwise.compare.verdicts import Control, Interval, larger, near
from headwise.errors import DataError


def claim(value=1.0, *, version=1, passed=True):
    def measure(full):
        return [near("here", Interval.exact(value), 2.0 if full else 1.0, 0.1)], [Control("a floor", passed, 0.0)]

    return Claim("one", "One is one.", "nobody", "one is 1 +- 0.1", datetime.date(2026, 1, 1), measure, version)


# those whose numbers are drawn or counted: no clock decides them
CHEAP = {
    "score-variance-grows-with-width": {"holds only where"},
    "scaling-prevents-saturation": {"holds only where"},
    "tied-queries-and-keys-give-the-identity": {"holds only where"},
    "narrow-heads-limit-weights": {"holds"},
    "narrow-outputs-limit-language-models": {"holds"},
    "path-lengths": {"holds"},
    "norm-keeps-order": {"holds"},
}


# those of them that take seconds
LONG = {"narrow-outputs-limit-language-models", "narrow-heads-limit-weights", "path-lengths"}


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [pytest.param(*item, marks=[pytest.mark.slow] if item[0] in LONG else []) for item in CHEAP.items()],
)
def test_a_drawn_experiment_has_its_verdict(name, verdicts):
    record = run_claim(CLAIMS[name])
    assert record.verdict in verdicts, record.why
    assert all(control.passed for control in record.controls)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in CLAIMS.keys() - CHEAP.keys() if CLAIMS[name].measure))
def test_a_measured_experiment_runs_and_is_valid(name):
    record = run_claim(CLAIMS[name])
    assert record.verdict != "invalid", record.why
    assert len({cell.where for cell in record.cells}) == len(record.cells)


def test_claims_are_sentences_with_a_rule():
    for name, one in CLAIMS.items():
        assert one.name == name
        assert one.sentence.endswith(".")
        assert not one.rule.endswith(".")
        assert one.weakness
        assert not one.weakness.endswith(".")
        assert one.written <= datetime.date.today()


def test_records_are_kept_and_the_best_of_the_version_counts(tmp_path):
    path = tmp_path / "claims.jsonl"
    assert read_records(path) == []
    for full, version in ((False, 0), (True, 1), (False, 1)):
        add_record(path, run_claim(claim(version=version), full=full))
    records = read_records(path)
    assert [record.variant for record in records] == ["quick", "full", "quick"]
    assert newest(records, [claim()])["one"] == records[1]
    assert newest(records, [claim(version=2)]) == {}
    assert newest(records[::2], [claim()])["one"] == records[2]
    assert [record.verdict for record in records[1:]] == ["does not hold", "holds"]


def test_a_failed_control_is_kept_as_invalid():
    assert run_claim(claim(passed=False)).verdict == "invalid"


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"name": "x"}', '{"name": NaN}', ""])
def test_a_damaged_file_is_named_with_its_line_and_left_alone(tmp_path, line):
    path = tmp_path / "claims.jsonl"
    add_record(path, run_claim(claim()))
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"claims\.jsonl:2"):
        add_record(path, run_claim(claim()))
    assert path.read_bytes() == before


def test_threads_are_as_they_were():
    def broken(full):
        assert torch.get_num_threads() == 1
        raise RuntimeError("broken")

    before = torch.get_num_threads()
    with pytest.raises(RuntimeError):
        run_claim(dataclasses.replace(claim(), measure=broken))
    assert torch.get_num_threads() == before


def test_the_page_has_every_claim_and_every_number(tmp_path):
    one = claim()
    text = page([one, *CLAIMS.values()], {"one": run_claim(one)})
    assert "| here | 1 | exact | holds | – | – |" in text
    assert "](images/" not in text
    assert "](images/" not in page([one], {"one": run_claim(one)}, "images")
    assert "Weakness: a weak one." in page([dataclasses.replace(one, weakness="a weak one")], {})
    assert all(f"## {name}" in text for name in CLAIMS)
    assert text.count("Not run") == len(CLAIMS)


def test_what_does_not_hold_has_a_picture_that_says_so():
    refuted = claim(3.0)
    record = run_claim(refuted)
    assert picture_names({"one": record}) == {"one": "claim-one.png"}
    assert page([refuted], {"one": record}, "images").count("](images/claim-one.png)") == 1
    (legend,) = draw(refuted, record).legends
    assert legend.get_title().get_text() == "“One is one.” Does not hold."


def test_a_fit_finds_weights_that_have_its_rank():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(12, 3, generator=generator).double() @ torch.randn(3, 12, generator=generator).double()
    assert excess(scores.softmax(-1), 3, 2000, 0) < 1e-6 < excess(scores.softmax(-1), 1, 2000, 0)


def test_records_in_the_repository_are_of_claims_that_are_there():
    path = Path(__file__).parents[2] / "docs" / "claims.jsonl"
    records = newest(read_records(path), CLAIMS.values())
    # what trains models takes hours in all; the page says what has not been run
    assert {name for name, claim in CLAIMS.items() if claim.measure} <= set(records) <= set(CLAIMS)
    # the page is what the records say
    history = earlier(read_records(path), CLAIMS.values())
    assert path.with_suffix(".md").read_text(encoding="utf-8") == page(CLAIMS.values(), records, "images", history)
    assert all((path.parent / "images" / name).exists() for name in picture_names(records).values())
    assert all(json.loads(line)["written"] <= json.loads(line)["ran"] for line in path.read_text().splitlines())


def test_a_crossing_beyond_what_was_measured_has_no_limit_there():
    def pair(*values):
        at = (100, 200, 400, 800)
        other = Growth("b", "length", "seconds", at, (1.0,) * 4, None)
        return Growth("a", "length", "seconds", at, values, None), other

    inside, never, early = pair(0.5, 1.0, 2.0, 4.0), pair(0.1, 0.2, 0.4, 0.8), pair(2.0, 4.0, 8.0, 16.0)
    assert crossings([inside], 200).value == pytest.approx(1.0)
    assert (crossings([never, never], 200).low, crossings([never, never], 200).high) == (pytest.approx(4.0), math.inf)
    assert (crossings([early, early], 200).low, crossings([early, early], 200).high) == (0.0, pytest.approx(0.5))
    mixed = crossings([inside, never, inside], 200)
    assert 0 < mixed.low < 1 < mixed.value < mixed.high == math.inf
    # it is larger than any that was measured: as large as the width it is not
    assert near("", crossings([never, never], 200), 1.0, 0.2).outcome == "refuted"
    assert near("", crossings([never, inside], 200), 1.0, 0.2).outcome == "undecided"


def over_seeds(*draws, version=1):
    def measure(full):
        return [larger("here", Interval.of(draws), 0.1), near("there", Interval.exact(1.0), 1.0, 0.1)], []

    return dataclasses.replace(claim(version=version), measure=measure)


def test_the_page_says_which_verdict_hangs_on_a_seed():
    for draws, words in (
        ((0.5, 0.5, 0.51, 0.5), "the same"),
        ((0.5, 0.6, 0.4, -0.1), "holds 1 of 4"),
        ((0.5, 0.6), "–"),
    ):
        one = over_seeds(*draws)
        record = run_claim(one)
        text = page([one], {"one": record})
        assert f"| [One is one.](#one) | **{record.verdict}** (quick) | {words} |" in text, record.left_out
    assert "| there | 1 | exact | holds | – | – |" in text


def test_a_verdict_without_a_seed_is_that_of_all_conditions_and_controls():
    one = over_seeds(0.5, 0.6, 0.4, 0.5)
    record = run_claim(one)
    assert record.left_out == ["holds"] * 4
    failed = record.model_copy(update={"controls": [Control("a floor", False, 0.0)]})
    assert failed.left_out == ["invalid"] * 4


def test_the_page_keeps_what_earlier_versions_came_to():
    records = [run_claim(claim(value, version=version)) for value, version in ((3.0, 1), (1.0, 2), (3.0, 3))]
    latest = claim(version=3)
    history = earlier(records, [latest])
    assert [record.version for record in history["one"]] == [1, 2]
    text = page([latest], newest(records, [latest]), None, history)
    today = records[0].ran
    assert f"Version 3 of the experiment. Earlier: 1 does not hold (quick, {today}), 2 holds (quick, {today})." in text
    assert earlier(records, [claim(version=1)]) == {}


def test_a_record_is_added_and_those_before_stay_as_they_are(tmp_path):
    path = tmp_path / "claims.jsonl"
    add_record(path, run_claim(claim()))
    # one of a release before the seeds were left out, and no line end
    old = json.loads(path.read_text())
    del old["cells"][0]["left_out"], old["cells"][0]["turned"]
    path.write_text(json.dumps(old))
    add_record(path, run_claim(claim()))
    first, second = path.read_text().splitlines()
    assert json.loads(first) == old
    assert json.loads(second)["cells"][0]["left_out"] == []
