"""Tensors as safetensors files: written tensor by tensor, so that none is copied; read by the library."""

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from headwise.errors import CheckpointError, ConfigError
from headwise.runs.commits import Sink

KINDS = {
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
KIND_NAMES = {kind: name for name, kind in KINDS.items()}
_METADATA, _OURS = "__metadata__", "headwise"
_LENGTH_BYTES = 8


@runtime_checkable
class Source(Protocol):
    """Where bytes come from: `read` gives exactly the size asked."""

    def read(self, size: int) -> bytes: ...


class TensorFile:
    """Tensors by name as the content of a safetensors file; `metadata` is text by name.

    Written tensor by tensor: beside the tensors themselves, memory holds a copy of one of them, and of none that lies
    on the processor in its order.

    >>> TensorFile({"weight": torch.zeros(2, 3)}, {}).size
    96
    """

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        # the widest first, as the format's own library writes them, so that each lies where its type may be read
        self._tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])))
        self._metadata = dict(metadata)
        self._header = self._made_header()
        # of tensors that processes share, how many were put together for the writing that is under way
        self._gathered = 0

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """What it holds by name."""
        return self._tensors

    @property
    def metadata(self) -> Mapping[str, str]:
        """Its text by name."""
        return self._metadata

    @property
    def is_shared(self) -> bool:
        """Whether processes share any of its tensors."""
        return any(hasattr(tensor, "device_mesh") for tensor in self._tensors.values())

    def copy(self) -> "TensorFile":
        """The same content, which later changes of the tensors do not touch."""
        return TensorFile({name: tensor.detach().clone() for name, tensor in self._tensors.items()}, self._metadata)

    @property
    def size(self) -> int:
        return len(self._header) + sum(map(_bytes, self._tensors.values()))

    def write_to(self, sink: Sink) -> None:
        sink.write(self._header)
        for tensor in self._tensors.values():
            made = at_first(tensor.detach())
            self._gathered += 1
            # as bytes: a view, without type
            sink.write(made.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
            # before the next one is put together
            del made

    def take_part(self) -> None:
        """What the other processes do while the first writes: each sends its rows of shared tensors, one at a time.

        In the process that writes, what is left of that when the writing failed, so that nobody waits for it.
        """
        for tensor in list(self._tensors.values())[self._gathered :]:
            at_first(tensor.detach())
        self._gathered = 0

    def _made_header(self) -> bytes:
        # as one entry the metadata have one form, whatever order a reader or writer keeps
        ours = {_OURS: json.dumps(self._metadata, sort_keys=True)} if self._metadata else {}
        header: dict[str, Any] = {_METADATA: ours} if ours else {}
        end = 0
        for name, tensor in self._tensors.items():
            begin, end = end, end + _bytes(tensor)
            if (kind := KIND_NAMES.get(tensor.dtype)) is None:
                raise ConfigError(f"'{name}' is {tensor.dtype}, a type that checkpoints do not hold")
            header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % _LENGTH_BYTES)
        return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def read_tensors(source: Source, size: int, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file of `size` bytes that `source` delivers from its beginning.

    Memory: twice the file; the library refuses a header that does not fit the file before it makes tensors.

    Raises:
        CheckpointError: naming the file as `name`, for a header that is wrong in any way.
    """
    content = source.read(size)
    try:
        tensors = load(content)
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        metadata = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length]).get(_METADATA, {})
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        # PyTorch's own errors go on with the places of its code
        raise CheckpointError(f"{name}: {str(error).splitlines()[0]}") from None
    for key, tensor in tensors.items():
        if tensor.dtype not in KIND_NAMES:
            raise CheckpointError(f"{name}: tensor '{key}' is {tensor.dtype}, a type that checkpoints do not hold")
    return tensors, _metadata(metadata, name)


def local(tensor: Tensor) -> Tensor:
    """What this process has of a tensor: of one that processes share its part, without a copy."""
    found: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return found


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor: one that processes share is put together, which all of them must ask for."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found


def at_first(tensor: Tensor) -> Tensor:
    """All of a tensor in the first process, to which all others send what they have; these get their own back.

    Memory: one whole tensor in the first, nothing in the others; `full_tensor` takes two in each.
    """
    if not hasattr(tensor, "device_mesh"):
        return tensor
    import torch.distributed as distributed

    own, rank, world = local(tensor).contiguous(), distributed.get_rank(), distributed.get_world_size()
    if rank:
        if own.numel():
            distributed.send(own, 0)
        return own
    made = torch.empty(tensor.shape, dtype=tensor.dtype, device=own.device)
    # the rows that `fully_shard` gives to each: as many as `chunk` does, perhaps none to the last ones
    for other, rows in enumerate(made.chunk(world) if made.numel() else ()):
        if other:
            distributed.recv(rows, other)
        else:
            rows.copy_(own)
    return made


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors of which this process has NaN or infinity; one pass without temporary memory."""
    return [name for name, tensor in tensors.items() if not is_finite(tensor)]


def is_finite(tensor: Tensor) -> bool:
    """True when every element is a finite number; integers always are."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    held = local(tensor.detach())
    if not held.numel():
        return True
    low, high = torch.aminmax(held)
    return math.isfinite(low.item()) and math.isfinite(high.item())


def _metadata(entries: Any, name: str) -> dict[str, str]:
    try:
        values = json.loads(entries.get(_OURS, "{}"))
    except (AttributeError, TypeError, ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise CheckpointError(f"{name}: the metadata in its header is not text by name")
    return values
