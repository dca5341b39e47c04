"""Both sides of every contest compute the same, outputs and gradients, at a size of a test; the memory scale weighs."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import contests, kernels
from benchmarks.contests import Contest

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "additive": (lambda: contests._additive(2, 19, 8), 1e-4),
    "window beside chunks": (lambda: contests._window(64, 8, 8, "chunks"), 1e-5),
    "window beside a mask": (lambda: contests._window(53, 8, 0, "mask"), 1e-5),
    "graph": (lambda: contests._graph(23, 61), 1e-5),
    "linear": (lambda: contests._linear(71), 1e-5),
    "bfloat16": (lambda: contests._half(2, 3, 37, 16), 2e-2),
    "relu": (lambda: contests._normalizer("relu", 37), 1e-5),
    "sigmoid": (lambda: contests._normalizer("sigmoid", 37), 1e-5),
    "sparsemax": (lambda: contests._normalizer("sparsemax", 37), 1e-5),
    "t5": (lambda: contests._relative("t5", 37), 1e-5),
    "shaw": (lambda: contests._relative("shaw", 97), 1e-5),
    "xl": (lambda: contests._relative("xl", 37), 1e-5),
}


@pytest.mark.parametrize("name", SMALL)
def test_both_sides_compute_the_same(name):
    make, tolerance = SMALL[name]
    assert kernels.difference(Contest(name, make, 0)) < tolerance


def test_sides_take_turns_and_are_timed():
    done = []
    times = kernels.timed({"one": lambda: done.append(1), "two": lambda: done.append(2)}, 3)
    assert {name: len(seconds) for name, seconds in times.items()} == {"one": 3, "two": 3}
    assert set(done) == {1, 2}


@pytest.mark.slow
def test_memory_of_a_pass_is_weighed_in_a_process_of_its_own():
    code = (
        "import torch; from benchmarks.memory import growth; \n"
        "print(growth(lambda: torch.zeros(1 << 24).sum()), growth(lambda: torch.zeros(1 << 25).sum()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    one, two = map(float, done.stdout.split())
    assert one == pytest.approx(64, rel=0.1)
    assert two == pytest.approx(128, rel=0.1)
