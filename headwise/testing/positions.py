"""Invariants of position schemes: distance is all that counts where they say so, and no position wraps around."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.attention.masks import Causal, Padding, Table
from headwise.caches import AttentionStep
from headwise.errors import HeadwiseError
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.position import Position
from headwise.testing.invariant import Invariant
from headwise.testing.numbers import apart, drawn, not_finite, seeded

HEADS, HEAD_DIM = 4, 4
D_MODEL = HEADS * HEAD_DIM
# a square, for schemes of a grid
MAX_LEN = 49
# rounding of angles and sums over positions
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 5e-2}


class PositionSubject(NamedTuple):
    """A position scheme to be tried; `make` makes it for D_MODEL, HEAD_DIM, HEADS and MAX_LEN."""

    name: str
    make: Callable[[], Position]

    def position(self, dtype: torch.dtype = torch.float64) -> Position:
        """A fresh scheme with the same parameters at each call."""
        with seeded(0):
            scheme = self.make()
            for parameter in scheme.parameters():
                # numbers that bfloat16 has too: every type computes the same function
                parameter.data = (parameter + 0.1 * torch.randn(parameter.shape)).to(torch.bfloat16).float()
        return scheme.to(dtype)

    def layer(self, dtype: torch.dtype) -> MultiHeadAttention:
        """A layer around the scheme."""
        with seeded(0):
            return MultiHeadAttention(D_MODEL, HEADS, position=self.position(dtype)).to(dtype)


@dataclass(frozen=True)
class Place:
    """One trial: `length` positions from `start` on."""

    length: int
    start: int
    dtype: torch.dtype = torch.float64

    def x(self) -> Tensor:
        """Embeddings of two sequences."""
        return drawn((2, self.length, D_MODEL), self.dtype, 5)


def _places(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    for length, start in ((1, 0), (2, 1), (5, 3), (7, 40)) if quick else ((1, 0), (2, 1), (5, 3), (7, 11), (7, 40)):
        yield Place(length, start)
        if length > 2:
            yield Place(length, start, torch.float32)


def _half_too(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    yield from _places(subject, quick)
    yield Place(5, 3, torch.bfloat16)


def _elsewhere(subject: PositionSubject) -> str | None:
    position = subject.position()
    if not position.acts_in_attention():
        return "it does not act in attention: who embeds the tokens gives their positions"
    # places of an image, where a shift along the rows is none of the picture
    return "its places are those of a grid" if hasattr(position, "width") else None


def _padded(subject: PositionSubject, case: Place) -> str | None:
    """Padding on the right, on the left (of a scheme by distance) or none gives the same outputs of the real tokens."""
    layer, x, more = subject.layer(case.dtype), case.x(), case.start
    alone, both, junk = layer(x), case.length + more, drawn((2, more, D_MODEL), case.dtype, 6)
    right = layer(torch.cat((x, junk), 1), mask=Padding(torch.full((2,), case.length)))
    keep = (torch.arange(both) >= more).expand(both, both)
    left = layer(torch.cat((junk, x), 1), mask=Table(keep.clone()))
    fault = apart("output with padding on the right", right[:, : case.length], alone, TOLERANCE[case.dtype])
    if fault is not None or not subject.position().by_distance:
        return fault
    return apart("output with padding on the left", left[:, more:], alone, TOLERANCE[case.dtype])


def _beyond(subject: PositionSubject, quick: bool) -> Iterator[Place]:
    yield Place(MAX_LEN + 1, 0)
    yield Place(MAX_LEN + 2, 0)


def _no_wrap(subject: PositionSubject, case: Place) -> str | None:
    """A position beyond the length it was built for is its own, or a clear error."""
    layer = subject.layer(case.dtype)
    position = layer.position
    assert position is not None
    try:
        vectors = position.embed(torch.zeros(case.length, D_MODEL, dtype=case.dtype), 0)
        output = layer(position.embed(case.x(), 0))
    except HeadwiseError as error:
        return None if any(digit in str(error) for digit in "0123456789") else f"the error names no length: {error}"
    fault = not_finite("vector", vectors) or not_finite("output", output)
    if fault is None and position.steps and type(position).embed is not Position.embed:
        same = (vectors[:-1] == vectors[-1]).all(-1).nonzero().flatten().tolist()
        fault = f"position {case.length - 1} has the vector of position {same[0]}" if same else None
    return fault


def _works(subject: PositionSubject, case: Place) -> str | None:
    """In a layer every parameter learns, a step with a cache is the row of all at once, and types agree."""
    layer, tokens = subject.layer(case.dtype), case.x()
    position = layer.position
    assert position is not None
    if (
        position.embed(tokens, 0).dtype != case.dtype
        or position.rotate(tokens[:, None, :, :HEAD_DIM], 0).dtype != case.dtype
    ):
        return f"it turns {case.dtype} into another type"
    full = layer(position.embed(tokens, 0), mask=Causal())
    own = dict(position.named_parameters())
    if own and case.length > 1:
        gained = torch.autograd.grad(full.square().sum(), list(own.values()), allow_unused=True)
        for name, gradient in zip(own, gained, strict=True):
            wrong = "has no gradient" if gradient is None else not_finite("has a gradient that", gradient)
            if wrong is not None:
                return f"parameter {name} {wrong}"
    with torch.no_grad():
        exact = subject.layer(torch.float64)
        wide = exact(subject.position().embed(tokens.double(), 0), mask=Causal())
        memory, steps = layer.new_cache(), []
        for t in range(case.length) if position.steps else ():
            token = position.embed(tokens[:, t : t + 1], t)
            steps.append(layer(token, mask=Causal(), cache=AttentionStep(memory, position=t)))
    fault = apart("output against float64", full, wide, TOLERANCE[case.dtype])
    return fault or (apart("output step by step", torch.cat(steps, 1), full, TOLERANCE[case.dtype]) if steps else None)


INVARIANTS = (
    Invariant("beyond", "no position beyond the table wraps around", _beyond, _no_wrap),
    Invariant("padding", "padding left, right or none is the same", _places, _padded, _elsewhere),
    Invariant("layer", "in a layer it learns, decodes step by step, keeps its type", _half_too, _works),
)
