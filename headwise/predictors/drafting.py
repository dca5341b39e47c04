"""What a model writes about one input, followed token by token: what it says next, and where it looks as it says it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.caches import Cache
from headwise.decoding.hypotheses import StepDecoder, device_of
from headwise.errors import ConfigError
from headwise.explain.places import Places
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import has_attention
from headwise.records import LayerRecord, Trace, record


@runtime_checkable
class OutputTokens(Protocol):
    """The tokens that an output is made of."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_id(self) -> int:
        """The token that ends an output."""
        ...

    @property
    def special_ids(self) -> frozenset[int]:
        """Tokens that stand for no text."""
        ...

    def shown(self, token: int) -> str:
        """A token as figures show it: without the mark of a space, unless it is nothing else."""
        ...

    def encode(self, text: str) -> list[int]:
        """The token numbers of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token numbers."""
        ...


@dataclass(frozen=True, eq=False)
class Draft:
    """One input, read, before anything is written about it.

    Args:
        model: whose attention is looked at.
        decoder: the part of it that goes step by step.
        start: makes a cache of one sentence before its first step.
        first: the token that the first step reads.
        read: labels of what was read: a source, or the prompt of a language model.
        places: what `read` are where they are no tokens.
    """

    model: nn.Module
    decoder: StepDecoder
    start: Callable[[], Cache]
    first: int
    read: list[str]
    tokenizer: OutputTokens
    places: Places | None = None

    def kept_bytes(self, tokens: Sequence[int]) -> int:
        """Bytes that the decoder keeps of one hypothesis when it has written these tokens.

        Raises: Unsupported as `Cache.state_bytes`.
        """
        device = device_of(self.decoder)
        with evaluating(self.model), torch.no_grad():
            cache = self.start()
            for token in [self.first, *tokens]:
                self.decoder.step(torch.tensor([token]).to(device), cache)
        return cache.state_bytes()

    def check(self, prefix: Sequence[int]) -> None:
        """Raises: ConfigError for tokens that nothing written can begin with."""
        for token in prefix:
            if not 0 <= token < self.tokenizer.vocab_size:
                raise ConfigError(f"token {token} is outside the vocabulary of {self.tokenizer.vocab_size} tokens")
            if token == self.tokenizer.eos_id:
                raise ConfigError(f"token {token} is the end of a text; what is forced is what stands before it")


@dataclass(frozen=True, eq=False)
class Looked:
    """The next step of some hypotheses, a row each.

    Args:
        log_probs: of the next token, as the model says them, before any rule.
        weights: from the place that says it to what it attends to; None: there is no attention, or none with weights.
    """

    log_probs: Float[Tensor, "rows vocab"]
    weights: Float[Tensor, "rows layers heads keys"] | None


class Follower:
    """The model of a draft behind its search: it reads what the hypotheses hold, and is looked at.

    The search runs as ever, in its own way and at its own speed. Each hypothesis is a sentence here, so its attention
    is over its own tokens alone, whatever the search shares between beams.

    The first step is taken at once, as `first`. `layers` are the names of those that look at the source (`kind`
    "cross"); where none does, of all ("self"), whose keys are the prompt and what was written; empty where there is
    nothing to see.
    """

    def __init__(self, draft: Draft):
        self._draft, self._device = draft, device_of(draft.decoder)
        self.layers: list[str] = []
        self.kind = ""
        with evaluating(draft.model), torch.no_grad():
            self._cache = draft.start()
        self._rows: list[tuple[int, ...]] = [()]
        self.first = self._stepped(torch.tensor([draft.first]))

    def look(self, beginnings: Int[np.ndarray, "rows length"]) -> Looked:
        """The next step of these hypotheses, each of which goes on from one of the last step.

        Raises: ValueError for one that does not.
        """
        rows = [tuple(row) for row in beginnings.tolist()]
        if rows == [()]:
            return self.first
        places = {row: place for place, row in enumerate(self._rows)}
        if lost := [row for row in rows if row[:-1] not in places]:
            raise ValueError(f"a hypothesis of {len(lost[0])} tokens goes on from none of the step before")
        parents = [places[row[:-1]] for row in rows]
        if parents != list(range(len(self._rows))):
            # sentences that stay, in any order and any number of times
            self._cache.keep(torch.tensor(parents).to(self._device))
        self._rows = rows
        return self._stepped(torch.from_numpy(beginnings[:, -1].copy()))

    def _stepped(self, tokens: Tensor) -> Looked:
        model, decoder = self._draft.model, self._draft.decoder
        with evaluating(model), torch.no_grad():
            if not has_attention(model):
                logits, records = decoder.step(tokens.to(self._device), self._cache), []
            else:
                with record(model) as trace:
                    logits = decoder.step(tokens.to(self._device), self._cache)
                records = _inspected_layers(trace)
        self.layers, self.kind = [layer.name for layer in records], records[0].kind if records else ""
        return Looked(logits.float().log_softmax(1), _stacked(records))


def _inspected_layers(trace: Trace) -> list[LayerRecord]:
    """The layers that look at a source; where none does, those that look back."""
    called = [record for record in trace if isinstance(record, LayerRecord) and record.calls]
    return [record for record in called if record.kind == "cross"] or called


def _stacked(records: Sequence[LayerRecord]) -> Tensor | None:
    """The last row of every layer, on the host; layers without as many heads as others show the mean of theirs."""
    if not records:
        return None
    weights = [record.weights()[:, :, -1].float().cpu() for record in records]
    heads, keys = {table.shape[1] for table in weights}, max(table.shape[2] for table in weights)
    if len(heads) > 1:
        weights = [table.mean(1, keepdim=True) for table in weights]
    # a layer that no longer keeps its first keys attends to them with nothing
    return torch.stack([F.pad(table, (keys - table.shape[2], 0)) for table in weights], 1)
