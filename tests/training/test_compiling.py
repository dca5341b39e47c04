"""torch.compile by choice: the same numbers, and an ordinary call where it does not work."""

import functools

import pytest
import torch
from training_toy import recipe

from headwise.training import compiling
from headwise.training.compiling import compiled
from headwise.training.train import train


def _loss(batch):
    return batch.square().sum()


def test_no_compiler_is_a_note(monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("no C++ compiler\nat all")

    monkeypatch.setattr(torch, "compile", broken)
    notes = []
    assert compiled(_loss, notes.append) is _loss
    assert notes == ["torch.compile does not work here (no C++ compiler); training goes on without it"]


def test_a_model_that_does_not_compile_goes_on_with_the_same_random_numbers(monkeypatch):
    calls = []

    def failing(batch):
        calls.append(torch.rand(3))
        raise torch._dynamo.exc.TorchDynamoException("cannot")

    monkeypatch.setattr(torch, "compile", lambda function, dynamic: failing)
    notes = []
    loss = compiling._WithFallback(lambda batch: torch.rand(()), notes.append)
    torch.manual_seed(3)
    expected = torch.rand(())
    torch.manual_seed(3)
    assert torch.equal(loss(None), expected)
    loss(None)
    assert len(calls) == 1
    assert notes == ["torch.compile failed on this model (cannot); training goes on without it"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_training_learns_the_same(tmp_path, monkeypatch):
    # traced as for inductor, but not handed to the C++ compiler, which takes most of a minute
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    losses = []
    for name, choice in (("plain", False), ("compiled", True)):
        run = train(recipe({"max_steps": 6, "validate_every": 0, "compile": choice}, dropout=0.0), tmp_path / name)
        losses.append(run.metrics["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
