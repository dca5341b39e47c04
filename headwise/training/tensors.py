"""Tensors as safetensors files: written as a stream, read in one pass that checks the header before it allocates."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.training.commits import Sink

_KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_METADATA = "__metadata__"
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 50_000_000


@runtime_checkable
class Source(Protocol):
    """Where bytes come from: `read` gives exactly the size asked, `read_into` fills the whole buffer."""

    def read(self, size: int) -> bytes: ...

    def read_into(self, buffer: memoryview) -> None: ...


class TensorFile:
    """Tensors by name as the content of a safetensors file; `metadata` is text by name.

    >>> TensorFile({"weight": torch.zeros(2, 3)}, {}).size
    96
    """

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        # widest first, as the format's own writer does, so that each tensor starts on a multiple of its item size
        self._tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])))
        self._metadata = dict(metadata)
        self._header = _header(self._tensors, metadata)

    def copy(self) -> "TensorFile":
        """The same content, which later changes of the tensors do not touch."""
        return TensorFile({name: tensor.detach().clone() for name, tensor in self._tensors.items()}, self._metadata)

    @property
    def size(self) -> int:
        return len(self._header) + sum(_bytes_of(tensor) for tensor in self._tensors.values())

    def write_to(self, sink: Sink) -> None:
        sink.write(self._header)
        for tensor in self._tensors.values():
            if tensor.numel():
                sink.write(_view(tensor.detach().cpu().contiguous()))


def read_tensors(source: Source, size: int, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file of `size` bytes that `source` delivers from its beginning.

    Memory: the tensors themselves and the header; a header that promises more than the file holds is refused first.

    Raises:
        CheckpointError: naming the file as `name`, for a header that is wrong in any way.
    """
    header, data_bytes = _read_header(source, size, name)
    metadata = header.pop(_METADATA, {})
    if not _is_text_map(metadata):
        raise CheckpointError(f"{name}: the metadata in its header is not text by name")
    entries = sorted((_checked(key, value, name) for key, value in header.items()), key=lambda entry: entry.span)
    end = 0
    for entry in entries:
        if entry.span[0] != end:
            raise CheckpointError(f"{name}: tensor '{entry.key}' leaves a gap or overlaps another")
        end = entry.span[1]
    if end != data_bytes:
        raise CheckpointError(f"{name}: its header describes {end:,} bytes of data, but {data_bytes:,} follow")
    return {entry.key: _read_tensor(source, entry) for entry in entries}, metadata


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that hold NaN or infinity; one pass without temporary memory."""
    return [name for name, tensor in tensors.items() if not is_finite(tensor)]


def is_finite(tensor: Tensor) -> bool:
    """True when every element is a finite number; integers always are."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    low, high = torch.aminmax(tensor.detach())
    return math.isfinite(low.item()) and math.isfinite(high.item())


class _Entry(NamedTuple):
    key: str
    kind: torch.dtype
    shape: list[int]
    span: tuple[int, int]


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    fields: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    start = 0
    for name, tensor in tensors.items():
        stop = start + _bytes_of(tensor)
        fields[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(fields, separators=(",", ":")).encode()
    # spaces up to a multiple of eight, so that the data is aligned for readers that map the file
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _read_header(source: Source, size: int, name: str) -> tuple[dict[str, Any], int]:
    if size < _LENGTH_BYTES:
        raise CheckpointError(f"{name}: {size} bytes are too few for a safetensors file")
    length = int.from_bytes(source.read(_LENGTH_BYTES), "little")
    if length > min(size - _LENGTH_BYTES, _MAX_HEADER_BYTES):
        raise CheckpointError(f"{name}: its header claims {length:,} bytes, the file has {size:,}")
    try:
        header = json.loads(source.read(length), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: its header is not valid: {error}") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{name}: its header is not an object")
    return header, size - _LENGTH_BYTES - length


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in names if names.count(key) > 1)}' stands twice")
    return result


def _checked(key: str, value: Any, name: str) -> _Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{name}: tensor '{key}' needs exactly dtype, shape and data_offsets")
    kind = _KINDS.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    shape, span = value["shape"], value["data_offsets"]
    if kind is None:
        raise CheckpointError(f"{name}: tensor '{key}' has the unknown type {value['dtype']!r}")
    if not (_are_counts(shape) and _are_counts(span) and len(span) == 2):
        raise CheckpointError(f"{name}: tensor '{key}' has shape {shape} and offsets {span}; both must be counts")
    if math.prod(shape) * kind.itemsize != span[1] - span[0]:
        raise CheckpointError(f"{name}: tensor '{key}' of shape {shape} does not fill its offsets {span}")
    return _Entry(key, kind, shape, (span[0], span[1]))


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _is_text_map(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def _read_tensor(source: Source, entry: _Entry) -> Tensor:
    tensor = torch.empty(entry.shape, dtype=entry.kind)
    if tensor.numel():
        source.read_into(_view(tensor))
    return tensor


def _view(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
