"""Files of graphs: tables of nodes, lists of edges, NumPy archives; every fault is an error with its place."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from headwise.data.bad_lines import strict
from headwise.data.files import MAX_LINE_BYTES, first_line, read_lines, require_file
from headwise.data.idx import EACH_BYTES, MAX_BYTES, check_size, parse_npz
from headwise.data.splits import SPLITS
from headwise.data.tables import Key, Row, Table, heading, scan_rows
from headwise.errors import DataError, listing, unknown

# other words for a split, as files have them
_SPLIT_NAMES = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "dev": "valid"}
_SPLIT_NAMES |= {"test": "test", "": ""}
# a first line of an edge list that holds two of these, and no node, is a heading
_HEADINGS = frozenset(["source", "target", "src", "dst", "from", "to", "u", "v", "node1", "node2", "citing", "cited"])
# keys that say what columns are called
_NAMED_BY = "data.id_column, data.label_column and data.ignore"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class SparseTable:
    """Numbers by row and column as the entries that are not zero, row by row; `start` has one place more than rows."""

    start: Int[np.ndarray, "ends"]
    column: Int[np.ndarray, "entries"]
    value: Float[np.ndarray, "entries"]
    width: int

    @classmethod
    def of(cls, dense: Float[np.ndarray, "rows columns"]) -> "SparseTable":
        step = _rows_at_once(dense.shape[1])
        return cls.concatenate([dense[:0], *(dense[at : at + step] for at in range(0, len(dense), step))])

    @classmethod
    def concatenate(cls, parts: Iterable[Float[np.ndarray, "_ columns"]]) -> "SparseTable":
        """The table of dense arrays one below another, one of which is in memory at a time."""
        counts, columns, values, width = [np.zeros(1, np.int64)], [], [], 0
        for part in parts:
            row, column = np.nonzero(part)
            counts.append(np.bincount(row, minlength=len(part)))
            columns.append(column)
            values.append(part[row, column].astype(np.float32))
            width = part.shape[1]
        return cls(np.cumsum(np.concatenate(counts)), np.concatenate(columns), np.concatenate(values), width)

    def parts(self) -> Iterator[Float[np.ndarray, "rows columns"]]:
        """Some rows after another, with their zeros."""
        rows, step = len(self.start) - 1, _rows_at_once(self.width)
        for at in range(0, rows, step):
            start = self.start[at : min(rows, at + step) + 1]
            own = slice(start[0], start[-1])
            dense = np.zeros((len(start) - 1, self.width), np.float32)
            dense[np.repeat(np.arange(len(dense)), np.diff(start)), self.column[own]] = self.value[own]
            yield dense

    def dense(self) -> Float[np.ndarray, "rows columns"]:
        return np.concatenate([np.zeros((0, self.width), np.float32), *self.parts()])


def _rows_at_once(width: int) -> int:
    return max(1, (1 << 20) // max(1, width))


@dataclass(frozen=True)
class NodeTable:
    """What a file says of the nodes, in its order.

    Args:
        labels: empty where a node has none.
        splits: "train", "valid", "test" or empty; None where the file says nothing of them.
        edges: (source, target) numbers of nodes, where the file holds them.
    """

    ids: list[str]
    features: SparseTable
    labels: list[str]
    splits: list[str] | None
    edges: Int[np.ndarray, "two edges"] | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by what they are; all others are features, but those to ignore."""

    node: str = "id"
    label: str = "label"
    split: str = "split"
    ignored: tuple[str, ...] = ()


def read_table(path: Path, columns: Columns, max_line_bytes: int = MAX_LINE_BYTES) -> NodeTable:
    """The nodes of a CSV or TSV file with a heading: id, label, perhaps a split; every other column is a feature.

    Raises: DataError naming the line.
    """
    table = table_of(path, max_line_bytes)
    names = heading(path, table)
    others = {columns.node, columns.label, columns.split, *columns.ignored}
    features = [name for name in names if name not in others]
    has_splits = columns.split in names
    lines: dict[str, int] = {}
    labels, splits, numbers = [], [], array("d")
    for row in _rows(path, table, [columns.node, columns.label, *columns.ignored, *features], [columns.split]):
        at = f"{path}:{row.line}"
        _add_node(at, row.cells[columns.node], lines, row.line)
        labels.append(row.cells[columns.label])
        splits.append(_split(at, row.cells[columns.split]) if has_splits else "")
        numbers.extend(_number(at, name, row.cells[name]) for name in features)
    if not lines:
        raise DataError(f"{path}: no nodes below the heading")
    dense = np.frombuffer(numbers, np.float64).reshape(len(lines), len(features))
    return NodeTable(list(lines), SparseTable.of(dense), labels, splits if has_splits else None)


