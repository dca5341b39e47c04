"""Attention inside a notebook: the views of the explorer in a frame of their own, without a server."""

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.errors import DataError
from headwise.explorer.content import Content, content_of
from headwise.explorer.saving import page
from headwise.files import replacing

_FRAME = (
    '<iframe title="Headwise" sandbox="allow-scripts allow-downloads" width="100%" height="{height}" '
    'style="border:0" srcdoc="{page}"></iframe>'
)


class Page:
    """A page that a notebook shows where it is the last line of a cell, and that `save` writes to a file.

    Args:
        height: of the frame in a notebook, in pixels.
    """

    def __init__(self, content: Content, height: int):
        self.content, self.height = content, height
        self.html = page(content)

    def _repr_html_(self) -> str:
        return _FRAME.format(height=self.height, page=html.escape(self.html.decode("utf-8")))

    def __repr__(self) -> str:
        layers = sum(len(group.layers) for group in self.content.groups)
        return f"Page({layers} layers, {len(self.html) / 1e3:,.0f} KB): shown by notebooks; .save('attention.html')"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page to a file and returns its path. Raises: DataError naming a file that cannot be written."""
        return written(Path(path), self.html)


def show(
    source: Any, queries: Sequence[str] = (), keys: Sequence[str] = (), *, example: int = 0, height: int = 640
) -> Page:
    """Attention in a notebook, as the last line of a cell: a page that needs no server and loads nothing.

    Args:
        source: a trace of `record`, or what `Predictor.explain` returns.
        queries, keys: tokens of a trace, which knows none; keys are the queries where they are left out, and a layer
            whose places are as many as neither has numbers.
        example: number of the row of a trace's batch.
        height: of the frame, in pixels.

    Returns: a page, which `.save("attention.html")` writes to a file.

    Raises:
        ConfigError: for anything else, a trace without calls, an example that is not there, or weights of more than
            32 MB.
        Unsupported: an explanation without attention.

    >>> import torch
    >>> from headwise import MultiHeadAttention, record
    >>> layer = MultiHeadAttention(8, 2)
    >>> with record(layer) as trace:
    ...     _ = layer(torch.ones(1, 3, 8))
    >>> show(trace, ["a", "b", "c"])._repr_html_()[:7]
    '<iframe'
    """
    return Page(content_of(source, queries=queries, keys=keys, example=example), height)


def written(path: Path, content: bytes) -> Path:
    """Writes a file whole. Raises: DataError naming one that cannot be written."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give the name of a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return path
