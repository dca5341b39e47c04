"""Words as points of a plane: the components, the lines of text, the picture."""

import numpy as np
import pytest

from headwise.errors import ConfigError
from headwise.tasks.vectors.projection import Projection, plane


@pytest.fixture
def found():
    vectors = np.random.default_rng(0).normal(size=(6, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = ["king", "man", "woman", "queen", "$x_1$", "bread"]
    groups = {"king": {"queen": 0.8}, "man": {"woman": 0.7, "$x_1$": 0.1}, "woman": {"man": 0.7}}
    terms = ((1, "king"), (-1, "man"), (1, "woman"))
    return Projection("king - man + woman", names, vectors, terms, groups, {"queen": 0.9, "bread": 0.2})


def test_the_plane_is_that_of_the_largest_variance():
    points = np.random.default_rng(1).normal(size=(40, 4)) * [5, 1, 0.1, 0.01]
    found, share = plane(points)
    values, axes = np.linalg.eigh(np.cov(points.T, bias=True))
    wanted = (points - points.mean(0)) @ axes[:, [-1, -2]]
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-9)
    assert share == pytest.approx(values[-2:].sum() / values.sum())
    # the farthest point of each axis is on its positive side, however the vectors are turned round
    assert (found.max(0) > -found.min(0)).all()
    np.testing.assert_allclose(plane(-points)[0] * np.sign(plane(-points)[0][0] * found[0]), found, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_have_a_plane_too(count):
    points, share = plane(np.eye(3)[:count])
    assert points.shape == (count, 2)
    assert share == pytest.approx(1.0)


def test_lines_and_arrows(found):
    lines = found.lines(top=1)
    assert lines[1] == "king - man + woman  queen 0.90 ███████▎"
    assert lines[3].split() == ["man", "woman", "0.70", "█████▋"]
    assert found.arrows() == [("man", "king"), ("woman", "queen")]
    assert found.output == "queen"
    with pytest.raises(ConfigError, match="word vectors have no layers and no heads; leave --layer and --heads out"):
        found.lines(0)


def test_the_picture(found, tmp_path):
    (path,) = found.write(tmp_path)
    assert path.name == "words.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    axes = found.page().axes[0]
    assert {text.get_text() for text in axes.texts} >= {"king", "queen", r"\$x_1\$"}
    with pytest.raises(ConfigError, match="format"):
        found.write(tmp_path, ["gif"])
    with pytest.raises(ConfigError, match="leave --layer and --heads out"):
        found.write(tmp_path, heads=(1,))
