"""A graph from its files: edges cleaned, features scaled, nodes split, everything odd told; kept with a run."""

import io

import numpy as np
import pytest

from headwise.config import build
from headwise.errors import DataError
from headwise.tasks.graphs.graph_files import SparseTable
from headwise.tasks.graphs.graphs import Graph, GraphConfig, cleaned, read_graph, scaled

NODES = "id,f,g,label,split\na,1,0,x,train\nb,0,2,y,train\nc,0,0,x,valid\nd,3,1,z,test\ne,1,1,,train\nf,1,1,y,\n"
EDGES = "a,b\nb,a\nb,c\nc,c\nb,c\nd,c\n"


@pytest.fixture
def make(tmp_path):
    def made(nodes=NODES, edges=EDGES, **fields):
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        values = {"train": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv"), **fields}
        return build(GraphConfig, values, "data")

    return made


def test_a_graph_is_read_cleaned_split_and_told(make):
    found = read_graph(make())
    graph = found.graph
    assert graph.ids == list("abcdef")
    # by target, then source
    assert graph.edges.tolist() == [[1, 0, 2, 1, 3, 2], [0, 1, 1, 2, 2, 3]]
    assert graph.degrees().tolist() == [1, 2, 2, 1, 0, 0]
    assert {split: [(i.node, i.label) for i in part] for split, part in found.splits.items()} == {
        "train": [("a", "x"), ("b", "y")], "valid": [("c", "x")], "test": [("d", "z")]
    }  # fmt: skip
    assert found.notes == (
        "edges: 6 given, 3 kept (both ways), 2 given again, 1 from a node to itself",
        "nodes: 6, 5 with a label, 2 features each",
        "2 nodes have no edge to another: each hears of itself alone",
        "train: 1 nodes of it have no label and do not count",
        "train: 2 nodes of 2 labels",
        "valid: 1 nodes",
        "test: 1 nodes",
        "test: labels that training lacks, so that they cannot be got right: z (1)",
    )
    assert sorted(found.digests) == ["edges", "train"]


def test_one_way_edges_without_self_loops(make):
    found = read_graph(make(undirected=False, self_loops=False))
    # c hears of b, of itself, which the file says, and of d
    assert found.graph.edges.tolist() == [[1, 0, 1, 2, 3], [0, 1, 2, 2, 2]]
    assert found.graph.degrees().tolist() == [1, 1, 2, 0, 0, 0]
    assert "3 nodes have no edge to another: each hears of none, and gives zeros" in found.notes
    assert found.notes[0] == "edges: 6 given, 5 kept (one way), 1 given again, 1 from a node to itself"


def test_edges_once_are_those_of_a_set():
    generator = np.random.default_rng(3)
    edges = generator.integers(0, 7, (2, 60))
    pairs = set(map(tuple, edges.T.tolist()))
    wanted = {
        (True, True): {p for a, b in pairs for p in ((a, b), (b, a)) if a != b},
        (True, False): {p for a, b in pairs for p in ((a, b), (b, a))},
        (False, True): {(a, b) for a, b in pairs if a != b},
        (False, False): pairs,
    }
    for (undirected, loops), expected in wanted.items():
        found = cleaned(edges, undirected, loops)[0].T.tolist()
        assert found == sorted(map(list, expected), key=lambda pair: pair[::-1])
    assert cleaned(np.empty((2, 0), int), True, True)[0].shape == (2, 0)


def test_features_are_scaled():
    table = SparseTable.of(np.array([[1.0, 3, 5], [0, 0, 5], [1, -1, 5]]))
    assert scaled(table, "none") is table
    rows = scaled(table, "rows").dense()
    np.testing.assert_allclose(rows, [[1 / 9, 3 / 9, 5 / 9], [0, 0, 1], [1 / 7, -1 / 7, 5 / 7]], rtol=1e-6)
    columns = scaled(table, "columns").dense()
    np.testing.assert_allclose(columns.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(columns.std(0), [1, 1, 0], atol=1e-6)
    assert scaled(SparseTable.of(np.zeros((2, 1))), "rows").dense().tolist() == [[0], [0]]


def test_scaling_by_columns_is_refused_where_its_numbers_do_not_fit(make):
    with pytest.raises(
        DataError,
        match=r"nodes\.csv: 6 nodes of 2 features, scaled by columns, [^ ]+ bytes in memory, more than 287",
    ):
        read_graph(make(scale="columns", max_bytes=287))
    assert read_graph(make(scale="columns", max_bytes=288)).graph.features.width == 2


def test_parts_in_files_of_their_own_leave_training(make, tmp_path):
    (tmp_path / "held.csv").write_text("id,label\nb,y\nf,q\n")
    found = read_graph(make(test=str(tmp_path / "held.csv")))
    assert [(item.node, item.label, item.line) for item in found.splits["test"]] == [("b", "y", 2), ("f", "q", 3)]
    assert [item.node for item in found.splits["train"]] == ["a"]
    assert "test: labels that training lacks, so that they cannot be got right: y (1), q (1)" in found.notes
    (tmp_path / "held.csv").write_text("id,label\nnobody,y\n")
    with pytest.raises(DataError, match=r"held.csv:2: node 'nobody' is not in nodes.csv; add it"):
        read_graph(make(test=str(tmp_path / "held.csv")))


def test_without_splits_the_labelled_nodes_are_divided_for_ever(make):
    nodes = "id,label\n" + "".join(f"n{n},{'xy'[n % 2]}\n" for n in range(80)) + "bare,\n"
    one = read_graph(make(nodes, "n0,n1\n", valid_fraction=0.2))
    assert sum(map(len, one.splits.values())) == 80
    assert all(one.splits.values())
    more = read_graph(make(nodes + "late,x\n", "n0,n1\n", valid_fraction=0.2))
    for split in one.splits:
        assert {item.node for item in one.splits[split]} <= {item.node for item in more.splits[split]}
    assert one.notes[1] == "nodes: 81, 80 with a label, no features: each has a vector of its own"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edges": None}, "nodes.csv: a table of nodes has no edges; name their file in data.edges"),
        ({"nodes": NODES.replace("train", "test")}, "nodes.csv: no node to train on has a label"),
        ({"edges": "a,z\n"}, 'edges.csv:1: no node "z" is in the table'),
    ],
)
def test_what_is_no_graph_to_train_on_is_refused(make, given, message):
    config = make(**{key: value for key, value in given.items() if value is not None})
    if given.get("edges", "") is None:
        config = config.model_copy(update={"edges": None})
    with pytest.raises(DataError, match=message):
        read_graph(config)


