"""The drawn log of refills, and that the model of its recipe looks at the purchase that decides."""

import csv

import pytest

import headwise
from headwise.errors import DataError
from headwise.tasks.ranking.demo import make_refills, refills
from headwise.training.loading import examples


def test_a_good_is_bought_again_after_three_others():
    bought: dict[str, list[str]] = {}
    shown = []
    for session, item, label in refills(3, 200)[1:]:
        history = bought.setdefault(session, [])
        if len(history) >= 6:
            followers = len(history) - 1 - max(place for place, other in enumerate(history) if other == item)
            shown.append((label, followers >= 3))
        if label == "1":
            history.append(item)
    assert len(shown) == 200
    assert all((label == "1") == due for label, due in shown)
    assert 0.3 < sum(due for _, due in shown) / 200 < 0.7


@pytest.mark.parametrize("count", [1, 6, 7, 25])
def test_files_show_as_many_goods_as_asked(tmp_path, count):
    counts = make_refills(tmp_path, 2, count)
    assert [path.name for path in counts] == ["train.csv", "valid.csv", "test.csv"]
    for path, shown in counts.items():
        rows = list(csv.DictReader(path.read_text().splitlines()))
        assert len(rows) - 6 * len({row["session"] for row in rows}) == shown
    assert make_refills(tmp_path, 2, count) == counts
    with pytest.raises(DataError, match="is other data"):
        make_refills(tmp_path, 3, count)


def test_one_matrix_and_cosines_find_the_own_item_from_the_first_step(tmp_path, monkeypatch):
    make_refills(tmp_path / "synthetic" / "refills", 1, 300)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    short = ["training.max_steps=2", "training.max_epochs=0"]
    found = {}
    for shared, score in (("true", "cosine"), ("false", "scaled_dot")):
        settings = [*short, f"model.shared={shared}", f"model.score={score}"]
        headwise.train("refills", str(tmp_path / f"run-{shared}"), overrides=settings)
        run = tmp_path / f"run-{shared}"
        found[shared] = headwise.load(run).evaluate(examples(run, "test", {}))
    assert found["true"]["same_item"] == 1.0
    assert found["false"]["same_item"] < 0.8
    assert found["true"]["same_item_chance"] == found["false"]["same_item_chance"] < 0.3
