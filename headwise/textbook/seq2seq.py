"""The book's encoders and decoders: the bases for a reader's own classes, their pair, and the recurrent ones."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headwise.errors import Unsupported
from headwise.textbook.attention import AdditiveAttention

Tokens = Int[Tensor, "batch steps"]
# how many of the tokens of each sequence are real; None: all
Lens = Int[Tensor, "batch"] | None
Logits = Float[Tensor, "batch steps vocab"]


class Encoder(nn.Module, ABC):
    """Reads the source: forward(X, valid_lens) returns what the decoder's `init_state` takes."""

    @abstractmethod
    def forward(self, X: Tokens, valid_lens: Lens = None) -> Any:
        """The states of the source."""


class Decoder(nn.Module, ABC):
    """Writes the target from a state that each call takes and returns."""

    @abstractmethod
    def init_state(self, enc_outputs: Any, enc_valid_lens: Lens) -> Any:
        """The state before the first step."""

    @abstractmethod
    def forward(self, X: Tokens, state: Any) -> tuple[Logits, Any]:
        """Logits of the next token at every step, and the state after the last."""


class AttentionDecoder(Decoder):
    """A decoder with attention, whose weights are `attention_weights`."""

    @property
    @abstractmethod
    def attention_weights(self) -> Any:
        """The weights of the last call."""


class EncoderDecoder(nn.Module):
    """An encoder and a decoder trained together: logits and state of the decoder over the states of the encoder.

    Source: Zhang et al., Dive into Deep Learning, section 10.6.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(
        self, enc_X: Int[Tensor, "batch src_steps"], dec_X: Tokens, enc_valid_lens: Lens = None
    ) -> tuple[Logits, Any]:
        state = self.decoder.init_state(self.encoder(enc_X, enc_valid_lens), enc_valid_lens)
        logits, state = self.decoder(dec_X, state)
        return logits, state


class Seq2SeqEncoder(Encoder):
    """GRU layers over the embedded source: the top layer's states, steps before batch, and every layer's last state.

    With `valid_lens` the last state is that after the last real token; the book runs on over the padding.

    Args:
        dropout: on the output of every layer but the last, while training.
    Source: Dive into Deep Learning, section 10.7.

    >>> encoder = Seq2SeqEncoder(vocab_size=10, embed_size=8, num_hiddens=16, num_layers=2)
    >>> outputs, state = encoder(torch.zeros(4, 7, dtype=torch.long))
    >>> outputs.shape, state.shape
    (torch.Size([7, 4, 16]), torch.Size([2, 4, 16]))
    """

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = _gru(embed_size, num_hiddens, num_layers, dropout)

    def forward(
        self, X: Tokens, valid_lens: Lens = None
    ) -> tuple[Float[Tensor, "steps batch num_hiddens"], Float[Tensor, "num_layers batch num_hiddens"]]:
        embedded = self.embedding(X).transpose(0, 1)
        if valid_lens is None:
            outputs, state = self.rnn(embedded)
            return outputs, state
        packed = pack_padded_sequence(embedded, valid_lens.cpu(), enforce_sorted=False)
        outputs, state = self.rnn(packed)
        return pad_packed_sequence(outputs, total_length=X.shape[1])[0], state


class Seq2SeqDecoder(Decoder):
    """GRU layers without attention; at each step they read [embedding; context], the encoder's last state as context.

    Args:
        num_hiddens, num_layers: those of the encoder.
        dropout: between the layers, while training.
    Source: Cho et al. 2014, arXiv:1406.1078; Dive into Deep Learning, section 9.7 of the Chinese second edition.
        There the context is the last state of the piece that is read, which in prediction is one token long; here it
        is the encoder's, in training and in prediction.

    >>> encoder, decoder = Seq2SeqEncoder(10, 8, 16, 2), Seq2SeqDecoder(10, 8, 16, 2)
    >>> X = torch.zeros(4, 7, dtype=torch.long)
    >>> output, state = decoder(X, decoder.init_state(encoder(X)))
    >>> output.shape
    torch.Size([4, 7, 10])
    """

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = _gru(embed_size + num_hiddens, num_hiddens, num_layers, dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_outputs: tuple[Tensor, Tensor], enc_valid_lens: Lens = None) -> Sequence[Any]:
        """The last states of the encoder's layers, and that of the top layer as the context."""
        return enc_outputs[1], enc_outputs[1][-1]

    def forward(self, X: Tokens, state: Sequence[Any]) -> tuple[Logits, Sequence[Any]]:
        hidden_state, context = state
        embedded = self.embedding(X).transpose(0, 1)
        context_and_X = torch.cat((embedded, context.expand(len(embedded), *context.shape)), dim=-1)
        output, hidden_state = self.rnn(context_and_X, hidden_state)
        return self.dense(output.transpose(0, 1)), (hidden_state, context)