def test_unknown_nodes_and_further_columns_are_told(make):
    found = read_graph(make(edges="a,b,1\na,z,2\n", unknown="skip"))
    assert found.notes[:2] == (
        "edges.csv: 1 edges of nodes that are not in the table are left out",
        "edges.csv: only the first two columns are read",
    )


def test_an_archive_has_its_own_edges(make, tmp_path):
    np.savez(tmp_path / "g.npz", edges=np.array([[0, 1]]), y=np.array([0, 1]), train_idx=np.array([0, 1]))
    assert read_graph(make(train=str(tmp_path / "g.npz")).model_copy(update={"edges": None})).graph.ids == ["0", "1"]
    with pytest.raises(DataError, match=r"g.npz: an archive has edges of its own; leave data.edges out"):
        read_graph(make(train=str(tmp_path / "g.npz")))


def test_a_graph_is_kept_as_the_same_bytes(make):
    graph = read_graph(make()).graph
    files = graph.files()
    assert files == read_graph(make()).graph.files()
    again = Graph.of(files["graph.npz"], files["nodes.json"])
    assert again.ids == graph.ids
    assert again.edges.tolist() == graph.edges.tolist()
    assert again.features.dense().tolist() == graph.features.dense().tolist()
    for damaged in [(b"", files["nodes.json"]), (files["graph.npz"], b'["a"]'), (files["graph.npz"], b"{")]:
        with pytest.raises(DataError, match="not the files of"):
            Graph.of(*damaged)


@pytest.mark.parametrize(
    "changed",
    [
        {"edges": np.array([[0], [6]])},
        {"edges": np.array([[0, 1]])},
        {"edges": np.array([0, 1])},
        {"column": np.array([0, 2, 0, 1, 0, 1, 0, 1])},
        {"column": np.array([0, -1, 0, 1, 0, 1, 0, 1])},
        {"start": np.array([0, 2, 1, 2, 4, 6, 8])},
        {"start": np.array([1, 1, 2, 2, 4, 6, 8])},
        {"value": np.array([np.nan] * 8)},
        {"value": np.ones(3)},
        {"width": np.array([2, 2])},
    ],
)
def test_a_forged_graph_is_refused(untyped, make, changed):
    files = read_graph(make()).graph.files()
    with np.load(io.BytesIO(files["graph.npz"])) as found:
        arrays = dict(found)
    assert len(arrays["column"]) == 8
    stream = io.BytesIO()
    np.savez(stream, **{**arrays, **changed})
    with pytest.raises(DataError, match="not the files of"):
        Graph.of(stream.getvalue(), files["nodes.json"])
