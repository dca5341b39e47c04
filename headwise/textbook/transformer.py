"""The book's Transformer: positions, position-wise network, AddNorm, blocks, encoder and decoder."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.positions.sinusoidal import Sinusoidal, sinusoids
from headwise.textbook.attention import MultiHeadAttention
from headwise.textbook.seq2seq import AttentionDecoder, Encoder, Lens, Logits, Tokens

Vectors = Float[Tensor, "batch steps num_hiddens"]
NormShape = int | Sequence[int]
# states of the encoder, their lengths, and for each block the earlier target states or None
DecoderState = Sequence[Any]


class PositionalEncoding(nn.Module):
    """dropout(X + P) with P[i, 2j] = sin(i / 10000^(2j / num_hiddens)) and P[i, 2j + 1] = cos of the same.

    Args:
        num_hiddens: width of X, even.
        max_len: rows that `P` shows; X may be longer.
    Raises: ConfigError for an odd width.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5; Dive into Deep Learning, section 11.6. `start` is not
        in the book, whose decoder gives every token that it predicts position 0.

    >>> PositionalEncoding(4, 0.0)(torch.zeros(1, 2, 4))[0, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000):
        super().__init__()
        self.num_hiddens, self.max_len = num_hiddens, max_len
        self.position = Sinusoidal(num_hiddens)
        # has the device and the dtype of the module
        self.register_buffer("_here", torch.zeros(()), persistent=False)
        self.dropout = nn.Dropout(dropout)

    @property
    def P(self) -> Float[Tensor, "1 max_len num_hiddens"]:
        """The first `max_len` rows, on the device and in the dtype of the module."""
        return sinusoids(self.max_len, self.num_hiddens)[None].to(next(self.buffers()))

    def forward(self, X: Vectors, start: int = 0) -> Vectors:
        """`start` is the position of the first step."""
        return self.dropout(self.position.embed(X, start))


