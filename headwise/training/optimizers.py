"""Optimizers built from a config, their state as named tensors, and schedules: pure functions of the step."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from headwise.errors import CheckpointError
from headwise.runs.weights import copy_into
from headwise.training.recipe import TrainingConfig


def build_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """AdamW (fused), Adam or SGD over the trainable parameters; biases and norms are not decayed.

    A parameter counts as bias or norm when it has fewer than two axes, as an embedding when an `nn.Embedding` holds it.
    """
    groups = [
        {"params": parameters, "weight_decay": decay}
        for parameters, decay in zip(_by_decay(model, config.decay_embeddings), (config.weight_decay, 0.0), strict=True)
        if parameters
    ]
    if config.optimizer == "sgd":
        return SGD(groups, lr=config.learning_rate, momentum=config.momentum)
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(groups, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The state of the optimizer, as `slot:parameter`."""
    return {
        f"{slot}:{name}": value
        for name, parameter in model.named_parameters()
        for slot, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Restores the tensors of `optimizer_tensors`. Raises: CheckpointError naming the file and the wrong key."""
    parameters = dict(model.named_parameters())
    # a step is one number; other state must have the shape of its parameter, or fused kernels read past its end
    slots = {"momentum_buffer"} if isinstance(optimizer, SGD) else {"step", "exp_avg", "exp_avg_sq"}
    optimizer.state.clear()
    for key, value in tensors.items():
        slot, _, owner = key.partition(":")
        if owner not in parameters:
            raise CheckpointError(f"{name}: '{key}' belongs to no parameter of this model")
        if slot not in slots:
            raise CheckpointError(f"{name}: '{key}' is no state of {type(optimizer).__name__}")
        parameter = parameters[owner]
        shape, dtype = ([], torch.float32) if slot == "step" else (list(parameter.shape), parameter.dtype)
        if list(value.shape) != shape or value.dtype != dtype:
            raise CheckpointError(f"{name}: '{key}' is {value.dtype} {list(value.shape)}, not {dtype} {shape}")
        if slot == "step" or not hasattr(parameter, "device_mesh"):
            optimizer.state[parameter][slot] = value.to(parameter.device)
        else:
            optimizer.state[parameter][slot] = torch.zeros_like(parameter.detach())
            copy_into(optimizer.state[parameter][slot], value)
    for owner, parameter in parameters.items():
        if missing := slots - optimizer.state.get(parameter, dict.fromkeys(slots)).keys():
            raise CheckpointError(f"{name}: '{min(missing)}:{owner}' is missing")


def learning_rate(config: TrainingConfig, step: int, share: float = 0.0) -> float:
    """The learning rate of step `step`, counted from 1, when `share` of the run is done."""
    peak, warmup = config.learning_rate, config.warmup_steps
    rise = warm_up(share, config.warmup_share) if config.warmup_share else warm_up(step, warmup)
    match config.schedule:
        case "noam":
            return peak * noam(step, config.noam_width or 1, warmup)
        case "inverse_sqrt":
            return peak * inverse_sqrt(step, warmup)
        case "cosine":
            return peak * cosine(step, warmup, config.max_steps, config.final_share)
        case "linear":
            return peak * linear(step, warmup, config.max_steps, config.final_share)
        case "budget":
            return peak * rise * max(0.0, 1.0 - share)
        case "constant":
            return peak * rise


def warm_up(done: int | float, warmup: int | float) -> float:
    """Rises from 0 to 1 at `warmup`, both in steps or both as shares of the run, and stays there."""
    return min(1.0, done / warmup) if warmup else 1.0


def noam(step: int, width: int, warmup: int) -> float:
    """The schedule of the Transformer.

    width^-0.5 * min(step^-0.5, step * warmup^-1.5)

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 3.

    >>> f"{noam(1, 512, 4000):.4g} {noam(4000, 512, 4000):.5g}"
    '1.747e-07 0.00069877'
    """
    return width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step: int, warmup: int) -> float:
    """Noam's shape with its peak at 1: a linear rise, then sqrt(warmup / step)."""
    return warm_up(step, warmup) * min(1.0, math.sqrt(max(warmup, 1) / step))


def cosine(step: int, warmup: int, total: int, final_share: float) -> float:
    """A linear rise, then half a cosine from 1 down to `final_share` at step `total`."""
    return warm_up(step, warmup) * _fall(0.5 + 0.5 * math.cos(math.pi * _done(step, warmup, total)), final_share)


def linear(step: int, warmup: int, total: int, final_share: float) -> float:
    """A linear rise, then a straight line from 1 down to `final_share` at step `total`."""
    return warm_up(step, warmup) * _fall(1.0 - _done(step, warmup, total), final_share)


def _done(step: int, warmup: int, total: int) -> float:
    return min(1.0, max(0.0, (step - warmup) / max(total - warmup, 1)))


def _fall(height: float, final_share: float) -> float:
    return final_share + (1.0 - final_share) * height


def _by_decay(model: nn.Module, decay_embeddings: bool) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    tables = {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            exempt = parameter.ndim < 2 or (id(parameter) in tables and not decay_embeddings)
            (not_decayed if exempt else decayed).append(parameter)
    return decayed, not_decayed
