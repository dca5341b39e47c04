"""What the rows and columns of attention are, as pages are told: tokens and their words, patches, nodes, frames."""

from collections.abc import Sequence
from typing import Any

from headwise.explain.folding import tokens_of
from headwise.explain.places import InGraph, OnImage, OnSound, Places, Tokens, times
from headwise.explorer.traces import Group, Traced


def axes(one: Traced) -> dict[str, Any]:
    """What the rows and columns of each group are, and what they lie on, as JSON."""
    told: dict[str, Any] = {"places": None}
    if isinstance(one.places, OnImage):
        height, width, channels = one.places.pixels.shape
        covered = one.places.covered or (height, width)
        told["places"] = {
            "kind": "image",
            "shape": [height, width, channels],
            "covered": list(covered),
            "chosen": one.places.chosen,
        }
        if one.places.labels is not None:
            told["places"]["classes"] = one.places.labels.classes
    elif isinstance(one.places, InGraph):
        told["places"] = {"kind": "graph", "nodes": len(one.places.names), "chosen": one.places.chosen}
    elif isinstance(one.places, OnSound):
        told["places"] = {"kind": "sound", "seconds": one.places.seconds}
    return told | {"axes": axes_of(one.groups, one.tokens, one.places)}


def axes_of(groups: Sequence[Group], tokens: Sequence[Tokens], places: Places | None = None) -> dict[str, Any]:
    """Both sides of each group."""
    return {
        group.name: {side: axis(getattr(group, side), tokens, places) for side in ("queries", "keys")}
        for group in groups
    }


def axis(labels: list[str], tokens: Sequence[Tokens], places: Places | None) -> dict[str, Any]:
    """What the places with these labels are, as JSON."""
    grid = places.grid(len(labels)) if isinstance(places, OnImage) else None
    if grid is not None:
        return {"kind": "patches", "grid": [grid.rows, grid.columns], "before": grid.before}
    if isinstance(places, OnSound) and labels == times(len(labels), places.seconds):
        return {"kind": "frames"}
    if isinstance(places, InGraph) and len(labels) == len(places.names):
        return {"kind": "nodes"}
    found = tokens_of(labels, tokens)
    if found is None:
        return {"kind": "tokens"}
    return {"kind": "tokens", "words": list(found.words), "special": list(found.special)}
