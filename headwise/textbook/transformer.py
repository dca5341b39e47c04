"""The book's Transformer encoder and decoder."""

import math
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.textbook.layers import DecoderBlock, DecoderState, EncoderBlock, NormShape, PositionalEncoding
from headwise.textbook.seq2seq import AttentionDecoder, Encoder


class TransformerEncoder(Encoder):
    """Embeddings times sqrt(num_hiddens), positions, and a stack of `EncoderBlock`.

    Args:
        vocab_size: tokens.
        num_layers: blocks.
        key_size ... use_bias: as in `EncoderBlock`.

    >>> import torch
    >>> encoder = TransformerEncoder(200, 24, 24, 24, 24, [100, 24], 24, 48, 8, 2, 0.5)
    >>> encoder(torch.ones(2, 100, dtype=torch.long), torch.tensor([3, 2])).shape
    torch.Size([2, 100, 24])
    >>> [weights.shape for weights in encoder.attention_weights]
    [torch.Size([16, 100, 100]), torch.Size([16, 100, 100])]
    """

    def __init__(
        self,
        vocab_size: int,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: NormShape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float,
        use_bias: bool = False,
    ):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        sizes = key_size, query_size, value_size, num_hiddens, norm_shape, ffn_num_input, ffn_num_hiddens, num_heads
        self.blks = nn.Sequential()
        for layer in range(num_layers):
            self.blks.add_module(f"block{layer}", EncoderBlock(*sizes, dropout, use_bias))

    def forward(
        self, X: Int[Tensor, "batch steps"], valid_lens: Int[Tensor, "batch"] | None = None
    ) -> Float[Tensor, "batch steps num_hiddens"]:
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        for block in self.blks:
            X = block(X, valid_lens)
        return X

    @property
    def attention_weights(self) -> list[Float[Tensor, "batch_heads queries keys"]]:
        """The weights of the last call, layer by layer, computed when asked for."""
        return _weights(self.blks, "attention.attention")


class TransformerDecoder(AttentionDecoder):
    """Embeddings times sqrt(num_hiddens), positions, a stack of `DecoderBlock`, and logits.

    The target may come all at once (training) or piece by piece, the state carrying what came before; both give the
    same logits. A state is a value: a call returns a new one.

    Args:
        vocab_size: tokens.
        num_layers: blocks.
        key_size ... dropout: as in `EncoderBlock`.

    >>> import torch
    >>> decoder = TransformerDecoder(200, 24, 24, 24, 24, [24], 24, 48, 8, 2, 0.5)
    >>> state = decoder.init_state(torch.ones(2, 7, 24), torch.tensor([3, 2]))
    >>> logits, state = decoder(torch.ones(2, 5, dtype=torch.long), state)
    >>> logits.shape
    torch.Size([2, 5, 200])
    """

    def __init__(
        self,
        vocab_size: int,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: NormShape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float,
    ):
        super().__init__()
        self.num_hiddens, self.num_layers = num_hiddens, num_layers
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        sizes = key_size, query_size, value_size, num_hiddens, norm_shape, ffn_num_input, ffn_num_hiddens, num_heads
        self.blks = nn.Sequential()
        for layer in range(num_layers):
            self.blks.add_module(f"block{layer}", DecoderBlock(*sizes, dropout, layer))
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(
        self, enc_outputs: Float[Tensor, "batch src_steps num_hiddens"], enc_valid_lens: Int[Tensor, "batch"] | None
    ) -> DecoderState:
        """The encoder's states and lengths, and nothing seen of the target."""
        return enc_outputs, enc_valid_lens, [None] * self.num_layers

    def forward(
        self, X: Int[Tensor, "batch steps"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch steps vocab"], DecoderState]:
        first = state[2][0] if self.num_layers else None
        past = 0 if first is None else first.shape[1]
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens), past)
        for block in self.blks:
            X, state = block(X, state)
        return self.dense(X), state

    @property
    def attention_weights(self) -> list[list[Float[Tensor, "batch_heads queries keys"]]]:
        """Self-attention, then attention to the encoder, each layer by layer, computed when asked for."""
        return [_weights(self.blks, f"{name}.attention") for name in ("attention1", "attention2")]


def _weights(blocks: nn.Sequential, name: str) -> list[Tensor]:
    attentions: list[Any] = [block.get_submodule(name) for block in blocks]
    return [attention.attention_weights for attention in attentions]
