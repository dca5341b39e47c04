"""Locality-sensitive hashing of vectors, and the order in which those of one bucket stand together."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

# numbers of turned vectors that are looked at together
_TABLE = 2**18


def bucket(
    vectors: Float[Tensor, "batch heads length dim"],
    rotations: Float[Tensor, "rounds dim columns"],
    columns: Int[Tensor, "#batch #heads"],
) -> Int[Tensor, "batch heads rounds length"]:
    """The bucket of each vector in each round: argmax [x R; -x R] over the first `columns` columns of R.

    Vectors of a small angle fall into one bucket likely (Andoni et al. 2015, arXiv:1509.02897). No columns: bucket 0.
    """
    there = torch.arange(rotations.shape[-1], device=vectors.device) < columns[..., None, None, None]
    outside = torch.zeros(there.shape, dtype=vectors.dtype, device=vectors.device).masked_fill_(~there, float("-inf"))
    rotations = rotations.to(vectors.dtype)
    # as many vectors at a time as the table allows: all of them with all columns would be the square of the length
    rows = max(1, _TABLE // max(1, vectors.shape[:2].numel() * rotations.shape[0] * rotations.shape[-1]))
    found = []
    for piece in vectors.detach().split(rows, dim=2):
        turned = torch.einsum("bhnd,rdc->bhrnc", piece, rotations)
        found.append(torch.cat((turned + outside, outside - turned), -1).argmax(-1))
    return torch.cat(found, -1)


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
        rounds, dim = self.sorted.shape[2], tensor.shape[-1]
        index = self.sorted.flatten(2).unsqueeze(-1).expand(-1, -1, -1, dim)
        return tensor.gather(2, index).unflatten(2, (rounds, -1, self.chunk))

    def restored(self, chunks: Tensor) -> Tensor:
        """(batch, heads, rounds, chunks, chunk, dim) in the order of positions: (batch, heads, rounds, length, dim)."""
        return chunks.flatten(3, 4).gather(3, self.place.unsqueeze(-1).expand(*self.place.shape, chunks.shape[-1]))

    def meetings(self) -> tuple[Bool[Tensor, "..."], UInt8[Tensor, "..."] | None]:
        """Of each query with the keys of its chunk and the one before: do they meet, and in how many rounds if many."""
        rounds = self.sorted.shape[2]
        met: list[Tensor] = []
        times: Tensor | None = None
        for turn in range(rounds):
            codes = self.chunks(self.code[:, :, turn].unsqueeze(-1))
            apart = codes - beside(codes).mT
            near = (apart >= 0) & (apart <= self.reach)
            met.append(near[:, :, turn])
            if rounds > 1:
                times = near.to(torch.uint8) if times is None else times.add_(near)
        return torch.stack(met, 2), times

    def itself(self) -> Bool[Tensor, "chunk keys"]:
        """Where a query of a chunk meets its own key."""
        keys = self.chunk * min(2, self.sorted.shape[-1] // self.chunk)
        own = torch.zeros(self.chunk, keys, dtype=torch.bool, device=self.sorted.device)
        own[:, -self.chunk :].fill_diagonal_(True)
        return own


def order(buckets: Int[Tensor, "batch heads rounds length"], count: int, chunk: int, *, causal: bool) -> Order:
    """The order of a sequence whose length is a multiple of `chunk`, in buckets 0 to count - 1.

    A query reaches the keys of its bucket in its own chunk and the one before; if `causal`, the `chunk` keys of its
    bucket before it, which lie in those two chunks, but do not depend on where the chunks are cut, hence not on what
    comes later.
    """
    length = buckets.shape[-1]
    places = torch.arange(length, device=buckets.device)
    ascending = (buckets * length + places).argsort(-1)
    place = torch.empty_like(ascending).scatter_(-1, ascending, places.expand_as(ascending))
    # codes of different buckets are further apart than any reach
    code = buckets * 2 * length + (place if causal else place // chunk)
    if 2 * length * (count + 1) < 2**31:
        code = code.int()
    return Order(ascending, place, code, chunk, chunk if causal else 1)


def beside(chunks: Tensor) -> Tensor:
    """Each chunk (axis 3) behind the one before it; a single one stands alone."""
    if chunks.shape[3] == 1:
        return chunks
    return torch.cat((chunks.roll(1, 3), chunks), 4)
