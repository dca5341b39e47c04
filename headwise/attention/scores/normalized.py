"""Scores that stay bounded: dot products of vectors without their lengths, and a cap around any score."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.attention.scores.dot import ScaledDot
from headwise.attention.scores.score import (
    AsDot,
    Key,
    KvKey,
    Pairs,
    PairScores,
    Product,
    Query,
    Score,
    Scores,
    check_built,
)
from headwise.errors import ConfigError


class Cosine(Product):
    """scale q . k / (|q| |k|) with one learned scale for each head: the cosine of the angle, between -scale and scale.

    A vector of zeros has cosine 0 with everything.

    Args:
        num_heads: heads of the query; each learns the logarithm of its scale.
        scale: where the scales start, above 0.
        largest: the scales are cut here, which bounds the scores.
    Raises: ConfigError: a scale that is not above 0, or beyond the largest.
    Source: Liu et al. 2022, arXiv:2111.09883, eq. 2 (scale = 1 / tau, tau above 0.01; the logarithm is learned);
    Henry et al. 2020, arXiv:2010.04245 (one scale for all heads, started from the length).

    >>> query, key = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 0.0], [0.0, 9.0]]]])
    >>> Cosine(num_heads=1)(query, key).detach().round(decimals=4).tolist()
    [[[[6.0, 8.0]]]]
    """

    def __init__(self, num_heads: int, scale: float = 10.0, largest: float = 100.0):
        super().__init__()
        if not 0.0 < scale <= largest:
            raise ConfigError(f"scale ({scale}) must lie above 0 and be at most the largest, {largest}")
        self.log_scale = nn.Parameter(torch.full((num_heads,), math.log(scale)))
        self.num_heads, self.largest = num_heads, largest

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        check_built(self, "heads", self.num_heads, query.shape[1])
        scale = self.log_scale.to(wide(query)).clamp(max=math.log(self.largest)).exp()
        return (_unit(query) * scale[:, None, None]).to(query.dtype), _unit(key).to(key.dtype), 1.0


class QKNorm(Product):
    """(g_q * rms_norm(q)) . (g_k * rms_norm(k)) / sqrt(d) with learned gains g_q and g_k, shared by the heads.

    Scores start within sqrt(d) of 0 whatever the size of the projections, which keeps training of large models stable.
    A score sees queries and keys as positions have rotated them, so this norms after the rotation. Qwen3 and Gemma 3
    norm before it: that is the `norm` option of `MultiHeadAttention`. A rotation keeps lengths, so the two differ only
    in where the gains stand.

    Args:
        dim: width of a query and of a key.
    Source: Dehghani et al. 2023, arXiv:2302.05442, sec. 2, there with LayerNorm without biases; Henry et al. 2020,
    arXiv:2010.04245. Root mean square norms (Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4) have become usual here.

    >>> round(QKNorm(4)(5 * torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item(), 4)
    2.0
    """

    def __init__(self, dim: int):
        super().__init__()
        self.widths = (dim, dim)
        self.query_gain = nn.Parameter(torch.ones(dim))
        self.key_gain = nn.Parameter(torch.ones(dim))

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        return _rms_norm(query, self.query_gain), _rms_norm(key, self.key_gain), len(self.query_gain) ** -0.5


def _unit(x: Float[Tensor, "*axes dim"]) -> Float[Tensor, "*axes dim"]:
    x = wide(x)
    # squares of large or tiny numbers leave the range; the factor drops out of the result, so no gradient needs it
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1.0)
    # now at least 1, unless all is 0
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1.0)


def _rms_norm(x: Float[Tensor, "*axes dim"], gain: Float[Tensor, "dim"]) -> Float[Tensor, "*axes dim"]:
    gain = gain.to(wide(x).dtype)
    return F.rms_norm(wide(x), gain.shape, gain, eps=1e-6).to(x.dtype)


class SoftCap(Score):
    """cap tanh(score / cap): another score, bent so that it stays between -cap and cap.

    No dot product any more, whatever the inner score is.

    Args:
        score: the inner score.
        cap: the bound, above 0; scores far below it hardly change.
    Raises: ConfigError: a cap that is not above 0 and finite, or an inner score that is no `Score`.
    Source: Gemma team 2024, arXiv:2408.00118, sec. 2 (logit soft-capping, cap 50 in attention).

    >>> from headwise.attention.scores import Dot
    >>> SoftCap(Dot(), cap=2.0)(torch.full((1, 1, 1, 1), 100.0), torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    def __init__(self, score: Score, cap: float):
        super().__init__()
        if not 0.0 < cap < float("inf"):
            raise ConfigError(f"cap ({cap}) must lie above 0, such as 50.0")
        if not isinstance(score, Score):
            raise ConfigError(f"SoftCap bends a score such as ScaledDot(), got {score!r}")
        self.score = score
        self.cap = cap

    @classmethod
    def sized(cls, *, query_dim: int, key_dim: int, hidden: int, num_heads: int, dim: int) -> "SoftCap":
        """Of scaled dot products, with a cap of 50."""
        return cls(ScaledDot(), 50.0)

    def forward(self, query: Query, key: Key) -> Scores:
        return self.cap * (self.score(query, key) / self.cap).tanh()

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        return self.cap * (self.score.pairs(query, key) / self.cap).tanh()

    def pair_width(self, query: Query) -> int:
        return self.score.pair_width(query)

    def kept_width(self, query: Query) -> int:
        # the inner score, and what is made of it
        return 2 if self.score.is_dot() else self.score.kept_width(query)

    def per_head(self) -> bool:
        return self.score.per_head()

    def check(self, query_dim: int, key_dim: int) -> None:
        self.score.check(query_dim, key_dim)
