"""Small files that claim, or unpack to, much: pictures, arrays, sounds and graphs, written, and read as a task does."""

import gzip
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from PIL import Image as pillow

from headwise.data.files import read_lines
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import HeadwiseError
from headwise.predictors.predictor import unknown_tokens
from headwise.tasks.graphs.graphs import GraphConfig, read_graph
from headwise.tasks.images.images import ImagesConfig, scan_images
from headwise.tasks.images.pixels import Shape, adapted
from headwise.tasks.speech.log_mel import log_mel
from headwise.tasks.speech.recordings import RecordingsConfig, at_rate, scan_recordings

Write = Callable[[Path], None]
Sizes = tuple[tuple[int, ...], type]

_BLOCK = 1 << 20


def bombs(size: int = 1 << 30, largest: int = 1 << 24) -> dict[str, tuple[Write, Callable[[Path], None]]]:
    """What writes each file, by its name, and what reads it.

    Args:
        size: bytes that are claimed where a file is to be refused.
        largest: pixels of pictures, samples of sounds and numbers of arrays that are about as many as allowed.
    """
    side, huge = int(largest**0.5), int((size // 16) ** 0.5)
    nodes: dict[str, Sizes] = {"y": ((9,), np.int8), "edges": ((1, 2), np.int8)}
    of_graphs: dict[str, dict[str, Sizes]] = {
        "nodes": {**nodes, "y": ((size,), np.int8)},
        "edges": {**nodes, "edges": ((size // 2, 2), np.int8)},
        "largest-edges": {**nodes, "edges": ((largest // 4, 2), np.int8)},
        "wide": {**nodes, "x": ((9, largest // 16), np.int8)},
        "ones": {**nodes, "y": ((largest >> 13,), np.int8), "x": ((largest >> 13, 1 << 12), np.int8)},
    }
    of_images: dict[str, dict[str, Sizes]] = {
        "many": {"images": ((size >> 12, 64, 64), np.uint8)},
        "tiny": {"images": ((largest, 1, 1), np.uint8)},
        "deep": {"images": ((1, 1 << 12, largest >> 12), np.uint16)},
        "full": {"images": ((3, 1 << 12, largest >> 12), np.uint8)},
        "channels": {"images": ((1, 1 << 12, largest >> 12, 15), np.uint8)},
        "floats": {"images": ((largest >> 11, 32, 64), np.float64)},
    }
    sounds: dict[str, Sizes] = {"audio": ((size // 2,), np.int16), "offsets": ((2,), np.int64)}
    return {
        "huge.png": (partial(picture, side=huge, mode="RGBA"), read_images),
        "thin.png": (partial(picture, side=(1, largest), mode="RGBA"), read_images),
        "flat.png": (partial(picture, side=(largest, 1), mode="RGBA"), read_images),
        "padded.png": (partial(picture, side=side, mode="RGBA", padded=4 * size // 16), read_images),
        "parts.png": (partial(parts, side=32, size=largest), read_images),
        "parts.jpg": (partial(parts, side=32, size=largest, jpeg=True), read_images),
        "scans.jpg": (partial(scans, side=side, size=largest >> 4), read_images),
        "short.jpg": (partial(picture, side=64, claimed=huge), read_images),
        "huge.jpg": (partial(picture, side=huge), read_images),
        "progressive.jpg": (partial(picture, side=side, progressive=True, subsampling=0), read_images),
        "turned.jpg": (partial(picture, side=side, mode="CMYK", turned=True, subsampling=0), read_images),
        **{
            f"{mode}.png": (partial(picture, side=side, mode=mode), read_images) for mode in ("RGBA", "LA", "I;16", "P")
        },
        "many-idx3.gz": (partial(idx, shape=(size >> 12, 64, 64)), read_images),
        "tiny-idx3.gz": (partial(idx, shape=(largest, 1, 1)), read_images),
        **{f"{name}.npz": (partial(arrays, sizes=sizes), read_images) for name, sizes in of_images.items()},
        "header.npz": (partial(long_header, size=size), read_images),
        "fast.wav": (partial(wave, samples=largest * 15 // 16, rate=384_000), read_sounds),
        "chunks.wav": (partial(chunks, size=largest), read_sounds),
        "double.wav": (partial(wave, samples=largest, rate=384_000, bits=64), read_sounds),
        "long.wav": (partial(wave, samples=largest, rate=8000), read_sounds),
        "sound.npz": (partial(arrays, sizes=sounds), read_sounds),
        "line.txt": (partial(line, size=largest), read_text),
        "long-line.txt": (partial(line, size=(1 << 18) - 1), read_text),
        "graph-diagonal.npz": (partial(diagonal, nodes=largest >> 9), read_nodes),
        **{
            f"graph-{name}.npz": (partial(arrays, sizes=sizes, fill=int(name == "ones")), read_nodes)
            for name, sizes in of_graphs.items()
        },
    }


def picture(
    path: Path,
    side: int | tuple[int, int],
    mode: str = "RGB",
    *,
    claimed: int = 0,
    padded: int = 0,
    turned: bool = False,
    **how: Any,
) -> None:
    """A picture of one colour.

    Args:
        side: or height and width.
        claimed: the side that a JPEG file claims in place of its own.
        padded: bytes that the file is made, by zeros that take no space on a disk.
        turned: by its EXIF data.
    """
    height, width = side if isinstance(side, tuple) else (side, side)
    drawn, exif = pillow.new(mode, (width, height)), pillow.Exif()
    if turned:
        exif[0x0112] = 6
    drawn.save(path, exif=exif, **how)
    if claimed:
        data = bytearray(path.read_bytes())
        struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, claimed, claimed)
        path.write_bytes(data)
    if padded:
        os.truncate(path, padded)


def parts(path: Path, side: int, size: int, jpeg: bool = False) -> None:
    """A picture with so many bytes of empty parts before its pixels."""
    picture(path, side, **({"format": "JPEG"} if jpeg else {}))
    data, start = path.read_bytes(), 2 if jpeg else 33
    empty = b"\xff\xe5\0\2" if jpeg else struct.pack(">I4sI", 0, b"prVt", zlib.crc32(b"prVt"))
    path.write_bytes(data[:start] + empty * (size // len(empty)) + data[start:])


def scans(path: Path, side: int, size: int) -> None:
    """A JPEG file that goes over its pixels again and again."""
    picture(path, side, mode="L", progressive=True)
    data = path.read_bytes()
    # one symbol, of a bit: no number in the next 32,767 blocks
    table = b"\xff\xc4" + struct.pack(">HB", 20, 16) + bytes([1, *[0] * 15, 0xE0])
    scan = b"\xff\xda" + struct.pack(">H6B", 8, 1, 1, 0, 63, 63, 0) + b"\x7f\xfe" * ((side >> 3) ** 2 // 32767 + 1)
    path.write_bytes(data[:-2] + table + scan * (size // len(scan)) + data[-2:])


def idx(path: Path, shape: tuple[int, ...]) -> None:
    """Zeros as a packed IDX file."""
    with gzip.open(path, "wb", 1) as out:
        out.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape))
        out.writelines(_filled(int(np.prod(shape))))


def arrays(path: Path, sizes: dict[str, Sizes], fill: int = 0) -> None:
    """An .npz file of such arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (shape, kind) in sizes.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                about = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(out, about)
                for block in _filled(int(np.prod(shape)) * np.dtype(kind).itemsize, fill):
                    out.write(block)
        with archive.open("sample_rate.npy", "w") as out:
            npy.write_array(out, np.array(8000))


def long_header(path: Path, size: int) -> None:
    """An .npz file whose array begins with a header that does not end."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as out,
    ):
        out.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", size))
        for block in _filled(size):
            out.write(block)


def wave(path: Path, samples: int, rate: int, bits: int = 8) -> None:
    """A WAV file of silence: whole numbers of 8 bits, or floats of 64."""
    size = samples * bits // 8
    form = struct.pack("<HHIIHH", 1 if bits == 8 else 3, 1, rate, rate * bits // 8, bits // 8, bits)
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16) + form
    path.write_bytes(head + struct.pack("<4sI", b"data", size))
    os.truncate(path, len(head) + 8 + size)


def chunks(path: Path, size: int) -> None:
    """A WAV file of empty chunks."""
    path.write_bytes(struct.pack("<4sI4s", b"RIFF", size, b"WAVE") + struct.pack("<4sI", b"junk", 0) * (size // 8))


def line(path: Path, size: int) -> None:
    """One line of so many full stops."""
    path.write_bytes(b"." * size)


def diagonal(path: Path, nodes: int) -> None:
    """A graph with a feature for each node, of which it has one."""
    each, none = np.arange(nodes), np.zeros((1, 2), int)
    sparse = {"x_indptr": np.arange(nodes + 1), "x_indices": each, "x_shape": np.array([nodes, nodes])}
    np.savez_compressed(path, y=each % 2, edges=none, **sparse)


def read_images(path: Path) -> None:
    """As training and prediction do."""
    for image in scan_images(path, None, ImagesConfig(train=str(path)), labelled=False):
        adapted(_whole(image), Shape(32, 32, 3), "resize")


def read_sounds(path: Path) -> None:
    """As training and prediction do."""
    for found in scan_recordings(path, RecordingsConfig(train=str(path)), labelled=False):
        one = _whole(found)
        for heard in (at_rate(one, 16_000), one):
            log_mel(torch.from_numpy(heard.samples), heard.rate, 80)


def read_text(path: Path) -> None:
    """As training and prediction do; each character is a token."""
    tokenizer = Tokenizer.train([".", "a"], TokenizerConfig(kind="char"))
    for _, text in read_lines(path):
        unknown_tokens(tokenizer, [text])


def read_nodes(path: Path) -> None:
    """As training does."""
    read_graph(GraphConfig(train=str(path), scale="columns"))


def _whole(found: Any) -> Any:
    if isinstance(found, HeadwiseError):
        raise found
    return found


def _filled(size: int, fill: int = 0) -> Iterable[bytes]:
    block = bytes([fill]) * _BLOCK
    for at in range(0, size, _BLOCK):
        yield block[: min(_BLOCK, size - at)]
