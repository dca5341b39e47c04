"""Attention to sets: induced set attention and pooling by attention, of any number of elements in any order."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.masks import Mask
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.feed_forward import FeedForward

Elements = Float[Tensor, "batch length d_model"]


class SetBlock(nn.Module):
    """MAB(X, Y) = norm(H + F(H)), H = norm(X + attention(X, Y)): a set X that attends to a set Y.

    Without positions, permuting X permutes the result, and permuting Y changes nothing. `SetBlock` of X with itself is
    the paper's SAB.

    Args:
        d_model: width of the elements.
        num_heads: heads; they divide d_model.
        d_ff: width inside F; d_model if None, as in the paper.
        norm: whether the sums are normed.
    Source: Lee et al. 2019, arXiv:1810.00825, eq. 6 and 7. Its code scales scores by sqrt(d_model), and F is one layer
        with a ReLU; scores are scaled by sqrt(head_dim) here, and F has two.

    >>> SetBlock(8, 2)(torch.ones(2, 5, 8), torch.ones(2, 7, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None = None, *, norm: bool = True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, memory_dim=d_model)
        self.feed_forward = FeedForward(d_model, d_ff or d_model)
        self.first, self.second = (nn.LayerNorm(d_model) if norm else nn.Identity() for _ in range(2))

    def forward(self, x: Elements, y: Float[Tensor, "batch others d_model"], mask: Mask | None = None) -> Elements:
        """The elements of X; `mask` says which of Y there are."""
        hidden = self.first(x + self.attention(x, y, mask=mask))
        return self.second(hidden + self.feed_forward(hidden))


class InducedSetBlock(nn.Module):
    """ISAB(X) = MAB(X, MAB(I, X)) with m learned elements I: set attention in time n m instead of n^2.

    Args:
        d_model, num_heads, d_ff, norm: as of `SetBlock`.
        inducing: m.
    Source: Lee et al. 2019, arXiv:1810.00825, eq. 9 and 10.

    >>> InducedSetBlock(8, 2, inducing=3)(torch.ones(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None = None, *, inducing: int, norm: bool = True):
        super().__init__()
        self.points = nn.Parameter(torch.empty(inducing, d_model))
        nn.init.xavier_uniform_(self.points)
        self.reads, self.writes = (SetBlock(d_model, num_heads, d_ff, norm=norm) for _ in range(2))

    def forward(self, x: Elements, mask: Mask | None = None) -> Elements:
        """The elements of X; `mask` says which there are."""
        points = self.points.to(x.dtype).expand(x.shape[0], -1, -1)
        return self.writes(x, self.reads(points, x, mask))


class SetPooling(nn.Module):
    """PMA(X) = MAB(S, F(X)) with k learned seeds S: k vectors of a set of any size.

    Args:
        d_model, num_heads, d_ff, norm: as of `SetBlock`.
        seeds: k.
    Source: Lee et al. 2019, arXiv:1810.00825, eq. 11.

    >>> SetPooling(8, 2, seeds=1)(torch.ones(2, 5, 8)).shape
    torch.Size([2, 1, 8])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None = None, *, seeds: int, norm: bool = True):
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(seeds, d_model))
        nn.init.xavier_uniform_(self.seeds)
        self.feed_forward = FeedForward(d_model, d_ff or d_model)
        self.block = SetBlock(d_model, num_heads, d_ff, norm=norm)

    def forward(self, x: Elements, mask: Mask | None = None) -> Float[Tensor, "batch seeds d_model"]:
        """The pooled vectors; `mask` says which elements of X there are."""
        seeds = self.seeds.to(x.dtype).expand(x.shape[0], -1, -1)
        return self.block(seeds, self.feed_forward(x), mask)


class LatentArray(nn.Module):
    """z_0 learned, then z = MAB(z, X) and z = MAB(z, z) in turn: Perceiver's latents, which read any input in time n m.

    Args:
        d_model, num_heads, d_ff, norm: as of `SetBlock`.
        latents: m, how many.
        rounds: readings of the input, with one set of parameters if `shared`, else with one each.
        depth: blocks of self-attention after each reading.
    Source: Jaegle et al. 2021, arXiv:2103.03206, section 3.1; its blocks norm their inputs, these their sums.

    >>> LatentArray(8, 2, latents=3, rounds=2)(torch.ones(2, 50, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        *,
        latents: int,
        rounds: int = 1,
        depth: int = 1,
        shared: bool = True,
        norm: bool = True,
    ):
        super().__init__()
        self.rounds = rounds
        self.latents = nn.Parameter(torch.empty(latents, d_model))
        nn.init.trunc_normal_(self.latents, std=0.02)
        count = 1 if shared else rounds
        self.reads = nn.ModuleList(SetBlock(d_model, num_heads, d_ff, norm=norm) for _ in range(count))
        self.thinks = nn.ModuleList(
            nn.ModuleList(SetBlock(d_model, num_heads, d_ff, norm=norm) for _ in range(depth)) for _ in range(count)
        )

    def forward(self, x: Elements, mask: Mask | None = None) -> Float[Tensor, "batch latents d_model"]:
        """The latents after the last round; `mask` says which elements of X there are."""
        latents = self.latents.to(x.dtype).expand(x.shape[0], -1, -1)
        for number in range(self.rounds):
            place = number % len(self.reads)
            latents = self.reads[place](latents, x, mask)
            for block in self.thinks[place].children():
                latents = block(latents, latents)
        return latents
