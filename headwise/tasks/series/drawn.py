"""Drawn series with a known rule: data to try forecasts with."""

import math
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from headwise.data.synthetic import write_drawn

# steps after which `echo` answers itself, and the periods of `tide`
LAG = 6
PERIODS = (24.0, 7.0)
COLUMNS = ("tide", "echo")
# steps that are drawn and thrown away, so that the first numbers are like all others
_BEFORE = 200


def draw(count: int, seed: int = 0) -> Float64[np.ndarray, "count columns"]:
    """Two columns: `tide`, two sines with noise, which a linear rule tells well; `echo`, which it cannot.

    echo_t = 1 - 1.9 echo_{t-6}^2 + noise, held within -1 and 1: a number lies on a parabola over the one six steps
    before, and linearly has next to nothing to do with it.

    Source: the quadratic map of May 1976, "Simple mathematical models with very complicated dynamics", with a lag.

    >>> draw(5).shape
    (5, 2)
    """
    draws = np.random.default_rng([seed, count])
    steps = count + _BEFORE
    phases = draws.uniform(0, 2 * math.pi, 2)
    places = np.arange(steps)
    waves = [np.sin(2 * math.pi * places / period + phase) for period, phase in zip(PERIODS, phases, strict=True)]
    tide = waves[0] + 0.5 * waves[1] + draws.normal(0, 0.1, steps)
    echo = draws.uniform(-1, 1, steps)
    # sums and products alone: the map would make other numbers of another last bit
    noise = draws.uniform(-0.02, 0.02, steps)
    for place in range(LAG, steps):
        unclipped = 1 - 1.9 * echo[place - LAG] ** 2 + noise[place]
        echo[place] = min(1.0, max(-1.0, unclipped))
    return np.stack((tide, echo), axis=1)[_BEFORE:]


def make(folder: Path, seed: int = 1, count: int = 10_000) -> dict[Path, int]:
    """Writes `series.csv`, a row a step: its number, `tide` and `echo`.

    Returns: the file, and how many steps it has.

    Raises: DataError: the folder holds other data under this name.
    """
    path = folder / "series.csv"
    rows = [",".join(("step", *COLUMNS))]
    # sines of the last bits of other machines shall not give other files
    rows += [f"{place},{tide:.4f},{echo:.4f}" for place, (tide, echo) in enumerate(draw(count, seed))]
    write_drawn({path: "".join(f"{row}\n" for row in rows)})
    return {path: count}
