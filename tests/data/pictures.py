"""Pictures for tests: PNG and JPEG bytes of chosen modes, IDX and .npz bytes, folders of classes."""

import gzip
import io
import struct

import numpy as np
from PIL import Image


def encoded(pixels, kind="PNG", **options):
    """The bytes of a picture, or of these pixels as one."""
    picture = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def grey(value=7, size=(3, 5)):
    """A grey PNG of one value."""
    return encoded(np.full(size, value, np.uint8))


def idx(array, packed=False, kind=8):
    """The bytes of an IDX file of this array."""
    array = np.asarray(array, np.uint8)
    data = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    return gzip.compress(data, mtime=0) if packed else data


def npz(**arrays):
    """The bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def stripes(count=40, size=(8, 8), seed=0):
    """(images, labels): rows or columns of light, in two shades of noise, so that a small network tells them apart."""
    draws = np.random.default_rng(seed)
    images = draws.integers(0, 60, (count, *size), dtype=np.uint8)
    labels = np.arange(count) % 2
    for number, label in enumerate(labels):
        place = draws.integers(0, min(size))
        images[number, place if label else slice(None), slice(None) if label else place] += 190
    return images, labels


def folder_of(root, images, labels, names=("columns", "rows")):
    """A folder of class folders with a PNG for each image."""
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        folder = root / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:03}.png").write_bytes(encoded(pixels))
    return root
