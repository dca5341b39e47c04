"""One graph whose nodes have features and labels: options, reading, cleaning and splitting, and its files in a run."""

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from headwise.config import Config, DataFile
from headwise.data.files import MAX_LINE_BYTES, digested
from headwise.data.idx import MAX_BYTES, check_size, parse_npz
from headwise.data.splits import SPLITS, hold_out, own_files
from headwise.errors import DataError
from headwise.tasks._files import as_json
from headwise.tasks.graphs.graph_files import (
    Columns,
    NodeTable,
    SparseTable,
    read_archive,
    read_edges,
    read_labels,
    read_table,
)

# of a feature that is not zero, while it is scaled
_SCALED_BYTES = 24

Edges = Int[np.ndarray, "two edges"]


class GraphConfig(Config):
    """Which graph to read, and how."""

    train: DataFile = Field(description="table of the nodes (CSV or TSV with a heading), or an .npz of the whole graph")
    edges: DataFile | None = Field(None, description="edges, source and target on each line; an .npz has its own")
    valid: DataFile | None = Field(None, description="table of the nodes to validate on; otherwise as train says")
    test: DataFile | None = Field(None, description="table of the nodes to test on; otherwise as train says")
    id_column: str = Field("id", description="column of the nodes' names")
    label_column: str = Field("label", description="column of the labels; an empty cell is a node without one")
    split_column: str = Field("split", description="column of train, valid, test or nothing, if there is one")
    ignore: tuple[str, ...] = Field((), description="columns that are no features")
    unknown: Literal["stop", "skip"] = Field("stop", description="an edge of a node that is not in the table")
    undirected: bool = Field(True, description="an edge leads both ways; else its target hears of its source alone")
    self_loops: bool = Field(True, description="every node hears of itself too")
    scale: Literal["none", "rows", "columns"] = Field(
        "none", description="features as they are; of each node summing to 1; or each of mean 0 and deviation 1"
    )
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of the labelled nodes held out to validate")
    test_fraction: float = Field(0.2, ge=0, lt=1, description="part of the labelled nodes held out to test")
    split_seed: int = Field(0, description="another seed gives another split, where the files give none")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")
    max_bytes: int = Field(MAX_BYTES, ge=1, description="an .npz that takes more in memory is refused")

    def columns(self) -> Columns:
        return Columns(self.id_column, self.label_column, self.split_column, self.ignore)


@dataclass(frozen=True, slots=True)
class LabelledNode:
    """A node by its name, its label, and the line (from 1) of the file or the place in it that says so."""

    node: str
    label: str
    line: int


@dataclass(frozen=True)
class Graph:
    """Nodes by name, their features, and edges (source, target), each once, in order of target, then source."""

    ids: list[str]
    features: SparseTable
    edges: Edges

    def degrees(self) -> Int[np.ndarray, "nodes"]:
        """How many others each node hears of, itself not counted."""
        others = self.edges[1][self.edges[0] != self.edges[1]]
        return np.bincount(others, minlength=len(self.ids))

    def files(self) -> dict[str, bytes]:
        """The graph as files of a run: the same bytes for the same graph."""
        stream = io.BytesIO()
        table = self.features
        small = np.int32 if max(len(self.ids), table.width) < 2**31 else np.int64
        # not compressed: other versions of zlib would write other bytes
        np.savez(
            stream,
            start=table.start.astype(np.int64),
            column=table.column.astype(small),
            value=table.value,
            width=np.int64(table.width),
            edges=self.edges.astype(small),
        )
        return {"graph.npz": stream.getvalue(), "nodes.json": as_json(self.ids)}

    @classmethod
    def of(cls, archive: bytes, nodes: bytes) -> "Graph":
        """The graph of such files. Raises: DataError if they are not of one graph."""
        try:
            ids = json.loads(nodes)
            # written without compression: the arrays take what the file has
            arrays = parse_npz(archive, "graph", max_bytes=2 * len(archive))
            width, edges = int(arrays["width"]), arrays["edges"].astype(np.int64)
            start, column = (arrays[key].astype(np.int64) for key in ("start", "column"))
            table = SparseTable(start, column, arrays["value"].astype(np.float32), width)
        except (DataError, ValueError, OverflowError, KeyError, TypeError):
            raise DataError("not the files of a graph") from None
        graph = cls(ids, table, edges)
        if not graph._consistent():
            raise DataError("not the files of one graph")
        return graph

    def _consistent(self) -> bool:
        """Whether names, entries and edges are of the same nodes and features."""
        table, nodes = self.features, len(self.ids) if isinstance(self.ids, list) else -1
        return (
            all(isinstance(name, str) for name in self.ids)
            and table.start.shape == (nodes + 1,)
            and bool((np.diff(table.start) >= 0).all())
            and (table.start[0], table.start[-1]) == (0, len(table.column))
            and table.column.shape == table.value.shape == (len(table.column),)
            and _inside(table.column, table.width)
            and bool(np.isfinite(table.value).all())
            and self.edges.shape == (2, self.edges.shape[-1])
            and _inside(self.edges, nodes)
        )


