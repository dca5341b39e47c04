"""Disentangled attention: content meets projected vectors of the distance, in both directions."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.relative import Relative
from headwise.errors import ConfigError
from headwise.positions._memo import Memo, wide
from headwise.positions.position import Position

# the content term is scaled by the attention itself, by 1 / sqrt(d): queries and keys bring what is missing
_SHARE = 3**-0.25


class Deberta(Position):
    """score_ij = (q_i . k_j + q_i . K_r[d(i, j)] + k_j . Q_r[d(j, i)]) / sqrt(3 d): content, content to position, back.

    d(i, j) = i - j + k, clipped to [0, 2k - 1]; K_r and Q_r are one learned table P of 2k rows, projected for each
    head. The attention's own 1 / sqrt(d) becomes 1 / sqrt(3 d) because `rotate` multiplies queries and keys by
    3^(-1/4) each; for a score other than the scaled dot product the factor is of that score. Without gradients the
    projected tables are kept.

    Args:
        d_model: width of P.
        num_heads: heads of the query.
        head_dim: width of a head.
        max_distance: k, from which on distances are alike.
    Raises:
        ConfigError: for a distance below 1.
    Source: He et al. 2021, arXiv:2006.03654, eq. 3 and 4; the code that came with it reads Q_r at d(i, j) instead. P
        is shared by all layers in the paper, its projections are not; an instance is one P with one pair of them.

    >>> query = torch.zeros(1, 3, 5, 4)
    >>> Deberta(12, 3, 4).relative(query, query, -4, 4).key_table.shape
    torch.Size([3, 9, 4])
    """

    where = "scores"
    extrapolates = "Distances beyond max_distance share a learned vector, so any length is defined."
    paper = "He et al. 2021, arXiv:2006.03654"

    def __init__(self, d_model: int, num_heads: int, head_dim: int, *, max_distance: int = 512):
        super().__init__()
        if max_distance < 1:
            raise ConfigError(f"max_distance of deberta positions must be at least 1, got {max_distance}")
        self.num_heads, self.head_dim, self.max_distance = num_heads, head_dim, max_distance
        self.table = nn.Parameter(torch.empty(2 * max_distance, d_model))
        nn.init.normal_(self.table, std=0.02)
        self.queries = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self.keys = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self._memo = Memo()

    @classmethod
    def sized(cls, d_model: int, head_dim: int, num_heads: int, max_len: int) -> "Deberta":
        return cls(d_model, num_heads, head_dim, max_distance=max_len)

    def rotate(
        self, heads: Float[Tensor, "*batch length head_dim"], start: int
    ) -> Float[Tensor, "*batch length head_dim"]:
        return heads * _SHARE

    def relative(
        self,
        query: Float[Tensor, "batch heads query_len head_dim"],
        key: Float[Tensor, "batch kv_heads key_len head_dim"],
        low: int,
        high: int,
    ) -> Relative:
        query, key = wide(query), wide(key)
        low, high = max(low, -self.max_distance), min(high, self.max_distance)
        tables = self._memo.table(list(self.parameters()), max(-low, high), self._projected)
        middle = tables.shape[2] // 2
        keys, queries = tables[:, :, middle + low : middle + high + 1].to(query.dtype)
        group = query.shape[1] // key.shape[1]
        by_head = key if group == 1 else key.repeat_interleave(group, dim=1)
        return Relative(low, query=query, query_table=keys, key=by_head, key_table=queries)

    def _projected(self, size: int) -> Float[Tensor, "2 heads distances head_dim"]:
        """K_r, then Q_r, for the distances n = key - query from -size to size, with what is left of the scale."""
        distances, last = torch.arange(-size, size + 1, device=self.table.device), 2 * self.max_distance - 1
        ahead = wide(self.table[(self.max_distance - distances).clamp_(0, last)])
        back = wide(self.table[(self.max_distance + distances).clamp_(0, last)])
        both = torch.stack((ahead @ wide(self.keys.weight).mT, back @ wide(self.queries.weight).mT))
        # queries and keys were multiplied by 3^(-1/4) before they meet these rows
        return both.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) * (_SHARE * self.head_dim**-0.5)
