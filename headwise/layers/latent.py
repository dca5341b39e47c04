"""Keys and values through one narrow vector for all heads, all that a cache keeps: multi-head latent attention."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.scores.score import times
from headwise.errors import ConfigError
from headwise.positions.position import Position
from headwise.positions.rotary import Rotary

Vectors = Float[Tensor, "batch length d_model"]
Latents = Float[Tensor, "batch length width"]


@dataclass(frozen=True)
class Latent:
    """Sizes of multi-head latent attention.

    Args:
        rank: width of the vector c that keys and values are made of.
        query_rank: width of the vector that queries are made of; None: a matrix of their own.
    Raises: ConfigError: a width below 1.
    """

    rank: int
    query_rank: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rank, int) or not isinstance(self.query_rank, int | None):
            raise ConfigError(f"ranks of latent are whole numbers, got {self.rank!r} and {self.query_rank!r}")
        if self.rank < 1 or (self.query_rank is not None and self.query_rank < 1):
            raise ConfigError(f"latent needs a rank ({self.rank}) and a query_rank ({self.query_rank}) of 1 or more")


class LatentProjection(nn.Module):
    """q = W_q x, k = [r; W_k c], v = W_v c with [r; c'] = W x, c = norm(c'), for every head (MLA).

    r is one vector for all heads, which position turns: the leading columns of each head. c and r are all that a cache
    has to keep, rank + rope_dim numbers a token. When decoding, W_k is taken to the query and W_v to the output
    (`absorb`, `restore`), so that keys and values are never made again: q . k = [q_r; W_k^T q_c] . [r; c].

    Args:
        d_model: width of x.
        num_heads, head_dim, value_dim: of queries and keys, and of values.
        rope_dim: leading columns of a head that position turns.
        latent: the ranks.
        bias: of W, and of the first map of queries with a rank.
    Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.2 and 2.1.3. DeepSeek's heads have the turned columns last:
        rows of `q_b_proj` (or `q_proj`) load in the order [turned, rest] of each head, `kv_a_proj_with_mqa` as `inner`
        with its last rows first; `kv_b_proj` as `outer`.

    >>> LatentProjection(16, 2, 8, 6, rope_dim=4, latent=Latent(5), bias=True)(torch.ones(1, 3, 16)).shape
    torch.Size([1, 3, 44])
    """

    def __init__(
        self, d_model: int, num_heads: int, head_dim: int, value_dim: int, *, rope_dim: int, latent: Latent, bias: bool
    ):
        super().__init__()
        if not 0 <= rope_dim < head_dim:
            raise ConfigError(
                f"latent keys have columns that position turns and others: turn fewer than {head_dim} columns, such as"
                f" rotary:columns={max(2, head_dim // 4 * 2)}"
            )
        self.num_heads, self.head_dim, self.value_dim, self.rope_dim = num_heads, head_dim, value_dim, rope_dim
        self.rank, rank = latent.rank, latent.query_rank
        self.query: nn.Module = nn.Linear(d_model, num_heads * head_dim, bias=False)
        if rank is not None:
            second = nn.Linear(rank, num_heads * head_dim, bias=False)
            self.query = nn.Sequential(nn.Linear(d_model, rank, bias=bias), nn.RMSNorm(rank, eps=1e-6), second)
        self.inner = nn.Linear(d_model, rope_dim + latent.rank, bias=bias)
        self.norm = nn.RMSNorm(latent.rank, eps=1e-6)
        self.outer = nn.Linear(latent.rank, num_heads * (head_dim - rope_dim + value_dim), bias=False)

    def forward(self, x: Vectors) -> Float[Tensor, "batch length columns"]:
        """Queries, keys and values side by side, head by head."""
        query, (key, value) = self.query(x), self.expand(self.compress(x).unsqueeze(1))
        return torch.cat((query, *(part.transpose(1, 2).flatten(2) for part in (key, value))), -1)

    def queries(self, x: Vectors) -> Float[Tensor, "batch heads length head_dim"]:
        """The queries alone."""
        return self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def compress(self, x: Vectors) -> Latents:
        """[r; c], before position turns r."""
        turned, rest = self.inner(x).split((self.rope_dim, self.rank), -1)
        return torch.cat((turned, self.norm(rest)), -1)

    def expand(
        self, latents: Float[Tensor, "batch 1 length width"]
    ) -> tuple[Float[Tensor, "batch heads length head_dim"], Float[Tensor, "batch heads length value_dim"]]:
        """Keys and values of [r; c]."""
        turned, rest = latents.split((self.rope_dim, self.rank), -1)
        heads = self.outer(rest.squeeze(1)).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key, value = heads.split((self.head_dim - self.rope_dim, self.value_dim), -1)
        return torch.cat((turned.expand(-1, self.num_heads, -1, -1), key), -1), value

    def absorb(self, query: Float[Tensor, "batch heads length head_dim"]) -> Float[Tensor, "batch heads length width"]:
        """Queries that meet [r; c] as the queries meet their keys."""
        turned, rest = query.split((self.rope_dim, self.head_dim - self.rope_dim), -1)
        return torch.cat((turned, rest @ self._maps()[0].to(rest.dtype)), -1)

    def restore(
        self, output: Float[Tensor, "batch heads length rank"]
    ) -> Float[Tensor, "batch heads length value_dim"]:
        """What values would have given, of what c gave."""
        return output @ self._maps()[1].to(output.dtype).mT

    def turned(self, position: Position | None, latents: Tensor, start: int | Tensor) -> Tensor:
        """[r; c] with r as position turns the keys of a head."""
        if position is None:
            return latents
        turned, rest = latents.split((self.rope_dim, self.rank), -1)
        heads = position.rotate_keys(F.pad(turned, (0, self.head_dim - self.rope_dim)), start)
        return torch.cat((heads[..., : self.rope_dim], rest), -1)

    def matrices(self) -> list[Tensor]:
        """The weight matrices, those of one map one by one, for initialisation."""
        queries = [part.weight for part in self.query.modules() if isinstance(part, nn.Linear)]
        turned, rest = self.inner.weight.split((self.rope_dim, self.rank))
        return [*queries, *([turned] if self.rope_dim else []), rest, self.outer.weight]

    def _maps(self) -> tuple[Tensor, Tensor]:
        """W_k and W_v, (heads, dim, rank): the layer called with unit vectors, for what may stand in its place."""
        unit = torch.eye(self.rank, dtype=self.inner.weight.dtype, device=self.inner.weight.device)
        heads = times(self.outer, unit).mT.unflatten(0, (self.num_heads, -1))
        key, value = heads.split((self.head_dim - self.rope_dim, self.value_dim), 1)
        return key, value


def turned_columns(position: Position | None) -> int:
    """The leading columns of a head that the position of a layer with latents turns. Raises: ConfigError."""
    if position is None:
        return 0
    if not isinstance(position, Rotary):
        raise ConfigError(
            f"latent keys are kept before heads are made of them, where {type(position).__name__} positions cannot act;"
            " use rotary:columns=N"
        )
    return position.columns
