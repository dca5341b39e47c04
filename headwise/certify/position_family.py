"""Invariants of position schemes: distance is all that counts where they say so, and no position wraps around."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep
from headwise.certify.invariant import Invariant
from headwise.certify.numbers import apart, drawn, first, not_finite
from headwise.errors import HeadwiseError, ShapeError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.position import Position

HEADS, HEAD_DIM = 4, 4
D_MODEL = HEADS * HEAD_DIM
# a square, for schemes of a grid
MAX_LEN = 49
# rounding of angles and sums over positions
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 5e-2}


class PositionSubject:
    """A position scheme to be tried.

    Args:
        name: for messages.
        make: makes it for D_MODEL, HEAD_DIM, HEADS and MAX_LEN.
    """

    def __init__(self, name: str, make: Callable[[], Position]):
        self.name, self.make = name, make

    def position(self, dtype: torch.dtype = torch.float64) -> Position:
        """A fresh scheme with the same parameters at each call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            made = self.make()
            for parameter in made.parameters():
                # numbers that bfloat16 has too: every type computes the same function
                parameter.data = (parameter + 0.1 * torch.randn(parameter.shape)).to(torch.bfloat16).float()
        return made.to(dtype)

    def changes(self, hook: str) -> bool:
        """Whether the scheme has this hook."""
        return getattr(type(self.position()), hook) is not getattr(Position, hook)

    @cached_property
    def is_grid(self) -> bool:
        """Whether places are those of an image, where a shift along the rows is none of the picture."""
        return hasattr(self.position(), "width")


@dataclass(frozen=True)
class Place:
    """One trial: `length` positions from `start` on."""

    length: int
    start: int
    dtype: torch.dtype = torch.float64

    def heads(self, seed: int, length: int | None = None) -> Tensor:
        """Queries or keys of one sequence."""
        return drawn((1, HEADS, self.length if length is None else length, HEAD_DIM), self.dtype, seed)

    def x(self, seed: int = 5) -> Tensor:
        """Embeddings of two sequences."""
        return drawn((2, self.length, D_MODEL), self.dtype, seed)

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"length {self.length} from position {self.start}, heads {HEADS}, head_dim {HEAD_DIM}, {dtype}"


