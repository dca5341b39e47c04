"""What the rows and columns of attention are, as pages are told: tokens and their words, patches, nodes, frames."""

from collections.abc import Sequence
from typing import Any

from headwise.explain.folding import tokens_of
from headwise.explain.places import Places, Tokens
from headwise.explorer.traces import Group, Traced


def axes(one: Traced) -> dict[str, Any]:
    """What the rows and columns of each group are, and what they lie on, as JSON."""
    told = {"places": None if one.places is None else one.places.description()}
    return told | {"axes": axes_of(one.groups, one.tokens, one.places)}


def axes_of(groups: Sequence[Group], tokens: Sequence[Tokens], places: Places | None = None) -> dict[str, Any]:
    """Both sides of each group."""
    return {
        group.name: {side: axis(getattr(group, side), tokens, places) for side in ("queries", "keys")}
        for group in groups
    }


def axis(labels: list[str], tokens: Sequence[Tokens], places: Places | None) -> dict[str, Any]:
    """What the places with these labels are, as JSON."""
    if places is not None and (own := places.axis(labels)) is not None:
        return own
    found = tokens_of(labels, tokens)
    if found is None:
        return {"kind": "tokens"}
    return {"kind": "tokens", "words": list(found.words), "special": list(found.special)}
