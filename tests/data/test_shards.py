"""Several arrays in the place of one."""

import numpy as np
import pytest

from headwise.data.streams import Shards
from headwise.errors import ShapeError


def test_slices_are_those_of_one_array():
    whole = np.arange(10, dtype=np.uint16)
    shards = Shards([whole[:3], whole[3:4], whole[4:]])
    assert len(shards) == 10
    for start in range(11):
        for stop in range(12):
            found = shards[start:stop]
            assert (found.tolist(), found.dtype) == (whole[start:stop].tolist(), whole.dtype)
    assert shards[:].tolist() == whole.tolist()
    assert shards[-2:].tolist() == [8, 9]
    # nothing is copied where it is in one array
    assert np.shares_memory(shards[4:9], whole)


@pytest.mark.parametrize("count", range(1, 12))
def test_the_first_ones_are_not_put_together(count):
    whole = np.arange(10)
    found = Shards([whole[:3], whole[3:4], whole[4:]]).first(count)
    assert found[:].tolist() == whole[:count].tolist()
    assert all(np.shares_memory(part, whole) for part in found.parts)


def test_a_step_is_refused():
    with pytest.raises(ShapeError, match="a slice of shards has no step, got 2"):
        Shards([np.arange(4)])[::2]
