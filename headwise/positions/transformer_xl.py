"""Projected sinusoids of the distance, met by the query; two learned vectors stand in for the query's position."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.attention.relative import Relative
from headwise.positions.position import Key, Position, Query
from headwise.positions.sinusoidal import check_even, moved, sinusoids


class TransformerXL(Position):
    """score_ij = ((q_i + u) . k_j + (q_i + v) . W R_(i-j)) / sqrt(d), with sinusoids R and u, v learned for each head.

    q_i . k_j is the attention's own scaled dot product. u . k_j is a bias that depends on the key alone; the rest is a
    table of distances that the queries meet, so no shift of a (query, distance) matrix is needed. Costs one product of
    the distances' sinusoids with W, d_model^2 each, at every call.

    Args:
        d_model: width of the sinusoids, even.
        num_heads: heads of the query.
        head_dim: width of a head.
    Raises: ConfigError for an odd width.
    Source: Dai et al. 2019, arXiv:1901.02860, section 3.3. W, u and v are those of a layer in the paper if each layer
        has its own instance; layers that share one share them.

    >>> query = torch.zeros(1, 3, 5, 4)
    >>> TransformerXL(12, 3, 4).relative(query, query, -4, 4).query_table.shape
    torch.Size([3, 9, 4])
    """

    where = "scores"
    extrapolates = "Any distance has its sinusoids; the paper attends over longer memories than those it trained with."

    def __init__(self, d_model: int, num_heads: int, head_dim: int):
        super().__init__()
        check_even("transformer_xl", d_model)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, head_dim
        self.projection = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self.content = nn.Parameter(torch.empty(num_heads, head_dim))
        self.place = nn.Parameter(torch.empty(num_heads, head_dim))
        nn.init.normal_(self.content, std=0.02)
        nn.init.normal_(self.place, std=0.02)

    def bias(self, query: Query, key: Key, start: int) -> Float[Tensor, "batch heads 1 key_len"]:
        key = wide(key)
        content = (self.content * self.head_dim**-0.5).to(key.dtype).unflatten(0, (key.shape[1], -1))
        # (batch, kv_heads, group, key_len) -> (batch, heads, 1, key_len)
        return (content @ key.mT).flatten(1, 2).unsqueeze(2)

    def side_by_side(self) -> bool:
        """True: the bias is of what a key holds, wherever it stands."""
        return True

    def relative(self, query: Query, key: Key, low: int, high: int) -> Relative:
        # R_(i-j), in the order of j - i
        distances = moved(sinusoids(high - low + 1, self.d_model, -high, query.device), query).flip(0)
        rows = self.projection(distances).unflatten(-1, (self.num_heads, self.head_dim)).transpose(0, 1)
        query = wide(query)
        table = rows.to(query.dtype) * self.head_dim**-0.5
        return Relative(low, query=query + self.place.to(query.dtype)[:, None], query_table=table)
