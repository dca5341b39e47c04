"""What the book's encoders and decoders have in common, and the pair of them; a reader's own classes build on these."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """Reads the source: forward(X, valid_lens) returns what the decoder's `init_state` takes."""

    @abstractmethod
    def forward(self, X: Int[Tensor, "batch steps"], valid_lens: Int[Tensor, "batch"] | None = None) -> Any:
        """The source, read."""


class Decoder(nn.Module, ABC):
    """Writes the target from a state that each call takes and returns."""

    @abstractmethod
    def init_state(self, enc_outputs: Any, enc_valid_lens: Int[Tensor, "batch"] | None) -> Any:
        """The state before the first step."""

    @abstractmethod
    def forward(self, X: Int[Tensor, "batch steps"], state: Any) -> tuple[Float[Tensor, "batch steps vocab"], Any]:
        """Logits of the next token at every step, and the state after the last."""


class AttentionDecoder(Decoder):
    """A decoder whose attention can be looked at; every one of them names it `attention_weights`."""

    @property
    @abstractmethod
    def attention_weights(self) -> Any:
        """The weights of the last call."""


class EncoderDecoder(nn.Module):
    """An encoder and a decoder trained together: logits and state of the decoder over what the encoder read.

    Args:
        encoder: its output is what the decoder's `init_state` takes.
        decoder: with attention or without.
    Source: Zhang et al., Dive into Deep Learning, section 10.6.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(
        self,
        enc_X: Int[Tensor, "batch src_steps"],
        dec_X: Int[Tensor, "batch steps"],
        enc_valid_lens: Int[Tensor, "batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch steps vocab"], Any]:
        state = self.decoder.init_state(self.encoder(enc_X, enc_valid_lens), enc_valid_lens)
        logits, state = self.decoder(dec_X, state)
        return logits, state
