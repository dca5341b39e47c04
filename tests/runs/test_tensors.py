"""Tensor files: the same bits back, readable by the format's own library, and every crooked header refused."""

import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load as library_load
from safetensors.torch import save as library_save

from headwise.errors import CheckpointError
from headwise.runs.commits import commit_file
from headwise.runs.tensors import TensorFile, is_finite, not_finite, read_tensors

TENSORS = {
    "b.weight": torch.randn(3, 5),
    "a.weight": torch.randn(2, 7, dtype=torch.float64),
    "half": torch.randn(3).half(),
    "brain": torch.randn(3, 3).bfloat16(),
    "count": torch.tensor(12),
    "flags": torch.tensor([True, False, True]),
    "none": torch.zeros(0, 3),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "turned": torch.randn(5, 3).mT,
}


def _read(data):
    return read_tensors(data, "model.safetensors")


def _bytes(tmp_path, content):
    commit_file(tmp_path / "file.safetensors", content)
    return (tmp_path / "file.safetensors").read_bytes()


def _crooked(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_round_trip_and_the_library_reads_it(tmp_path):
    content = TensorFile(TENSORS, {"tied": "{}"})
    data = _bytes(tmp_path, content)
    assert len(data) == content.size
    back, metadata = _read(data)
    assert metadata == {"tied": "{}"}
    library = library_load(data)
    with safe_open(tmp_path / "file.safetensors", "pt") as opened:
        assert opened.metadata() == {"headwise": '{"tied": "{}"}'}
    for name, tensor in TENSORS.items():
        for found in (back[name], library[name]):
            assert found.dtype == tensor.dtype
            assert torch.equal(found, tensor)


def test_files_of_the_library_are_read():
    tensors = {name: tensor.contiguous() for name, tensor in TENSORS.items()}
    back, metadata = _read(library_save(tensors))
    assert metadata == {}
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor)


def test_a_copy_keeps_its_values():
    weight = torch.zeros(3)
    copied = TensorFile({"w": weight}, {}).copy()
    weight += 1
    assert copied._tensors["w"].sum() == 0


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0",
        _crooked({}, length=2**60),
        _crooked({}, length=200_000_000),
        _crooked(b"{no"),
        _crooked(b"[" * 100_000),
        _crooked(b"[]"),
        _crooked(b'{"a": 1, "a": 2}'),
        _crooked({"__metadata__": {"headwise": "[1]"}}),
        _crooked({"__metadata__": {"headwise": "[" * 100_000}}),
        _crooked({"__metadata__": {"headwise": 1}}),
        _crooked({"w": {"dtype": "F32"}}),
        _crooked({"w": {**ENTRY, "dtype": "F31"}}, bytes(8)),
        _crooked({"w": {**ENTRY, "dtype": "F8_E4M3", "shape": [8]}}, bytes(8)),
        _crooked({"w": {**ENTRY, "dtype": ["F32"]}}, bytes(8)),
        _crooked({"w": {**ENTRY, "shape": [-2]}}, bytes(8)),
        _crooked({"w": {**ENTRY, "shape": [True, 2]}}, bytes(8)),
        _crooked({"w": {**ENTRY, "shape": [0, 1 << 63], "data_offsets": [0, 0]}}),
        _crooked({"w": {**ENTRY, "shape": [10**9]}}, bytes(8)),
        _crooked({"w": {**ENTRY, "shape": [2**40, 2**40]}}, bytes(8)),
        _crooked({"w": ENTRY, "v": ENTRY}, bytes(8)),
        _crooked({"w": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)),
        _crooked({"w": ENTRY}, bytes(7)),
        _crooked({"w": ENTRY}, bytes(9)),
        _crooked({"w": {**ENTRY, "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}, b""),
    ],
)
def test_crooked_files_are_refused_before_anything_is_allocated(data):
    with pytest.raises(CheckpointError, match=r"^model.safetensors: "):
        _read(data)


def test_finite_or_not():
    assert is_finite(torch.zeros(0))
    assert is_finite(torch.tensor([True]))
    good = {"a": torch.ones(3), "n": torch.tensor([1, 2])}
    bad = {"b": torch.tensor([1.0, float("nan")]), "c": torch.tensor([float("-inf")]).bfloat16()}
    assert not_finite({**good, **bad}) == ["b", "c"]
