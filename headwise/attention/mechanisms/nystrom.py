"""Attention through landmarks: the mean queries and keys of segments."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, per_head
from headwise.attention.kernels import plain
from headwise.attention.masks import Table
from headwise.attention.mechanisms._masks import at_most, hidden, parts
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.precision import uncast
from headwise.errors import ConfigError


class ValueConvolution(nn.Module):
    """A convolution of the values along the sequence, one filter a head: added to the output, it eases training.

    Args:
        num_heads: filters.
        kernel_size: taps of a filter, odd.
    Source: Xiong et al. 2021, arXiv:2102.03902, section 3 ("skip connection").
    """

    def __init__(self, num_heads: int, kernel_size: int):
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size ({kernel_size}) must be odd, so that a filter has a middle")
        self.weight = nn.Parameter(torch.empty(num_heads, 1, kernel_size, 1))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, value: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length dim"]:
        heads, _, taps, _ = self.weight.shape
        # one more row of zeros, so that a filter fits into a sequence without tokens
        padded = F.pad(value, (0, 0, taps // 2, taps // 2 + 1))
        return F.conv2d(padded, self.weight.to(value.dtype), groups=heads)[:, :, :-1]


class Nystrom(Mechanism):
    """softmax(q k~^T) softmax(q~ k~^T)^+ softmax(q~ k^T) v, all scaled; q~ and k~ are means over segments (landmarks).

    ^+ is the Moore-Penrose inverse. Time n m d + m^3, memory n m for m landmarks. Segments divide the tokens that
    exist into parts as equal as may be; with fewer tokens than landmarks each token is one. Queries and keys are of
    one sequence, since a segment holds the queries that exist. The weights are a product of three matrices, so they
    may be negative, nothing can be causal, and there is no dropout of weights.

    Args:
        landmarks: number of segments.
        steps: of the iteration for the inverse; None: exactly, by singular values, for finite inputs.
        residual: added to the output, such as a `ValueConvolution`; linear in the values.
    Raises: Unsupported for another sequence, a mask that is no padding, a bias, relative positions or a later start.
    Source: Xiong et al. 2021, arXiv:2102.03902, section 3, the iteration for the inverse included; each matrix is
    scaled by its own norms before it, not by the largest of the batch, so that sentences do not see each other.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Nystrom(landmarks=4, residual=ValueConvolution(3, 5))(Call(x, x, x)).shape
    torch.Size([2, 3, 7, 8])
    """

    facts = Facts(
        family="low-rank",
        time="n m d + m^3 for m landmarks",
        memory="n m",
        exact="landmarks = n and the inverse exact",
        honours="keys",
    )

    def __init__(self, landmarks: int = 64, *, steps: int | None = 6, residual: nn.Module | None = None):
        super().__init__()
        if landmarks < 1:
            raise ConfigError(f"nystrom needs 1 or more landmarks, got {landmarks}")
        self.landmarks, self.steps, self.residual = landmarks, steps, residual

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        query, key, value, _, keys = parts(call)
        with uncast(query):
            exist = query.new_ones(1, 1, key.shape[2]).bool() if keys is None else keys
            shares = _shares(exist, max(1, at_most(self.landmarks, key.shape[2])), key.dtype)
            # a landmark that no token belongs to meets nothing: its row and column are zero, in the inverse as well
            real = (shares.sum(-1) > 0).unsqueeze(2)
            queries, landmarks = shares @ hidden(query, keys), per_head(shares @ key, query.shape[1])
            between = plain.weights(Call(queries, landmarks, landmarks, mask=Table(real & real.mT)))
            shown = None if keys is None else Table(keys.unsqueeze(2))
            values = _inverse(between, self.steps) @ planner.run(Call(queries, key, value, mask=shown))
            output = planner.run(Call(query, landmarks, values, mask=Table(real)))
            if self.residual is not None:
                output = output + self.residual(per_head(value, query.shape[1]))
            return output.to(call.value.dtype)


def _shares(
    exist: Bool[Tensor, "#batch #heads length"], landmarks: int, dtype: torch.dtype
) -> Float[Tensor, "#batch #heads landmarks length"]:
    """What each token adds to the mean of each segment."""
    rank, count = exist.cumsum(-1) - 1, exist.sum(-1, keepdim=True)
    segment = rank * landmarks // count.clamp(min=1)
    member = (segment.unsqueeze(2) == torch.arange(landmarks, device=exist.device).unsqueeze(1)) & exist.unsqueeze(2)
    return member.to(dtype) / member.sum(-1, keepdim=True).clamp(min=1)


def _inverse(
    weights: Float[Tensor, "batch heads landmarks landmarks"], steps: int | None
) -> Float[Tensor, "batch heads landmarks landmarks"]:
    if steps is None:
        return torch.linalg.pinv(weights)
    # weights are not negative, so these are the norms for infinity and 1; without any key both are 0
    norms = weights.sum(-1).amax(-1) * weights.sum(-2).amax(-1)
    inverse = weights.mT / norms.clamp(min=torch.finfo(weights.dtype).tiny)[..., None, None]
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    for _ in range(steps):
        product = weights @ inverse
        inverse = 0.25 * inverse @ (13 * identity - product @ (15 * identity - product @ (7 * identity - product)))
    return inverse
