"""Normalization of vectors of tokens by name: over the features of each, or over the tokens of a batch."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import uncast
from headwise.attention.zeros import zeroed_beyond
from headwise.errors import ConfigError, Unsupported, unknown

Tokens = Float[Tensor, "batch length width"]
Norm = Literal["none", "layer", "batch", "rms", "rms_1p"]


class TokenBatchNorm(nn.Module):
    """gain (x - mean) / sqrt(var + eps) + shift, each feature over the real tokens of a batch; padding never counts.

    While training, mean and variance are those of the batch, so a token depends on the others of its batch; in
    evaluation they are running averages of the batches seen, and it does not. A batch without a token changes nothing.
    Statistics are float32 under autocast.

    Args:
        width: features.
        momentum: share of a new batch in the running statistics.
        eps: added to the variance.
    Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1; as `nn.BatchNorm1d` on the real tokens alone.

    >>> x = torch.tensor([[[1.0], [3.0], [99.0]]])
    >>> [round(number, 3) for number in TokenBatchNorm(1)(x, torch.tensor([2]))[0, :2, 0].tolist()]
    [-1.0, 1.0]
    """

    mean: Float[Tensor, "width"]
    variance: Float[Tensor, "width"]

    def __init__(self, width: int, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tokens, valid_lens: Int[Tensor, "batch"]) -> Tokens:
        with uncast(x):
            # in the type of the statistics, float32 at least
            read = zeroed_beyond(x, valid_lens).to(torch.promote_types(self.mean.dtype, torch.float32))
            mean, variance = self._of_batch(read, valid_lens) if self.training else (self.mean, self.variance)
            normed = (read - mean) * torch.rsqrt(variance + self.eps)
            return (normed * self.weight + self.bias).to(x.dtype)

    def _of_batch(self, x: Tensor, valid_lens: Tensor) -> tuple[Tensor, Tensor]:
        # lengths beyond the places there are would count tokens that nobody gave
        count = valid_lens.clamp(0, x.shape[1]).sum().to(x.dtype)
        mean = x.sum((0, 1)) / count.clamp(min=1)
        variance = zeroed_beyond(x - mean, valid_lens).square().sum((0, 1)) / count.clamp(min=1)
        with torch.no_grad():
            share = self.momentum * (count > 0)
            self.mean += share * (mean - self.mean)
            # without bias: by one token fewer
            self.variance += share * (variance * count / (count - 1).clamp(min=1) - self.variance)
        return mean, variance

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}, momentum={self.momentum}, eps={self.eps}"


class OffsetRMSNorm(nn.Module):
    """(1 + w) x / sqrt(mean(x^2) + eps): the gain is stored less 1, so that weight decay draws it towards 1.

    Args:
        width: features.
        eps: added to the mean of the squares.
    Source: the code of Gemma team 2024, arXiv:2403.08295.

    >>> OffsetRMSNorm(2)(torch.tensor([[3.0, -3.0]])).round().tolist()
    [[1.0, -1.0]]
    """

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*axes width"]) -> Float[Tensor, "*axes width"]:
        gain = 1.0 + self.weight
        return F.rms_norm(x, gain.shape, gain.to(x.dtype), self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}, eps={self.eps}"


def build_norm(name: str, width: int, eps: float | None = None, bias: bool = True) -> nn.Module:
    """A new norm of vectors of this width; "none" is an identity. Raises: ConfigError for another name.

    Args:
        eps: added to the variance; None: 1e-6 for "rms" and "rms_1p", else 1e-5.
        bias: of "layer", which alone has one.

    >>> build_norm("rms", 8)
    RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    if name not in get_args(Norm):
        raise ConfigError(unknown("norm", name, get_args(Norm)))
    if name == "none":
        return nn.Identity()
    eps = (1e-6 if name.startswith("rms") else 1e-5) if eps is None else eps
    if name == "layer":
        return nn.LayerNorm(width, eps, bias=bias)
    return {"batch": TokenBatchNorm, "rms": nn.RMSNorm, "rms_1p": OffsetRMSNorm}[name](width, eps=eps)


def normed(norm: nn.Module, x: Tokens, valid_lens: Int[Tensor, "batch"] | None) -> Tokens:
    """norm(x), where a batch norm is told which tokens are real; without lengths, all are."""
    if not isinstance(norm, TokenBatchNorm):
        return norm(x)
    if valid_lens is None:
        valid_lens = torch.full((x.shape[0],), x.shape[1], device=x.device)
    return norm(x, valid_lens)


def norm_parts(
    norm: nn.Module, total: Float[Tensor, "*rows width"], parts: Float[Tensor, "*rows parts width"]
) -> Float[Tensor, "*rows parts width"]:
    """What a norm makes of each summand of a vector, with the statistics of the whole, by which it is affine.

    Args:
        total: the vectors that are normed.
        parts: summands of them.
    Raises: Unsupported: a norm of another kind.
    Source: Kobayashi et al. 2021, arXiv:2109.07152, section 3 (LayerNorm).

    >>> norm, parts = nn.LayerNorm(3), torch.tensor([[1.0, 2.0, 4.0], [0.5, 0.0, 1.0]])
    >>> torch.allclose(norm_parts(norm, parts.sum(0), parts).sum(0), norm(parts.sum(0)), atol=1e-6)
    True
    """
    if isinstance(norm, nn.Identity):
        return parts
    if isinstance(norm, TokenBatchNorm):
        return parts * norm.weight * torch.rsqrt(norm.variance + norm.eps)
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm | OffsetRMSNorm):
        raise Unsupported(f"{type(norm).__name__} is no norm whose output is a sum over parts of its input")
    if isinstance(norm, nn.LayerNorm):
        total, parts = (vectors - vectors.mean(-1, keepdim=True) for vectors in (total, parts))
    eps = torch.finfo(total.dtype).eps if norm.eps is None else norm.eps
    scaled = parts * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)[..., None, :]
    if isinstance(norm, OffsetRMSNorm):
        return scaled * (1.0 + norm.weight)
    return scaled if norm.weight is None else scaled * norm.weight
