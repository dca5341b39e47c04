"""What writes token by token as programs: `encoder` gives what stays, `decoder` takes that, the past, and new tokens.

The past of a layer is its keys and values. Where a layer keeps something else, such as the state of a recurrence, the
past is the tokens, which are read again at each step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.caches import KeyValues
from headwise.errors import Unsupported
from headwise.export.programs import Program, Spread, Traced
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import DecoderBlock
from headwise.layers.latent import LatentProjection
from headwise.models.decoder_only import DecoderOnly
from headwise.models.protocols import Memory, Seq2Seq
from headwise.models.transformer import TransformerDecoder

_NEW, _PAST, _READ = "new", "past", "source"
_KEYS = ("batch", "", _PAST, "")


def writer_programs(model: Seq2Seq | DecoderOnly, call: Sequence[Any], *, attention: bool) -> list[Program]:
    """The programs of a model.

    Args:
        call: arguments of the encoder in an example; none for a decoder alone.
        attention: whether the weights of attention are outputs too.

    Raises: Unsupported for a decoder that is no Transformer's.
    """
    decoder = model.decoder
    if not isinstance(decoder, TransformerDecoder):
        raise Unsupported(f"a program of any length has no loop over positions, as {type(decoder).__name__} has")
    watched = model if attention else None
    module = _Decoder(decoder, reads=isinstance(model, Seq2Seq))
    rows = len(call[1]) if isinstance(model, Seq2Seq) else 2
    inputs: dict[str, Tensor] = {"tokens": torch.ones(rows, 3, dtype=torch.long)}
    axes: dict[str, tuple[str, ...]] = {"tokens": ("batch", _NEW)}
    programs = []
    if isinstance(model, Seq2Seq):
        encoder = _encoder(model, module, call, watched)
        with torch.no_grad():
            stays = encoder.module(list(encoder.inputs.values()))
        inputs |= {"source_lens": call[1], **dict(zip(encoder.outputs, stays, strict=True))}
        axes |= {"source_lens": ("batch",), **module.axes_of_memory()}
        programs.append(encoder)
    inputs |= module.example_past(rows, 5)
    axes |= module.axes_of_past()
    outputs = ("logits", *(name.replace("past", "present") for name in module.axes_of_past()))
    return [*programs, Program("decoder", module, inputs, axes, outputs, watched)]


def _encoder(model: Seq2Seq, decoder: "_Decoder", call: Sequence[Any], watched: nn.Module | None) -> Program:
    spread = Spread.of(type(model.encoder).forward, call)
    lens = list(spread.axes)[-1]
    axes = {("source_lens" if name == lens else name): names for name, names in spread.axes.items()}
    inputs = dict(zip(axes, spread.tensors(call), strict=True))
    return Program("encoder", _Encoder(model.encoder, decoder), inputs, axes, tuple(decoder.axes_of_memory()), watched)


class _Encoder(Traced):
    """What the encoder reads, as every layer of the decoder attends to it."""

    def __init__(self, encoder: nn.Module, decoder: "_Decoder"):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        memory = self.encoder(*tensors)
        if not self.decoder.keeps_keys:
            return (memory.states,)
        cross = [block.cross_attention for block in self.decoder.blocks()]
        return tuple(part for layer in cross if layer is not None for part in layer.project_memory(memory.states))


class _Decoder(Traced):
    """New tokens after those of the past.

    Args:
        reads: it attends to what an encoder gave.
    """

    def __init__(self, decoder: TransformerDecoder, *, reads: bool):
        super().__init__()
        self.decoder, self.reads = decoder, reads
        self.keeps_keys = all(_keeps_keys(block.self_attention) for block in self.blocks())

    def blocks(self) -> list[DecoderBlock]:
        return [block for block in self.decoder.blocks if isinstance(block, DecoderBlock)]

    def axes_of_memory(self) -> dict[str, tuple[str, ...]]:
        """What comes from the encoder."""
        if not self.keeps_keys:
            return {"memory": ("batch", _READ, "")}
        names = [f"cross_{part}_{layer}" for layer in range(len(self.blocks())) for part in ("key", "value")]
        return dict.fromkeys(names, ("batch", "", _READ, ""))

    def axes_of_past(self) -> dict[str, tuple[str, ...]]:
        if not self.keeps_keys:
            return {"past_tokens": ("batch", _PAST)}
        names = [f"past_{part}_{layer}" for layer in range(len(self.blocks())) for part in ("key", "value")]
        return dict.fromkeys(names, _KEYS)

    def example_past(self, rows: int, length: int) -> dict[str, Tensor]:
        """Of so many tokens."""
        if not self.keeps_keys:
            return {"past_tokens": torch.ones(rows, length, dtype=torch.long)}
        layers = [block.self_attention for block in self.blocks()]
        sizes = [
            (rows, layer.num_kv_heads, length, dim) for layer in layers for dim in (layer.head_dim, layer.value_dim)
        ]
        return {name: torch.zeros(size) for name, size in zip(self.axes_of_past(), sizes, strict=True)}

    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        tokens, *rest = tensors
        lens = rest.pop(0) if self.reads else None
        count = len(self.axes_of_memory()) if self.reads else 0
        memory, past = rest[:count], rest[count:]
        if self.keeps_keys:
            return self._after_keys(tokens, lens, memory, past)
        tokens = torch.cat([past[0], tokens], 1)
        states = self.decoder.hidden(tokens, Memory(memory[0]) if self.reads else None, lens)
        return self.decoder.output(states[:, past[0].shape[1] :]), tokens

    def _after_keys(
        self, tokens: Tensor, lens: Tensor | None, memory: Sequence[Tensor], past: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        cache = self.decoder.empty(tokens, lens)
        cache.length = past[0].shape[2]
        for layer, (own, cross) in enumerate(cache.layers):
            assert isinstance(own, KeyValues)
            own.keys, own.values = past[2 * layer : 2 * layer + 2]
            own.used = past[2 * layer].shape[2]
            if memory:
                cross.fill(*memory[2 * layer : 2 * layer + 2])
        logits = self.decoder.output(self.decoder.norm(self.decoder.extend(tokens, cache)))
        return logits, *(part for own, _ in cache.layers if isinstance(own, KeyValues) for part in own.read())


def _keeps_keys(layer: MultiHeadAttention) -> bool:
    """Whether keys and values are all that the layer remembers.

    Those of a local layer are read from a window, which a program of any length of the past cannot cut out.
    """
    others = layer.convolution, layer.gates, layer.limit
    narrow = isinstance(layer.projection, LatentProjection) or layer.mechanism.facts.cache == "queries"
    return others == (None, None, None) and not narrow and isinstance(layer.new_cache(), KeyValues)


def described_past(names: Mapping[str, Any]) -> list[str]:
    """The inputs of a decoder that are its past."""
    return [name for name in names if name.startswith("past_")]
