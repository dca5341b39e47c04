"""Pictures of weights below a spectrogram."""

import numpy as np
import pytest

from headwise.errors import ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.sound_map import SoundMap
from headwise.explain.sound_pages import sound_page


def test_weights_lie_below_the_seconds_they_are_of(tmp_path):
    weights = np.full((2, 3, 3), 1 / 3)
    layers = {
        "own": Layer(weights, ["a", "b", "c"], ["a", "b", "c"], "self"),
        "pooling": Layer(np.eye(3)[None, 1:2], ["said"], ["a", "b", "c"], "pooled"),
    }
    found = Explanation("x.wav", "said", layers, SoundMap(np.arange(12.0).reshape(2, 6), 0.06))
    upper, lower = found.page().axes[:2]
    assert upper.get_xlim() == lower.get_xlim() == (0.0, 0.06)
    assert upper.images[0].get_array().shape == (2, 6)
    assert lower.images[0].get_array().tolist() == [[0.0, 1.0, 0.0]]
    assert [text.get_text() for text in lower.get_yticklabels()] == ["said"]
    own = found.page("own").axes[1]
    np.testing.assert_allclose(own.images[0].get_array(), [[1 / 3] * 3])
    assert found.save(tmp_path / "a.png").stat().st_size > 1000
    with pytest.raises(ShapeError, match="nothing to draw"):
        sound_page(np.zeros((2, 2)), 0.02, np.zeros((0, 2)), [])