class PositionWiseFFN(nn.Module):
    """W_2 relu(W_1 x), the same for every position.

    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 2; Dive into Deep Learning, section 11.7.

    >>> PositionWiseFFN(4, 4, 8)(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, ffn_num_input: int, ffn_num_hiddens: int, ffn_num_outputs: int):
        super().__init__()
        self.dense1 = nn.Linear(ffn_num_input, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, X: Float[Tensor, "*batch ffn_num_input"]) -> Float[Tensor, "*batch ffn_num_outputs"]:
        return self.dense2(self.relu(self.dense1(X)))


class AddNorm(nn.Module):
    """LayerNorm(X + dropout(Y)).

    Args:
        normalized_shape: the last axes of X, as `nn.LayerNorm` takes them.

    >>> AddNorm([3, 4], 0.5)(torch.ones(2, 3, 4), torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, normalized_shape: NormShape, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(normalized_shape if isinstance(normalized_shape, int) else list(normalized_shape))

    def forward(self, X: Float[Tensor, "*shape"], Y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.ln(self.dropout(Y) + X)


class EncoderBlock(nn.Module):
    """Self-attention and the position-wise network, each followed by AddNorm.

    Args:
        key_size, query_size, value_size, num_hiddens: widths, all that of X.
        norm_shape: the last axes of X that are normalised together.
        ffn_num_input: num_hiddens.
        num_heads, dropout, use_bias: of the attention; the dropout also of both AddNorms.

    >>> block = EncoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5)
    >>> block(torch.ones(2, 100, 24), torch.tensor([3, 2])).shape
    torch.Size([2, 100, 24])
    """

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: NormShape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool = False,
    ):
        super().__init__()
        sizes = key_size, query_size, value_size, num_hiddens
        self.attention = MultiHeadAttention(*sizes, num_heads, dropout, use_bias)
        self.addnorm1 = AddNorm(norm_shape, dropout)
        self.ffn = PositionWiseFFN(ffn_num_input, ffn_num_hiddens, num_hiddens)
        self.addnorm2 = AddNorm(norm_shape, dropout)

    def forward(self, X: Vectors, valid_lens: Lens) -> Vectors:
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.ffn(Y))


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the encoder and the position-wise network, each followed by AddNorm.

    Causal in `eval()` too, where the block of the book sees the whole target.

    Args:
        i: which block of the decoder it is, counted from 0.
        key_size ... dropout: as in `EncoderBlock`.

    >>> block = DecoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5, 0)
    >>> X = torch.ones(2, 100, 24)
    >>> block(X, (X, torch.tensor([3, 2]), [None]))[0].shape
    torch.Size([2, 100, 24])
    """

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: NormShape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        i: int,
    ):
        super().__init__()
        self.i = i
        sizes = key_size, query_size, value_size, num_hiddens
        self.attention1 = MultiHeadAttention(*sizes, num_heads, dropout)
        self.addnorm1 = AddNorm(norm_shape, dropout)
        self.attention2 = MultiHeadAttention(*sizes, num_heads, dropout)
        self.addnorm2 = AddNorm(norm_shape, dropout)
        self.ffn = PositionWiseFFN(ffn_num_input, ffn_num_hiddens, num_hiddens)
        self.addnorm3 = AddNorm(norm_shape, dropout)

    def forward(self, X: Vectors, state: DecoderState) -> tuple[Vectors, DecoderState]:
        enc_outputs, enc_valid_lens, blocks = state
        cache = blocks[self.i]
        past = 0 if cache is None else cache.shape[1]
        key_values = X if cache is None else torch.cat((cache, X), dim=1)
        batch, steps, _ = X.shape
        # a step sees what came before it, and itself
        dec_valid_lens = torch.arange(past + 1, past + steps + 1, device=X.device).repeat(batch, 1)
        Y = self.addnorm1(X, self.attention1(X, key_values, key_values, dec_valid_lens))
        Z = self.addnorm2(Y, self.attention2(Y, enc_outputs, enc_outputs, enc_valid_lens))
        after = [*blocks[: self.i], key_values, *blocks[self.i + 1 :]]
        return self.addnorm3(Z, self.ffn(Z)), (enc_outputs, enc_valid_lens, after)


class TransformerEncoder(Encoder):
    """Embeddings times sqrt(num_hiddens), positions, and a stack of `EncoderBlock`.

    Args:
        key_size ... use_bias: as in `EncoderBlock`.

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

    def forward(self, X: Tokens, valid_lens: Lens = None) -> Vectors:
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        for block in self.blks:
            X = block(X, valid_lens)
        return X

    @property
    def attention_weights(self) -> list[Float[Tensor, "batch_heads queries keys"]]:
        """The weights of the last call, layer by layer, computed on access."""
        return _weights(self.blks, "attention.attention")


class TransformerDecoder(AttentionDecoder):
    """Embeddings times sqrt(num_hiddens), positions, a stack of `DecoderBlock`, and logits.

    The target may come all at once (training) or piece by piece, the state carrying what came before; both give the
    same logits. A state is a value: a call returns a new one.

    Args:
        key_size ... dropout: as in `EncoderBlock`.

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
        self, enc_outputs: Float[Tensor, "batch src_steps num_hiddens"], enc_valid_lens: Lens
    ) -> DecoderState:
        """The states and lengths of the encoder, and no target yet."""
        return enc_outputs, enc_valid_lens, [None] * self.num_layers

    def forward(self, X: Tokens, state: DecoderState) -> tuple[Logits, DecoderState]:
        first = state[2][0] if self.num_layers else None
        past = 0 if first is None else first.shape[1]
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens), past)
        for block in self.blks:
            X, state = block(X, state)
        return self.dense(X), state

    @property
    def attention_weights(self) -> list[list[Float[Tensor, "batch_heads queries keys"]]]:
        """Self-attention, then attention to the encoder, each layer by layer, computed on access."""
        return [_weights(self.blks, f"{name}.attention") for name in ("attention1", "attention2")]


def _weights(blocks: nn.Sequential, name: str) -> list[Tensor]:
    attentions: list[Any] = [block.get_submodule(name) for block in blocks]
    return [attention.attention_weights for attention in attentions]