@dataclass(frozen=True)
class GraphData:
    """A graph, its labelled nodes by split, the digests of its files by key, and what is odd about it."""

    graph: Graph
    splits: dict[str, list[LabelledNode]]
    digests: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_graph(config: GraphConfig) -> GraphData:
    """Reads the files of a graph, cleans its edges, scales its features and splits its labelled nodes.

    Raises: DataError naming file, line and what to do.
    """
    files = own_files(config, ("train", "edges", "valid", "test"))
    with digested(files) as digests:
        table, notes = _table(files["train"], files.get("edges"), config)
        from_files = {key: labelled(files[key], config) for key in SPLITS[1:] if key in files}
    assert table.edges is not None
    edges, of_edges = cleaned(table.edges, config.undirected, config.self_loops)
    if config.scale == "columns":
        # zeros become numbers too
        size = _SCALED_BYTES * len(table.ids) * table.features.width
        what = f"{files['train']}: {len(table.ids):,} nodes of {table.features.width:,} features, scaled by columns"
        check_size(size, what, config.max_bytes)
    graph = Graph(table.ids, scaled(table.features, config.scale), edges)
    splits, of_splits = _split(table, from_files, config, files)
    if not splits["train"]:
        raise DataError(f"{files['train']}: no node to train on has a label; fill the label and the split columns")
    notes += [of_edges, *_of_nodes(graph, table, config), *of_splits]
    return GraphData(graph, splits, digests, tuple(note for note in notes if note))


def labelled(path: Path, config: GraphConfig) -> list[LabelledNode]:
    """The nodes of a table of ids and labels, to validate or to score on. Raises: DataError naming the line."""
    return [LabelledNode(*fields) for fields in read_labels(path, config.columns(), config.max_line_bytes)]


def cleaned(edges: Edges, undirected: bool, self_loops: bool) -> tuple[Int[np.ndarray, "two kept"], str]:
    """Each edge once, both ways if undirected, by target, then source; and a sentence about it.

    Edges from a node to itself are left out where every node gets one anyway.

    >>> cleaned(np.array([[0, 1, 2], [1, 0, 2]]), True, True)
    (array([[1, 0],
           [0, 1]]), 'edges: 3 given, 1 kept (both ways), 1 given again, 1 from a node to itself')
    """
    num_edges, loops = edges.shape[1], edges[0] == edges[1]
    edges = edges[:, ~loops] if self_loops else edges
    ends = np.sort(edges, axis=0) if undirected else edges
    once = np.unique(ends, axis=1) if ends.size else ends
    both = np.concatenate((once, once[::-1][:, once[0] != once[1]]), axis=1) if undirected else once
    order = np.lexsort((both[0], both[1]))
    sentence = f"edges: {num_edges:,} given, {once.shape[1]:,} kept" + (" (both ways)" if undirected else " (one way)")
    repeated = edges.shape[1] - once.shape[1]
    sentence += f", {repeated:,} given again" if repeated else ""
    return both[:, order], sentence + (f", {loops.sum():,} from a node to itself" if loops.any() else "")


def scaled(table: SparseTable, scale: str) -> SparseTable:
    """The features scaled by rows or columns, see `GraphConfig.scale`; a row of zeros and a constant column stay 0."""
    if scale == "rows":
        row = np.repeat(np.arange(len(table.start) - 1), np.diff(table.start))
        total = np.bincount(row, np.abs(table.value), len(table.start) - 1)
        return SparseTable(table.start, table.column, (table.value / total[row]).astype(np.float32), table.width)
    if scale == "columns" and table.width:
        return _of_one_deviation(table)
    return table


