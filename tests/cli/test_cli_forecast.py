"""Series of numbers through the verbs of the command line."""

import json

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two series of a day that returns, an hour a row."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "data"))
    rows = [
        f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00,{site},{hour % 24 + 100 * (site == 'b')},{hour % 8},fine"
        for site in "ab"
        for hour in range(240)
    ]
    (tmp_path / "load.csv").write_text("when,site,load,day,remark\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_series_go_through_every_verb(headwise, folder):
    keys = ["data.time=when", "data.series=site", "data.season=24"]
    code, out, err = headwise("data", "report", "load.csv", "--kind", "series", *keys)
    assert (code, err) == (0, ""), err
    assert "  not read: 'remark'" in out
    small = ["model.d_model=8", "model.d_ff=8", "model.num_heads=2"]
    code, _, err = headwise("init", "forecast", "--data", "load.csv", *keys, *small)
    assert code == 0, err
    recipe = (folder / "recipe.toml").read_text()
    assert "# Forecasts, fitted to the 480 steps of load.csv" in recipe
    assert "length = 48 " in recipe
    assert "horizon = 12 " in recipe
    assert "test_fraction = 0.2 " in recipe
    short = ["recipe.toml", "training.validate_every_epochs=0", "--run-folder", "run"]
    assert headwise("train", *short, "training.max_epochs=1")[0] == 0
    assert headwise("train", *short, "training.max_epochs=2", "--allow-schedule-change")[0] == 0
    log = (folder / "run" / "log.txt").read_text()
    assert "columns without a name or without numbers, not read: 'remark'" in log
    assert "test: MSE (standardised) and MAE without a model: last value " in log
    assert ", season 0 and 0, linear " in log
    code, out, err = headwise("predict", "run", "load.csv", "--steps", 30)
    assert (code, err) == (0, ""), err
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["a"] * 30 + ["b"] * 30
    assert lines[29][1] == "2026-01-12T05:00:00"
    assert all(len(line) == 4 for line in lines)
    code, out, err = headwise("predict", "run", "load.csv#b", "--json")
    assert len(json.loads(out)["forecast"]["load"]) == 12
    code, out, err = headwise("evaluate", "run", "--json")
    found = json.loads(out)
    assert {"mse", "mae", "mae_load", "mae_day", "baselines"} < set(found)
    assert found["baselines"]["season"]["mse"] < found["baselines"]["last value"]["mse"]
    assert headwise("evaluate", "run", "--data", "load.csv", "--json")[0] == 0
    code, out, err = headwise("explain", "run", "load.csv#a")
    assert (code, err) == (0, ""), err
    assert "series 'a', steps 181 to 228 → next: load " in out
    assert (folder / "figures" / "attention.png").stat().st_size > 1000


def test_what_is_no_forecast_says_so(headwise, folder, trained):
    code, _, err = headwise("predict", trained, "one and two .", "--steps", 3)
    assert code == 2
    assert "no option --steps" in err
    code, _, err = headwise("init", "forecast", "--data", "load.csv", "--source-key", "x")
    assert (code, err) == (
        2, "error: task 'forecast' has no option --source-key; it has: --data, --valid, --test, --columns\n"
    )  # fmt: skip
    (folder / "short.csv").write_text("x\n1\n")
    code, _, err = headwise("init", "forecast", "--data", "short.csv")
    assert code == 3
    assert "no window of 1 + 1 steps" in err
    assert not (folder / "recipe.toml").exists()


def test_drawn_waves_are_a_recipe_s(headwise, folder):
    code, out, err = headwise("data", "make", "waves", "--count", 400)
    assert code == 0, err
    assert out.splitlines()[-1] == "next: headwise train waves"
    tiny = ["training.max_epochs=0", "training.max_steps=2", "training.validate_every_epochs=0", "model.d_model=8"]
    code, _, err = headwise("train", "waves", *tiny, "--run-folder", "run")
    assert code == 0, err
    assert headwise("explain", "run", "data/synthetic/waves/series.csv", "--table")[0] == 0
