"""Comparing tensors, in words: what differs, by how much, where."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# largest absolute difference that rounding explains, for numbers of the size of 1
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2}
RESULTS = ("output", "gradient of query", "gradient of key", "gradient of value")


def apart(what: str, actual: Tensor, expected: Tensor, tolerance: float = 0.0) -> str | None:
    """How `actual` is further from `expected` than allowed; None if it is not.

    Args:
        tolerance: for numbers of up to 1; it grows with the largest number expected. 0: equal bit for bit.

    >>> apart("output", torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), 1e-3)
    'output differs by 0.5 at (1,): 2.5, expected 2 (allowed 0.002)'
    """
    if actual.shape != expected.shape:
        return f"{what} has shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.numel() == 0:
        return None
    actual, expected = actual.detach().double(), expected.detach().double()
    finite = expected[expected.isfinite()].abs()
    allowed = tolerance * max(1.0, finite.max().item() if finite.numel() else 1.0)
    # equal infinities and equal NaN do not differ
    alike = (actual == expected) | (actual.isnan() & expected.isnan())
    difference = (actual - expected).abs().masked_fill(alike, 0.0).nan_to_num(nan=float("inf"))
    worst = difference.argmax()
    most = difference.flatten()[worst].item()
    if most <= allowed:
        return None
    place = tuple(int(i) for i in torch.unravel_index(worst, actual.shape))
    number, reference = actual.flatten()[worst].item(), expected.flatten()[worst].item()
    return f"{what} differs by {most:.3g} at {place}: {number:.6g}, expected {reference:.6g} (allowed {allowed:.2g})"


def results_apart(what: str, actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> str | None:
    """The same for an output and the gradients of query, key and value, which may differ by four times as much."""
    for name, tensor, reference in zip(RESULTS, actual, expected, strict=True):
        if fault := apart(f"{name} {what}", tensor, reference, tolerance if name == "output" else 4 * tolerance):
            return fault
    return None


def nonzero(what: str, tensor: Tensor, where: Tensor | None = None) -> str | None:
    """The largest number of a tensor that must be exactly zero, there or everywhere."""
    tensor = tensor if where is None else tensor.masked_fill(~where, 0.0)
    return apart(what, tensor, torch.zeros_like(tensor))


def not_finite(what: str, tensor: Tensor, *, infinite: bool = False) -> str | None:
    """Where a tensor holds NaN, or infinity unless that is allowed."""
    bad = tensor.isnan() if infinite else ~tensor.isfinite()
    if not bool(bad.any()):
        return None
    place = tuple(bad.nonzero()[0].tolist())
    return f"{what} is {tensor.detach()[place].item()} at {place}"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws inside follow from the seed; outside, the random state of the host stays as it was."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed takes down a traceback for every kind of device, here or not: half a millisecond
        on_host = torch.get_default_device().type == "cpu"
        (torch.default_generator if on_host else torch).manual_seed(seed)
        yield


def drawn(shape: Sequence[int], dtype: torch.dtype, seed: int, size: float = 1.0) -> Tensor:
    """Normal numbers that depend on shape and seed alone, whatever the type."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(tuple(shape), generator=generator, dtype=torch.float64, device="cpu") * size
    return numbers.to(torch.get_default_device(), dtype)


def gradients(output: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of a fixed random sum of the output, zeros where it does not depend on an input."""
    if not inputs:
        return ()
    weights = drawn(output.shape, output.dtype, 7)
    grads = torch.autograd.grad((output * weights).sum(), list(inputs), allow_unused=True, retain_graph=True)
    return tuple(torch.zeros_like(t) if g is None else g for g, t in zip(grads, inputs, strict=True))
