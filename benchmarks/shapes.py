"""The sizes of model that are compared, and how many floating-point operations training them takes."""

from dataclasses import dataclass

from headwise.data.batches import PairBatch
from headwise.models.transformer_config import TransformerConfig


@dataclass(frozen=True)
class Shape:
    """A Transformer encoder-decoder with as many layers on both sides, dropout in all four places, tied tables.

    Without dropout on attention weights, attention is computed by other kernels on both sides.
    """

    layers: int
    d_model: int
    d_ff: int
    num_heads: int
    dropout: float
    # as `dropout` if absent
    attention_dropout: float | None = None

    def config(self) -> TransformerConfig:
        """The same network for Headwise: post-norm and ReLU, as the peers are by default."""
        return TransformerConfig(
            d_model=self.d_model,
            d_ff=self.d_ff,
            num_heads=self.num_heads,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            norm_order="post",
        )

    def training_flop(self, batch: PairBatch, vocab_size: int) -> float:
        """Operations of the matrix products of one step: forward, and twice that for the gradients.

        Padded positions count in the layers, where every system computes them, but not in the vocabulary product.
        """
        sentences, src_len = batch.src.shape
        tgt_len = batch.tgt_out.shape[1]
        square, inner = self.d_model**2, 2 * self.d_model * self.d_ff
        # an attention layer has 4 squares; those of the memory's keys and values meet source positions
        weights = sentences * src_len * (4 * square + inner + 2 * square)
        weights += sentences * tgt_len * (4 * square + 2 * square + inner)
        pairs = sentences * (src_len * src_len + tgt_len * tgt_len + tgt_len * src_len)
        forward = self.layers * (2 * weights + 4 * pairs * self.d_model)
        return 3.0 * (forward + 2 * batch.num_tokens * self.d_model * vocab_size)


SHAPES = {
    "tiny": Shape(layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3),
    "tiny-attention-kept": Shape(layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3, attention_dropout=0.0),
    "base": Shape(layers=3, d_model=512, d_ff=2048, num_heads=8, dropout=0.1),
}
QUICK = Shape(layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.1)
