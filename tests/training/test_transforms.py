"""Training through a compiler: the same numbers."""

import functools

import pytest
import torch
from training_toy import recipe

from headwise.training.train import train


@pytest.mark.filterwarnings("ignore")
def test_compiled_training_learns_the_same(tmp_path, monkeypatch):
    # traced as for inductor, but not handed to the C++ compiler, which takes most of a minute
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    losses = []
    for name, choice in (("plain", False), ("compiled", True)):
        run = train(recipe({"max_steps": 6, "validate_every": 0, "compile": choice}, dropout=0.0), tmp_path / name)
        losses.append(run.metrics["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
