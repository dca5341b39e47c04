"""Where a model looked while it read given tokens and wrote given tokens: the weights of its attention, in one pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.cancellation import poll_cancellation
from headwise.data.text import SPACE_MARK
from headwise.data.tokenizers import Tokenizer
from headwise.errors import Unsupported
from headwise.explain.alignment import words
from headwise.explain.explanation import Layer
from headwise.explain.places import Tokens
from headwise.explain.pooling import whole
from headwise.predictors.evaluating import evaluating
from headwise.records import LayerRecord, Trace, record

BOS, EOS = "<bos>", "<eos>"
NOTHING = "this model has no attention to show"


@dataclass(frozen=True, eq=False)
class Attended:
    """What one layer did with the first example of a pass; its weights are made when they are asked for.

    Args:
        queries: first and last + 1 of the queries of each call that are looked at; None: all.
        rows: what each row takes of every query; None: rows are queries.
        columns: 1 for each key that is a part of a column; None: columns are keys.
    """

    record: LayerRecord
    queries: tuple[int, int] | None = None
    rows: Float[np.ndarray, "rows queries"] | None = None
    columns: Float[np.ndarray, "columns keys"] | None = None

    @property
    def kind(self) -> Any:
        """ "self" or "cross"."""
        return self.record.kind

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, rows, columns."""
        heads, queries, keys = self._sizes
        return (
            heads,
            queries if self.rows is None else len(self.rows),
            keys if self.columns is None else len(self.columns),
        )

    @property
    def weights(self) -> Float[np.ndarray, "heads rows columns"]:
        """All of them. Raises: Unsupported for more than memory should hold."""
        return whole(self)

    def part(self, heads: Sequence[int] | None, queries: slice, keys: slice) -> Float[np.ndarray, "heads rows columns"]:
        """Exact weights; only the queries that these rows take from are computed."""
        if self.rows is None:
            weights = self._of_queries(heads, queries, keys if self.columns is None else slice(None))
        else:
            rows = self.rows[queries]
            (taken,) = np.nonzero(rows.any(0))
            first, last = (int(taken[0]), int(taken[-1]) + 1) if len(taken) else (0, 0)
            weights = rows[:, first:last] @ self._of_queries(heads, slice(first, last), slice(None))
            weights = weights if self.columns is not None else weights[..., keys]
        return weights if self.columns is None else weights @ self.columns[keys].T

    def allowed(self, queries: slice = slice(None)) -> Bool[np.ndarray, "#heads rows columns"] | None:
        """Which pairs the mask allows; None: all."""
        low, high, _ = queries.indices(self.shape[1])
        if self.rows is None and self.queries is None and len(self.record.calls) == 1:
            pairs = allowed(self.record, queries=(low, high))
        else:
            pairs = allowed(self.record, queries=self.queries)
            if pairs is not None:
                pairs = pairs[:, low:high] if self.rows is None else (self.rows[low:high] > 0) @ pairs
        return pairs if pairs is None or self.columns is None else pairs @ (self.columns > 0).T

    def layer(
        self,
        queries: list[str],
        keys: list[str],
        kind: Any = None,
        *,
        causal: bool = False,
        rows: Float[np.ndarray, "rows queries"] | None = None,
        columns: Float[np.ndarray, "columns keys"] | None = None,
    ) -> Layer:
        """It as a layer of an explanation.

        Args:
            queries, keys: a label for each row and each column.
            kind: in place of its own.
            rows, columns: as of an `Attended`.
        """
        source = self if rows is columns is None else replace(self, rows=rows, columns=columns)
        return Layer(source, queries, keys, kind or self.kind, causal)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        shapes = [recorded.call.shape for recorded in self.record.calls]
        first, last = self.queries or (0, sum(shape[2] for shape in shapes))
        return self.record.num_heads, last - first, max(shape[3] for shape in shapes)

    def _of_queries(self, heads: Sequence[int] | None, queries: slice, keys: slice) -> np.ndarray:
        start = self.queries[0] if self.queries else 0
        low, high, _ = queries.indices(self._sizes[1])
        with torch.no_grad():
            weights = self.record.rows(heads, slice(start + low, start + high), keys)
        values: np.ndarray = weights[0].cpu().numpy()
        return values


def has_attention(model: nn.Module) -> bool:
    return any(isinstance(module, Mechanism) for module in model.modules())


@dataclass(frozen=True)
class Pass:
    """A pass of a model over these inputs, which its attention was looked at in."""

    model: nn.Module
    inputs: tuple[Any, ...]

    def run(self) -> Any:
        """What the same pass gives once more, in `eval()`, without gradient."""
        poll_cancellation()
        with evaluating(self.model), torch.no_grad():
            return self.model(*self.inputs)

    def again(self) -> Trace:
        with record(self.model) as trace:
            self.run()
        return trace


_PASSES: ContextVar[list[Pass] | None] = ContextVar("passes", default=None)


@contextmanager
def passes() -> Iterator[list[Pass]]:
    """While open, in this thread, every pass in which a model is looked at is added to the list.

    A search before it is none: what is written is found first, by the fastest way, and looked at afterwards.
    """
    token = _PASSES.set([])
    try:
        pass_list = _PASSES.get()
        assert pass_list is not None, "it was set"
        yield pass_list
    finally:
        _PASSES.reset(token)


def fitting(count: int, *candidates: list[str]) -> list[str]:
    """The first labels that are as many as there are places; numbers where none are."""
    return next((labels for labels in candidates if len(labels) == count), [str(place) for place in range(count)])


