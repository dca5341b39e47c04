"""A model whose passes are done by its exported programs, so that everything around it stays as it is."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.caches import Cache, rows_of
from headwise.export.decoders import described_past
from headwise.export.programs import Interface, Spread
from headwise.models.decoder_only import DecoderOnly
from headwise.models.protocols import Decoder, Encoder, Seq2Seq


class Session(ABC):
    """A program that can be run."""

    interface: Interface

    @abstractmethod
    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Its outputs, those of attention left out."""


def stand_in(model: nn.Module, sessions: Mapping[str, Session]) -> nn.Module:
    """A model that shares the parts of this one, and whose passes these programs do."""
    if isinstance(model, Seq2Seq):
        other = _shallow(model)
        other.encoder, other.decoder = _encoder(model.encoder, sessions), _decoder(model.decoder, sessions)
        return other
    if isinstance(model, DecoderOnly):
        return _decoder_only(model, sessions["decoder"])
    return _called(model, sessions["model"])


def _called(model: nn.Module, session: Session) -> nn.Module:
    def run(*arguments: Any) -> Any:
        outputs = session.run(Spread.of(type(model).forward, arguments).tensors(arguments))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    other = _bare(model)
    other.forward = run
    if hasattr(model, "hidden") and isinstance(getattr(model, "output", None), nn.Linear):
        other.hidden, other.output = run, _Logits(model.output)
    return other


def _encoder(encoder: Encoder, sessions: Mapping[str, Session]) -> nn.Module:
    session = sessions["encoder"]

    def run(*arguments: Any) -> Any:
        return session.run(Spread.of(type(encoder).forward, arguments).tensors(arguments))

    other = _shallow(encoder)
    other.forward = run
    other.read_all = lambda batches: [run(*batch) for batch in batches]
    return other


def _decoder(decoder: Decoder, sessions: Mapping[str, Session]) -> Any:
    session = sessions["decoder"]

    def start(memory: Any, lens: Tensor) -> "_Rows":
        return _Rows(session, len(lens), [lens, *memory])

    other = _steps(decoder, session, start)
    other.hidden = lambda tokens, memory, lens: start(memory, lens).logits(tokens)
    other.output = _Logits(decoder.output)
    return other


def _decoder_only(model: DecoderOnly, session: Session) -> Any:
    def start(prompts: Tensor) -> "_Rows":
        rows = _Rows(session, len(prompts), [])
        if prompts.shape[1]:
            rows.logits(prompts)
        return rows

    other = _steps(model, session, start)
    other.hidden = lambda tokens, segments=None: _Rows(session, len(tokens), []).logits(tokens)
    other.decoder = _shallow(model.decoder)
    other.decoder.output = _Logits(model.decoder.output)
    return other


def _steps(decoder: nn.Module, session: Session, start: Callable[..., "_Rows"]) -> Any:
    """A decoder whose loop the program does."""

    def step(tokens: Tensor, cache: "_Rows") -> Tensor:
        return cache.logits(tokens[:, None])[:, -1]

    def step_all(
        tokens: Sequence[Tensor], caches: Sequence["_Rows"], beside: Callable[[], object] = lambda: None
    ) -> Any:
        beside()
        return torch.cat([step(own, cache) for own, cache in zip(tokens, caches, strict=True)])

    other = _shallow(decoder)
    other.start, other.step, other.step_all = start, step, step_all
    return other


class _Rows(Cache):
    """What a decoder's program is given at each step: what stays, and the past; a row for each hypothesis."""

    def __init__(self, session: Session, sentences: int, stays: Sequence[Tensor]):
        self.session, self.sentences, self.beams, self.length = session, sentences, 1, 0
        self.stays = list(stays)
        self.past = [session.interface.empty(name, sentences) for name in described_past(session.interface.inputs)]

    def logits(self, tokens: Tensor) -> Tensor:
        """Those of each of these tokens, which become past."""
        logits, *self.past = self.session.run([tokens, *self.stays, *self.past])
        self.length += tokens.shape[1]
        return logits

    def expand(self, beams: int) -> None:
        self.beams = beams
        self._change(lambda tensor: tensor.repeat_interleave(beams, 0))

    def reorder(self, index: Tensor) -> None:
        # what stays is the same for all hypotheses of a sentence
        self.past = [tensor.index_select(0, index) for tensor in self.past]

    def keep(self, sentences: Tensor) -> None:
        self.sentences = len(sentences)
        rows = rows_of(sentences, self.beams)
        self._change(lambda tensor: tensor.index_select(0, rows))

    def _change(self, rows: Callable[[Tensor], Tensor]) -> None:
        self.stays, self.past = [rows(tensor) for tensor in self.stays], [rows(tensor) for tensor in self.past]


class _Logits(nn.Module):
    """An output whose program gave the logits already."""

    def __init__(self, output: Any):
        super().__init__()
        self.weight = output.weight

    def forward(self, logits: Tensor) -> Tensor:
        return logits


def _bare(module: nn.Module) -> Any:
    """A module without the attention in it, which nobody could look at."""
    other = _shallow(module)
    parts = module._modules.items()
    other._modules = {
        name: None if part is None else _bare(part) for name, part in parts if not isinstance(part, Mechanism)
    }
    return other


def _shallow(module: nn.Module) -> Any:
    """A module with the same parts, some of which can be put in another's place."""
    other = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, dict):
            other.__dict__[name] = copy.copy(value)
    return other
