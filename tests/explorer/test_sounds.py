"""The spectrogram of a recording in 256 steps."""

import numpy as np
import pytest

from headwise.errors import Unsupported
from headwise.explain.places import OnSound
from headwise.explorer.sounds import shades


def _heard(spectrogram):
    return OnSound(spectrogram, 1.0)


def test_the_highest_band_comes_first():
    assert shades(_heard(np.array([[0.0, 1.0], [2.0, 4.0]]))).tolist() == [[128, 255], [0, 64]]


def test_one_frame_of_silence():
    assert shades(_heard(np.zeros((3, 1)))).tolist() == [[0]] * 3


def test_no_frames_are_refused():
    with pytest.raises(Unsupported, match="shorter than one frame"):
        shades(_heard(np.zeros((3, 0))))
