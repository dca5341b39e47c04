"""Attention to keys that hash to the bucket of the query."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, per_head
from headwise.attention.dropout import drop
from headwise.attention.mechanisms._masks import chunks, front, hidden, parts
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.precision import uncast
from headwise.errors import ConfigError

# the score of a token with itself, which counts only where it meets no other
_ITSELF = -1e5
# columns that one rotation may have: with more, hashing would cost more than attention
_COLUMNS = 32


class Reformer(Mechanism):
    """LSH attention: softmax(q_i . k_j / |k_j|) v_j over the keys j with hash(q_j) = hash(q_i).

    A position stands in the bucket of its query, and its key, divided by its norm, is found there. The paper shares
    one projection for both: give the same tensor twice; with another key the definition is the same, but keys that
    fit a query need not be in its bucket. In each of several rounds of hashing the positions are sorted by bucket
    and cut into chunks; a query meets the keys of its bucket in its own chunk and the one before, or, if causal, the
    `chunk` keys of its bucket before it. Rounds are merged exactly: a key met in several of them counts once. A token
    attends to itself only if it meets no other. Positions that do not exist meet nothing, give zero, and neither
    number nor reach of the others depends on them. Time n c r (d + r), memory n c r for chunks of c and r rounds.

    A hash is argmax [x R; -x R] for a random R (Andoni et al. 2015, arXiv:1509.02897), two buckets a column. There are
    two buckets for each whole chunk of tokens, one for a sequence of at most one chunk, which is then attended to in
    full; beyond max_len they are no more. For more than 64 buckets, several hashes of at most 64 are taken together.

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
    not met; all heads share the rotations, which are kept until `redraw`. The authors' code takes two hashes together.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Reformer(head_dim=8, max_len=11, chunk=3)(Call(x, x, x)).shape
    torch.Size([2, 3, 7, 8])
    """

    rotations: Float[Tensor, "rounds hashes head_dim columns"]

    facts = Facts(
        family="pattern",
        time="n c d for chunks of c",
        memory="n c",
        exact="one bucket, for keys divided by their norm, no token attending to itself",
        honours="keys",
        causal=True,
    )

    def __init__(self, head_dim: int, max_len: int, *, chunk: int = 64, rounds: int = 2, dropout: float = 0.0):
        super().__init__()
        if chunk < 1 or rounds < 1:
            raise ConfigError(f"reformer needs chunk ({chunk}) and rounds ({rounds}) of 1 or more")
        self.head_dim, self.chunk, self.rounds, self.dropout = head_dim, chunk, rounds, dropout
        self.columns = max(1, max_len // chunk)
        hashes, left = 1, self.columns // _COLUMNS // 2
        while left:
            hashes, left = hashes + 1, left // min(left, _COLUMNS) // 2
        self.register_buffer("rotations", torch.empty(rounds, hashes, head_dim, min(self.columns, _COLUMNS)))
        self.redraw()

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draws new rotations: other buckets."""
        self.rotations.normal_(generator=generator)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        query, key, value, causal, keys = parts(call)
        heads, length = query.shape[1:3]
        exist = query.new_ones(1, 1, length).bool() if keys is None else keys
        query = hidden(query, keys)
        with uncast(query):
            missing = self.chunk * chunks(length, self.chunk) - length
            query, key, value = (F.pad(t, (0, 0, 0, missing)) for t in (query, F.normalize(key, dim=-1), value))
            order = self._order(query, F.pad(exist, (0, missing)), causal)
            output = self._attend(query, per_head(key, heads), per_head(value, heads), order)
        return front(output, length).to(call.value.dtype)

    @torch.no_grad()
    def buckets(
        self, vectors: Float[Tensor, "batch heads length head_dim"], exist: Bool[Tensor, "#batch #heads length"]
    ) -> Int[Tensor, "batch heads rounds length"]:
        """The bucket of each vector in each round; those that do not exist have one of their own, behind the others."""
        turned = torch.einsum("bhnd,rfdc->fbhrnc", vectors, self.rotations.to(vectors.dtype))
        count = exist.sum(-1)[..., None, None]
        # columns that are still wanted: half as many as buckets
        left = torch.where(count > self.chunk, count // self.chunk, 0).clamp(max=self.columns)
        bucket = torch.zeros_like(turned[0, ..., 0], dtype=torch.long)
        for projections in turned:
            used = left.clamp(max=_COLUMNS)
            outside = torch.arange(projections.shape[-1], device=projections.device) >= used.unsqueeze(-1)
            both = [side.masked_fill(outside, float("-inf")) for side in (projections, -projections)]
            choice = torch.cat(both, -1).argmax(-1)
            # columns that are not used lie between those of x R and those of -x R
            choice = torch.where(choice >= projections.shape[-1], choice - projections.shape[-1] + used, choice)
            bucket = bucket * (2 * used).clamp(min=1) + choice
            left = left // used.clamp(min=1) // 2
        return bucket.masked_fill(~exist.unsqueeze(2), 2 * self.columns)

    @torch.no_grad()
    def _order(self, query: Tensor, exist: Tensor, causal: bool) -> "Order":
        buckets, length = self.buckets(query, exist), query.shape[2]
        ascending = buckets.argsort(stable=True, dim=-1)
        places = torch.arange(length, device=query.device).expand_as(ascending)
        place = torch.zeros_like(ascending).scatter(-1, ascending, places)
        # codes of different buckets are further apart than the reach
        reach = self.chunk if causal else 1
        code = (place if causal else place // self.chunk) + buckets * (reach + 1)
        return Order(ascending, place, code.int(), self.chunk, reach)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, order: "Order") -> Tensor:
        # (batch, heads, rounds, chunks, chunk, keys of two chunks)
        scores = order.chunks(query) @ _with_previous(order.chunks(key)).mT
        itself = F.pad(torch.eye(self.chunk, dtype=torch.bool, device=query.device), (self.chunk, 0))
        scores = torch.where(itself, _ITSELF, scores) + order.shares().to(scores.dtype)
        top = scores.detach().amax(-1, keepdim=True)
        powers = (scores - top).exp()
        used = drop(powers, self.dropout if self.training else 0.0)
        sums = used @ _with_previous(order.chunks(value)), powers.sum(-1, keepdim=True)
        top, weighted, total = (order.restored(tensor) for tensor in (top, *sums))
        # (batch, heads, rounds, length, 1): how much of a softmax over all rounds each one holds
        share = (top - top.amax(2, keepdim=True)).exp()
        return (share * weighted).sum(2) / (share * total).sum(2)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, buckets={2 * self.columns}"


class Order(NamedTuple):
    """Positions sorted by bucket, and by position within one, cut into chunks.

    Query i reaches key j where 0 <= code_i - code_j <= reach, in each round by its own codes.
    """

    sorted: Int[Tensor, "batch heads rounds length"]
    place: Int[Tensor, "batch heads rounds length"]
    code: Int[Tensor, "batch heads rounds length"]
    chunk: int
    reach: int

    def chunks(self, tensor: Tensor) -> Tensor:
        """(batch, heads, length, dim) in sorted order: (batch, heads, rounds, chunks, chunk, dim)."""
        rounds = self.sorted.shape[2]
        return _picked(tensor, self.sorted.flatten(2)).unflatten(2, (rounds, -1, self.chunk))

    def restored(self, chunks: Tensor) -> Tensor:
        """What `chunks` made, in the order of positions: (batch, heads, rounds, length, dim)."""
        picked = _picked(chunks.flatten(3, 4).flatten(1, 2), self.place.flatten(1, 2))
        return picked.unflatten(1, self.place.shape[1:3])

    def shares(self) -> Float[Tensor, "batch heads rounds chunks chunk keys"]:
        """log(1 / rounds that a pair meets in) of each query with the keys of its chunk and the one before.

        Minus infinity where they do not meet.
        """
        met, times = [], torch.zeros((), dtype=torch.uint8, device=self.code.device)
        for turn, code in enumerate(self.code.unbind(2)):
            codes = self.chunks(code.unsqueeze(-1))
            apart = codes - _with_previous(codes, -1 - self.reach).mT
            near = (apart >= 0) & (apart <= self.reach)
            met.append(near[:, :, turn])
            times = times + near
        return torch.where(torch.stack(met, 2), -times.double().log(), float("-inf"))


def _picked(tensor: Tensor, index: Tensor) -> Tensor:
    """tensor[b, h, index[b, h]]; whole rows at once, where `gather` moves single numbers."""
    batch, heads, length, dim = tensor.shape
    first = torch.arange(batch * heads, device=tensor.device).view(batch, heads, 1) * length
    return tensor.flatten(0, 2).index_select(0, (first + index).flatten()).view(*index.shape, dim)


def _with_previous(chunks: Tensor, absent: int = 0) -> Tensor:
    """Each chunk (axis 3) behind the one before it; `absent` stands before the first."""
    before = F.pad(chunks, (0, 0, 0, 0, 1, 0), value=absent)[:, :, :, :-1]
    return torch.cat((before, chunks), 4)
