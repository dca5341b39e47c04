"""Where tests make their tensors: on the host, or on the device named in HEADWISE_TEST_DEVICE.

`HEADWISE_TEST_DEVICE=cuda pytest tests/attention ...` makes tensors and modules on a GPU. `sim` is a device without
hardware, which finds tensors of two devices that meet: see simulated_device.py.
"""

import os

import pytest
import torch

DEVICE = os.environ.get("HEADWISE_TEST_DEVICE", "cpu")


def choose() -> None:
    """Makes the device the one where tensors are made, or ends the run where it is not there."""
    if DEVICE == "cpu":
        return
    if DEVICE == "sim":
        import simulated_device

        simulated_device.install()
        return
    try:
        torch.zeros(1, device=DEVICE)
    except (RuntimeError, AssertionError) as error:
        pytest.exit(f"HEADWISE_TEST_DEVICE={DEVICE}: PyTorch cannot use this device here: {error}", returncode=4)
    torch.set_default_device(DEVICE)


def seed(number: int) -> None:
    """Sets the random state of the host and of the device, and of no other, each of which costs a traceback."""
    torch.default_generator.manual_seed(number)
    if DEVICE not in ("cpu", "sim"):
        torch.get_device_module(DEVICE).manual_seed_all(number)


def seeded(seed: int) -> torch.Generator:
    """A generator of the device that tests run on."""
    if DEVICE == "sim":
        import simulated_device

        return simulated_device.generator().manual_seed(seed)
    return torch.Generator(device=DEVICE).manual_seed(seed)


def on_the_host(reason: str) -> pytest.MarkDecorator:
    """Marks what is about the processor alone."""
    return pytest.mark.skipif(DEVICE != "cpu", reason=f"on the host only: {reason}")


def not_simulated(reason: str) -> pytest.MarkDecorator:
    """Marks what the simulated device cannot do and a real one can."""
    return pytest.mark.skipif(DEVICE == "sim", reason=f"not on the simulated device: {reason}")
