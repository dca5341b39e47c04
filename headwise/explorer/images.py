"""What the page Vision asks for: the image, what is looked at on average, and rollout; and what axes are."""

from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from jaxtyping import UInt8

from headwise.errors import Unsupported
from headwise.explain import heads
from headwise.explain.places import InGraph, OnImage, Places
from headwise.explorer.explorer import Explorer, Name, Numbers
from headwise.explorer.traces import Traced

# what stands for no class in bytes
NO_LABEL = 255
# pixels of a side of a picture that is sent to a page
_SIDE = 1024


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
    of = {
        group.name: {side: axis(one.places, len(getattr(group, side))) for side in ("queries", "keys")}
        for group in one.groups
    }
    return told | {"axes": of}


def imaged(app: FastAPI, explorer: Explorer) -> None:
    """Adds the routes of images."""
    at = "/api/v1/traces/{name}"

    @app.get(f"{at}/image", response_class=Numbers)
    async def image(request: Request, name: str) -> Response:
        """The image as the model read it: (height, width, channels), from 0 to 255."""
        return await explorer.numbers(request, name, pixels)

    @app.get(f"{at}/labels", response_class=Numbers)
    async def pixel_labels(request: Request, name: str) -> Response:
        """Classes of the pixels: (1, height, width) as said, (2, ...) with what is true; 255 for none."""
        return await explorer.numbers(request, name, labels)

    @app.get(f"{at}/mean", response_class=Numbers)
    async def mean(request: Request, name: str, group: Name) -> Response:
        """What each head of a group looks at, on the mean of its queries: (layers, heads, keys)."""
        found = explorer.trace(name).group(group)
        return await explorer.numbers(
            request, name, lambda one: np.stack([one.weights(layer).mean(1) for layer in found.layers])
        )

    @app.get(f"{at}/rollout", response_class=Numbers)
    async def rollout(request: Request, name: str, group: Name) -> Response:
        """Attention through all layers of a group: (queries, keys)."""
        found = explorer.trace(name).group(group)
        if found.kind != "self" or len(found.queries) != len(found.keys):
            raise Unsupported(f"rollout goes through layers of self-attention; {group} has none")
        return await explorer.numbers(request, name, lambda one: heads.rollout(map(one.weights, found.layers)))


def pixels(one: Traced) -> np.ndarray:
    """The image of a trace, in every so many pixels where it is large. Raises: Unsupported if there is none."""
    if not isinstance(one.places, OnImage):
        raise Unsupported("this run reads no images")
    return thinned(one.places.pixels)


def labels(one: Traced) -> np.ndarray:
    """The labels of the pixels that `pixels` gives. Raises: Unsupported if there are none."""
    found = one.places.labels if isinstance(one.places, OnImage) else None
    if found is None:
        raise Unsupported("this run tells no labels of pixels")
    both = [found.said] if found.true is None else [found.said, found.true]
    return np.stack(
        [np.where(each >= len(found.classes), NO_LABEL, each).astype(np.uint8) for each in map(_every, both)]
    )


def thinned(whole: UInt8[np.ndarray, "height width channels"]) -> UInt8[np.ndarray, "rows columns channels"]:
    """Every so many pixels of a large image."""
    return _every(whole)


def _every(whole: np.ndarray) -> np.ndarray:
    each = -(-max(whole.shape[:2]) // _SIDE)
    return whole[::each, ::each]


def axis(places: Places | None, length: int) -> dict[str, Any]:
    """What a row or a column of so many places is, as JSON."""
    grid = places.grid(length) if isinstance(places, OnImage) else None
    if grid is not None:
        return {"kind": "patches", "grid": [grid.rows, grid.columns], "before": grid.before}
    return {"kind": "nodes" if isinstance(places, InGraph) and length == len(places.names) else "tokens"}
