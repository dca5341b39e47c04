"""What stands between frames of sound and an encoder: masks while training, and fewer frames."""

import itertools

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.zeros import zeroed_beyond


class SpectrogramMasks(nn.Module):
    """SpecAugment: while training, stretches of frames and of bands are zero, which is their mean; other widths anew.

    Args:
        times, bands: how many stretches of each.
        longest_time, widest_band: frames and bands of a stretch at most; its width is drawn from 0 on.
    Source: Park et al. 2019, arXiv:1904.08779, section 2, without time warping; the stretches of every recording are
        drawn by themselves, from PyTorch's generator, and may lie beyond the end of a short one.
    """

    def __init__(self, times: int, longest_time: int, bands: int, widest_band: int):
        super().__init__()
        self.times, self.longest_time, self.bands, self.widest_band = times, longest_time, bands, widest_band

    def forward(self, x: Float[Tensor, "batch length bands"]) -> Float[Tensor, "batch length bands"]:
        if not self.training:
            return x
        batch, length, bands = x.shape
        keep = _outside(batch, length, self.times, self.longest_time, x.device)[:, :, None]
        keep = keep & _outside(batch, bands, self.bands, self.widest_band, x.device)[:, None]
        return x * keep


class Subsampling(nn.Module):
    """From `bands` to `d_model`, and to a half or a quarter of the frames: convolutions of three frames and step 2.

    Beyond the ends of a recording every layer reads zeros. Of n frames there remain ceil(n / 2), and so on.

    Args:
        factor: 1 (a linear layer), 2 or 4.
    Source: after Gulati et al. 2020, arXiv:2005.08100, section 2; here over time alone, bands are channels.

    >>> x, lens = Subsampling(40, 8, 4)(torch.ones(2, 9, 40), torch.tensor([9, 5]))
    >>> x.shape, lens.tolist()
    (torch.Size([2, 3, 8]), [3, 2])
    """

    def __init__(self, bands: int, d_model: int, factor: int):
        super().__init__()
        layers = factor.bit_length() - 1
        widths = [bands, *[d_model] * layers]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, 3, stride=2, padding=1) for before, after in itertools.pairwise(widths)
        )
        self.linear = nn.Linear(widths[-1], d_model)

    def forward(
        self, x: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch places d_model"], Int[Tensor, "batch"]]:
        for convolution in self.convolutions:
            x = F.relu(convolution(zeroed_beyond(x, valid_lens).mT).mT)
            valid_lens = (valid_lens + 1) // 2
        return self.linear(x), valid_lens


class EveryFrame(nn.Module):
    """Frames as they are, in place of `Subsampling`: each is a place."""

    def forward(
        self, x: Float[Tensor, "batch length bands"], valid_lens: Int[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch length bands"], Int[Tensor, "batch"]]:
        return x, valid_lens


def _outside(batch: int, length: int, count: int, widest: int, device: torch.device) -> Tensor:
    """(batch, length), False inside `count` stretches."""
    widths = torch.randint(0, widest + 1, (batch, count, 1), device=device)
    starts = (torch.rand(batch, count, 1, device=device) * (length - widths + 1).clamp(min=1)).long()
    places = torch.arange(length, device=device)
    return ~((places >= starts) & (places < starts + widths)).any(1)
