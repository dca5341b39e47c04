"""Attention within blocks, and to the block that a learned soft sorting puts beside each."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.masks import Table
from headwise.attention.mechanisms._masks import at_most, check_length, chunks, front, hidden, parts
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.precision import uncast
from headwise.attention.scores.score import times
from headwise.errors import ConfigError


class Sinkhorn(Mechanism):
    """softmax(q [S k; k]^T / sqrt(d)) [S v; v] within blocks; S sorts blocks by a nearly doubly stochastic matrix.

    A small network turns the mean key of each block into a score for each place; alternate normalisation of columns
    and rows (Sinkhorn balancing) makes S of it. Blocks are sorted within spans of s blocks, one of which is all of a
    sequence of up to s b tokens: time n b d + n s d, memory n b for blocks of b tokens. A block that holds no token has
    no place in S; a place in a sorted block is the mean, by S, of the tokens that exist there. S looks at later blocks,
    so nothing can be causal.

    Args:
        head_dim: width of a key and of the hidden layer of the network.
        max_len: tokens at most.
        block: tokens of a block.
        span: blocks that are sorted among one another.
        iterations: normalisations of columns and rows.
        temperature: divides the scores; low ones make S nearly a permutation.
        dropout: probability of dropping a weight while training.
    Raises:
        ShapeError: for more than max_len tokens.
        Unsupported: for another sequence, a mask that is no padding, a bias, relative positions or a later start.
    Source: Tay et al. 2020, arXiv:2002.11296, section 3. Blocks are pooled from keys by their mean, not from the
    input by its sum; rows are normalised last; no Gumbel noise is added while training; own and sorted block share
    one softmax; spans, without which time would grow as n^2 d / b, are not in the paper.

    >>> x = torch.ones(2, 3, 7, 8)
    >>> Sinkhorn(head_dim=8, max_len=11, block=3)(Call(x, x, x)).shape
    torch.Size([2, 3, 7, 8])
    """

    facts = Facts(
        family="pattern",
        time="n (b + s) d for blocks of b, spans of s blocks",
        memory="n b",
        exact="one block",
        honours="keys",
    )

    def __init__(
        self,
        head_dim: int,
        max_len: int,
        block: int = 64,
        *,
        span: int = 64,
        iterations: int = 8,
        temperature: float = 0.75,
        dropout: float = 0.0,
    ):
        super().__init__()
        if min(block, span, iterations) < 1 or temperature <= 0.0:
            raise ConfigError(
                f"sinkhorn needs block ({block}), span ({span}) and iterations ({iterations}) of 1 or more and a"
                f" temperature ({temperature}) above 0"
            )
        self.max_len, self.block, self.span = max_len, block, min(span, max(1, -(-max_len // block)))
        self.iterations, self.temperature, self.dropout = iterations, temperature, dropout
        self.inner = nn.Linear(head_dim, head_dim)
        self.outer = nn.Linear(head_dim, self.span)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        length = call.shape[3]
        check_length(self, self.max_len, length)
        query, key, value, _, keys = parts(call)
        exist = query.new_ones(1, 1, length).bool() if keys is None else keys
        exist = exist.expand(key.shape[0], key.shape[1], length).unsqueeze(-1)
        count = chunks(length, self.block)
        blocks = [_grouped(tensor, count, self.block) for tensor in (hidden(query, keys), key, value, exist)]
        span = at_most(self.span, count)
        with uncast(query):
            output = self._attend(blocks, chunks(length, self.block * span), span)
        return front(output, length).to(call.value.dtype)

    def sorting(
        self,
        key: Float[Tensor, "batch heads spans span block key_dim"],
        exist: Bool[Tensor, "batch heads spans span block 1"],
    ) -> Float[Tensor, "batch heads spans span span"]:
        """S: row i says of which blocks the block beside block i is made; keys that do not exist are zeros."""
        count = exist.sum(-2)
        pooled = key.sum(-2) / count.clamp(min=1)
        logits = times(self.outer, times(self.inner, pooled).relu())
        there, itself = count > 0, torch.eye(key.shape[3], dtype=torch.bool, device=key.device)
        # a block without a token stays where it is, so that no other row or column knows of it
        scores = (logits[..., : key.shape[3]] / self.temperature).masked_fill(~(there & there.mT), float("-inf"))
        scores = scores.masked_fill(~there & itself, 0.0)
        for _ in range(self.iterations):
            scores = scores - scores.logsumexp(-2, keepdim=True)
            scores = scores - scores.logsumexp(-1, keepdim=True)
        return scores.exp()

    def _attend(self, blocked: list[Tensor], count: int, span: int) -> Tensor:
        query, key, value, exist = blocked
        batch, heads, blocks = query.shape[:3]
        spans = [_grouped(tensor, count, span) for tensor in (key, value, exist)]
        sorting = self.sorting(spans[0], spans[2])
        # (batch, heads, blocks, block, dim); the last: how much of each place of a sorted block exists
        key_beside, value_beside, share = (
            front((sorting @ tensor.to(key.dtype).flatten(4)).flatten(2, 3), blocks).unflatten(3, tensor.shape[4:])
            for tensor in spans
        )
        share = share.clamp(min=0.0)
        there = torch.cat((share > 0, exist), 3)
        share = share.clamp(min=torch.finfo(key.dtype).tiny)
        key, value = torch.cat((key_beside / share, key), 3), torch.cat((value_beside / share, value), 3)
        # every block is a sequence of its own: (batch x blocks, heads, tokens, dim)
        query, key, value, keep = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value, there))
        mask = Table(keep.mT.repeat_interleave(heads // keep.shape[1], 1))
        output = planner.run(Call(query, key, value, mask=mask, dropout=self.dropout if self.training else 0.0))
        return output.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)


def _grouped(tensor: Float[Tensor, "..."] | Bool[Tensor, "..."], groups: int, size: int) -> Tensor:
    """Axis 2 in groups of this size, zeros behind the end."""
    missing = groups * size - tensor.shape[2]
    return F.pad(tensor, (0, 0) * (tensor.ndim - 3) + (0, missing)).unflatten(2, (-1, size))