def _places(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    for length, start in ((1, 0), (2, 1), (5, 3), (7, 40)) if quick else ((1, 0), (2, 1), (5, 3), (7, 11), (7, 40)):
        yield Place(length, start)
        if length > 2:
            yield Place(length, start, torch.float32)


def _half(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    yield from _places(subject, quick)
    yield Place(5, 3, torch.bfloat16)


def _no_waves(subject: PositionSubject) -> str | None:
    return None if subject.name == "sinusoidal" else "its vectors are no sines"


def _waves(subject: PositionSubject, case: Place) -> str | None:
    """p(t + k) is p(t), each pair of columns turned by k times its frequency."""
    position = subject.position(case.dtype)
    zeros = torch.zeros(case.length, D_MODEL, dtype=case.dtype)
    here, later = (position.embed(zeros, start).double() for start in (0, case.start))
    angles = case.start * 10000.0 ** (-torch.arange(0, D_MODEL, 2, dtype=torch.float64) / D_MODEL)
    sine, cosine = here[:, 0::2], here[:, 1::2]
    turned = (sine * angles.cos() + cosine * angles.sin(), cosine * angles.cos() - sine * angles.sin())
    return apart("vector", later, torch.stack(turned, -1).flatten(-2), TOLERANCE[case.dtype])


def _no_turn(subject: PositionSubject) -> str | None:
    return None if subject.changes("rotate") else "it does not turn queries and keys"


def _turn(subject: PositionSubject, case: Place) -> str | None:
    position = subject.position(case.dtype)
    query, key = case.heads(1), case.heads(2)
    near = position.rotate(query, 0) @ position.rotate(key, 0).mT
    far = position.rotate(query, case.start) @ position.rotate(key, case.start).mT
    found = apart("scores of a shifted pair", far, near, TOLERANCE[case.dtype])
    if found is not None or position.where != "queries and keys":
        return found
    norms = position.rotate(query, case.start).norm(dim=-1)
    return first(
        apart("norm of a turned query", norms, query.norm(dim=-1), TOLERANCE[case.dtype]),
        apart("query at position 0", position.rotate(query[:, :, :1], 0), query[:, :, :1], TOLERANCE[case.dtype]),
    )


def _no_distance(subject: PositionSubject) -> str | None:
    if not subject.position().acts_on_scores():
        return "it adds nothing to scores"
    return "its distances are those of a grid" if subject.is_grid else None


def _added(position: Position, query: Tensor, key: Tensor, start: int) -> Tensor:
    """What is added to the scores of queries from `start` on, and to the values, as one table for each head."""
    low, high = min(0, 1 - start - query.shape[2]), max(0, key.shape[2] - 1 - start)
    added = query.new_zeros(1, query.shape[1], query.shape[2], key.shape[2])
    bias, relative = position.bias(query, key, start), position.relative(query, key, low, high)
    if bias is not None:
        added = added + bias
    if relative is not None and relative.has_bias():
        added = added + relative.bias(0, query.shape[2], key.shape[2], start)
    return added


def _distance(subject: PositionSubject, case: Place) -> str | None:
    position = subject.position(case.dtype)
    query, key = case.heads(1), case.heads(2)
    shifted = torch.cat((case.heads(3, case.start), key), 2)
    near, far = _added(position, query, key, 0), _added(position, query, shifted, case.start)
    return apart("what a shifted pair adds", far[..., case.start :], near, TOLERANCE[case.dtype])


def _beyond(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    yield Place(1, MAX_LEN)
    yield Place(3, MAX_LEN - 1)


def _no_wrap(subject: PositionSubject, case: Place) -> str | None:
    """A position beyond the length it was built for is its own, or a clear error."""
    position = subject.position(case.dtype)
    zeros = torch.zeros(case.length, D_MODEL, dtype=case.dtype)
    try:
        there = position.embed(zeros, case.start)
        added = _added(position, case.heads(1), case.heads(2, case.start + case.length), case.start)
    except HeadwiseError as error:
        return None if any(digit in str(error) for digit in "0123456789") else f"the error names no length: {error}"
    found = first(not_finite("vector", there), not_finite("what is added to scores", added))
    if found is None and subject.changes("embed"):
        first_ones = position.embed(torch.zeros(MAX_LEN, D_MODEL, dtype=case.dtype), 0)
        again = [at for at in range(MAX_LEN - 1) if torch.equal(first_ones[at], there[-1])]
        found = f"position {case.start + case.length - 1} has the vector of position {again[0]}" if again else None
    return found


def _not_in_attention(subject: PositionSubject) -> str | None:
    if not subject.position().acts_in_attention():
        return "it does not act in attention: who embeds the tokens gives their positions"
    return "its places are those of a grid" if subject.is_grid else None


def _layer(subject: PositionSubject, dtype: torch.dtype) -> MultiHeadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        made = MultiHeadAttention(D_MODEL, HEADS, Scored(), position=subject.position(torch.float32), num_kv_heads=2)
    return made.to(dtype)


def _padded(subject: PositionSubject, case: Place) -> str | None:
    layer, x = _layer(subject, case.dtype), case.x()
    junk = drawn((2, 3, D_MODEL), case.dtype, 6)
    alone = layer(x)
    right = layer(torch.cat((x, junk), 1), mask=Padding(torch.full((2,), case.length)))
    total = case.length + 3
    left = layer(torch.cat((junk, x), 1), mask=Table((torch.arange(total) >= 3).expand(total, total)))
    return first(
        apart("output with padding on the right", right[:, : case.length], alone, TOLERANCE[case.dtype]),
        apart("output with padding on the left", left[:, 3:], alone, TOLERANCE[case.dtype]),
    )


def _slices(subject: PositionSubject, case: Place) -> str | None:
    """Tokens given from a later start on are the later tokens of the whole."""
    position = subject.position(case.dtype)
    x = drawn((2, case.start + case.length, D_MODEL), case.dtype, 4)
    heads = drawn((2, HEADS, case.start + case.length, HEAD_DIM), case.dtype, 5)
    whole, turned = position.embed(x, 0), position.rotate(heads, 0)
    try:
        part = position.embed(x[:, case.start :], case.start)
    except (Unsupported, ShapeError) as refusal:
        return None if "whole" in str(refusal) else f"it refuses a later start: {refusal}"
    later = position.rotate(heads[:, :, case.start :], case.start)
    return first(
        apart("embeddings from a later start", part, whole[:, case.start :], TOLERANCE[case.dtype]),
        apart("heads from a later start", later, turned[:, :, case.start :], TOLERANCE[case.dtype]),
    )


def _kept(subject: PositionSubject, case: Place) -> str | None:
    """Types and shapes stay, numbers are finite, and a type agrees with float64."""
    position, exact = subject.position(case.dtype), subject.position()
    x, query, key = case.x(), case.heads(1), case.heads(2)
    found = None
    results = [position.embed(x, 0), position.rotate(query, case.start)]
    wanted = [exact.embed(x.double(), 0), exact.rotate(query.double(), case.start)]
    for what, before, after, double in zip(("embed", "rotate"), (x, query), results, wanted, strict=True):
        if after.dtype != before.dtype:
            return f"{what} turns {before.dtype} into {after.dtype}"
        found = found or apart(what, after, double, TOLERANCE[case.dtype])
    added = _added(position, query, key, 0)
    return found or apart("added to scores", added, _added(exact, query.double(), key.double(), 0), 5e-2)


def _works(subject: PositionSubject, case: Place) -> str | None:
    """In a layer: every parameter learns, and a step with a cache is the row of all at once."""
    layer, x = _layer(subject, case.dtype), case.x()
    position = layer.position
    assert position is not None
    x = position.embed(x, 0)
    whole = layer(x, mask=Causal())
    whole.square().sum().backward()
    for name, parameter in position.named_parameters():
        if parameter.grad is None and case.length == 1:
            # nothing leads from one position to the next
            continue
        gradient = parameter.grad
        wrong = "has no gradient" if gradient is None else not_finite("has a gradient that", gradient)
        if wrong is not None:
            return f"parameter {name} {wrong}"
    with torch.no_grad():
        memory = layer.kept()
        parts = [
            layer(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(memory, position=t)) for t in range(case.length)
        ]
    return apart("output step by step", torch.cat(parts, 1), whole, 10 * TOLERANCE[case.dtype])


def _always(subject: PositionSubject) -> str | None:
    return None


INVARIANTS = (
    Invariant("P1", "sines: a shift is a rotation", _no_waves, _places, _waves),
    Invariant("P2", "turned pairs: the score depends on distance alone", _no_turn, _places, _turn),
    Invariant("P3", "added to scores: depends on distance alone", _no_distance, _places, _distance),
    Invariant("P4", "no position beyond the table wraps around", _always, _beyond, _no_wrap),
    Invariant("P5", "padding left, right or none is the same", _not_in_attention, _places, _padded),
    Invariant("slices", "tokens from a later start are the later tokens", _always, _places, _slices),
    Invariant("types", "types and shapes stay, numbers are finite", _always, _half, _kept),
    Invariant("layer", "in a layer it learns and decodes step by step", _always, _places, _works),
)
