"""A folder of another program, read without running anything in it and without allocating what it only declares."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.errors import CheckpointError, Unsupported
from headwise.runs.reading import open_regular
from headwise.runs.tensors import DTYPES

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"
WEIGHTS = "model.safetensors"
_INDEX = f"{WEIGHTS}.index.json"
_MAX_JSON_BYTES, _MAX_TOKENIZER_BYTES, _MAX_HEADER_BYTES = 1 << 24, 1 << 28, 100_000_000
_LENGTH_BYTES = 8
_LICENSE_LINES = 200
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
# as TensorFlow named the parts of a norm
_OLD_NORM, _NORM_PARTS = re.compile(r"\.LayerNorm\.(gamma|beta)$"), {"gamma": "weight", "beta": "bias"}
# numbers that are exact in float32
_READ = {"F32", "F16", "BF16"}


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Folder:
    """A folder as `save_pretrained` of transformers writes it.

    Raises: CheckpointError naming the file that is missing, damaged or a link; Unsupported for code, pickles and
        quantized weights.
    """

    def __init__(self, path: Path):
        self.path = path
        if not path.is_dir():
            raise CheckpointError(f"{path}: no such folder; nothing is downloaded")
        self.config = self._json(CONFIG)
        if self.config.get("auto_map"):
            raise Unsupported(f"{path / CONFIG}: auto_map names code that comes with the model, which is never run")
        for key in ("quantization_config", "transformers_weights"):
            if self.config.get(key) is not None:
                raise Unsupported(f"{path / CONFIG}: {key} has no counterpart here; save the model without it")
        if (path / "adapter_config.json").exists():
            raise Unsupported(f"{path}: holds an adapter; merge it into its model and save that")

    @cached_property
    def generation(self) -> dict[str, Any] | None:
        """generation_config.json, if there is one."""
        return self._json(GENERATION) if self.has(GENERATION) else None

    def has(self, name: str) -> bool:
        """Whether there is a file of this name, or a link."""
        return os.path.lexists(self.path / name)

    def settings(self, name: str) -> dict[str, Any]:
        """The object of a JSON file; an empty one where there is no file."""
        return self._json(name) if self.has(name) else {}

    def numbers(self, name: str) -> dict[str, int]:
        """A JSON file that numbers texts from 0 on. Raises: CheckpointError for other content."""
        values = self._json(name, _MAX_TOKENIZER_BYTES)
        if {type(number) for number in values.values()} != {int} or sorted(values.values()) != [*range(len(values))]:
            raise CheckpointError(f"{self.path / name}: does not number its pieces from 0 to {len(values) - 1}")
        return values

    @cached_property
    def token_names(self) -> dict[str, str]:
        """What tokens are for, by names such as "mask_token", where tokenizer_config.json says it."""
        values = self.settings("tokenizer_config.json")
        texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in values.items()}
        return {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}

    def processor(self, name: str) -> dict[str, Any]:
        """How pictures become numbers."""
        if not self.has(name):
            raise CheckpointError(f"{self.path}: has no {name}, which says how pictures become numbers; get it there")
        return self._json(name)

    def tokenizer(self, name: str = TOKENIZER) -> dict[str, Any]:
        """The content of a tokenizer.json."""
        if not self.has(name):
            raise CheckpointError(
                f"{self.path}: has no {name}, and no file that it follows from; write it with transformers:"
                f" AutoTokenizer.from_pretrained({str(self.path)!r}).save_pretrained({str(self.path)!r})"
            )
        return self._json(name, _MAX_TOKENIZER_BYTES)

    @cached_property
    def license(self) -> str:
        """The licence line: of the model card, or the first of a LICENSE file; "not stated" where there is none."""
        card = self._text("README.md")
        head = re.match(r"---\s*\n(.*?)\n---", card, re.S)
        if head and (line := re.search(r"^licen[sc]e:\s*[\"']?([^\n\"']+)", head[1], re.M)):
            return line[1].strip()
        lines = [
            line.strip() for name in ("LICENSE", "LICENSE.txt", "LICENSE.md") for line in self._text(name).split("\n")
        ]
        return next((line for line in lines[:_LICENSE_LINES] if line), "not stated")

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every tensor of the weights: headers only are read."""
        entries: dict[str, Entry] = {}
        for path in self._weight_files():
            for name, entry in _entries(path):
                name = _OLD_NORM.sub(lambda match: f".LayerNorm.{_NORM_PARTS[match[1]]}", name)
                if name in entries:
                    raise CheckpointError(f"{path}: '{name}' is in another file too")
                entries[name] = entry
        return entries

    def prefixed(self, prefix: str) -> None:
        """Gives the names of tensors a prefix that older folders leave out."""
        if prefix and not any(name.startswith(prefix) for name in self.entries):
            self.entries = {
                name if name.startswith("lm_head") else f"{prefix}{name}": entry for name, entry in self.entries.items()
            }

    def read(self, name: str) -> Tensor:
        """A tensor in float32."""
        entry = self.entries[name]
        if entry.dtype not in _READ:
            raise Unsupported(f"{entry.path}: '{name}' has type {entry.dtype}; read are {', '.join(sorted(_READ))}")
        with open(open_regular(entry.path), "rb") as file:
            file.seek(entry.begin)
            data = bytearray(file.read(entry.end - entry.begin))
        if not data:
            return torch.zeros(entry.shape)
        return torch.frombuffer(data, dtype=DTYPES[entry.dtype]).reshape(entry.shape).float()

    @cached_property
    def sha256(self) -> str:
        """Of the weights; of several files that of their digests."""
        digests = []
        for path in self._weight_files():
            with open(open_regular(path), "rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()

    def _weight_files(self) -> list[Path]:
        if self.has(WEIGHTS):
            return [self.path / WEIGHTS]
        if not self.has(_INDEX):
            raise CheckpointError(self._no_weights())
        named = self._json(_INDEX).get("weight_map")
        names = sorted({str(name) for name in named.values()}) if isinstance(named, Mapping) else []
        for name in names:
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise CheckpointError(
                    f"{self.path / _INDEX}: names {name[:100]!r}, which is no weights file of the folder"
                )
        if not names:
            raise CheckpointError(f"{self.path / _INDEX}: names no weights")
        return [self.path / name for name in names]

    def _no_weights(self) -> str:
        pickled = sorted(name for name in os.listdir(self.path) if name.endswith(_PICKLED))
        if not pickled:
            return f"{self.path}: has no {WEIGHTS}"
        return (
            f"{self.path}: {pickled[0]} is pickled, which can run code, and is not read; convert it:\n"
            f"    model = AutoModel.from_pretrained({str(self.path)!r}, weights_only=True)\n"
            f"    model.save_pretrained({str(self.path)!r})  # with the class of your task in place of AutoModel"
        )

    def content(self, name: str, limit: int) -> bytes:
        """The bytes of a file. Raises: CheckpointError where it is missing, a link, or longer than `limit`."""
        path = self.path / name
        try:
            with open(open_regular(path), "rb") as file:
                # Python takes memory for all that it is asked to read
                data = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: missing; write the folder with save_pretrained") from None
        except CheckpointError as error:
            raise CheckpointError(f"{error}; copy the folder with `cp -rL`") from None
        if len(data) > limit:
            raise CheckpointError(f"{path}: more than {limit:,} bytes are too many for a file of this kind")
        return data

    def _json(self, name: str, limit: int = _MAX_JSON_BYTES) -> dict[str, Any]:
        path, data = self.path / name, self.content(name, limit)
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            raise CheckpointError(f"{path}: is not valid JSON") from None
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return values

    def _text(self, name: str) -> str:
        try:
            with open(open_regular(self.path / name), "rb") as file:
                return file.read(1 << 16).decode(errors="replace")
        except (FileNotFoundError, CheckpointError):
            return ""


def _entries(path: Path) -> Iterator[tuple[str, Entry]]:
    """The tensors in a header, each within the file and as long as its shape says."""
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing") from None
    except CheckpointError as error:
        raise CheckpointError(f"{error}; copy the folder with `cp -rL`") from None
    with open(handle, "rb") as file:
        size = os.fstat(handle).st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise CheckpointError(f"{path}: is no valid safetensors file: a header of {length:,} bytes in {size:,}")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise CheckpointError(f"{path}: is no valid safetensors file: its header is not JSON") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: is no valid safetensors file: its header is not an object")
    start = _LENGTH_BYTES + length
    for name, values in header.items():
        if name != "__metadata__":
            yield name, _entry(path, name, values, start, size)


def _entry(path: Path, name: str, values: Any, start: int, size: int) -> Entry:
    try:
        dtype, shape, (begin, end) = values["dtype"], values["shape"], values["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
        right = whole and end - begin == math.prod(shape) * DTYPES[dtype].itemsize and start + end <= size
    except (KeyError, TypeError, ValueError):
        right, dtype = False, ""
    if not right:
        raise CheckpointError(
            f"{path}: is no valid safetensors file: the entry of {name[:100]!r} does not fit the file"
        )
    return Entry(path, dtype, tuple(shape), start + begin, start + end)
