"""Forecasters: no window hears of another or of what comes after it, and step by step is all at once."""

import pytest
import torch
from pydantic import TypeAdapter

from headwise.errors import ConfigError
from headwise.models.pooling import SequencePoolingConfig
from headwise.tasks.series.model import ForecasterConfig, StepwiseForecaster, build_forecaster

STEPWISE = {"kind": "decoder", "d_model": 12, "d_ff": 16, "num_heads": 3, "num_layers": 2, "dropout": 0.2}
ATTENTION = {"kind": "attention", "d_model": 12, "d_ff": 16, "num_heads": 3, "encoder_layers": 2, "dropout": 0.2}
MODELS = [
    STEPWISE,
    {**STEPWISE, "position": "rotary", "norm_order": "post"},
    {**STEPWISE, "position": "alibi", "num_kv_heads": 1},
    {**STEPWISE, "position": "learned", "max_len": 20},
    {**STEPWISE, "position": "t5", "d_ff": 0},
    {**STEPWISE, "mechanism": "linear"},
    {**STEPWISE, "mechanism": "retention", "position": "none"},
    ATTENTION,
    {**ATTENTION, "score": "additive", "position": "shaw"},
    {**ATTENTION, "mechanism": "linear"},
    {"kind": "token", "d_model": 7, "d_ff": 5},
    {"kind": "window", "d_model": 7, "d_ff": 5},
    {"kind": "cnn", "d_model": 7},
    {"kind": "rnn", "d_model": 7, "hidden_dim": 5},
]
POOLINGS = [
    {"kind": "mean"}, {"kind": "max"}, {"kind": "last"}, {"kind": "attention"},
    {"kind": "attention", "query": "last", "score": "additive"}, {"kind": "cls"},
]  # fmt: skip


def built(config=STEPWISE, pooling=None, columns=5, targets=(3, 1), horizon=4, change=True):
    torch.manual_seed(1)
    made = TypeAdapter(ForecasterConfig).validate_python(config)
    chosen = SequencePoolingConfig(**(pooling or {"kind": "last"}))
    model = build_forecaster(made, chosen, columns, list(targets), horizon=horizon, change=change)
    return model.eval().double()


def history(batch=3, length=11, columns=5):
    return torch.randn(batch, length, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("config", MODELS, ids=lambda config: "-".join(map(str, config.values())))
def test_windows_side_by_side_do_not_hear_of_each_other(config):
    model, x = built(config), history()
    together = model(x)
    assert together.shape == (3, 4, 2)
    torch.testing.assert_close(together, torch.cat([model(x[row : row + 1]) for row in range(3)]))
    if not isinstance(model, StepwiseForecaster):
        assert model(x[:0]).shape == (0, 4, 2)
    assert torch.isfinite(model(x[:, :1])).all()


@pytest.mark.parametrize("config", MODELS, ids=lambda config: "-".join(map(str, config.values())))
def test_a_forecast_does_not_know_the_future(config):
    model, window = built(config), torch.cat([history(), history(3, 4) * 9], 1)
    count = 14 if isinstance(model, StepwiseForecaster) else 4
    said, wanted = model.teacher_forced(window, count)
    columns = slice(None) if isinstance(model, StepwiseForecaster) else model.targets
    torch.testing.assert_close(wanted, window[:, -count:, columns])
    changed = window.clone()
    changed[:, -1] = 1e3
    torch.testing.assert_close(model.teacher_forced(changed, count)[0], said)
    changed[:, 10] = 1e3
    assert not torch.allclose(model.teacher_forced(changed, count)[0][:, -4:], said[:, -4:])


@pytest.mark.parametrize("config", MODELS[:7], ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("change", [True, False])
def test_step_by_step_is_all_at_once(config, change):
    model, x = built(config, change=change), history()
    every = model.predict_next(x)
    cache, told = model.start(x[:, :4]), []
    for place in range(4, 11):
        told.append(model.step(x[:, place], cache))
    torch.testing.assert_close(torch.stack(told, 1), every[:, 4:])
    cache = model.start(x[:, :0])
    torch.testing.assert_close(model.step(x[:, 0], cache), every[:, 0])
    # its own outputs are its inputs: the forecast once more, each time from the beginning
    steps = x
    for _ in range(4):
        steps = torch.cat([steps, model.predict_next(steps)[:, -1:]], 1)
    torch.testing.assert_close(model.roll_out(x), steps[:, 11:])
    torch.testing.assert_close(model(x), steps[:, 11:][..., [3, 1]])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("change", [True, False])
def test_a_pooled_forecast_counts_from_the_latest_numbers(pooling, change):
    model, x = built(ATTENTION, pooling, change=change), history()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.arange(8.0))
    told = torch.arange(8.0, dtype=torch.float64).view(1, 4, 2).expand(3, -1, -1)
    torch.testing.assert_close(model(x), told + x[:, -1:, [3, 1]] if change else told)


@pytest.mark.parametrize("config", [STEPWISE, ATTENTION])
def test_every_weight_learns(config):
    model, window = built(config, {"kind": "attention"}).train(), torch.cat([history(), history(3, 4)], 1)
    said, wanted = model.teacher_forced(window, 4)
    (said - wanted).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**STEPWISE, "norm": "batch"}, "norm 'batch' cannot be in a decoder"),
        ({**STEPWISE, "mechanism": "linformer"}, "mechanism 'linformer' cannot hide later tokens"),
        ({**STEPWISE, "position": "convolutional"}, "position 'convolutional' cannot go step by step"),
    ],
)
def test_what_cannot_go_step_by_step_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        built(config)
