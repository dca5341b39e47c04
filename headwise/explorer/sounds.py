"""What is drawn beside maps whose places are times: the spectrogram of the recording."""

import numpy as np
from fastapi import FastAPI, Request, Response
from jaxtyping import UInt8

from headwise.errors import Unsupported
from headwise.explain.places import OnSound, Places
from headwise.explorer.explorer import Explorer, Numbers

# frames that are sent to a page
_FRAMES = 4096


def add_sounds(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/v1/traces/{name}/sound", response_class=Numbers)
    async def sound(request: Request, name: str) -> Response:
        """The log-mel spectrogram as the model hears it: (bands, frames), the highest band first, from 0 to 255."""
        return await explorer.numbers(request, name, lambda traced: shades(traced.places))


def shades(places: Places | None) -> UInt8[np.ndarray, "bands frames"]:
    """A spectrogram in 256 steps, from its smallest number to its largest; every so many frames of a long one.

    Raises: Unsupported if there is none, or no frame of it.
    """
    if not isinstance(places, OnSound):
        raise Unsupported("this run reads no recordings")
    spectrogram = places.spectrogram[::-1]
    if not spectrogram.size:
        raise Unsupported("the recording is shorter than one frame")
    frames = spectrogram[:, :: -(-spectrogram.shape[1] // _FRAMES)]
    span = frames.max() - frames.min()
    return np.round(255 * (frames - frames.min()) / (span if span > 0 else 1)).astype(np.uint8)
