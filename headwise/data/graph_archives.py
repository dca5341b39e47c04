"""Graphs in NumPy archives (.npz): features dense or sparse, edges, labels and splits as arrays, each checked."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Int

from headwise.data.files import require_file
from headwise.data.graph_files import SPLITS, NodeTable, SparseTable
from headwise.data.idx import EACH_BYTES, MAX_BYTES, check_size, parse_npz
from headwise.errors import DataError, listing

# a number of the graph, wherever it is from: as it is read, and as a graph has it
_NUMBER_BYTES = 16
_SPLIT_KEYS = {"train": ("train",), "valid": ("val", "valid"), "test": ("test",)}

Arrays = Mapping[str, np.ndarray]


def read_archive(path: Path, max_bytes: int = MAX_BYTES) -> NodeTable:
    """The graph of an archive; nodes are named by their numbers, from 0.

    `x` (nodes, features), or its entries as `x_indptr`, `x_indices`, `x_shape` and perhaps `x_values` (all 1 without);
    `edges` (edges, 2), or `edge_index` (2, edges): source and target; `y` (nodes), -1 for a node without a label;
    perhaps `train_idx`, `val_idx` and `test_idx`, numbers of nodes, or `train_mask`, ... (nodes) of bool.

    Raises: DataError naming the array; for a graph that takes more than `max_bytes`, before it is unpacked.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    require_file(path)
    arrays = parse_npz(path, str(path), max_bytes=max_bytes, least=_NUMBER_BYTES)
    labels = _whole(path, arrays, "y")
    nodes = len(labels)
    if labels.ndim != 1 or not nodes:
        raise DataError(f"{path}: y {labels.shape} must be one class for each node, -1 where there is none")
    check_size(nodes * EACH_BYTES, f"{path}: y has {nodes:,} nodes", max_bytes)
    texts = ["" if label < 0 else str(label) for label in labels.tolist()]
    features = _features(path, arrays, nodes)
    check_size(features.width * EACH_BYTES, f"{path}: x has {features.width:,} columns", max_bytes)
    return NodeTable(
        [str(node) for node in range(nodes)],
        features,
        texts,
        _splits(path, arrays, nodes),
        _edges(path, arrays, nodes),
    )


def _features(path: Path, arrays: Arrays, nodes: int) -> SparseTable:
    if "x" in arrays:
        dense = arrays["x"]
        if dense.ndim != 2 or len(dense) != nodes or dense.dtype.kind not in "fiub":
            raise DataError(f"{path}: x {dense.shape} {dense.dtype} must be numbers (nodes, features); y has {nodes:,}")
        _check_values(path, "x", dense)
        return SparseTable.of(dense)
    if "x_indptr" not in arrays:
        # no features: each node is known by itself
        return SparseTable(np.zeros(nodes + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), 0)
    start, column, shape = (_whole(path, arrays, f"x_{key}").ravel() for key in ("indptr", "indices", "shape"))
    if shape.shape != (2,) or shape[0] != nodes or shape[1] < 0:
        raise DataError(f"{path}: x_shape {shape.tolist()} must be (nodes, features); y has {nodes:,} nodes")
    if len(start) != nodes + 1 or start[0] != 0 or start[-1] != len(column) or (np.diff(start) < 0).any():
        raise DataError(f"{path}: x_indptr must rise from 0 to the {len(column):,} entries of x_indices, a row a node")
    if len(column) and not 0 <= column.min() <= column.max() < shape[1]:
        raise DataError(f"{path}: x_indices run to {column.max()}, but x_shape has {shape[1]} features")
    value = np.asarray(arrays.get("x_values", np.ones(len(column))))
    if value.shape != column.shape or value.dtype.kind not in "fiub":
        raise DataError(f"{path}: x_values {value.shape} must be a number for each of the {len(column):,} x_indices")
    _check_values(path, "x_values", value)
    return SparseTable(start, column, value.astype(np.float32), int(shape[1]))


def _edges(path: Path, arrays: Arrays, nodes: int) -> Int[np.ndarray, "two edges"]:
    name = "edge_index" if "edge_index" in arrays else "edges"
    edges = _whole(path, arrays, name)
    wanted, axis = ("(2, edges)", 0) if name == "edge_index" else ("(edges, 2)", 1)
    if edges.ndim != 2 or edges.shape[axis] != 2:
        raise DataError(f"{path}: {name} {edges.shape} must be {wanted}: source and target")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise DataError(f"{path}: {name} name nodes {edges.min()} to {edges.max()}, but y has nodes 0 to {nodes - 1}")
    return edges if axis == 0 else edges.T


def _splits(path: Path, arrays: Arrays, nodes: int) -> list[str] | None:
    splits = np.full(nodes, "", dtype="U5")
    found = False
    for split in SPLITS:
        keys = [
            f"{name}_{form}" for name in _SPLIT_KEYS[split] for form in ("idx", "mask") if f"{name}_{form}" in arrays
        ]
        for key in keys:
            place = _places(path, arrays, key, nodes)
            if (splits[place] != "").any():
                raise DataError(f"{path}: {key} has nodes of another split; give each node to one")
            splits[place], found = split, True
    return splits.tolist() if found else None


def _places(path: Path, arrays: Arrays, key: str, nodes: int) -> np.ndarray:
    if key.endswith("_mask"):
        mask = arrays[key]
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise DataError(f"{path}: {key} {mask.shape} {mask.dtype} must be a bool for each of the {nodes:,} nodes")
        return np.flatnonzero(mask)
    numbers = _whole(path, arrays, key).ravel()
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < nodes:
        raise DataError(f"{path}: {key} names node {numbers.max()}, but y has nodes 0 to {nodes - 1}")
    return numbers


def _whole(path: Path, arrays: Arrays, name: str) -> np.ndarray:
    """An array of whole numbers."""
    if name not in arrays:
        raise DataError(f"{path}: no array '{name}'; it has: {listing(sorted(arrays)) or 'none'}")
    found = arrays[name]
    if found.dtype.kind not in "iu":
        raise DataError(f"{path}: {name} is {found.dtype}; give whole numbers")
    return found.astype(np.int64)


def _check_values(path: Path, name: str, values: np.ndarray) -> None:
    # NaN is no bound of anything
    if values.size and not -_LARGEST <= float(values.min()) <= float(values.max()) <= _LARGEST:
        raise DataError(f"{path}: {name} has NaN, infinite or huge numbers; replace them")
