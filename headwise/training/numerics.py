"""Which precision a run has, gradient norm and clipping, and what to say when numbers stop being finite."""

from collections.abc import Callable, Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise import runtime
from headwise.errors import ConfigError, Diverged, OutOfMemory
from headwise.processes import ALONE, Processes
from headwise.runs.tensors import local, not_finite
from headwise.training.recipe import Recipe


def settle_precision(recipe: Recipe, earlier: Recipe | None, note: Callable[[str], None]) -> Recipe:
    """The recipe with "auto" precision replaced: by that of the `earlier` recipe of the run, or by a fast one here."""
    if recipe.training.precision != "auto":
        return recipe
    if earlier is not None:
        precision, reason = str(earlier.training.precision), "as this run began"
    elif device(recipe.training.device).type == "cuda":
        usable = torch.cuda.is_bf16_supported(including_emulation=False)
        precision, reason = ("bf16", "this GPU has it") if usable else ("fp32", "this GPU has no bfloat16")
    else:
        rates = runtime.gigaflops(torch.float32), runtime.gigaflops(torch.bfloat16)
        precision, reason = runtime.training_precision(*rates)
    note(f"training.precision auto is {precision}: {reason}")
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"precision": precision})})


def precision_notes(model: nn.Module, precision: str) -> list[str]:
    """A note where the precision has no effect in a part of the model.

    >>> precision_notes(nn.Linear(2, 2), "bf16"), len(precision_notes(nn.GRU(2, 2), "bf16"))
    ([], 1)
    """
    recurrent = any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules())
    if precision != "bf16" or not recurrent:
        return []
    return ["training.precision bf16 does nothing in recurrent layers: states rounded at every step would drift"]


def device(name: str) -> torch.device:
    """The device of a recipe's name. Raises: ConfigError if PyTorch cannot use it here.

    >>> device("cpu")
    device(type='cpu')
    """
    devices = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, usable in devices.items() if usable))
    if not devices[name]:
        usable = ", ".join(kind for kind, available in devices.items() if available)
        raise ConfigError(f"training.device = '{name}' cannot be used here; this machine has: {usable}")
    return torch.device(name)


def gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """The gradients, or the rows of them that this process has; a parameter that took no part has none."""
    return [local(parameter.grad) for parameter in parameters if parameter.grad is not None]


def global_norm(tensors: list[Tensor]) -> Float[Tensor, ""]:
    """Euclidean norm of all tensors as one vector; NaN or infinity in any of them shows in it.

    >>> global_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    tensor(5.)
    """
    return torch.nn.utils.get_total_norm(tensors) if tensors else torch.zeros(())


def clip(parameters: list[nn.Parameter], norm: float, limit: float) -> None:
    """Scales the gradients in place so that their global norm, known to be `norm`, is `limit` at most; 0 is no limit.

    PyTorch's own function passes over all gradients even where none is to be scaled.
    """
    if not (limit and norm > limit):
        return
    if any(hasattr(parameter.grad, "device_mesh") for parameter in parameters):
        torch._foreach_mul_(gradients(parameters), limit / (norm + 1e-6))
    else:
        nn.utils.clip_grads_with_norm_(parameters, limit, torch.tensor(norm))


def read_together(loss: Float[Tensor, ""], norm: Float[Tensor, ""]) -> tuple[float, float]:
    """Both values at once: the one place of a step where the host waits for the device."""
    kind = torch.promote_types(torch.promote_types(loss.dtype, norm.dtype), torch.float32)
    loss_value, norm_value = torch.stack([loss.to(kind), norm.to(kind)]).tolist()
    return loss_value, norm_value


def check_finite(tensors: Mapping[str, Tensor], step: int, processes: Processes = ALONE) -> None:
    """Raises: Diverged naming the first of these weights or optimizer states that is not finite in any process."""
    anywhere = {name for names in processes.gather(not_finite(tensors)) for name in names}
    if bad := [name for name in tensors if name in anywhere]:
        raise Diverged(
            f"training diverged: at step {step} '{bad[0]}' holds NaN or infinity ({len(bad)} of {len(tensors)} tensors "
            "do), and skipping steps cannot repair that; lower training.learning_rate or raise training.warmup_steps, "
            "then resume from the last checkpoint or start again"
        ).reported_by(processes.first)


def out_of_memory(error: RuntimeError, step: int, tokens: int, indices: list[list[int]]) -> OutOfMemory | None:
    """The error for a step that did not fit in memory; None for any other error."""
    if not runtime.is_out_of_memory(error):
        return None
    largest = max((len(batch) for batch in indices), default=0)
    return OutOfMemory(
        f"out of memory at step {step}, with {tokens:,} target tokens and up to {largest} examples in a batch; "
        "lower training.batch_tokens and raise training.accumulate to keep the same effective batch"
    )
