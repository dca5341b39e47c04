"""The interface of sequence-to-sequence models: an encoder, and a decoder that runs all at once or step by step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.caches import Cache

# tokens, images or frames of sound
Source = (
    Int[Tensor, "batch src_len"] | UInt8[Tensor, "batch channels height width"] | Float[Tensor, "batch frames bands"]
)
Target = Int[Tensor, "batch tgt_len"]
Lens = Int[Tensor, "batch"]


class Memory(NamedTuple):
    """The output of an encoder: a state per source token and, if it is recurrent, its final states."""

    states: Float[Tensor, "batch src_len width"]
    summary: Float[Tensor, "layers batch hidden"] | None = None

    @classmethod
    def concatenate(cls, parts: "Sequence[Memory]") -> "Memory":
        """The memory of all sentences, with zeros after the shorter ones."""
        if len(parts) == 1:
            return parts[0]
        longest = max(part.states.shape[1] for part in parts)
        states = [F.pad(part.states, (0, 0, 0, longest - part.states.shape[1])) for part in parts]
        summaries = [part.summary for part in parts if part.summary is not None]
        return cls(torch.cat(states), torch.cat(summaries, 1) if summaries else None)


class Encoder(nn.Module, ABC):
    """Reads the source once."""

    @abstractmethod
    def forward(self, inputs: Source, valid_lens: Lens) -> Memory:
        """The state of every source token, patch or frame; those beyond `valid_lens` are padding."""

    def read_all(self, batches: Sequence[tuple[Tensor, Int[Tensor, "_"]]]) -> list[Memory]:
        """The memories of several batches, each with its lengths; some encoders do it in less time."""
        return [self(inputs, valid_lens) for inputs, valid_lens in batches]


class Decoder(nn.Module, ABC):
    """Writes the target; `output` maps its hidden states to the vocabulary."""

    output: nn.Linear

    @abstractmethod
    def hidden(self, tokens: Target, memory: Memory, memory_lens: Lens) -> Float[Tensor, "batch tgt_len width"]:
        """States before the vocabulary for all positions at once (teacher forcing); position t sees tokens 0..t."""

    def forward(self, tokens: Target, memory: Memory, memory_lens: Lens) -> Float[Tensor, "batch tgt_len vocab"]:
        """Logits of the next token at every position."""
        return self.output(self.hidden(tokens, memory, memory_lens))

    @abstractmethod
    def start(self, memory: Memory, memory_lens: Lens) -> Cache:
        """The cache of a decoding loop over these sentences, before the first step."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, "rows"], cache: Cache) -> Float[Tensor, "rows vocab"]:
        """Logits of the next token after one more token per row."""

    def step_all(
        self, tokens: Sequence[Int[Tensor, "_"]], caches: Sequence[Cache], beside: Callable[[], object] = lambda: None
    ) -> Float[Tensor, "rows vocab"]:
        """A step of one or more loops, each with its tokens and its cache; some decoders do it in less time.

        Returns: the rows of one loop after another.

        Args:
            beside: called before the largest product, so that threads that it wakes run meanwhile.
        """
        beside()
        return torch.cat([self.step(own, cache) for own, cache in zip(tokens, caches, strict=True)])


class Seq2Seq(nn.Module):
    """An encoder and a decoder."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, src: Source, src_lens: Lens, tgt_in: Target) -> Float[Tensor, "batch tgt_len vocab"]:
        """Logits of the next target token at every position (teacher forcing)."""
        return self.decoder(tgt_in, self.encoder(src, src_lens), src_lens)
