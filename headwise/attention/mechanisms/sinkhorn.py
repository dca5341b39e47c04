"""Attention within blocks, and to the block that a learned soft sorting puts beside each."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, check, wide
from headwise.attention.masks import Mask, Table
from headwise.attention.mechanisms._sequences import check_length, check_self_attention, existing, read_mask
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
from headwise.errors import ConfigError


class Sinkhorn(Mechanism):
    """softmax(q [S k; k]^T / sqrt(d)) [S v; v] within blocks; S sorts blocks by a nearly doubly stochastic matrix.

    A small network turns the mean key of each block into a score for each place; alternate normalisation of columns
    and rows (Sinkhorn balancing) makes S of it. Time n b d + (n/b)^2 b d, memory n b for blocks of b tokens. A block
    that holds no token has no place in S; a place in a sorted block is the mean, by S, of the tokens that exist there.
    S looks at later blocks, so nothing can be causal.

    Args:
        head_dim: width of a key and of the hidden layer of the network.
        max_len: tokens at most.
        block: tokens of a block.
        iterations: normalisations of columns and rows.
        temperature: divides the scores; low ones make S nearly a permutation.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: for more than max_len tokens.
        Unsupported: for another sequence, a mask that is no padding, a bias, relative positions or a later start.
    Source: Tay et al. 2020, arXiv:2002.11296, section 3. Blocks are pooled from keys by their mean, not from the
    input by its sum; rows are normalised last; no Gumbel noise is added while training; own and sorted block share
    one softmax.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Sinkhorn(head_dim=8, max_len=11, block=3)(x, x, x).shape
    torch.Size([2, 3, 7, 8])
    """

    facts = Facts(
        formula="softmax(q [S k; k]^T) [S v; v] within blocks, S a soft permutation of blocks",
        paper="Tay et al. 2020, arXiv:2002.11296",
        family="pattern",
        time="n b d + n^2 d / b for blocks of b",
        memory="n b",
        exact="one block",
        causal=False,
        cross=False,
        recurrent=False,
        masks="padding",
        bias=False,
        relative=False,
        steps="none",
    )

    def __init__(
        self,
        head_dim: int,
        max_len: int,
        block: int = 64,
        *,
        iterations: int = 8,
        temperature: float = 0.75,
        dropout: float = 0.0,
    ):
        super().__init__()
        if block < 1 or iterations < 1 or temperature <= 0.0:
            raise ConfigError(
                f"sinkhorn needs block ({block}) and iterations ({iterations}) of 1 or more and a temperature"
                f" ({temperature}) above 0"
            )
        self.max_len, self.block, self.iterations, self.temperature = max_len, block, iterations, temperature
        self.inner = nn.Linear(head_dim, head_dim)
        self.outer = nn.Linear(head_dim, max(1, -(-max_len // block)))
        self.score, self.dropout = ScaledDot(), dropout

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Sinkhorn":
        return cls(head_dim, max_len, dropout=dropout)

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
        keys = read_mask("sinkhorn", call, causal=False).keys
        check_self_attention("sinkhorn", query, key)
        length, heads, dtype = key.shape[2], query.shape[1], value.dtype
        check_length("sinkhorn", length, self.max_len)
        if length == 0:
            return planner.run(call)
        key, value = (wide(existing(tensor, keys, heads)) for tensor in (key, value))
        present = key.new_ones(1, 1, length).bool() if keys is None else keys.squeeze(2)
        present = present.expand(query.shape[0], key.shape[1], length)
        with torch.autocast(query.device.type, enabled=False):
            blocks = (_blocks(tensor, self.block) for tensor in (wide(query), key, value, present.unsqueeze(-1)))
            output = self._attend(list(blocks), finite)
        return output[:, :, :length].to(dtype)

    def sorting(
        self,
        key: Float[Tensor, "batch heads blocks block key_dim"],
        present: Bool[Tensor, "batch heads blocks block 1"],
    ) -> Float[Tensor, "batch heads blocks blocks"]:
        """S: row i says of which blocks the block beside block i is made; keys that are not present are zeros."""
        count = present.sum(-2)
        pooled = key.sum(-2) / count.clamp(min=1)
        wanted = _linear(self.outer, _linear(self.inner, pooled).relu())
        blocks = key.shape[2]
        there = count > 0
        itself = torch.eye(blocks, dtype=torch.bool, device=key.device)
        # a block without a token stays where it is, so that no other row or column knows of it
        scores = (wanted[..., :blocks] / self.temperature).masked_fill(~(there & there.mT), float("-inf"))
        scores = scores.masked_fill(~there & itself, 0.0)
        for _ in range(self.iterations):
            scores = scores - scores.logsumexp(-2, keepdim=True)
            scores = scores - scores.logsumexp(-1, keepdim=True)
        return scores.exp()

    def _attend(self, blocked: list[Tensor], finite: bool) -> Tensor:
        query, key, value, present = blocked
        batch, blocks = query.shape[0], query.shape[2]
        sorting = self.sorting(key, present)
        # (batch, heads, blocks, block, 1): how much of each place of a sorted block exists
        share = _sorted(sorting, present.to(key.dtype))
        beside = [_sorted(sorting, t) / share.clamp(min=torch.finfo(t.dtype).tiny) for t in (key, value)]
        there = torch.cat((share > 0, present), 3).squeeze(-1)
        # every block is a sequence of its own: (batch x blocks, heads, tokens, dim)
        key, value = (_folded(torch.cat((b, t), 3)) for b, t in zip(beside, (key, value), strict=True))
        keep = _folded(there).unsqueeze(2)
        mask = Table(keep.repeat_interleave(query.shape[1] // keep.shape[1], 1))
        dropout = self.dropout if self.training else 0.0
        options = (self.score, softmax, mask, None, None, 1.0, dropout, 0, finite)
        output = planner.run(check(Call(_folded(query), key, value, *options)))
        return output.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)

    def extra_repr(self) -> str:
        return f"max_len={self.max_len}, block={self.block}, iterations={self.iterations}, dropout={self.dropout}"


def _blocks(tensor: Tensor, block: int) -> Tensor:
    missing = -tensor.shape[2] % block
    return F.pad(tensor, (0, 0, 0, missing)).unflatten(2, (-1, block))


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def _sorted(sorting: Tensor, blocks: Tensor) -> Tensor:
    return (sorting @ blocks.flatten(3)).unflatten(3, blocks.shape[3:])


def _folded(blocks: Tensor) -> Tensor:
    return blocks.transpose(1, 2).flatten(0, 1)
