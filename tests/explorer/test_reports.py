"""Reports of comparisons and of costs: what is read of a folder, what is refused, and what a service answers."""

import json

import pytest
from fastapi.testclient import TestClient

from headwise.errors import DataError
from headwise.explorer.reports import read_report, reports_in
from headwise.explorer.serving import explorer_app

COMPARISON = {
    "headwise comparison": 1,
    "command": "headwise compare",
    "metric": "loss",
    "rows": [{"side": "<b>", "loss": None, "failed": 1, "seeds": 3}],
    "notes": ["one"],
    "conditions": [],
    "sides": [{"name": "<b>", "runs": {"0": "runs/here"}}, {"name": "gone", "runs": {}}],
    "figures": [{"file": "../secret.png", "caption": "a"}, {"file": "figure-1.png", "caption": "b"}],
}


def written(folder, content):
    folder.mkdir()
    (folder / "results.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_report_is_served_with_its_figures_alone(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = written(tmp_path / "report", COMPARISON)
    (folder / "figure-1.png").write_bytes(b"png")
    report = read_report(folder)
    assert report.runs() == []
    assert report.shown({"here"})["sides"] == [{"name": "<b>", "model": "here"}]
    client = TestClient(explorer_app({}, reports=[report]), base_url="http://127.0.0.1")
    (shown,) = client.get("/api/v1/reports").json()["reports"]
    assert [figure["caption"] for figure in shown["figures"]] == ["b"]
    assert shown["figures"][0]["image"].startswith("data:image/png;base64,")
    assert shown["sides"] == []
    assert shown["rows"] == COMPARISON["rows"]
    assert TestClient(explorer_app({}), base_url="http://127.0.0.1").get("/api/v1/reports").json() == {"reports": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "is no report"),
        ({"rows": []}, "is no report"),
        ({"headwise comparison": 2}, "is no report"),
        ({"headwise comparison": 1, "sides": [{}]}, "lacks what a report has"),
        ({"headwise complexity": 1, "figures": [3]}, "lacks what a report has"),
        ({"headwise complexity": 1, "rows": ["x" * 2**23]}, "has more than 8,388,608 bytes"),
    ],
)
def test_what_is_no_report_is_refused_by_name_and_passed_over_in_a_folder(tmp_path, content, message):
    folder = written(tmp_path / "odd", content)
    with pytest.raises(DataError, match=message):
        read_report(folder)
    with pytest.raises(DataError, match="cannot be read"):
        read_report(tmp_path)
    written(tmp_path / "good", {"headwise complexity": 1})
    assert [report.folder.name for report in reports_in(tmp_path)] == ["good"]
