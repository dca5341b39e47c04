"""Attention to keys that hash to the bucket of the query."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, wide
from headwise.attention.dropout import Dropout
from headwise.attention.masks import Mask
from headwise.attention.mechanisms import _hashing as hashing
from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms._sequences import check_self_attention, existing, read_mask
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
from headwise.errors import ConfigError, ShapeError

# the score of a token with itself, which counts only where it meets no other
_ITSELF = -1e5


class Reformer(Mechanism):
    """softmax over the keys j with hash(q_j) = hash(q_i) of q_i . k_j / |k_j|, times v_j (LSH attention).

    A position stands in the bucket of its query, and its key, divided by its norm, is found there. The paper shares
    one projection for both: give the same tensor twice; with another key the definition is the same, but keys that
    fit a query need not be in its bucket. In each of several rounds of hashing the positions are sorted by bucket
    and cut into chunks; a query meets the keys of its bucket in its own chunk and the one before, or, if causal, the
    `chunk` keys of its bucket before it. Rounds are merged exactly: a key met in several of them counts once. A token
    attends to itself only if it meets no other. Positions that do not exist meet nothing, give zero, and neither
    number nor reach of the others depends on them. Time n c r (d + r), memory n c r for chunks of c and r rounds.

    Buckets: two for each whole chunk of tokens, one for a sequence of at most one chunk, which is then attended to in
    full; beyond max_len they are no more.

    Args:
        head_dim: width of query and key.
        max_len: length up to which the buckets grow in number.
        chunk: tokens of a chunk.
        rounds: hashings.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: for heads of another width.
        Unsupported: for another sequence, a mask that is neither causal nor padding, a bias, relative positions or a
            later start.
    Source: Kitaev et al. 2020, arXiv:2001.04451, section 2 and, for the rounds, appendix A. The causal reach is by
    rank within the bucket, not by chunk, so that later tokens change nothing; queries of other buckets in a chunk are
    not met; all heads share the rotations, which are kept until `redraw`.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Reformer(head_dim=8, max_len=11, chunk=3)(x, x, x).shape
    torch.Size([2, 3, 7, 8])
    """

    rotations: Float[Tensor, "rounds head_dim columns"]

    facts = Facts(
        formula="softmax(q k^T / |k|) v over keys with hash(q_j) = hash(q_i)",
        paper="Kitaev et al. 2020, arXiv:2001.04451",
        family="pattern",
        time="n c d for chunks of c",
        memory="n c",
        exact="one bucket, for keys divided by their norm, no token attending to itself",
        causal=True,
        cross=False,
        recurrent=False,
        masks="causal, padding, both",
        bias=False,
        relative=False,
        steps="none",
    )

    def __init__(self, head_dim: int, max_len: int, *, chunk: int = 64, rounds: int = 2, dropout: float = 0.0):
        super().__init__()
        if chunk < 1 or rounds < 1:
            raise ConfigError(f"reformer needs chunk ({chunk}) and rounds ({rounds}) of 1 or more")
        self.chunk, self.dropout = chunk, Dropout(dropout)
        self.register_buffer("rotations", torch.empty(rounds, head_dim, max(1, max_len // chunk)))
        self.redraw()
        self.score = ScaledDot()

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Reformer":
        return cls(head_dim, max_len, dropout=dropout)

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draws new rotations: other buckets."""
        self.rotations.normal_(generator=generator)

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
        causal, keys = read_mask("reformer", call, causal=True)
        check_self_attention("reformer", query, key)
        heads, length, head_dim = query.shape[1:]
        if head_dim != self.rotations.shape[1]:
            raise ShapeError(f"reformer was built for head_dim ({self.rotations.shape[1]}), got {head_dim}")
        if length == 0:
            return planner.run(call)
        query, key, values = (wide(existing(tensor, keys, heads)) for tensor in (query, key, value))
        missing = -length % min(self.chunk, length)
        query, key, values = (F.pad(t, (0, 0, 0, missing)) for t in (query, F.normalize(key, dim=-1), values))
        present = query.new_ones(1, 1, length).bool() if keys is None else keys.squeeze(2)
        with torch.autocast(query.device.type, enabled=False):
            order = self._order(query, F.pad(present, (0, missing)), min(self.chunk, length), causal)
            output = self._attend(query, per_head(key, heads), per_head(values, heads), order)
        return output[:, :, :length].to(value.dtype)

    @torch.no_grad()
    def _order(self, query: Tensor, present: Tensor, chunk: int, causal: bool) -> hashing.Order:
        columns = self.rotations.shape[-1]
        count = present.sum(-1)
        used = torch.where(count > self.chunk, count // self.chunk, 0)
        buckets = hashing.bucket(query, self.rotations, used)
        # what does not exist has a bucket of its own, behind the others
        buckets = buckets.masked_fill(~present.unsqueeze(2), 2 * columns)
        return hashing.order(buckets, 2 * columns + 1, chunk, causal=causal)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, order: hashing.Order) -> Tensor:
        keys, values = (hashing.beside(order.chunks(tensor)) for tensor in (key, value))
        # (batch, heads, rounds, chunks, chunk, keys of two chunks)
        scores = order.chunks(query) @ keys.mT
        meet, times = order.meetings()
        scores = scores.masked_fill_(order.itself(), _ITSELF).masked_fill_(~meet, float("-inf"))
        top = scores.detach().amax(-1, keepdim=True)
        powers = (scores - top).exp_()
        if times is not None:
            powers = powers / times.clamp_(min=1)
        sums = self.dropout(powers) @ values, powers.sum(-1, keepdim=True)
        top, weighted, total = (order.restored(tensor) for tensor in (top, *sums))
        # (batch, heads, rounds, length, 1): how much of a softmax over all rounds each one holds
        share = (top - top.amax(2, keepdim=True)).exp()
        return (share * weighted).sum(2) / (share * total).sum(2)

    def extra_repr(self) -> str:
        rounds, head_dim, columns = self.rotations.shape
        return f"head_dim={head_dim}, chunk={self.chunk}, rounds={rounds}, buckets={2 * columns}"
