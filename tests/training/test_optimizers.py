"""Schedules against their formulas, what is decayed, and the optimizer's state as tensors."""

import math

import pytest
import torch
from torch import nn
from training_toy import ToyConfig, ToyModel

from headwise.errors import CheckpointError
from headwise.training.optimizers import (
    build_optimizer,
    cosine,
    inverse_sqrt,
    learning_rate,
    linear,
    noam,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
    warm_up,
)
from headwise.training.recipe import TrainingConfig


def test_noam_golden_values():
    # Vaswani et al. 2017, equation 3, d_model 512 and 4000 warm-up steps
    assert noam(1, 512, 4000) == pytest.approx(1.747e-7, rel=1e-3)
    assert noam(4000, 512, 4000) == pytest.approx(6.9877e-4, rel=1e-4)
    assert max(range(1, 20_000), key=lambda step: noam(step, 512, 4000)) == 4000


def test_shapes_of_the_schedules():
    assert [warm_up(step, 4) for step in (1, 2, 4, 9)] == [0.25, 0.5, 1.0, 1.0]
    assert warm_up(1, 0) == 1.0
    assert inverse_sqrt(4, 4) == 1.0
    assert inverse_sqrt(16, 4) == 0.5
    assert inverse_sqrt(2, 4) == 0.5
    assert cosine(5, 5, 25, 0.1) == pytest.approx(1.0)
    assert cosine(15, 5, 25, 0.1) == pytest.approx(0.55)
    assert cosine(25, 5, 25, 0.1) == pytest.approx(0.1)
    assert cosine(99, 5, 25, 0.1) == pytest.approx(0.1)
    assert linear(15, 5, 25, 0.0) == pytest.approx(0.5)
    assert linear(25, 5, 25, 0.0) == 0.0
    assert cosine(10, 5, 25, 0.0) == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4))


@pytest.mark.parametrize(
    ("fields", "step", "share", "expected"),
    [
        ({"schedule": "noam", "noam_width": 4, "warmup_steps": 4}, 4, 0.0, 2.0 * 0.5 * 0.5),
        ({"schedule": "inverse_sqrt", "warmup_steps": 4}, 16, 0.0, 1.0),
        ({"schedule": "cosine", "warmup_steps": 0, "max_steps": 10}, 5, 0.0, 1.0),
        ({"schedule": "linear", "warmup_steps": 0, "max_steps": 10}, 5, 0.0, 1.0),
        ({"schedule": "constant", "warmup_steps": 10}, 5, 0.0, 1.0),
        ({"schedule": "budget", "warmup_steps": 0, "max_cpu_s": 60.0}, 5, 0.75, 0.5),
        ({"schedule": "budget", "warmup_steps": 0, "max_cpu_s": 60.0}, 5, 1.25, 0.0),
        ({"schedule": "budget", "warmup_steps": 10}, 5, 0.75, 0.25),
        ({"schedule": "budget", "warmup_steps": 10, "warmup_share": 0.5}, 5, 0.25, 0.75),
        ({"schedule": "budget", "warmup_steps": 10, "warmup_share": 0.5}, 5, 0.75, 0.5),
        ({"schedule": "constant", "warmup_share": 0.5}, 5, 0.25, 1.0),
    ],
)
def test_learning_rate_of_each_schedule(fields, step, share, expected):
    assert learning_rate(TrainingConfig(learning_rate=2.0, **fields), step, share) == pytest.approx(expected)


def _decayed(**fields):
    model = nn.ModuleDict({"table": nn.Embedding(5, 3), "norm": nn.LayerNorm(3), "map": nn.Linear(3, 7)})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = build_optimizer(model, TrainingConfig(weight_decay=0.5, **fields)).param_groups
    return {name: group["weight_decay"] for group in groups for name in (names[id(p)] for p in group["params"])}


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_only_matrices_are_decayed(optimizer):
    exempt = {"table.weight": 0.0, "norm.weight": 0.0, "norm.bias": 0.0, "map.bias": 0.0}
    assert _decayed(optimizer=optimizer) == {"map.weight": 0.5, **exempt}
    assert _decayed(optimizer=optimizer, decay_embeddings=True)["table.weight"] == 0.5


def test_frozen_parameters_are_left_out():
    model = nn.Linear(3, 5)
    model.bias.requires_grad_(False)
    assert len(build_optimizer(model, TrainingConfig()).param_groups) == 1


def test_adamw_is_fused_and_the_rate_is_set():
    optimizer = build_optimizer(nn.Linear(3, 5), TrainingConfig())
    assert optimizer.defaults["fused"]
    set_learning_rate(optimizer, 0.125)
    assert [group["lr"] for group in optimizer.param_groups] == [0.125, 0.125]


@pytest.mark.parametrize("kind", ["adamw", "adam", "sgd"])
def test_state_round_trip_continues_to_the_same_bits(kind):
    config = TrainingConfig(optimizer=kind, learning_rate=0.1)
    inputs = torch.arange(6).reshape(2, 3)

    def step(model, optimizer):
        model(inputs, inputs).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    one, two = ToyModel(ToyConfig(dropout=0.0)), ToyModel(ToyConfig(dropout=0.0))
    first, second = build_optimizer(one, config), build_optimizer(two, config)
    step(one, first)
    two.load_state_dict(one.state_dict())
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(first, one).items()}
    restore_optimizer(second, two, saved, "optimizer.safetensors")
    step(one, first)
    step(two, second)
    for name, tensor in two.state_dict().items():
        assert torch.equal(tensor, one.state_dict()[name]), name


def test_a_foreign_state_is_refused():
    model = nn.Linear(3, 5)
    optimizer = build_optimizer(model, TrainingConfig())
    with pytest.raises(CheckpointError, match=r"^o: 'exp_avg:other' belongs to no parameter of this model$"):
        restore_optimizer(optimizer, model, {"exp_avg:other": torch.zeros(3)}, "o")
    whole = {
        "step:weight": torch.ones(()),
        **{f"{slot}:weight": torch.zeros(5, 3) for slot in ("exp_avg", "exp_avg_sq")},
    }
    restore_optimizer(optimizer, model, whole, "o")
    for wrong, message in (
        ({"exp_avg:weight": torch.zeros(3)}, r"'exp_avg:weight' is torch.float32 \[3\], not torch.float32 \[5, 3\]"),
        # a fused step would read past the end of one number
        ({"exp_avg_sq:weight": torch.zeros(())}, r"'exp_avg_sq:weight' is torch.float32 \[\], not torch.float32 \["),
        ({"exp_avg:weight": torch.zeros(5, 3).long()}, r"'exp_avg:weight' is torch.int64 \[5, 3\], not "),
        (
            {"exp_avg:weight": torch.zeros(5, 3).double()},
            r"'exp_avg:weight' is torch.float64 \[5, 3\], not torch.float3",
        ),
        ({"step:weight": torch.zeros(2)}, r"'step:weight' is torch.float32 \[2\], not torch.float32 \[\]"),
        ({"momentum_buffer:weight": torch.zeros(5, 3)}, "'momentum_buffer:weight' is no state of AdamW"),
    ):
        with pytest.raises(CheckpointError, match=rf"^o: {message}"):
            restore_optimizer(optimizer, model, whole | wrong, "o")
    del whole["exp_avg:weight"]
    with pytest.raises(CheckpointError, match=r"^o: 'exp_avg:weight' is missing$"):
        restore_optimizer(optimizer, model, whole, "o")
