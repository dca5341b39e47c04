"""The random state that training uses (torch's on CPU and device, Python's): seeded, saved, restored, kept apart."""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from headwise.errors import CheckpointError

CPU = torch.device("cpu")


def capture(device: torch.device = CPU) -> dict[str, Any]:
    """All generators as values for JSON."""
    version, words, gauss = random.getstate()
    state = {"torch": _text(torch.get_rng_state()), "python": [version, list(words), gauss]}
    return state if device.type == "cpu" else {**state, device.type: _text(_module(device).get_rng_state(device))}


def restore(state: Mapping[str, Any], name: str, device: torch.device = CPU) -> None:
    """Continues where `capture` was called; the generator of a device that `state` does not have stays as it is.

    Raises: CheckpointError naming the file as `name` when the values are not those of `capture`; then no generator of
        the host is changed.
    """
    check(state, name)
    with _checking(name):
        if device.type in state and device.type != "cpu":
            _module(device).set_rng_state(_numbers(state[device.type]), device)
    random.setstate(_python(state["python"]))
    torch.set_rng_state(_numbers(state["torch"]))


def check(state: Mapping[str, Any], name: str) -> None:
    """Tries the values of the host on other generators. Raises: CheckpointError as `restore`."""
    with _checking(name):
        random.Random().setstate(_python(state["python"]))
        torch.Generator(device="cpu").set_state(_numbers(state["torch"]))


def seed_all(seed: int, device: torch.device = CPU) -> None:
    """Seeds torch's generator of the host and that of the device, and of no other device."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        _module(device).manual_seed(seed)


def seed_of(seed: int, rank: int, step: int | None = None) -> int:
    """The seed of one of several processes, different for every seed, process and step.

    Args:
        step: where a process joins a run that did not have it before; None: at the start of a run, where the first
            process has the seed itself.

    >>> seed_of(5, 0), seed_of(5, 1) == seed_of(6, 0), seed_of(5, 1) == seed_of(5, 1, 511)
    (5, False, False)
    """
    if rank == 0 and step is None:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {rank} {step}".encode()).digest()[:8], "big") >> 1


def resetter(device: torch.device = CPU) -> Callable[[], None]:
    """A function that sets torch's generators, host and device, back to their present state."""
    host = torch.get_rng_state()
    on_device = None if device.type == "cpu" else _module(device).get_rng_state(device)

    def reset() -> None:
        torch.set_rng_state(host)
        if on_device is not None:
            _module(device).set_rng_state(on_device, device)

    return reset


@contextmanager
def isolated(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seeds all generators inside, and leaves them outside as they were."""
    reset, python_state = resetter(device), random.getstate()
    try:
        seed_all(seed, device)
        random.seed(seed)
        yield
    finally:
        reset()
        random.setstate(python_state)


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device)


@contextmanager
def _checking(name: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{name}: randomness: no state of a generator here: {reason}") from None


def _python(values: Any) -> tuple[Any, ...]:
    version, words, gauss = values
    if gauss is not None and not isinstance(gauss, float):
        raise TypeError(f"the spare number is {gauss!r}")
    return version, tuple(words), gauss


def _text(state: torch.Tensor) -> str:
    return bytes(state.tolist()).hex()


def _numbers(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