class Seq2SeqAttentionDecoder(AttentionDecoder):
    """GRU layers that read [context; embedding] at each step; the query of the context is the top state before it.

    Args:
        num_hiddens, num_layers: those of the encoder.
        dropout: between the layers, and on attention weights.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1; Dive into Deep Learning, section 11.4.

    >>> encoder, decoder = Seq2SeqEncoder(10, 8, 16, 2), Seq2SeqAttentionDecoder(10, 8, 16, 2)
    >>> X = torch.zeros(4, 7, dtype=torch.long)
    >>> output, state = decoder(X, decoder.init_state(encoder(X), None))
    >>> output.shape, len(state), state[0].shape, len(state[1]), state[1][0].shape
    (torch.Size([4, 7, 10]), 3, torch.Size([4, 7, 16]), 2, torch.Size([4, 16]))
    """

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        self.attention = AdditiveAttention(num_hiddens, num_hiddens, num_hiddens, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = _gru(embed_size + num_hiddens, num_hiddens, num_layers, dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)
        self._last: tuple[Tensor, Tensor, Tensor | None] | None = None

    def init_state(self, enc_outputs: tuple[Tensor, Tensor], enc_valid_lens: Lens) -> Sequence[Any]:
        """The encoder's outputs, batch first; the last states of its layers; its lengths."""
        outputs, hidden_state = enc_outputs
        return outputs.transpose(0, 1), hidden_state, enc_valid_lens

    def forward(self, X: Tokens, state: Sequence[Any]) -> tuple[Logits, Sequence[Any]]:
        enc_outputs, hidden_state, enc_valid_lens = state
        queries, outputs = [], []
        for x in self.embedding(X).split(1, dim=1):
            queries.append(hidden_state[-1].unsqueeze(1))
            context = self.attention(queries[-1], enc_outputs, enc_outputs, enc_valid_lens)
            # (1, batch, num_hiddens + embed_size)
            output, hidden_state = self.rnn(torch.cat((context, x), dim=-1).transpose(0, 1), hidden_state)
            outputs.append(output)
        self._last = torch.cat(queries, dim=1).detach(), enc_outputs.detach(), enc_valid_lens
        return self.dense(torch.cat(outputs).transpose(0, 1)), (enc_outputs, hidden_state, enc_valid_lens)

    @property
    def attention_weights(self) -> list[Float[Tensor, "batch 1 src_steps"]]:
        """The weights of each step of the last call before dropout, computed on access.

        Raises: Unsupported: before the first call.
        """
        if self._last is None:
            raise Unsupported("there are no attention_weights yet: call the decoder first")
        return list(self.attention.weights(*self._last).split(1, dim=1))


def _gru(input_size: int, num_hiddens: int, num_layers: int, dropout: float) -> nn.GRU:
    # PyTorch warns of a dropout between layers where there is one layer
    return nn.GRU(input_size, num_hiddens, num_layers, dropout=dropout if num_layers > 1 else 0.0)
