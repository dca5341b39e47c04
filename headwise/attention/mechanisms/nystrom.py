"""Attention through landmarks: the mean queries and keys of segments."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, check, wide
from headwise.attention.kernels import plain
from headwise.attention.masks import Mask, Table
from headwise.attention.mechanisms._masks import hidden, per_head
from headwise.attention.mechanisms._sequences import Existing, check_self_attention, existing, read_mask
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
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
        return F.conv2d(value, self.weight.to(value.dtype), padding=(taps // 2, 0), groups=heads)


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
    Raises:
        Unsupported: for another sequence, a mask that is no padding, a bias, relative positions or a later start.
    Source: Xiong et al. 2021, arXiv:2102.03902, section 3, the iteration for the inverse included; each matrix is
    scaled by its own norms before it, not by the largest of the batch, so that sentences do not see each other.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Nystrom(landmarks=4, residual=ValueConvolution(3, 5))(x, x, x).shape
    torch.Size([2, 3, 7, 8])
    """

    facts = Facts(
        formula="softmax(q k~^T) softmax(q~ k~^T)^+ softmax(q~ k^T) v with segment means q~, k~",
        paper="Xiong et al. 2021, arXiv:2102.03902",
        family="low-rank",
        time="n m d + m^3 for m landmarks",
        memory="n m",
        exact="landmarks = n and the inverse exact",
        causal=False,
        cross=False,
        recurrent=False,
        masks="padding",
        bias=False,
        relative=False,
        steps="none",
    )

    def __init__(self, landmarks: int = 64, *, steps: int | None = 6, residual: nn.Module | None = None):
        super().__init__()
        if landmarks < 1:
            raise ConfigError(f"nystrom needs 1 or more landmarks, got {landmarks}")
        self.landmarks, self.steps, self.residual = landmarks, steps, residual
        self.score = ScaledDot()

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Nystrom":
        return cls()

    def forward(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
        finite: bool = False,
    ) -> Float[Tensor, "batch heads query_len value_dim"]:
        call = Call(query, key, value, self.score, softmax, mask, bias, relative, query_start=query_start)
        keys = read_mask("nystrom", call, causal=False).keys
        check_self_attention("nystrom", query, key)
        heads, dtype = query.shape[1], value.dtype
        if key.shape[2] == 0:
            return planner.run(call)
        key, value = (wide(existing(tensor, keys, heads)) for tensor in (key, value))
        with torch.autocast(query.device.type, enabled=False):
            output = self._attend(wide(query), key, value, keys, finite)
            if self.residual is not None:
                output = output + self.residual(per_head(value, heads))
        return output.to(dtype)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, keys: Existing | None, finite: bool) -> Tensor:
        heads, count = query.shape[1], min(self.landmarks, key.shape[2])
        present = keys if keys is not None else torch.ones(1, 1, 1, key.shape[2], dtype=torch.bool, device=key.device)
        segment, size = _segments(present.squeeze(2), count)
        queries = _means(hidden(query, keys), segment, size)
        landmarks = per_head(_means(key, segment, size), heads)
        # a landmark that no token belongs to meets nothing: its row and column are zero, in the inverse as well
        real = (size > 0).unsqueeze(2)
        between = plain.weights(check(Call(queries, landmarks, landmarks, self.score, mask=Table(real & real.mT))))
        shown, met = (None, None) if keys is None else (Table(keys), Table(real))
        summaries = planner.run(check(Call(queries, key, value, self.score, mask=shown, finite=finite)))
        values = _inverse(between, self.steps) @ summaries
        return planner.run(check(Call(query, landmarks, values, self.score, mask=met, finite=finite)))

    def extra_repr(self) -> str:
        return f"landmarks={self.landmarks}, steps={self.steps}"


def _segments(
    present: Bool[Tensor, "#batch #heads length"], landmarks: int
) -> tuple[Int[Tensor, "#batch #heads length"], Int[Tensor, "#batch #heads landmarks"]]:
    """The segment of each token, and the tokens in each."""
    rank, total = (present.cumsum(-1) - 1).clamp_(min=0), present.sum(-1, keepdim=True)
    segment = rank * landmarks // total.clamp(min=1)
    size = torch.zeros(*segment.shape[:2], landmarks, dtype=torch.int64, device=present.device)
    return segment, size.scatter_add_(-1, segment, present.long())


def _means(tensor: Tensor, segment: Tensor, size: Tensor) -> Tensor:
    """The mean of each segment; tokens that do not exist are zeros in the tensor."""
    batch, heads, _, dim = tensor.shape
    sums = tensor.new_zeros(batch, heads, size.shape[-1], dim)
    sums = sums.scatter_add(2, segment.unsqueeze(-1).expand_as(tensor), tensor)
    return sums / size.clamp(min=1).unsqueeze(-1)


def _inverse(
    weights: Float[Tensor, "batch heads landmarks landmarks"], steps: int | None
) -> Float[Tensor, "batch heads landmarks landmarks"]:
    if steps is None:
        return torch.linalg.pinv(weights)
    # weights are not negative, so these are the norms for infinity and 1; without any key both are 0
    norms = weights.sum(-1).amax(-1) * weights.sum(-2).amax(-1)
    inverse = weights.mT / norms.clamp(min=torch.finfo(weights.dtype).tiny)[..., None, None]
    one = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    for _ in range(steps):
        product = weights @ inverse
        inverse = 0.25 * inverse @ (13 * one - product @ (15 * one - product @ (7 * one - product)))
    return inverse
