"""What the rows and columns of attention are, as pages are told: tokens and their words, patches, nodes, frames."""

from collections.abc import Sequence
from typing import Any

from headwise.explain.folding import tokens_of
from headwise.explain.places import Places, Tokens
from headwise.explorer.traces import Group, Traced


def axes(traced: Traced) -> dict[str, Any]:
    """What the rows and columns of each group are, and what they lie on, as JSON."""
    places = {"places": None if traced.places is None else traced.places.description()}
    return places | {"axes": axes_of(traced.groups, traced.tokens, traced.places)}


def axes_of(groups: Sequence[Group], tokens: Sequence[Tokens], places: Places | None = None) -> dict[str, Any]:
    return {
        group.name: {side: axis(getattr(group, side), tokens, places) for side in ("queries", "keys")}
        for group in groups
    }


def axis(labels: list[str], tokens: Sequence[Tokens], places: Places | None) -> dict[str, Any]:
    """What the places with these labels are, as JSON."""
    if places is not None and (description := places.axis(labels)) is not None:
        return description
    match = tokens_of(labels, tokens)
    if match is None:
        return {"kind": "tokens"}
    return {"kind": "tokens", "words": list(match.words), "special": list(match.special)}
