"""Disentangled attention: content meets projected vectors of the distance, in both directions."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions.position import Ids, Key, Position, Projected, Query
from headwise.positions.t5 import bucket, starts

# the content term is scaled by the attention itself, by 1 / sqrt(d): queries and keys bring what is missing
_SHARE = 3**-0.25


class Deberta(Position):
    """score_ij = (q_i . k_j + q_i . K_r[d(i, j)] + k_j . Q_r[d(j, i)]) / sqrt(3 d): content, content to position, back.

    d(i, j) = i - j + k, clipped to [0, 2k - 1]; K_r and Q_r are one learned table P of 2k rows, projected for each
    head. The attention's own 1 / sqrt(d) becomes 1 / sqrt(3 d) because `rotate` multiplies queries and keys by
    3^(-1/4) each; for a score other than the scaled dot product the factor is of that score. Costs a product of P's
    rows for the distances asked for with both projections, d_model^2 each, at every call.

    The released models differ: they read Q_r at d(i, j) too, their projections have biases, and from version 2 on far
    distances share logarithmic buckets, as many for each side as `buckets` says, k in the formula. Load their
    `pos_key_proj` and `pos_query_proj` (with `share_att_key`: `key_proj` and `query_proj`) as `keys` and `queries`,
    and their normalized `rel_embeddings` as `table`.

    Args:
        d_model: width of P.
        num_heads: heads of the query.
        head_dim: width of a head.
        max_distance: from which on distances are alike; k without buckets.
        index: "paper" or "released".
        buckets: distances up to half as many have their own row, even; None: all have.
    Raises: ConfigError for a distance below 1, another index, or buckets that leave no far distances.
    Source: He et al. 2021, arXiv:2006.03654, eq. 3 and 4; buckets: the code of He et al. 2023, arXiv:2111.09543. P is
        shared by all layers in the paper, its projections are not; an instance is one P with one pair of them.

    >>> query = torch.zeros(1, 3, 5, 4)
    >>> Deberta(12, 3, 4).relative(query, query, -4, 4).key_table.shape
    torch.Size([3, 9, 4])
    """

    where = "scores"
    extrapolates = "Distances beyond max_distance share a learned vector, so any length is defined."

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        head_dim: int,
        *,
        max_distance: int = 512,
        index: Literal["paper", "released"] = "paper",
        buckets: int | None = None,
    ):
        super().__init__()
        if max_distance < 1:
            raise ConfigError(f"max_distance of deberta positions must be at least 1, got {max_distance}")
        if index not in ("paper", "released"):
            raise ConfigError(f"index of deberta positions must be 'paper' or 'released', got {index!r}")
        if buckets is not None and (buckets < 4 or buckets % 2 or buckets // 2 + 1 >= max_distance):
            raise ConfigError(
                f"buckets of deberta positions must be even, at least 4, and half of them below max_distance"
                f" ({max_distance}) - 1, got {buckets}"
            )
        self.num_heads, self.head_dim, self.max_distance, self.index = num_heads, head_dim, max_distance, index
        self._starts = None if buckets is None else _log_starts(buckets // 2, max_distance)
        self.table = nn.Parameter(torch.empty(2 * (buckets or max_distance), d_model))
        nn.init.normal_(self.table, std=0.02)
        self.queries = nn.Linear(d_model, num_heads * head_dim, bias=index == "released")
        self.keys = nn.Linear(d_model, num_heads * head_dim, bias=index == "released")

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Deberta":
        return cls(d_model, num_heads, head_dim, max_distance=max_len)

    def rotate(self, heads: Projected, start: int | Ids) -> Projected:
        return heads * _SHARE

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        low, high = torch.sym_max(low, -self.max_distance), torch.sym_min(high, self.max_distance)
        behind = -torch.arange(low, high + 1, device=self.table.device)
        keys = self._projected(self.keys, behind)
        queries = self._projected(self.queries, behind if self.index == "released" else -behind)
        query, key = wide(query), per_head(wide(key), query.shape[1])
        return Relative(low, query=query, query_table=keys, key=key, key_table=queries)

    def _projected(self, linear: nn.Linear, behind: Int[Tensor, "size"]) -> Float[Tensor, "heads size head_dim"]:
        """K_r or Q_r for keys so far behind their query, with what is left of the scale."""
        middle = self.table.shape[0] // 2
        if self._starts is not None:
            behind = behind.sign() * bucket(behind.abs(), self._starts)
        rows = wide(linear(self.table[(behind + middle).clamp(0, 2 * middle - 1)]))
        # queries and keys were multiplied by 3^(-1/4) before they meet these rows
        return rows.unflatten(-1, (self.num_heads, self.head_dim)).transpose(0, 1) * (_SHARE * self.head_dim**-0.5)


def _log_starts(near: int, max_distance: int) -> tuple[int, ...]:
    """Bucket near + ceil((near - 1) log(a / near) / log((max_distance - 1) / near)) for distances a above near."""

    def reached(number: int, distance: int) -> bool:
        return distance ** (near - 1) * near ** (number - 1) > (max_distance - 1) ** (number - 1) * near ** (near - 1)

    return starts(max_distance, near, reached, near)