def _of_one_deviation(table: SparseTable) -> SparseTable:
    rows, column, value = len(table.start) - 1, table.column, table.value.astype(np.float64)
    mean = np.bincount(column, value, table.width) / rows
    zeros = rows - np.bincount(column, minlength=table.width)
    squares = np.bincount(column, np.square(value - mean[column]), table.width) + zeros * np.square(mean)
    deviation, largest = np.sqrt(squares / rows), np.ones(table.width)
    np.maximum.at(largest, column, np.abs(value))
    constant = deviation < 1e-12 * largest
    deviation[constant] = 1.0
    return SparseTable.concatenate((part - mean) / deviation * ~constant for part in table.parts())


def _table(nodes: Path, edges: Path | None, config: GraphConfig) -> tuple[NodeTable, list[str]]:
    if nodes.suffix == ".npz":
        if edges is not None:
            raise DataError(f"{nodes}: an archive has edges of its own; leave data.edges out")
        return read_archive(nodes, config.max_bytes), []
    table = read_table(nodes, config.columns(), config.max_line_bytes)
    if edges is None:
        raise DataError(f"{nodes}: a table of nodes has no edges; name their file in data.edges")
    number = {name: place for place, name in enumerate(table.ids)}
    skip = config.unknown == "skip"
    pairs, lost, wider = read_edges(edges, number, skip_unknown=skip, max_line_bytes=config.max_line_bytes)
    notes = [f"{edges.name}: {lost:,} edges of nodes that are not in the table are left out"] if lost else []
    notes += [f"{edges.name}: only the first two columns are read"] if wider else []
    return NodeTable(table.ids, table.features, table.labels, table.splits, pairs), notes


def _of_nodes(graph: Graph, table: NodeTable, config: GraphConfig) -> list[str]:
    nodes, features = len(graph.ids), graph.features
    notes = [f"nodes: {nodes:,}, {sum(map(bool, table.labels)):,} with a label, {features.width:,} features each"]
    if not features.width:
        notes[0] = (
            notes[0].partition(" features")[0].rpartition(", ")[0] + ", no features: each has a vector of its own"
        )
    alone = int((graph.degrees() == 0).sum())
    hears = "itself alone" if config.self_loops else "none, and gives zeros"
    return [*notes, f"{alone:,} nodes have no edge to another: each hears of {hears}" if alone else ""]


def _split(
    table: NodeTable, from_files: dict[str, list[LabelledNode]], config: GraphConfig, files: dict[str, Path]
) -> tuple[dict[str, list[LabelledNode]], list[str]]:
    """The labelled nodes by split: of files of their own, as the table says, or drawn by name."""
    ids = set(table.ids)
    for key, nodes in from_files.items():
        for item in nodes:
            if item.node not in ids:
                raise DataError(f"{files[key]}:{item.line}: node '{item.node}' is not in {files['train'].name}; add it")
    file_nodes = {item.node for nodes in from_files.values() for item in nodes}
    rest = [
        LabelledNode(name, label, place)
        for place, (name, label) in enumerate(zip(table.ids, table.labels, strict=True), 1)
        if label and name not in file_nodes
    ]
    notes = []
    if table.splits is None:
        splits = hold_out({"train": rest, **from_files}, config, lambda item: item.node, "labelled nodes")
    else:
        of = dict(zip(table.ids, table.splits, strict=True))
        splits = {split: [item for item in rest if of[item.node] == split] for split in SPLITS}
        bare = Counter(split for split, label in zip(table.splits, table.labels, strict=True) if split and not label)
        notes = [f"{split}: {count:,} nodes of it have no label and do not count" for split, count in bare.items()]
    return splits | from_files, notes + _of_labels(splits | from_files)


def _of_labels(splits: dict[str, list[LabelledNode]]) -> list[str]:
    """How many nodes and labels a split has, and which labels training lacks."""
    trained = Counter(item.label for item in splits["train"])
    notes = [f"train: {trained.total():,} nodes of {len(trained):,} labels"]
    for split in SPLITS[1:]:
        others = Counter(item.label for item in splits[split] if item.label not in trained)
        if splits[split]:
            notes.append(f"{split}: {len(splits[split]):,} nodes")
        if others:
            named = ", ".join(f"{label} ({count:,})" for label, count in others.most_common(5))
            more = ", ..." if len(others) > 5 else ""
            notes.append(f"{split}: labels that training lacks, so that they cannot be got right: {named}{more}")
    return notes


def _inside(numbers: np.ndarray, count: int) -> bool:
    return not numbers.size or bool(numbers.min() >= 0 and numbers.max() < count)
