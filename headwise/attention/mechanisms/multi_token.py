"""Multi-token attention: scores of neighbouring queries and keys, and weights of neighbouring heads, are convolved."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import SOFTMAX, Rule, Written, with_earlier_queries
from headwise.attention.precision import wide
from headwise.attention.zeros import hide
from headwise.errors import ConfigError


class MultiToken(Written):
    """mix(softmax(mask(sum over a, b of C_ab z_(i-a)(j+b)))) v, z = mask_0(q k^T / sqrt(d)), mixed in groups of heads.

    C is learned for each head, over this query and the queries before it, and over keys on both sides: a weight can
    depend on several words found near one another. Pairs that the mask hides are 0 in the convolution and minus
    infinity behind it, so nothing later leaks. Weights of the `group` heads of a group are then mixed by a learned
    matrix. Both start as identities, which is softmax attention. A cache keeps the queries, as later ones need them.
    Bias and relative terms are added behind the convolution.

    Args:
        num_heads: heads, a multiple of `group`.
        queries: queries that C spans, this one and those before it; 6 in the paper.
        keys: keys that C spans, odd; 11 in the paper.
        group: heads that mix their weights; 2 in the paper.
        dropout: probability of dropping a mixed weight while training.
    Raises:
        ConfigError: an even number of keys, a group that does not divide the heads.
        ShapeError: other heads than it was built for.
    Source: Golovneva et al. 2025, arXiv:2504.00927, eq. 4 and 6. The paper's norm of each head is the layer's
        `head_norm`.

    >>> x = torch.ones(2, 4, 5, 8)
    >>> MultiToken(4)(Call(x, x, x)).shape
    torch.Size([2, 4, 5, 8])
    """

    facts = replace(
        SOFTMAX,
        family="mixing",
        time="n^2 (d + c) for c taps",
        exact="C and the mixture identities",
        honours="keys",
        cross=False,
        apart=False,
        cache="queries",
    )
    num_heads: int

    def __init__(self, num_heads: int, queries: int = 6, keys: int = 11, group: int = 2, dropout: float = 0.0):
        super().__init__(dropout)
        group = 1 if num_heads == 1 else group
        if queries < 1 or keys < 1 or keys % 2 == 0:
            raise ConfigError(f"multi_token needs queries ({queries}) of 1 or more and an odd number of keys ({keys})")
        if group < 1 or num_heads % group:
            raise ConfigError(f"group ({group}) of multi_token must divide num_heads ({num_heads})")
        self.num_heads, self.queries, self.keys, self.group = num_heads, queries, keys, group
        taps = torch.zeros(num_heads, 1, queries, keys)
        taps[:, :, -1, keys // 2] = 1.0
        self.taps = nn.Parameter(taps)
        self.mixture = nn.Parameter(torch.eye(group).repeat(num_heads // group, 1, 1))

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "MultiToken":
        return cls(num_heads, group=1 if num_heads % 2 else 2, dropout=dropout)

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        spanned = with_earlier_queries(call, self.queries - 1)

        def score(query: Tensor, key: Tensor) -> Tensor:
            scores = hide(call.score(wide(spanned.query), key), spanned.keep(), 0.0)
            if 0 in scores.shape:
                return scores[:, :, : query.shape[2]]
            padded = F.pad(scores, (self.keys // 2, self.keys // 2, self.queries - 1, 0))
            convolved = F.conv2d(padded, self.taps.to(scores.dtype), groups=self.num_heads)
            return convolved.narrow(2, scores.shape[2] - query.shape[2], query.shape[2])

        def normalizer(scores: Tensor, keep: Tensor | None) -> Tensor:
            grouped = call.normalizer(scores, keep).unflatten(1, (-1, self.group))
            mixed = torch.einsum("bnhqk,nhg->bngqk", grouped, self.mixture.to(scores.dtype))
            return hide(mixed.flatten(1, 2), keep, 0.0)

        return call.keep(), score, normalizer
