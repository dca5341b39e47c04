"""The masks of transformers as Headwise masks: what its mask functions are made of is read, so that plans see it."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.masks import Causal, Documents, Mask, Place, Structure, Table, Window

MaskFunction = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a transformers model passes on as its attention mask: a mask, None for all, and where the queries start."""

    mask: Mask | None
    query_start: int = 0
    # transformers asks whether a mask was made already
    ndim = 4

    def contiguous(self) -> "Pattern":
        """Itself: `generate` asks for it."""
        return self


def pattern(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction | None = None,
    attention_mask: "Tensor | Pattern | None" = None,
    use_vmap: bool = False,
    **others: Any,
) -> Pattern:
    """The mask function that transformers is given; it calls it once a forward pass for each kind of layer.

    Of the others that it passes by name only `device` is asked for, where a table has to be made.
    """
    from transformers import masking_utils

    if isinstance(attention_mask, Pattern):
        # `generate` made it before the forward pass
        return attention_mask
    function = mask_function or masking_utils.causal_mask_function
    if use_vmap:
        # a function of the model's own need not take index tensors that broadcast
        table = masking_utils.sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, function, attention_mask,  # type: ignore[arg-type]
            allow_is_causal_skip=False, use_vmap=True, device=others.get("device", "cpu")
        )  # fmt: skip
        return Pattern(None if table is None else Table(table))
    mask, padding = translated(function, kv_offset), _padding(attention_mask, kv_length, kv_offset)
    if isinstance(q_offset, Tensor) and _is_traced(q_offset):
        mask = _both(mask, padding)
        return Pattern(None if mask is None else Moved(mask, q_offset - kv_offset).shared())
    start = int(q_offset) - kv_offset if isinstance(q_offset, Tensor) else q_offset - kv_offset
    mask = _both(_needed(mask, start, q_length, kv_length), padding)
    return Pattern(None if mask is None else mask.shared(), start)


def translated(function: MaskFunction, shift: int) -> Mask | None:
    """A mask function as a mask whose key 0 is key `shift` of the function; None if it allows every pair."""
    read = _READ.get(_name(function))
    if torch.compiler.is_compiling() and _name(function) not in _PLAIN:
        # what a function was made of is hidden from the compiler
        read = None
    return _Predicate(function, shift) if read is None else read(_values(function), shift)


@dataclass(frozen=True, eq=False)
class _Predicate(Mask):
    """A mask function of transformers that is not known from inside."""

    function: MaskFunction
    shift: int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.function(batch, head, query + self.shift, key + self.shift)


@dataclass(frozen=True, eq=False)
class _Recent(Mask):
    """The last `width` keys up to the query, and all that come after it."""

    width: int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key > query - self.width

    def structure(self, place: Place | None = None) -> Structure:
        band = (self.width - 1, None)
        return Structure(self, place, band, within=band, seen_by_own_query=True)

    def reason(self, batch: int, head: int, query: int, key: int) -> str:
        return f"key {key} is not among the {self.width} last up to query {query}"


@dataclass(frozen=True, eq=False)
class _Chunks(Mask):
    """Query and key lie in the same block of `size` positions, counted from the end of the left padding."""

    size: int
    first: Tensor

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        first = self.first.to(key.device)[batch]
        return (query - first) // self.size == (key - first) // self.size

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, within=(self.size - 1, self.size - 1))


@dataclass(frozen=True, eq=False)
class Moved(Mask):
    """The mask for queries that stand `offset` positions later, a number that only the device may know."""

    mask: Mask
    offset: Tensor | int

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.mask(batch, head, query + self.offset, key)


def _name(function: MaskFunction) -> str:
    """Which function of transformers' masking_utils made this one; "" if none did."""
    if not isinstance(function, FunctionType) or function.__module__ != "transformers.masking_utils":
        return ""
    return function.__code__.co_qualname.partition(".")[0]


def _values(function: MaskFunction) -> dict[str, Any]:
    """What a function made by another one was made of."""
    assert isinstance(function, FunctionType)
    return dict(
        zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True)
    )


def _needed(mask: Mask | None, start: int, query_len: int, key_len: int) -> Mask | None:
    """The mask, or None if it is a band that holds every pair, as for the last token of a sequence."""
    structure = None if mask is None else mask.structure()
    if structure is None or structure.band is None or structure.lens is not None:
        return mask
    left, right = structure.band
    early = left is None or start + query_len - 1 - left <= 0
    return None if early and (right is None or start + right >= key_len - 1) else mask


def _padding(real: Tensor | None, key_len: int, shift: int) -> Mask | None:
    """Which keys are real, from `shift` on; transformers looks too, unless it traces: ones alone are no mask."""
    if real is None:
        return None
    keep = F.pad(real, (0, max(0, key_len + shift - real.shape[-1])))[:, shift : shift + key_len].bool()
    return Table(keep[:, None, None]) if _is_traced(keep) or not bool(keep.all()) else None


def _is_traced(tensor: Tensor) -> bool:
    from transformers.utils.import_utils import is_tracing

    return bool(is_tracing(tensor))


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _all_of(functions: Sequence[MaskFunction], shift: int) -> Mask | None:
    packed = "packed_sequence_mask_function" in map(_name, functions)
    mask = None
    for function in functions:
        if packed and _name(function) == "remap_positions_for_packed_sequence":
            # positions start again in each sequence, and within one sequence distances stay what they are
            inner = translated(_values(function)["mask_function"], shift)
            keeps_band = inner is None or inner.structure().band is not None
            mask = _both(mask, inner if keeps_band else _Predicate(function, shift))
        else:
            mask = _both(mask, translated(function, shift))
    return mask


def _any_of(functions: Sequence[MaskFunction], shift: int) -> Mask | None:
    masks = [translated(function, shift) for function in functions]
    return None if None in masks else functools.reduce(operator.or_, masks)


# made of nothing
_PLAIN = ("causal_mask_function", "bidirectional_mask_function")
_READ: dict[str, Callable[[dict[str, Any], int], Mask | None]] = {
    "causal_mask_function": lambda values, shift: Causal(),
    "bidirectional_mask_function": lambda values, shift: None,
    "and_masks": lambda values, shift: _all_of(values["mask_functions"], shift),
    "or_masks": lambda values, shift: _any_of(values["mask_functions"], shift),
    "sliding_window_overlay": lambda values, shift: _Recent(values["sliding_window"]),
    "sliding_window_bidirectional_overlay": lambda values, shift: Window(*[values["sliding_window"]] * 2),
    "chunked_overlay": lambda values, shift: _Chunks(values["chunk_size"], values["left_padding"] - shift),
    "blockwise_overlay": lambda values, shift: Documents(values["block_sequence_ids"][:, shift:]),
    "packed_sequence_mask_function": lambda values, shift: Documents(values["packed_sequence_mask"][:, shift:]),
}