def read_labels(path: Path, columns: Columns, max_line_bytes: int = MAX_LINE_BYTES) -> list[tuple[str, str, int]]:
    """(id, label, line) of each node of a table; other columns are not read. Raises: DataError naming the line."""
    lines: dict[str, int] = {}
    nodes = []
    for row in _rows(path, table_of(path, max_line_bytes), [columns.node, columns.label]):
        node, label = row.cells[columns.node], row.cells[columns.label]
        at = f"{path}:{row.line}"
        _add_node(at, node, lines, row.line)
        if not label:
            raise DataError(f"{at}: node '{node}' has no label to compare with; write one or remove the line")
        nodes.append((node, label, row.line))
    if not nodes:
        raise DataError(f"{path}: no nodes below the heading")
    return nodes


def read_ids(path: Path, columns: Columns, max_line_bytes: int = MAX_LINE_BYTES) -> list[str]:
    """The ids of a file to label: the id column of a table, or the only cell of each line where there is no heading.

    Raises: DataError naming the line.
    """
    table = table_of(path, max_line_bytes)
    names = heading(path, table)
    key: Key = columns.node if columns.node in names or len(names) > 1 else 0
    ids = []
    for row in _rows(path, table, [key]):
        if not row.cells[key]:
            raise DataError(f"{path}:{row.line}: the id is empty; write it or remove the line")
        ids.append(row.cells[key])
    return ids


def table_of(path: Path, max_line_bytes: int, named_by: str = _NAMED_BY) -> Table:
    """How a table is read: separated by tabs if the first line has one, else by commas, with CSV's quotes."""
    kind = "tsv" if "\t" in first_line(path, max_line_bytes) else "csv"
    return Table(kind, ",", max_line_bytes, named_by, numbered=False)


def _rows(path: Path, table: Table, keys: Sequence[Key], optional: Sequence[Key] = ()) -> Iterator[Row]:
    """The rows of a table, spaces around a cell dropped. Raises: DataError naming the line."""
    for row in strict(scan_rows(path, table, keys, optional)):
        yield Row(row.line, {key: cell.strip() for key, cell in row.cells.items()})


def read_edges(
    path: Path, number: Mapping[str, int], *, skip_unknown: bool, max_line_bytes: int = MAX_LINE_BYTES
) -> tuple[Int[np.ndarray, "two edges"], int, int]:
    """An edge list: source and target on each line, between tabs, commas or spaces; further columns are not read.

    Lines that begin with `#` are comments. A first line of two column names is a heading.

    Args:
        number: of each node, by its id.
        skip_unknown: leave out edges of other nodes; else they are errors.

    Returns: the edges by number, how many were left out, how many lines have further columns.

    Raises: DataError naming the line.
    """
    separator: str | None = None
    edges, lost, wider, first = array("q"), 0, 0, True
    for line, text in read_lines(path, max_line_bytes=max_line_bytes):
        if not text.strip() or text.startswith("#"):
            continue
        if first:
            separator = "\t" if "\t" in text else "," if "," in text else None
        cells = [cell.strip().strip('"') for cell in text.split(separator)]
        heading = (
            first and not any(cell in number for cell in cells) and _HEADINGS.issuperset(map(str.lower, cells[:2]))
        )
        first = False
        if heading and len(cells) > 1:
            continue
        if len(cells) < 2 or not (cells[0] and cells[1]):
            raise DataError(f"{path}:{line}: an edge is a source and a target between tabs, commas or spaces")
        wider += len(cells) > 2
        missing = [cell for cell in cells[:2] if cell not in number]
        if missing and not skip_unknown:
            what = f'no node "{missing[0][:40]}" is in the table; add it, or set data.unknown = "skip"'
            raise DataError(f"{path}:{line}: {what}")
        lost += bool(missing)
        if not missing:
            edges.extend((number[cells[0]], number[cells[1]]))
    return np.array(edges, np.int64).reshape(-1, 2).T, lost, wider


