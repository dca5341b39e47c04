"""Training against the same written out by hand: plain steps, the running mean, a model at rest."""

import pytest
import torch
from torch import nn
from training_toy import batch_of, recipe, toy

from headwise.runs.checkpoints import Checkpoints
from headwise.training.ema import RunningMean
from headwise.training.recipe import read_recipe
from headwise.training.train import train
from headwise.training.validation import evaluation

PLAIN = {
    "max_steps": 3,
    "validate_every": 0,
    "batch_tokens": 10_000,
    "optimizer": "sgd",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "clip_norm": 0.0,
    "schedule": "constant",
    "warmup_steps": 0,
    "learning_rate": 0.05,
}


def test_steps_of_plain_descent_are_those_of_a_loop(tmp_path):
    made = recipe(PLAIN, dropout=0.0)
    task = toy(read_recipe(made))
    torch.manual_seed(made["seed"])
    model = task.build()
    # all examples are one batch
    batch = batch_of(task, range(23))
    for _ in range(3):
        gradients = torch.autograd.grad(task.loss(model, batch) / batch.num_tokens, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.05 * gradient
    train(made, tmp_path / "run")
    found = Checkpoints(tmp_path / "run").newest(print).file("model.safetensors")[0]
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [0.15, 0.9])
def test_the_running_mean_is_its_formula(decay):
    model = nn.Linear(2, 1, bias=False).double()
    mean = RunningMean(model, decay)
    expected = model.weight.detach().clone()
    for update in range(1, 6):
        with torch.no_grad():
            model.weight += update
        mean.update(update)
        kept = min(decay, (1 + update) / (10 + update))
        expected = kept * expected + (1 - kept) * model.weight.detach()
    own = model.weight.detach().clone()
    with mean.applied():
        torch.testing.assert_close(model.weight.detach(), expected, rtol=0, atol=1e-12)
    assert torch.equal(model.weight, own)


def test_statistics_of_a_norm_are_averaged_with_the_weights_and_come_back():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[1].weight = nn.Parameter(model[1].weight.detach())
    model.register_module("again", model[1])
    mean = RunningMean(model, 0.9)
    expected = model[0].running_mean.clone()
    for update in range(1, 4):
        model(torch.randn(5, 2) + update)
        mean.update(update)
        expected += (1 - (1 + update) / (10 + update)) * (model[0].running_mean - expected)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with mean.applied():
        torch.testing.assert_close(model[0].running_mean, expected)
        assert model[0].num_batches_tracked == 3
        inside = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, own[name])
        assert torch.equal(mean.weights()[name], inside[name])


def test_a_model_at_rest_drops_nothing_and_draws_nothing():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    model[0].eval()
    before = torch.get_rng_state()
    with evaluation(model, 1, torch.device("cpu")):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        torch.rand(3)
    assert [module.training for module in model.modules()] == [True, False, True]
    assert torch.equal(torch.get_rng_state(), before)
