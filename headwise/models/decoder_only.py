"""The decoder-only Transformer: tokens in, the next token out; a language model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.caches import Cache, Segments
from headwise.errors import ShapeError
from headwise.models.transformer import TransformerDecoder, build_writer, initialize_and_tie
from headwise.models.transformer_cache import TransformerCache
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions, token_embedding

Tokens = Int[Tensor, "batch length"]
# the memory of each layer
Past = Sequence[Segments] | None


class DecoderOnly(nn.Module):
    """A stack of causal self-attention that continues a sequence of tokens.

    Args:
        decoder: its blocks have no cross-attention.
        memory_len: tokens of earlier segments of a text that each layer can attend to; 0: none.
    Source: Liu et al. 2018, arXiv:1801.10198; the memory: Dai et al. 2019, arXiv:1901.02860, section 3.2.

    >>> import torch
    >>> model = build_decoder(DecoderConfig(d_model=8, d_ff=16, num_heads=2, num_layers=1), vocab_size=11).eval()
    >>> prompt = torch.tensor([[5, 4, 7]])
    >>> cache = model.start(prompt[:, :-1])
    >>> bool(torch.allclose(model.step(prompt[:, -1], cache), model(prompt)[:, -1], atol=1e-5))
    True
    """

    def __init__(self, decoder: TransformerDecoder, memory_len: int = 0):
        super().__init__()
        self.decoder, self.memory_len = decoder, memory_len

    @property
    def output(self) -> Any:
        """Maps hidden states to the vocabulary: an `nn.Linear`, in a twin a `RoundedLinear`."""
        return self.decoder.output

    def hidden(self, tokens: Tokens, segments: Past = None) -> Float[Tensor, "batch length width"]:
        """States before the vocabulary; position t sees tokens 0..t, and the tokens before these in `segments`.

        Args:
            segments: the result of `self.segments`; the tokens are added to them.
        Raises: ShapeError for segments of another number of layers.
        """
        return self.decoder.hidden(tokens, None, None, segments)

    def forward(self, tokens: Tokens, segments: Past = None) -> Float[Tensor, "batch length vocab"]:
        """Logits of the next token at every position."""
        return self.output(self.hidden(tokens, segments))

    def segments(self, inputs: Sequence[Float[Tensor, "batch kept d_model"]] = ()) -> list[Segments] | None:
        """The memory of every layer, with the inputs of earlier segments or empty; None: the model has no memory.

        Raises: ShapeError for inputs of another number of layers.
        """
        if not self.memory_len:
            return None
        if not inputs:
            return [Segments(self.memory_len) for _ in self.decoder.blocks]
        if len(inputs) != len(self.decoder.blocks):
            raise ShapeError(
                f"the model has a memory for {len(self.decoder.blocks)} layers, got inputs of {len(inputs)}"
            )
        return [Segments(self.memory_len, states) for states in inputs]

    def start(self, prompts: Int[Tensor, "sentences length"]) -> TransformerCache:
        """The cache of a decoding loop after these tokens, which are read in one pass; there may be none."""
        cache = self.decoder.empty(prompts)
        if prompts.shape[1]:
            self.decoder.extend(prompts, cache)
        return cache

    def step(self, tokens: Int[Tensor, "rows"], cache: Cache) -> Float[Tensor, "rows vocab"]:
        """Logits of the next token after one more token per row."""
        return self.decoder.step(tokens, cache)


def encoder_name(name: str) -> str:
    """The name of a parameter in a model that uses the blocks as an encoder, with an `embedding` and an `encoder`.

    >>> encoder_name("decoder.blocks.0.self_residual.before.weight")
    'encoder.encoder.blocks.0.attention_residual.before.weight'
    """
    suffix = name.removeprefix("decoder.")
    if suffix == "embedding.weight" or suffix.startswith("output."):
        return suffix
    return f"encoder.encoder.{suffix.replace('.self_residual.', '.attention_residual.')}"


def encoder_weights(tensors: Mapping[str, Tensor], *, scaled: bool) -> dict[str, Tensor]:
    """The parameters for a model that uses the blocks as an encoder, with the embedding scale folded in.

    Args:
        scaled: whether the embeddings are multiplied by the square root of their width.
    """
    scale = {"decoder.embedding.weight": math.sqrt(tensors["decoder.embedding.weight"].shape[1])} if scaled else {}
    return {encoder_name(name): tensor * scale.get(name, 1) for name, tensor in tensors.items()}


def build_decoder(config: DecoderConfig, vocab_size: int) -> DecoderOnly:
    """The model of a configuration."""
    embedding = token_embedding(config, vocab_size, build_positions(config))
    decoder = build_writer(config, embedding, config.mechanism, config.num_layers, cross=False)
    model = DecoderOnly(decoder, config.memory_len)
    return initialize_and_tie(model, decoder, config.initializer, config.tie_output)
