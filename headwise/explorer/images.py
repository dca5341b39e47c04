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
        layer_group = explorer.trace(name).group(group)
        return await explorer.numbers(
            request, name, lambda traced: np.stack([traced.weights(layer).mean(1) for layer in layer_group.layers])
        )

    @app.get(f"{at}/rollout", response_class=Numbers)
    async def rollout(request: Request, name: str, group: Name) -> Response:
        """Attention through all layers of a group: (queries, keys)."""
        layer_group = explorer.trace(name).group(group)
        return await explorer.numbers(request, name, lambda traced: traced.rollout(layer_group))


def pixels(traced: Traced) -> np.ndarray:
    """The image of a trace, in every so many pixels where it is large. Raises: Unsupported if there is none."""
    if not isinstance(traced.places, OnImage):
        raise Unsupported("this run reads no images")
    return thinned(traced.places.pixels)


def labels(traced: Traced) -> np.ndarray:
    """The labels of the pixels that `pixels` gives. Raises: Unsupported if there are none."""
    pixel_labels = traced.places.labels if isinstance(traced.places, OnImage) else None
    if pixel_labels is None:
        raise Unsupported("this run tells no labels of pixels")
    tables = [pixel_labels.predicted] if pixel_labels.true is None else [pixel_labels.predicted, pixel_labels.true]
    return np.stack(
        [np.where(ids >= len(pixel_labels.classes), NO_CLASS, ids).astype(np.uint8) for ids in map(thinned, tables)]
    )


def thinned(image: Shaped[np.ndarray, "height width *channels"]) -> Shaped[np.ndarray, "rows columns *channels"]:
    """Every so many pixels of a large image."""
    stride = -(-max(image.shape[:2]) // _SIDE)
    return image[::stride, ::stride]
