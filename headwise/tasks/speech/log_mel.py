"""Frames of sound: the logarithm of the energy in bands of the mel scale, every 10 ms."""

from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

WINDOW_S, HOP_S = 0.025, 0.010
# what is added to energies before the logarithm, samples being from -1 to 1: about the noise of 16 bits
FLOOR = 1e-6
LOWEST_HZ = 20.0
# numbers of spectra that are in memory
_AT_ONCE = 1 << 19


def frame_count(samples: int, rate: int) -> int:
    """Frames of so many samples: one for each whole 10 ms, at least one.

    >>> frame_count(8000, 8000), frame_count(5 * 16000, 16000), frame_count(7, 8000)
    (100, 500, 1)
    """
    return max(1, samples // _hop(rate))


def frame_seconds(rate: int) -> float:
    """Seconds from a frame to the next: 10 ms, as nearly as whole samples allow.

    >>> frame_seconds(8000), round(frame_seconds(11025), 6)
    (0.01, 0.009977)
    """
    return _hop(rate) / rate


def log_mel(samples: Float[Tensor, "samples"], rate: int, bands: int) -> Float[Tensor, "frames bands"]:
    """log(FLOOR + M |rfft(hann * x_t)|^2), where x_t are the 25 ms around the middle of the t-th 10 ms.

    Beyond the ends stand zeros; the Fourier transform is of the next power of two. M has triangles that rise to 1 and
    fall again, evenly spaced in mel(f) = 2595 log10(1 + f / 700) from 20 Hz to half the rate. Samples are from -1 to 1.

    Source: Davis and Mermelstein 1980, "Comparison of Parametric Representations for Monosyllabic Word Recognition";
        the mel scale of O'Shaughnessy 1987 as HTK has it. Here without pre-emphasis.

    >>> log_mel(torch.zeros(8000), 8000, 40).shape
    torch.Size([100, 40])
    """
    hop, window = _hop(rate), round(WINDOW_S * rate)
    before = (window - hop) // 2
    count = frame_count(len(samples), rate)
    framed = F.pad(samples, (before, max(0, (count - 1) * hop + window - before - len(samples))))
    size, hann = 1 << (window - 1).bit_length(), torch.hann_window(window, dtype=samples.dtype)
    triangles = torch.from_numpy(_triangles(rate, size, bands)).to(samples.dtype)
    # some frames after another: the spectra of all take a hundred times the memory of the samples
    spectra = (
        torch.fft.rfft(frames * hann, size).abs().square() @ triangles
        for frames in framed.unfold(0, window, hop)[:count].split(max(1, _AT_ONCE // size))
    )
    return torch.log(torch.cat(list(spectra)) + FLOOR)


def constants(sums: Float[Tensor, "2 bands"], frames: int) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each band, of the sums of values and squares over frames; of a constant band 1."""
    mean = sums[0] / frames
    deviation = (sums[1] / frames - mean.square()).clamp(min=0).sqrt()
    return mean.tolist(), torch.where(deviation > 1e-6, deviation, 1.0).tolist()


def _hop(rate: int) -> int:
    return max(1, round(HOP_S * rate))


@cache
def _triangles(rate: int, size: int, bands: int) -> Float[np.ndarray, "bins bands"]:
    lowest, highest = (2595 * np.log10(1 + hz / 700) for hz in (LOWEST_HZ, rate / 2))
    edges = 700 * (10 ** (np.linspace(lowest, highest, bands + 2) / 2595) - 1)
    bins = np.arange(size // 2 + 1)[:, None] * rate / size
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles: np.ndarray = np.maximum(0, np.minimum(rising, falling))
    return triangles
