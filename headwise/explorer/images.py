"""What the page Vision asks for: the image, what is looked at on average, and rollout."""

import numpy as np
from fastapi import FastAPI, Request, Response
from jaxtyping import Shaped

from headwise.errors import Unsupported
from headwise.explain.places import NO_CLASS, OnImage
from headwise.explorer.explorer import Explorer, Name, Numbers
from headwise.explorer.traces import Traced

# pixels of a side of a picture that is sent to a page
_SIDE = 1024


def add_images(app: FastAPI, explorer: Explorer) -> None:
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
        return await explorer.numbers(request, name, lambda one: one.rollout(found))


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
        [np.where(each >= len(found.classes), NO_CLASS, each).astype(np.uint8) for each in map(thinned, both)]
    )


def thinned(whole: Shaped[np.ndarray, "height width *channels"]) -> Shaped[np.ndarray, "rows columns *channels"]:
    """Every so many pixels of a large image."""
    each = -(-max(whole.shape[:2]) // _SIDE)
    return whole[::each, ::each]