def _add_node(at: str, name: str, lines: dict[str, int], line: int) -> None:
    if not name:
        raise DataError(f"{at}: the id is empty; give every node one")
    if name in lines:
        raise DataError(f"{at}: node '{name}' is in line {lines[name]} too; keep one of them")
    lines[name] = line


def _split(at: str, cell: str) -> str:
    split = _SPLIT_NAMES.get(cell.lower())
    if split is None:
        raise DataError(f"{at}: {unknown('split', cell, [*SPLITS])}; leave it empty for a node of none")
    return split


def _number(at: str, name: str, cell: str) -> float:
    try:
        # Python alone reads 1_000 as a number
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        what = f"'{cell[:20]}' is no number of 32 bits" if cell else "is empty"
        raise DataError(f"{at}: feature '{name}': {what}; write one, or name the column in data.ignore")
    return value


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
    labels = _integers(path, arrays, "y")
    nodes = len(labels)
    if labels.ndim != 1 or not nodes:
        raise DataError(f"{path}: y {labels.shape} must be one class for each node, -1 where there is none")
    check_size(nodes * EACH_BYTES, f"{path}: y has {nodes:,} nodes", max_bytes)
    texts = ["" if label < 0 else str(label) for label in labels.tolist()]
    features = _features(path, arrays, nodes)
    check_size(features.width * EACH_BYTES, f"{path}: x has {features.width:,} columns", max_bytes)
    return NodeTable(
        [str(node) for node in range(nodes)], features, texts, _splits(path, arrays, nodes), _edges(path, arrays, nodes)
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
    start, column, shape = (_integers(path, arrays, f"x_{key}").ravel() for key in ("indptr", "indices", "shape"))
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
    edges = _integers(path, arrays, name)
    shape, axis = ("(2, edges)", 0) if name == "edge_index" else ("(edges, 2)", 1)
    if edges.ndim != 2 or edges.shape[axis] != 2:
        raise DataError(f"{path}: {name} {edges.shape} must be {shape}: source and target")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise DataError(f"{path}: {name} name nodes {edges.min()} to {edges.max()}, but y has nodes 0 to {nodes - 1}")
    return edges if axis == 0 else edges.T


def _splits(path: Path, arrays: Arrays, nodes: int) -> list[str] | None:
    splits = np.full(nodes, "", dtype="U5")
    has_splits = False
    for split in SPLITS:
        keys = [
            f"{name}_{form}" for name in _SPLIT_KEYS[split] for form in ("idx", "mask") if f"{name}_{form}" in arrays
        ]
        for key in keys:
            place = _places(path, arrays, key, nodes)
            if (splits[place] != "").any():
                raise DataError(f"{path}: {key} has nodes of another split; give each node to one")
            splits[place], has_splits = split, True
    return splits.tolist() if has_splits else None


def _places(path: Path, arrays: Arrays, key: str, nodes: int) -> np.ndarray:
    if key.endswith("_mask"):
        mask = arrays[key]
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise DataError(f"{path}: {key} {mask.shape} {mask.dtype} must be a bool for each of the {nodes:,} nodes")
        return np.flatnonzero(mask)
    numbers = _integers(path, arrays, key).ravel()
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < nodes:
        raise DataError(f"{path}: {key} names node {numbers.max()}, but y has nodes 0 to {nodes - 1}")
    return numbers


def _integers(path: Path, arrays: Arrays, name: str) -> np.ndarray:
    if name not in arrays:
        raise DataError(f"{path}: no array '{name}'; it has: {listing(sorted(arrays)) or 'none'}")
    numbers = arrays[name]
    if numbers.dtype.kind not in "iu":
        raise DataError(f"{path}: {name} is {numbers.dtype}; give whole numbers")
    return numbers.astype(np.int64)


def _check_values(path: Path, name: str, values: np.ndarray) -> None:
    # NaN is no bound of anything
    if values.size and not -_LARGEST <= float(values.min()) <= float(values.max()) <= _LARGEST:
        raise DataError(f"{path}: {name} has NaN, infinite or huge numbers; replace them")
