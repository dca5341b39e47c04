"""Position from the neighbourhood: each column of the input is convolved and added to itself."""

import torch
from torch import nn
from torch.nn import functional as F

from headwise.errors import ConfigError, Unsupported
from headwise.positions.position import Embedded, Position


class Convolutional(Position):
    """x + depthwise convolution of x along the sequence, zero beyond its ends: neighbours tell the order.

    Costs n x kernel_size x d_model. It knows no mask: without `causal`, what stands in padding on the right reaches
    the kernel_size // 2 tokens before it; with it, neither padding on the right nor a later token reaches any.

    Args:
        d_model: width of the embeddings.
        kernel_size: tokens that a position sees, itself included; odd unless causal.
        causal: whether those are the token and the ones before it, else as many on both sides.
    Raises:
        ConfigError: for a size that cannot be centred.
        Unsupported: for a start above 0, since the inputs before it are not there to see.
    Source: Chu et al. 2021 (CPVT), arXiv:2102.10882, section 3.2, in one dimension; Baevski et al. 2020 (wav2vec 2.0),
        arXiv:2006.11477, section 2, which groups columns and adds a GELU.

    >>> Convolutional(12).embed(torch.zeros(2, 5, 12), 0).shape
    torch.Size([2, 5, 12])
    """

    where = "embeddings"
    extrapolates = "Any length: a position knows its neighbourhood, and how near an end is, not its number."
    steps = False

    def __init__(self, d_model: int, *, kernel_size: int = 31, causal: bool = False):
        super().__init__()
        if kernel_size < 1 or (not causal and kernel_size % 2 == 0):
            raise ConfigError(f"kernel_size of convolutional positions must be odd unless causal, got {kernel_size}")
        self.kernel_size = kernel_size
        # tokens of the past and of the future that a position sees
        self._reach = (kernel_size - 1, 0) if causal else (kernel_size // 2, kernel_size // 2)
        self.weight = nn.Parameter(torch.empty(d_model, 1, kernel_size))
        self.shift = nn.Parameter(torch.zeros(d_model))
        nn.init.normal_(self.weight, std=kernel_size**-0.5)

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Convolutional":
        """Causal, since a model may use it in a decoder too, where a later token must not be seen."""
        return cls(d_model, causal=True)

    def embed(self, x: Embedded, start: int) -> Embedded:
        if start > 0:
            raise Unsupported(
                f"convolutional positions see the inputs before a token, got tokens from position {start} on without"
                " them; give the whole sequence at once, or decode step by step with another scheme"
            )
        if x.shape[-2] == 0:
            return x
        columns = F.pad(x.unsqueeze(0).flatten(0, -3).mT, self._reach)
        added = F.conv1d(columns, self.weight.to(x.dtype), self.shift.to(x.dtype), groups=self.weight.shape[0])
        return x + added.mT.reshape(x.shape)
