"""Queries and keys turned by an angle that grows with position, and ways to stretch the angles to longer inputs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.precision import wide
from headwise.errors import ConfigError, ShapeError
from headwise.positions.position import Ids, Position, Projected
from headwise.positions.sinusoidal import angles, frequencies, moved
from headwise.registry import Registry

# a frequency, in radians for a position, times this is the turns made in that many positions
_TURN = 2 * math.pi
# which columns form a pair: neighbours, or one of each half
Layout = Literal["interleaved", "half"]


@dataclass(frozen=True)
class Scaling(ABC):
    """How the frequencies of a model trained on short inputs change for inputs `factor` times as long."""

    factor: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0 and not isinstance(value, bool):
                raise ConfigError(f"{name} of {type(self).__name__} must be above 0, got {value}")

    @abstractmethod
    def scaled(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        """The frequencies to use in place of those given."""

    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by, each."""
        return 1.0


class Linear(Scaling):
    """Positions divided by the factor. Source: Chen et al. 2023, arXiv:2306.15595, eq. 4.

    >>> Linear(4.0).scaled(torch.ones(1), 10000.0).item()
    0.25
    """

    def scaled(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        return frequencies / self.factor


class Ntk(Scaling):
    """The slowest period lengthened by the factor, the fastest kept: base x factor^(r / (r - 2)) for r columns.

    Source: Peng et al. 2023, arXiv:2309.00071, section 3.1, after bloc97.

    >>> Ntk(4.0).scaled(torch.ones(3), 10000.0).tolist()
    [1.0, 0.5, 0.25]
    """

    def scaled(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        pairs = frequencies.shape[0]
        if pairs < 2:
            raise ConfigError("Ntk lengthens slow periods only: turn at least 4 columns, or use Linear")
        return frequencies * torch.logspace(
            0.0, -1.0, pairs, base=self.factor, dtype=frequencies.dtype, device=frequencies.device
        )


@dataclass(frozen=True)
class Yarn(Scaling):
    """Fast pairs kept, slow ones divided by the factor, a ramp between them; scores grow by attention^2.

    A pair is fast if it turns `beta_fast` times or more in `original_len` positions, slow below `beta_slow` turns.
    The ramp is linear in the number of the pair, as in the authors' code and in transformers, not in its turns as in
    the paper; `whole` rounds its ends outwards to whole pairs (gpt-oss does not).

    Args:
        original_len: positions that the model was trained on.
        attention: what turned queries and keys are multiplied by; 0.1 ln(factor) + 1 if None. DeepSeek's models give
            the quotient of two such terms.
    Raises: ConfigError for what is not above 0, and for betas that leave no ramp.
    Source: Peng et al. 2023, arXiv:2309.00071, sections 3.2 and 3.4.

    >>> round(Yarn(4.0, 4096).amplitude(), 4)
    1.1386
    """

    original_len: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention: float | None = None
    whole: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(f"beta_fast ({self.beta_fast}) of Yarn must be above beta_slow ({self.beta_slow})")

    def scaled(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        pairs = frequencies.shape[0]
        # the pair, counted in fractions, that makes so many turns
        low, high = (
            pairs * math.log(self.original_len / (turns * _TURN)) / math.log(base)
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        number = torch.arange(pairs, dtype=frequencies.dtype, device=frequencies.device)
        slow = ((number - low) / (high - low or 0.001)).clamp(0, 1)
        return frequencies.lerp(frequencies / self.factor, slow)

    def amplitude(self) -> float:
        return self.attention or 0.1 * math.log(max(1.0, self.factor)) + 1.0


@dataclass(frozen=True)
class Llama3(Scaling):
    """Pairs of `fast` or more turns in `original_len` positions kept, below `slow` divided, between them in proportion.

    Args:
        original_len: positions that the model was trained on.
        slow, fast: the files of models call them low_freq_factor and high_freq_factor.
    Raises: ConfigError for what is not above 0, and for turns that leave no ramp.
    Source: the code of Grattafiori et al. 2024, arXiv:2407.21783.

    >>> Llama3(8.0, 8192).scaled(torch.tensor([1.0, 0.0001]), 10000.0).tolist()
    [1.0, 1.249999968422344e-05]
    """

    original_len: int
    slow: float = 1.0
    fast: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fast <= self.slow:
            raise ConfigError(f"fast ({self.fast}) of Llama3 must be above slow ({self.slow})")

    def scaled(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        turns = frequencies * (self.original_len / _TURN)
        fast = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return (frequencies / self.factor).lerp(frequencies, fast)


_SCALINGS = {"linear": Linear, "ntk": Ntk, "yarn": Yarn, "llama3": Llama3}
SCALINGS = Registry("scaling", Scaling, lambda: _SCALINGS)  # type: ignore[type-abstract]


class Rotary(Position):
    """Pairs of columns of queries and keys rotated by position x base^(-2j/r): scores depend on distance alone.

    Angles are computed in float64: in float32 they are wrong by 3e-2 at position 10^6. Neighbouring columns form a
    pair in the paper, in GPT-J and in DeepSeek ("interleaved"); column j and column j + r/2 do in Llama, Mistral,
    Qwen and GPT-NeoX ("half"). Either loads the weights of its kind as they are.

    Args:
        head_dim: width of a head.
        base: ratio of the slowest to the fastest period.
        columns: r, how many leading columns are rotated, even; the others stay as they are (partial rotary, as in
            GPT-NeoX, Phi and Qwen3-Next). All if None.
        layout: which columns form a pair.
        scaling: to run a trained model on longer inputs: `Linear`, `Ntk`, `Yarn` or `Llama3`.
    Raises: ConfigError for an odd width, another layout, and a base that is not above 0.
    Source: Su et al. 2021, arXiv:2104.09864, eq. 34; some columns only: Black et al. 2022, arXiv:2204.06745, section
        2.1.

    >>> Rotary(8, layout="half", scaling=Yarn(4.0, 4096)).rotate(torch.ones(2, 3, 5, 8), 0).shape
    torch.Size([2, 3, 5, 8])
    >>> Rotary(8, columns=2).rotate(torch.ones(1, 8), 100)[0, 2:].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    axes = 1
    where = "queries and keys"
    extrapolates = "Any length has its angles, but far distances are untrained; scaled frequencies bring them back."

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        *,
        columns: int | None = None,
        layout: Layout = "interleaved",
        scaling: Scaling | None = None,
    ):
        super().__init__()
        check_turns("rotary", head_dim if columns is None else 2, base, layout)
        if columns is not None and not (2 <= columns <= head_dim and columns % 2 == 0):
            raise ConfigError(f"rotary positions turn an even number of columns from 2 to {head_dim}, got {columns}")
        self.head_dim, self.columns = head_dim, head_dim if columns is None else columns
        self.base, self.layout, self.scaling = base, layout, scaling
        # a scaling refuses columns that it cannot stretch
        self.frequencies(torch.device("cpu"))

    def frequencies(self, device: torch.device) -> Float[Tensor, "pairs"]:
        """Radians for a position of each pair, in float64."""
        plain = frequencies(self.columns, self.base, device)
        return plain if self.scaling is None else self.scaling.scaled(plain, self.base)

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        check_width("rotary", self.head_dim, heads)
        frequencies, length = self.frequencies(heads.device), heads.shape[-2]
        turns = angles_of(start, frequencies) if isinstance(start, Tensor) else angles(start, length, frequencies)
        cos, sin = turns.cos(), turns.sin()
        if self.scaling is not None:
            cos, sin = cos * self.scaling.amplitude(), sin * self.scaling.amplitude()
        return turned(heads, cos, sin, self.layout)


Turns = Float[Tensor, "... length pairs"]


def angles_of(ids: Ids, frequencies: Float[Tensor, "pairs"], axis: Sequence[int] = (0,)) -> Turns:
    """Id times frequency, where pair p turns with the ids along `axis[p]`; one axis serves all pairs.

    >>> angles_of(torch.tensor([[[0, 2], [1, 3]]]), torch.tensor([1.0, 10.0], dtype=torch.float64), [0, 1]).tolist()
    [[[[0.0, 10.0], [2.0, 30.0]]]]
    """
    places = ids.to(frequencies.device).to(frequencies.dtype)
    places = places.index_select(1, torch.tensor(list(axis), device=places.device))
    return places.mT.unsqueeze(1) * frequencies


def turned(heads: Projected, cos: Turns, sin: Turns, layout: Layout) -> Projected:
    """The first columns of heads turned, a pair of columns for each angle; the other columns as they are."""
    columns = 2 * cos.shape[-1]
    first = wide(heads if columns == heads.shape[-1] else heads[..., :columns])
    cos, sin = moved(cos, first), moved(sin, first)
    result = (_interleaved if layout == "interleaved" else _half)(first, cos, sin).to(heads.dtype)
    return result if columns == heads.shape[-1] else torch.cat((result, heads[..., columns:]), dim=-1)


def check_width(name: str, head_dim: int, heads: Tensor) -> None:
    """Raises: ShapeError for heads of another width than the scheme was built for."""
    if heads.shape[-1] != head_dim:
        raise ShapeError(f"{name} positions of width {head_dim} meet heads of width {heads.shape[-1]}")


def check_turns(name: str, head_dim: int, base: float, layout: str) -> None:
    """Raises: ConfigError for columns without a partner, another layout, and a base that is not above 0."""
    if head_dim < 2 or head_dim % 2:
        raise ConfigError(f"{name} positions need an even head_dim, got {head_dim}")
    if layout not in get_args(Layout):
        raise ConfigError(f"layout of {name} positions must be 'interleaved' or 'half', got {layout!r}")
    if not base > 0:
        raise ConfigError(f"base of {name} positions must be above 0, got {base}")


def _interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x = x.contiguous()
    pairs = x.unflatten(-1, (-1, 2))
    # complex numbers lie at even places
    traced = torch.compiler.is_compiling()
    if not traced and x.storage_offset() % 2 == 0 and x.device.type in ("cpu", "cuda"):
        # one product that reads and writes once; compilers have no complex numbers
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.complex(cos, sin)).flatten(-2)
    even, odd = pairs.unbind(-1)
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def _half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return torch.addcmul(
        x * torch.cat((cos, cos), dim=-1), x.roll(x.shape[-1] // 2, -1), torch.cat((-sin, sin), dim=-1)
    )
