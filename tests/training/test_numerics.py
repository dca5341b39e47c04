"""Precision "auto": measured when a run begins, told, written into the run, and kept when it goes on."""

import pytest
from torch import nn
from training_toy import recipe

from headwise import runtime
from headwise.errors import ConfigError
from headwise.training.numerics import precision_notes
from headwise.training.recipe import parse_recipe
from headwise.training.train import train


def rates(monkeypatch, float32, bfloat16):
    """Rates of products, as if this machine had been measured."""
    found = {"torch.float32": float32, "torch.bfloat16": bfloat16}
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype: found[str(dtype)])


def trained(folder, steps, **options):
    train(recipe({"max_steps": steps, **options}), folder)
    text = (folder / "log.txt").read_text()
    written = parse_recipe((folder / "config.toml").read_bytes(), "config.toml").training.precision
    return written, [line for line in text.splitlines() if "training.precision auto" in line]


@pytest.mark.parametrize(("bfloat16", "expected"), [(600.0, "bf16"), (110.0, "fp32")])
def test_auto_follows_the_machine_and_stays_with_the_run(tmp_path, monkeypatch, bfloat16, expected):
    rates(monkeypatch, 100.0, bfloat16)
    written, told = trained(tmp_path / "run", 2, precision="auto")
    assert written == expected
    assert len(told) == 1
    times = bfloat16 / 100.0
    assert told[0].endswith(
        f"training.precision auto is {expected}: products in bfloat16 have {times} times the rate of float32 here"
    )
    # another machine, but the same run
    rates(monkeypatch, 100.0, 700.0 - bfloat16)
    written, told = trained(tmp_path / "run", 4, precision="auto")
    assert written == expected
    assert told[1].endswith(f"training.precision auto is {expected}: as this run began")
    # what it was settled to may be said outright, but not changed
    assert trained(tmp_path / "run", 5, precision=expected)[0] == expected
    other = "fp32" if expected == "bf16" else "bf16"
    with pytest.raises(ConfigError, match=rf"training.precision was '{expected}' and is '{other}' now"):
        trained(tmp_path / "run", 6, precision=other)


def test_explicit_precision_measures_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "gigaflops", lambda dtype: pytest.fail("measured"))
    assert trained(tmp_path / "run", 1, precision="bf16") == ("bf16", [])


@pytest.mark.parametrize("layer", [nn.GRU(2, 2), nn.LSTMCell(2, 2)])
def test_bf16_that_recurrent_layers_do_not_use_is_told(layer):
    model = nn.Sequential(nn.Linear(2, 2), layer)
    told = ["training.precision bf16 does nothing in recurrent layers: states rounded at every step would drift"]
    assert precision_notes(model, "bf16") == told
    assert precision_notes(model, "fp32") == precision_notes(model[:1], "bf16") == []


def test_notes_of_precision_are_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("headwise.training.train.precision_notes", lambda model, precision: [f"told of {precision}"])
    train(recipe({"max_steps": 1, "precision": "bf16"}), tmp_path / "run")
    assert "told of bf16" in (tmp_path / "run" / "log.txt").read_text()
