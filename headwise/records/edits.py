"""Changing a model for a while: heads muted, weights replaced, tokens hidden, masks changed, mechanisms swapped.

All of it is undone on exit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.masks import Mask, Table, without
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.precision import uncast, wide
from headwise.errors import ConfigError, ShapeError
from headwise.records.watching import Change, Heads, Weights, chosen, head_numbers, watch, watched


@dataclass(frozen=True, eq=False)
class Edit(Change):
    """A change of the attention layers whose names match a pattern with `*` and `?`."""

    pattern: str

    def open(self, model: nn.Module, stack: ExitStack) -> None:
        """Applies the edit to a model; the stack undoes it."""
        for name, (_, mechanism) in chosen(model, self.pattern).items():
            # as the edit of this layer, which its messages name
            stack.enter_context(watch(mechanism, change=replace(self, pattern=name)))


@dataclass(frozen=True, eq=False)
class Mute(Edit):
    """The output of some heads is zero, as if all their weights were; all other heads stay bit-identical."""

    heads: int | Sequence[int]

    def after(self, output: Tensor, call: Call, earlier: Weights) -> Tensor:
        return self.resumed(output, call)

    def weights(self, weights: Tensor, call: Call) -> Tensor:
        return self.resumed(weights, call)

    def resumed(self, output: Tensor, call: Call) -> Tensor:
        heads = head_numbers(self.pattern, self.heads, call.shape[1])
        return output.index_fill(1, torch.tensor(heads, device=output.device), 0.0)


@dataclass(frozen=True, eq=False)
class Replace(Edit):
    """The weights of a layer, or of some of its heads, are others; all other heads stay bit-identical.

    The output of these heads is new weights @ value, without dropout. The new weights are taken as they are: they may
    meet what the mask forbids, and need not sum to 1.

    Args:
        new: weights that broadcast to (batch, heads, query_len, key_len), or a function from the weights there are,
            without dropout, to new ones of that shape.
    """

    new: Float[Tensor, "..."] | Callable[[Tensor], Tensor]
    heads: Heads = None

    def after(self, output: Tensor, call: Call, earlier: Weights) -> Tensor:
        heads, call = head_numbers(self.pattern, self.heads, call.shape[1]), call.zero_unseen()
        with uncast(output):
            new = self._new_weights(None if isinstance(self.new, Tensor) else earlier(), heads, call)
            value = wide(call.value[:, [head // call.group for head in heads]])
            part = new.to(value.dtype) @ value
            if call.relative is not None and call.relative.value_table is not None:
                part = part + call.relative.part(heads).values(new.to(value.dtype), call.query_start)
        return output.index_copy(1, torch.tensor(heads, device=output.device), part.to(output.dtype))

    def weights(self, weights: Tensor, call: Call) -> Tensor:
        heads = head_numbers(self.pattern, self.heads, call.shape[1])
        new = self._new_weights(weights, heads, call).to(weights.dtype)
        return weights.index_copy(1, torch.tensor(heads, device=weights.device), new)

    def _new_weights(self, weights: Tensor | None, heads: list[int], call: Call) -> Tensor:
        new = self.new if isinstance(self.new, Tensor) else self.new(weights[:, heads])  # type: ignore[index]
        shape = (call.shape[0], len(heads), *call.shape[2:])
        try:
            return new.expand(shape)
        except RuntimeError:
            raise ShapeError(
                f"new weights of {self.pattern} are {tuple(new.shape)};"
                f" they must broadcast to (batch, heads, query_len, key_len) = {shape}"
            ) from None


@dataclass(frozen=True, eq=False)
class Hide(Edit):
    """Nobody sees some keys: they are taken out of the mask, as padding is.

    The numbers of a layer change where something is hidden; the planner may then choose another kernel, so rows of a
    batch where nothing is hidden keep their numbers up to rounding.

    Args:
        tokens: positions of keys, or which keys of which row of the batch, True = hidden. Positions behind the last
            key hide nothing, so a decoder that goes step by step meets them when it gets there. Where
            beams share stored keys these are places in the store: for greedy decoding, or for one beam.
    """

    tokens: Sequence[int] | Bool[Tensor, "batch key_len"]

    def __post_init__(self) -> None:
        if not isinstance(self.tokens, Tensor) and min(self.tokens, default=0) < 0:
            raise ConfigError(f"Hide: tokens are positions from 0 on, not {min(self.tokens)}")

    def before(self, call: Call) -> Call:
        if isinstance(self.tokens, Tensor):
            hidden = self.tokens[:, None, None, : call.shape[3]]
        else:
            keys = torch.arange(call.shape[3], device=call.query.device)
            hidden = torch.isin(keys, keys.new_tensor(list(self.tokens)))[None, None, None]
        return _narrowed(call, Table(~hidden))


@dataclass(frozen=True, eq=False)
class Force(Edit):
    """One weight of a head is another; all other heads stay bit-identical.

    It may meet what the mask forbids. A layer whose calls never come to this query or key is left as it is, so a
    decoder that goes step by step meets it when it gets there; hypotheses of a beam lie side by side, so it is for one.

    Args:
        query, key: positions from 0.
        weight: from 0 to 1.
        renormalized: whether the other weights of the row keep their ratios and its sum stays what it was; otherwise
            they keep their values. Others that are all zero stay so.
    """

    head: int
    query: int
    key: int
    weight: float
    renormalized: bool = True

    def after(self, output: Tensor, call: Call, earlier: Weights) -> Tensor:
        return self._as_replaced(call).after(output, call, earlier) if self._meets(call) else output

    def weights(self, weights: Tensor, call: Call) -> Tensor:
        return self._as_replaced(call).weights(weights, call) if self._meets(call) else weights

    def _as_replaced(self, call: Call) -> Replace:
        return Replace(self.pattern, partial(self._forced, self.query - call.query_start), self.head)

    def _meets(self, call: Call) -> bool:
        return 0 <= self.query - call.query_start < call.shape[2] and self.key < call.shape[3]

    def _forced(self, row: int, weights: Tensor) -> Tensor:
        forced = weights.clone()
        if self.renormalized:
            forced[:, :, row, self.key] = 0.0
            rest = forced[:, :, row].sum(-1, keepdim=True)
            remaining = (weights[:, :, row].sum(-1, keepdim=True) - self.weight).clamp(min=0)
            forced[:, :, row] *= torch.where(rest > 0, remaining / rest, 0.0)
        forced[:, :, row, self.key] = self.weight
        return forced


@dataclass(frozen=True, eq=False)
class Narrow(Edit):
    """A layer has another mask besides its own: only pairs that both allow may meet.

    >>> from headwise.attention.masks import Window
    >>> Narrow("encoder.*", Window(1, 1)).pattern
    'encoder.*'
    """

    mask: Mask

    def before(self, call: Call) -> Call:
        return _narrowed(call, self.mask)


@dataclass(frozen=True, eq=False)
class Loosen(Edit):
    """A layer is without some parts of its mask: pairs that only these forbid may meet.

    Args:
        kinds: of masks, such as `Causal`; parts of other kinds stay.
    """

    kinds: tuple[type[Mask], ...]

    def __post_init__(self) -> None:
        kinds: object = self.kinds
        if not isinstance(kinds, tuple) or not all(isinstance(kind, type) and issubclass(kind, Mask) for kind in kinds):
            raise ConfigError(f"Loosen: kinds is a tuple of kinds of masks, such as (Causal,), not {kinds!r}")

    def before(self, call: Call) -> Call:
        return replace(call, mask=without(call.mask, *self.kinds))


@dataclass(frozen=True, eq=False)
class Swap(Edit):
    """Another mechanism computes the layer; it is a part of the model meanwhile, so it trains and moves with it.

    Args:
        mechanism: the one in its place; a function without arguments that makes one, if several layers match.
    """

    mechanism: Mechanism | Callable[[], Mechanism]

    def open(self, model: nn.Module, stack: ExitStack) -> None:
        layers = chosen(model, self.pattern)
        if isinstance(self.mechanism, Mechanism) and len(layers) > 1:
            raise ConfigError(
                f"{len(layers)} layers match '{self.pattern}': pass a function that makes a mechanism for each,"
                f" such as lambda: {type(self.mechanism).__name__}()"
            )
        for name, old in layers.values():
            new = self.mechanism if isinstance(self.mechanism, Mechanism) else self.mechanism()
            if not name or not isinstance(new, Mechanism):
                what = "a mechanism inside the model" if not name else f"to a Mechanism, not to {type(new).__name__}"
                raise ConfigError(f"Swap('{self.pattern}') changes {what}")
            new.train(old.training)
            _exchange(model, name, old, new)
            stack.callback(partial(_exchange, model, name, new, old))


@contextmanager
def edit(model: nn.Module, *edits: Edit) -> Iterator[None]:
    """Context manager that edits the model's attention; on exit, also after an exception, everything is undone.

    Edits apply in the order given, swaps first, and within edits that are already open. No parameter is written; what
    is not edited stays bit-identical. With activation checkpointing, keep it open until the gradients are computed,
    since layers run again then. A program compiled before the edit was opened ignores it.

    Args:
        edits: `Mute`, `Replace`, `Force`, `Hide`, `Narrow`, `Loosen`, `Swap`, each with the names of its layers.
    Raises: ConfigError: a name that no attention layer has, or a head that a layer lacks.

    >>> from headwise.layers.attention import MultiHeadAttention
    >>> from headwise.records import record
    >>> model, x = nn.ModuleDict({"first": MultiHeadAttention(8, 2)}), torch.ones(1, 3, 8)
    >>> with edit(model, Mute("first", heads=1), Hide("*", tokens=[2])), record(model) as trace:
    ...     _ = model["first"](x)
    >>> trace["first"].weights(queries=slice(1)).tolist()
    [[[[0.5, 0.5, 0.0]], [[0.0, 0.0, 0.0]]]]
    """
    if wrong := [change for change in edits if not isinstance(change, Edit)]:
        raise ConfigError(
            f"edit takes Mute, Replace, Force, Hide, Narrow, Loosen and Swap, not {type(wrong[0]).__name__}"
        )
    with ExitStack() as stack:
        for change in sorted(edits, key=lambda change: not isinstance(change, Swap)):
            change.open(model, stack)
        yield


def _exchange(model: nn.Module, name: str, old: Mechanism, new: Mechanism) -> None:
    """The module of this name is another one, watched by whoever watched the old one."""
    if (watch := watched(old)) is not None:
        watch.move(new)
    model.set_submodule(name, new, strict=True)


def _narrowed(call: Call, mask: Mask) -> Call:
    return replace(call, mask=mask if call.mask is None else call.mask & mask)
