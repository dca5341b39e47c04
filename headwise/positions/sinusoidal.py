"""Fixed sines and cosines added to the embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Embedded, Position

# devices that have float64; for any other, angles are computed on the processor and moved
_EXACT = ("cpu", "cuda", "meta")
_CPU = torch.device("cpu")
_FIRST = 256
_BASE = 10_000.0


def exact(device: torch.device) -> torch.device:
    """The device on which float64 is computed for tensors of this device."""
    return device if device.type in _EXACT else torch.device("cpu")


def moved(table: Float[Tensor, "*axes"], like: Tensor) -> Float[Tensor, "*axes"]:
    """The table in the type and on the device of another tensor; the type first, since not every device has float64."""
    return table.to(like.dtype).to(like.device)


def frequencies(columns: int, base: float, device: torch.device) -> Float[Tensor, "pairs"]:
    """base^(-2j / columns) for each pair j of columns.

    >>> frequencies(4, 100.0, torch.device("cpu")).tolist()
    [1.0, 0.1]
    """
    return torch.logspace(0.0, 2 / columns - 1, columns // 2, base=base, dtype=torch.float64, device=exact(device))


def angles(start: int, length: int, frequencies: Float[Tensor, "pairs"]) -> Float[Tensor, "length pairs"]:
    """Position times frequency for the positions from `start` on."""
    positions = torch.arange(start, start + length, dtype=torch.float64, device=frequencies.device)
    return positions[:, None] * frequencies


def sinusoids(
    length: int, d_model: int, start: int = 0, device: torch.device = _CPU, base: float = _BASE
) -> Float[Tensor, "length d_model"]:
    """p[i, 2j] = sin(i / base^(2j/d)), p[i, 2j+1] = cos of the same, in float64, for positions from `start` on.

    They lie on the device, or on the processor if the device has no float64.

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    return waves(angles(start, length, frequencies(d_model, base, device)))


def waves(angles: Float[Tensor, "length pairs"]) -> Float[Tensor, "length d_model"]:
    """Sine and cosine of every angle, side by side."""
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def check_even(name: str, d_model: int) -> None:
    """Raises: ConfigError for an odd width, which leaves a sine without its cosine, and for none."""
    if d_model % 2 or d_model < 2:
        nearest = f"{d_model - 1} or {d_model + 1}" if d_model > 1 else "2"
        raise ConfigError(f"{name} positions need an even d_model, got {d_model}; use {nearest}")


class Sinusoidal(Position):
    """x + P with sines and cosines of geometric frequencies; any length, nothing learned.

    P is computed in float64, for the positions asked for; a shift by k is a rotation that does not depend on position.

    Args:
        d_model: width of the embeddings, even.
        base: ratio of the slowest to the fastest period.
    Raises: ConfigError for an odd width, and a base that is not above 0.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.

    >>> Sinusoidal(32).embed(torch.zeros(2, 60, 32), 0).shape
    torch.Size([2, 60, 32])
    """

    where = "embeddings"
    extrapolates = "Any length has its vectors, but a model sees angles that it was not trained on."

    def __init__(self, d_model: int, base: float = _BASE):
        super().__init__()
        check_even("sinusoidal", d_model)
        if not base > 0:
            raise ConfigError(f"base of sinusoidal positions must be above 0, got {base}")
        self.d_model, self.base = d_model, base
        # the first positions; no buffer, which a cast of the model would round; none in a model without memory
        self._first = sinusoids(0 if torch.get_default_device().type == "meta" else _FIRST, d_model, base=base)

    def embed(self, x: Embedded, start: int) -> Embedded:
        length = x.shape[-2]
        if x.shape[-1] != self.d_model:
            raise ShapeError(f"sinusoidal positions of width {self.d_model} meet embeddings of width {x.shape[-1]}")
        # a tensor without numbers, as FakeTensorMode makes them, meets none that has some
        real = type(x) in (Tensor, nn.Parameter) and x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not real or not 0 <= start <= len(self._first) - length:
            return x + moved(sinusoids(length, self.d_model, start, x.device, self.base), x)
        return x + moved(self._first.narrow(0, start, length), x)
