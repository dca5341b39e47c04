"""Attention to sets, of any number of elements in any order: induced, pooled, by latents, slots or a learned memory."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.masks import Mask, Place
from headwise.attention.mechanisms.inverted import Inverted, shared_out
from headwise.layers.attention import MultiHeadAttention, check_heads
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


class SlotAttention(nn.Module):
    """s = GRU(attention(norm(s), norm(X)), s), then s + F(norm(s)), `rounds` times: slots compete for the elements.

    Slots start as draws from one learned normal distribution, so they are a set too: what each holds depends on the
    draw. `headwise.record` shows which elements each takes, round by round.

    Args:
        d_model: width of elements and slots.
        slots: how many, if a call does not say.
        num_heads: heads; 1 in the paper.
        d_ff: width inside F; d_model if None.
        rounds: 3 in the paper.
    Source: Locatello et al. 2020, arXiv:2006.15055, algorithm 1. Its attention has no matrix behind it (an identity
        here), no biases, and adds 1e-8 to the shares.

    >>> SlotAttention(8, slots=3)(torch.ones(2, 5, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, d_model: int, *, slots: int, num_heads: int = 1, d_ff: int | None = None, rounds: int = 3):
        super().__init__()
        self.slots, self.rounds = slots, rounds
        self.mean, self.log_deviation = (nn.Parameter(torch.empty(d_model)) for _ in range(2))
        nn.init.normal_(self.mean, std=d_model**-0.5)
        nn.init.zeros_(self.log_deviation)
        self.attention = MultiHeadAttention(d_model, num_heads, Inverted(), memory_dim=d_model, bias=False)
        self.cell, self.feed_forward = nn.GRUCell(d_model, d_model), FeedForward(d_model, d_ff or d_model)
        self.of_elements, self.of_slots, self.inner = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(
        self,
        x: Elements,
        mask: Mask | None = None,
        *,
        slots: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch slots d_model"]:
        """The slots after the last round; `mask` says which elements of X there are.

        Args:
            slots: another number of slots than it was built for.
            generator: source of the slots' start; the global one if None.
        """
        count = self.slots if slots is None else slots
        drawn = torch.randn(x.shape[0], count, x.shape[2], generator=generator, device=x.device, dtype=x.dtype)
        state, elements = self.mean.to(x.dtype) + self.log_deviation.exp().to(x.dtype) * drawn, self.of_elements(x)
        for _ in range(self.rounds):
            read = self.attention(self.of_slots(state), elements, mask=mask)
            state = self.cell(read.flatten(0, 1), state.flatten(0, 1)).view_as(state)
            state = state + self.feed_forward(self.inner(state))
        return state


class ExternalAttention(nn.Module):
    """A M_v, A = the rows over their sums of softmax over the elements of (W x) M_k^T: a memory that all inputs share.

    The memory is learned: m keys M_k and values M_v, the same for every head, in time n m. Each memory slot shares its
    attention out among the elements, so elements know of one another through that alone. No weights are recorded.

    Args:
        d_model: width of the elements.
        num_heads: heads; they divide d_model.
        memory: m; 64 in the paper.
    Raises: ConfigError: heads that do not divide d_model.
    Source: Guo et al. 2021, arXiv:2105.02358, its form of several heads.

    >>> ExternalAttention(8, 2, memory=3)(torch.ones(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, num_heads: int, *, memory: int = 64):
        super().__init__()
        check_heads(d_model, num_heads, None)
        self.num_heads, width = num_heads, d_model // num_heads
        self.query, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.keys, self.values = (nn.Parameter(torch.empty(memory, width)) for _ in range(2))
        for table in (self.keys, self.values):
            nn.init.xavier_uniform_(table)

    def forward(self, x: Elements, mask: Mask | None = None) -> Elements:
        """The elements of X; `mask` says which there are; the others become the bias of the output."""
        heads = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        keep = None
        if mask is not None:
            place = Place(x.shape[0], self.num_heads, x.shape[1], x.shape[1], 0, x.device)
            shown = mask.structure(place).key_mask()
            keep = None if shown is None else shown.unsqueeze(-1)
        weights = shared_out(heads @ self.keys.to(x.dtype).mT, keep)
        return self.output((weights @ self.values.to(x.dtype)).transpose(1, 2).flatten(2))
