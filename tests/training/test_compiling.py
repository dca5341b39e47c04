"""torch.compile by choice: the same numbers, and an ordinary call where it does not work."""

import torch

from headwise.training.parallel import compile_loss


def _loss(batch):
    return batch.square().sum()


def test_no_compiler_is_a_note(monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("no C++ compiler\nat all")

    monkeypatch.setattr(torch, "compile", broken)
    notes = []
    assert compile_loss(_loss, notes.append) is _loss
    assert notes == ["torch.compile does not work here (no C++ compiler); training continues without it"]


def test_a_model_that_does_not_compile_goes_on_with_the_same_random_numbers(monkeypatch):
    calls = []

    def failing(batch):
        calls.append(torch.rand(3))
        raise torch._dynamo.exc.TorchDynamoException("cannot")

    def plain(batch):
        return torch.rand(())

    monkeypatch.setattr(torch, "compile", lambda function, dynamic: failing if function is plain else function)
    notes = []
    loss = compile_loss(plain, notes.append)
    torch.manual_seed(3)
    expected = torch.rand(())
    torch.manual_seed(3)
    assert torch.equal(loss(None), expected)
    loss(None)
    assert len(calls) == 1
    assert notes == ["torch.compile failed on this model (cannot); training continues without it"]
