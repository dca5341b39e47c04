"""Tensors as safetensors files."""

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as distributed
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from headwise.errors import CheckpointError, ConfigError
from headwise.runs.commits import Sink

DTYPES = {
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
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_METADATA, _OURS = "__metadata__", "headwise"
_LENGTH_BYTES = 8


class TensorFile:
    """Tensors by name as the content of a safetensors file; `metadata` is text by name.

    Written tensor by tensor. Memory: a copy of one tensor that is not contiguous on the CPU.

    >>> TensorFile({"weight": torch.zeros(2, 3)}, {}).size
    96
    """

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        # the widest first, as the format's own library writes them, so that each is aligned for its type
        self._tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])))
        self._metadata = dict(metadata)
        self._header = self._build_header()
        # how many tensors `write_to` has gathered
        self._gathered = 0

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._tensors

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._metadata

    @property
    def is_shared(self) -> bool:
        """Whether processes share any of its tensors."""
        return any(hasattr(tensor, "device_mesh") for tensor in self._tensors.values())

    def copy(self) -> "TensorFile":
        """The same content in copies of the tensors."""
        return TensorFile({name: tensor.detach().clone() for name, tensor in self._tensors.items()}, self._metadata)

    @property
    def size(self) -> int:
        return len(self._header) + sum(map(_bytes, self._tensors.values()))

    def write_to(self, sink: Sink) -> None:
        sink.write(self._header)
        for tensor in self._tensors.values():
            gathered = gather_at_first(tensor.detach())
            self._gathered += 1
            # as bytes: a view, without type
            sink.write(gathered.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
            # before the next one is gathered
            del gathered

    def send_rows(self) -> None:
        """Called by the other processes while the first writes: sends their rows of shared tensors, one at a time.

        In the first process it receives the remaining rows after a write that failed, so that no process waits.
        """
        for tensor in list(self._tensors.values())[self._gathered :]:
            gather_at_first(tensor.detach())
        self._gathered = 0

    def _build_header(self) -> bytes:
        # as one entry the metadata have one form, in whatever order a reader or writer keeps keys
        ours = {_OURS: json.dumps(self._metadata, sort_keys=True)} if self._metadata else {}
        header: dict[str, Any] = {_METADATA: ours} if ours else {}
        end = 0
        for name, tensor in self._tensors.items():
            begin, end = end, end + _bytes(tensor)
            if (dtype := DTYPE_NAMES.get(tensor.dtype)) is None:
                raise ConfigError(f"'{name}' is {tensor.dtype}, a type that checkpoints do not hold")
            header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % _LENGTH_BYTES)
        return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def read_tensors(content: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file; the library compares its header with its size first.

    Raises: CheckpointError: naming the file as `name`, for a wrong header or a type that checkpoints do not hold.
    """
    try:
        tensors = load(content)
        header = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")])
        metadata = json.loads(header.get(_METADATA, {}).get(_OURS, "{}"))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        # errors of PyTorch go on with places in its code
        raise CheckpointError(f"{name}: is no valid safetensors file: {str(error).splitlines()[0]}") from None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{name}: the metadata in its header is not text by name")
    if unknown := [key for key, tensor in tensors.items() if tensor.dtype not in DTYPE_NAMES]:
        raise CheckpointError(
            f"{name}: '{unknown[0]}' is {tensors[unknown[0]].dtype}, a type that checkpoints do not hold"
        )
    return tensors, metadata


def local(tensor: Tensor) -> Tensor:
    """The rows of this process of a tensor that processes share, without a copy; else the tensor."""
    rows: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return rows


def shard_rows(rows: int, rank: int, world: int) -> tuple[int, int]:
    """The rows, from and to, that `fully_shard` gives to a process: as `chunk` does, perhaps none to the last ones.

    >>> [shard_rows(4, rank, 3) for rank in range(3)]
    [(0, 2), (2, 4), (4, 4)]
    """
    count = -(-rows // world)
    return min(rank * count, rows), min((rank + 1) * count, rows)


def gather_at_first(tensor: Tensor) -> Tensor:
    """All of a tensor in the first process, to which all others send their rows; these get their own rows back.

    Memory: one whole tensor in the first, nothing in the others; `full_tensor` takes two in each.
    """
    if not hasattr(tensor, "device_mesh"):
        return tensor
    own, rank, world = local(tensor).contiguous(), distributed.get_rank(), distributed.get_world_size()
    if rank:
        if own.numel():
            distributed.send(own, 0)
        return own
    gathered = torch.empty(tensor.shape, dtype=tensor.dtype, device=own.device)
    for sender in range(world if gathered.numel() else 0):
        first, end = shard_rows(len(gathered), sender, world)
        if sender == 0:
            gathered[first:end].copy_(own)
        elif first < end:
            distributed.recv(gathered[first:end], sender)
    return gathered


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors with NaN or infinity in the rows of this process; one pass without temporary memory."""
    return [name for name, tensor in tensors.items() if not is_finite(tensor)]


def is_finite(tensor: Tensor) -> bool:
    """True when every element is a finite number; integers always are."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    rows = local(tensor.detach())
    if not rows.numel():
        return True
    low, high = torch.aminmax(rows)
    return math.isfinite(low.item()) and math.isfinite(high.item())
