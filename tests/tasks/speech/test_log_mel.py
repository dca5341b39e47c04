"""Log-mel frames beside the same as loops over a direct Fourier sum."""

import cmath
import math

import pytest
import torch

from headwise.tasks.speech.log_mel import FLOOR, constants, frame_count, log_mel


def mel(hertz):
    return 2595 * math.log10(1 + hertz / 700)


def by_loops(samples, rate, bands):
    """The definition, frame by frame, bin by bin, band by band."""
    hop, window = round(0.010 * rate), round(0.025 * rate)
    size = 1
    while size < window:
        size *= 2
    steps = [mel(20) + at * (mel(rate / 2) - mel(20)) / (bands + 1) for at in range(bands + 2)]
    edges = [700 * (10 ** (step / 2595) - 1) for step in steps]
    rows = []
    for frame in range(max(1, len(samples) // hop)):
        start = frame * hop - (window - hop) // 2
        cut = [
            samples[start + n] * (0.5 - 0.5 * math.cos(2 * math.pi * n / window))
            if 0 <= start + n < len(samples)
            else 0
            for n in range(window)
        ]
        energies = [0.0] * bands
        for k in range(size // 2 + 1):
            value = sum(x * cmath.exp(-2j * math.pi * k * n / size) for n, x in enumerate(cut))
            for band in range(bands):
                low, middle, high = edges[band : band + 3]
                hertz = k * rate / size
                if low < hertz < high:
                    slope = (hertz - low) / (middle - low) if hertz <= middle else (high - hertz) / (high - middle)
                    energies[band] += slope * abs(value) ** 2
        rows.append([math.log(energy + FLOOR) for energy in energies])
    return torch.tensor(rows)


@pytest.mark.parametrize(("count", "rate"), [(67, 1600), (5, 1600), (150, 2000)])
def test_frames_are_those_of_the_definition(count, rate):
    samples = torch.randn(count, generator=torch.Generator().manual_seed(1)).clamp(-3, 3).double() / 3
    torch.testing.assert_close(
        log_mel(samples, rate, 5), by_loops(samples.tolist(), rate, 5).double(), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(("seconds", "frames"), [(1, 100), (5, 500), (0.014, 1), (0.001, 1), (0.995, 99)])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_a_second_has_a_hundred_frames(seconds, frames, rate):
    assert frame_count(round(seconds * rate), rate) == frames
    if seconds <= 1:
        assert log_mel(torch.zeros(round(seconds * rate)), rate, 7).shape == (frames, 7)


def test_frames_are_transformed_some_at_a_time(monkeypatch):
    samples = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = log_mel(samples, 8000, 10)
    monkeypatch.setattr("headwise.tasks.speech.log_mel._AT_ONCE", 256 * 7)
    torch.testing.assert_close(log_mel(samples, 8000, 10), whole)


def test_constants_are_mean_and_deviation():
    values = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert constants(torch.stack([values.sum(0), values.square().sum(0)]), 2) == ([2.0, 5.0], [1.0, 1.0])
