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
    """Continues where `capture` was called; a generator of a device that was not there before goes on as it is.

    Raises: CheckpointError naming the file as `name` when the values are none of `capture`'s; then nothing of the host
        is changed.
    """
    check(state, name)
    with _refusing(name):
        if device.type in state and device.type != "cpu":
            _module(device).set_rng_state(_numbers(state[device.type]), device)
    random.setstate(_python(state["python"]))
    torch.set_rng_state(_numbers(state["torch"]))


def check(state: Mapping[str, Any], name: str) -> None:
    """Tries the values of the host on generators that nobody uses. Raises: CheckpointError as `restore`."""
    with _refusing(name):
        random.Random().setstate(_python(state["python"]))
        torch.Generator(device="cpu").set_state(_numbers(state["torch"]))


def seed_all(seed: int, device: torch.device = CPU) -> None:
    """Seeds torch's generator of the host and that of the device, and of no other device."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        _module(device).manual_seed(seed)


def seed_of(seed: int, rank: int, step: int | None = None) -> int:
    """The seed of one of several processes, which no other seed, process or step has.

    Args:
        step: where a process goes on that the run did not have before; None: at the start of a run, where the first
            process has the seed itself.

    >>> seed_of(5, 0), seed_of(5, 1) == seed_of(6, 0), seed_of(5, 1) == seed_of(5, 1, 511)
    (5, False, False)
    """
    if rank == 0 and step is None:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {rank} {step}".encode()).digest()[:8], "big") >> 1


def held(device: torch.device = CPU) -> Callable[[], None]:
    """A function that sets torch's generators, host and device, back to where they are now."""
    host = torch.get_rng_state()
    own = None if device.type == "cpu" else _module(device).get_rng_state(device)

    def back() -> None:
        torch.set_rng_state(host)
        if own is not None:
            _module(device).set_rng_state(own, device)

    return back


@contextmanager
def isolated(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seeds all generators inside, and leaves them outside as they were."""
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    on_device = None if device.type == "cpu" else _module(device).get_rng_state(device)
    try:
        seed_all(seed, device)
        random.seed(seed)
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if on_device is not None:
            _module(device).set_rng_state(on_device, device)


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{name}: randomness: no state of a generator here: {reason}") from None


def _python(values: Any) -> tuple[Any, ...]:
    version, words, gauss = values
    if gauss is not None and not isinstance(gauss, float):
        raise TypeError(f"the number kept back is {gauss!r}")
    return version, tuple(words), gauss


def _text(state: torch.Tensor) -> str:
    return bytes(state.tolist()).hex()


def _numbers(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