def traced(model: nn.Module, *inputs: Any) -> Trace:
    """The trace of one pass of a model in `eval()`, without gradient.

    The weights belong to the calculation that ran; nothing about it is changed by looking.

    Raises: Unsupported: if the model has no attention.
    """
    if not has_attention(model):
        raise Unsupported(
            "this model has no attention to look at; train one that has: a recurrent translator where model.score is"
            " set, an encoder of model.kind=attention, a text classifier with that or with pooling.kind=attention or"
            " max, a forecaster with these or with model.kind=decoder, an image classifier with model.kind=vit, a"
            " classifier of recordings with model.kind=conformer"
        )
    if (pass_list := _PASSES.get()) is not None:
        pass_list.append(Pass(model, inputs))
    return Pass(model, inputs).again()


def attended(model: nn.Module, *inputs: Any, query: int | None = None) -> dict[str, Attended]:
    """What every attention layer did in one pass, by its name; `query`: for one alone. Raises: as `traced`."""
    trace, rows = traced(model, *inputs), None if query is None else (query, query + 1)
    return {name: Attended(trace[name], rows) for name in trace.names()}


def layers_of(
    attention: Mapping[str, Attended], read: list[str], memory: list[str], written: list[str]
) -> dict[str, Layer]:
    """The layers of an encoder-decoder with what their rows and columns are.

    Args:
        read: what the encoder's own attention goes over.
        memory: what the decoder looks at; often the same.
        written: the tokens that are written, and the end.
    """
    inputs, layers = [BOS, *written[:-1]], {}
    for name, attended in attention.items():
        if attended.kind == "cross":
            layers[name] = attended.layer(written, memory)
        elif name.startswith("encoder"):
            layers[name] = attended.layer(read, read, "self")
        else:
            layers[name] = attended.layer(inputs, inputs, "self", causal=True)
    return layers


def allowed(
    record: LayerRecord, example: int = 0, queries: tuple[int, int] | None = None
) -> Bool[np.ndarray, "#heads queries keys"] | None:
    """Which pairs of an example the mask of a layer allows; None for all, or where its calls had different keys.

    Args:
        queries: first and last + 1 of those of each call; no others are computed. None: all.
    """
    tables = []
    for recorded in record.calls:
        keep = (recorded.call if queries is None else recorded.call.part(queries=queries)).keep()
        first, last = queries or (0, recorded.call.shape[2])
        rows, columns = last - first, recorded.call.shape[3]
        if keep is None:
            tables.append(np.ones((1, rows, columns), bool))
        else:
            pairs = keep[example if len(keep) > 1 else 0]
            tables.append(pairs.expand(-1, rows, columns).cpu().numpy())
    if all(table.all() for table in tables) or len({table.shape[2] for table in tables}) > 1:
        return None
    widest = max(len(table) for table in tables)
    return np.concatenate([np.broadcast_to(table, (widest, *table.shape[1:])) for table in tables], 1)


def numbers(trace: Trace, name: str, queries: tuple[int, int] | None = None) -> np.ndarray:
    """The weights (batch, heads, queries, keys) of one layer, computed now; `queries`: first and last + 1, or all."""
    with torch.no_grad():
        return trace[name].rows(queries=slice(*queries or (None,))).double().cpu().numpy()


def source_words(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """The word of each of `length` tokens of a text; words are what stands between spaces, the end token is none."""
    return [*words(tokenizer.clean(text), tokenizer.offsets(text))[: length - 1], -1]


def target_words(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """The word of each token that was written, by the text that the tokens up to it make; then the end token's, none.

    The tokens themselves, not their text cut anew, which may give others.
    """
    numbers = [len(tokenizer.decode(list(tokens[: place + 1])).split()) - 1 for place in range(len(tokens))]
    return [*(max(0, number) for number in numbers), -1]


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int], labels: Sequence[str], *others: int) -> Tokens:
    """What tokens are: which word each is a part of, words being what stands between spaces, and which are special.

    Args:
        others: numbers that stand for no text, besides begin, end and padding.
    """
    silent = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, *others}
    special = [place for place, token in enumerate(ids) if token in silent]
    pieces = ["" if token in silent else tokenizer.piece(token).replace(SPACE_MARK, " ") for token in ids]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=int).tolist()
    word_of = words("".join(pieces), list(zip([0, *ends], ends, strict=False)))
    if tokenizer.config.kind != "char":
        # the mark of a space that has a token of its own is a part of the word behind it
        behind = [*word_of[1:], -1]
        word_of = [behind[place] if piece == " " else word_of[place] for place, piece in enumerate(pieces)]
    if tokenizer.config.kind == "word":
        # spaces are learned, and no token is a part of a word
        word_of = [-1 if token in silent else place for place, token in enumerate(ids)]
    return Tokens(list(labels), word_of, special)


def written_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Tokens]:
    """What a decoder writes: with the end, as it looks at the source, and with the begin, as it looks at itself."""
    labels = [tokenizer.shown(token) for token in ids]
    ended = tokens_of(tokenizer, [*ids, tokenizer.eos_id], [*labels, EOS])
    return [ended, tokens_of(tokenizer, [tokenizer.bos_id, *ids], [BOS, *labels])]


def source_labels(tokenizer: Tokenizer, text: str, length: int) -> list[str]:
    """The tokens of a text as the model got them: cut to its longest, `length` with the end token."""
    return [*tokenizer.tokens(text)[: length - 1], EOS]
