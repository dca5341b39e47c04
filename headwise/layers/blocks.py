"""Encoder and decoder blocks: sublayers with a residual, a dropout and a norm before or after."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.dropout import drop, dropout_add
from headwise.attention.masks import Mask
from headwise.caches import AttentionStep
from headwise.layers.around import FirstValues
from headwise.layers.attention import MultiHeadAttention, Vectors
from headwise.layers.feed_forward import FeedForward
from headwise.layers.norms import normed

# the real tokens of each row; None: all are
Lens = Int[Tensor, "batch"] | None


class Block(nn.Module):
    """What a model repeats: recomputed for the gradient, and sharded, as a whole."""

    def attentions(self) -> list[tuple[MultiHeadAttention, "Residual"]]:
        """Each attention with the residual around it, as far as they are modules of these kinds."""
        return []


class Residual(nn.Module):
    """after(x + dropout(inside(sublayer(before(x))))): pre-norm fills `before`, post-norm `after`.

    Args:
        before: norm of the sublayer's input, or Identity.
        after: norm of the sum, or Identity.
        dropout: on the sublayer's output.
        skip: whether x is added; without, what comes out is what the sublayer says.
        inside: norm of the sublayer's output (sandwich, as in Gemma 2); None: an identity.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4 (post); Xiong et al. 2020, arXiv:2002.04745 (pre).
    """

    def __init__(
        self, before: nn.Module, after: nn.Module, dropout: float, *, skip: bool = True, inside: nn.Module | None = None
    ):
        super().__init__()
        self.before, self.after, self.dropout, self.skip = before, after, dropout, skip
        self.inside = nn.Identity() if inside is None else inside

    @classmethod
    def pre_norm(cls, d_model: int, dropout: float) -> "Residual":
        """x + dropout(sublayer(norm(x)))."""
        return cls(nn.LayerNorm(d_model), nn.Identity(), dropout)

    @classmethod
    def post_norm(cls, d_model: int, dropout: float) -> "Residual":
        """norm(x + dropout(sublayer(x)))."""
        return cls(nn.Identity(), nn.LayerNorm(d_model), dropout)

    def entering(self, x: Vectors, valid_lens: Lens = None) -> Vectors:
        """What the sublayer reads."""
        return normed(self.before, x, valid_lens)

    def forward(self, x: Vectors, branch: Vectors, valid_lens: Lens = None) -> Vectors:
        """Joins a sublayer's output to its input."""
        branch = normed(self.inside, branch, valid_lens)
        dropout = self.dropout if self.training else 0.0
        joined = dropout_add(x, branch, dropout) if self.skip else drop(branch.to(x.dtype), dropout)
        return normed(self.after, joined, valid_lens)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.skip else f"dropout={self.dropout}, skip=False"


class EncoderBlock(Block):
    """Self-attention and feed-forward, each inside a residual; feed-forward and its residual may be left out (None)."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward | None,
        attention_residual: Residual,
        feed_forward_residual: Residual | None,
    ):
        super().__init__()
        self.self_attention, self.attention_residual = self_attention, attention_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def attentions(self) -> list[tuple[MultiHeadAttention, Residual]]:
        return [(self.self_attention, self.attention_residual)]

    def forward(
        self,
        x: Vectors,
        mask: Mask | None,
        cache: AttentionStep | None = None,
        valid_lens: Lens = None,
        first: FirstValues | None = None,
    ) -> Vectors:
        """With a cache, x follows the tokens that the cache holds; a batch norm reads `valid_lens` (None: all)."""
        entering = self.attention_residual.entering(x, valid_lens)
        attended = self.self_attention(entering, mask=mask, cache=cache, first=first)
        x = self.attention_residual(x, attended, valid_lens)
        if self.feed_forward is None or self.feed_forward_residual is None:
            return x
        entering = self.feed_forward_residual.entering(x, valid_lens)
        return self.feed_forward_residual(x, self.feed_forward(entering), valid_lens)


class DecoderBlock(Block):
    """Self-attention, cross-attention to a memory and feed-forward, each inside a residual.

    Without cross-attention and its residual (both None) it is the block of a model that only writes; feed-forward and
    its residual may be left out in the same way.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention | None,
        feed_forward: FeedForward | None,
        self_residual: Residual,
        cross_residual: Residual | None,
        feed_forward_residual: Residual | None,
    ):
        super().__init__()
        self.self_attention, self.self_residual = self_attention, self_residual
        self.cross_attention, self.cross_residual = cross_attention, cross_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def attentions(self) -> list[tuple[MultiHeadAttention, Residual]]:
        pairs = [(self.self_attention, self.self_residual)]
        if self.cross_attention is not None and self.cross_residual is not None:
            pairs.append((self.cross_attention, self.cross_residual))
        return pairs

    def forward(
        self,
        x: Vectors,
        memory: Float[Tensor, "batch memory_len width"] | None,
        *,
        mask: Mask | None,
        memory_mask: Mask | None,
        self_cache: AttentionStep | None = None,
        cross_cache: AttentionStep | None = None,
        first: FirstValues | None = None,
    ) -> Vectors:
        """`memory` may be left out once the cross cache holds it."""
        attended = self.self_attention(self.self_residual.before(x), mask=mask, cache=self_cache, first=first)
        x = self.self_residual(x, attended)
        if self.cross_attention is not None and self.cross_residual is not None:
            query = self.cross_residual.before(x)
            x = self.cross_residual(x, self.cross_attention(query, memory, mask=memory_mask, cache=cross_cache))
        if self.feed_forward is None or self.feed_forward_residual is None:
            return x
        return self.feed_forward_residual(x, self.feed_forward(self.feed_forward_residual.before(x)))
