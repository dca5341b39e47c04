"""Drawn series follow their rule, and the same seed gives the same bytes."""

import numpy as np
import pytest

from headwise.errors import ConfigError, DataError
from headwise.tasks import generators
from headwise.tasks.series.drawn import LAG, draw, make


def test_echo_answers_itself():
    tide, echo = draw(3000, seed=4).T
    rule = 1 - 1.9 * echo[:-LAG] ** 2
    assert np.abs(echo[LAG:] - np.clip(rule, -1, 1)).max() <= 0.02 + 1e-12
    assert np.abs(echo).max() <= 1.0
    # and what a straight line tells of it is little
    assert np.corrcoef(echo[:-LAG], echo[LAG:])[0, 1] ** 2 < 0.3
    assert 0.7 < tide.std() < 0.9
    assert not np.array_equal(draw(3000, seed=5), draw(3000, seed=4))


def test_files_are_the_same_wherever_made(tmp_path):
    (one,) = make(tmp_path / "a", 3, 40)
    (two,) = generators.make("waves", tmp_path / "b", 3, 40)
    assert one.read_bytes() == two.read_bytes()
    lines = one.read_text().splitlines()
    assert (lines[0], len(lines), lines[-1].split(",")[0]) == ("step,tide,echo", 41, "39")
    with pytest.raises(DataError, match=r"series.csv: is other data, of another seed or size; remove it, or name"):
        make(tmp_path / "a", 4, 40)
    with pytest.raises(ConfigError, match="--symbols does not apply to 'waves'; leave it out"):
        generators.make("waves", tmp_path / "c", 3, 40, {"symbols": 3})
    assert not (tmp_path / "c").exists()
