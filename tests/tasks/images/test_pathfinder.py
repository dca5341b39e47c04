"""Pictures of two paths: whether the dots are joined is what a flood fill over gaps says."""

import networkx as nx
import numpy as np
import pytest

from headwise.errors import ConfigError, DataError
from headwise.tasks.images.pathfinder import draw, make


def joined(pixels):
    """Whether the dots lie in one component of pixels at most two apart, and how many components there are."""
    cells = list(map(tuple, np.argwhere(pixels)))
    graph = nx.Graph()
    graph.add_nodes_from(cells)
    graph.add_edges_from((a, b) for a in cells for b in cells if a < b and max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 2)
    first, second = map(tuple, np.argwhere(pixels == 255))
    return nx.has_path(graph, first, second), nx.number_connected_components(graph)


@pytest.mark.parametrize("side", [12, 16, 31])
def test_the_label_is_what_a_flood_fill_says(side):
    labels = []
    for number in range(80):
        drawn = draw(number, side, seed=5)
        assert drawn.pixels.shape == (side, side)
        path, components = joined(drawn.pixels)
        assert components == 2
        assert ("joined" if path else "apart") == drawn.label
        labels.append(drawn.label)
    assert 25 < labels.count("joined") < 55


def test_dots_are_no_nearer_where_they_are_joined():
    """A model cannot tell from how many pixels are bright."""
    counts = {label: [] for label in ("joined", "apart")}
    for number in range(300):
        drawn = draw(number)
        counts[drawn.label].append((drawn.pixels > 0).sum())
    assert abs(np.mean(counts["joined"]) - np.mean(counts["apart"])) < 1


def test_files(tmp_path):
    files = make(tmp_path / "a", 1, 30)
    assert {path.name: count for path, count in files.items()} == {"train.npz": 30, "valid.npz": 3, "test.npz": 3}
    with np.load(tmp_path / "a" / "train.npz") as arrays:
        assert arrays["images"].shape == (30, 16, 16)
        assert set(arrays["labels"]) == {"apart", "joined"}
    again = make(tmp_path / "b", 1, 30)
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in again]
    with pytest.raises(DataError, match="is other data"):
        make(tmp_path / "a", 2, 30)


def test_a_side_that_is_too_small(tmp_path):
    with pytest.raises(ConfigError, match=r"side \(11\) must be at least 12 pixels"):
        make(tmp_path / "small", side=11)
