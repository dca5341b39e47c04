"""Pictures of weights below a spectrogram."""

import numpy as np
import pytest

from headwise.errors import ShapeError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import OnSound
from headwise.tasks.speech.look import SoundMap, Track
from headwise.tasks.speech.marks import Mark
from headwise.tasks.speech.pages import sound_page


def test_weights_lie_below_the_seconds_they_are_of(tmp_path):
    weights = np.full((2, 3, 3), 1 / 3)
    layers = {
        "own": Layer(weights, ["a", "b", "c"], ["a", "b", "c"], "self"),
        "pooling": Layer(np.eye(3)[None, 1:2], ["said"], ["a", "b", "c"], "pooled"),
    }
    found = Explanation("x.wav", "said", layers, SoundMap(OnSound(np.arange(12.0).reshape(2, 6), 0.06)))
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


def test_labels_in_time_lie_between_sound_and_weights(tmp_path):
    marks = [Mark(0.0, 0.5, "two"), Mark(0.5, 0.52, "much too long a label"), Mark(0.52, 1.0, "two")]
    odds = np.zeros((25, 100))
    odds[:, :] = np.linspace(0, 0.5, 25)[:, None]
    track = Track(marks, [f"l{at}" for at in range(25)], odds)
    layers = {
        "own": Layer(np.full((1, 3, 4), 0.25), ["two 0.00 s", "x 0.50 s", "two 0.52 s"], ["a"] * 4, "cross"),
        "output": Layer(np.full((1, 3, 25), 1 / 25), ["a", "b", "c"], track.names, "tags"),
    }
    found = Explanation("x.wav", "two x two", layers, SoundMap(OnSound(np.zeros((2, 100)), 1.0), track))
    drawn = found.page()
    upper, lower, strip = drawn.axes
    assert strip.get_xlim() == lower.get_xlim() == (0.0, 1.0)
    # a label is written where its stretch is wide enough
    assert [text.get_text() for text in strip.texts] == ["two", "two"]
    assert len(strip.patches) == 3
    above, between, below = upper.get_position(), strip.get_position(), lower.get_position()
    assert above.y0 >= between.y1 > between.y0 >= below.y1
    # probabilities of the 20 labels that come nearest to being said, over frames
    odds_drawn = found.page("output").axes[1]
    assert odds_drawn.images[0].get_array().shape == (20, 100)
    assert next(text.get_text() for text in odds_drawn.get_yticklabels()) == "l5"
    assert found.save(tmp_path / "a.png", "output").stat().st_size > 1000
