"""Tables of nodes, edge lists and archives of graphs, good and hostile: read right, or refused by place."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from headwise.errors import DataError
from headwise.tasks.graphs.graph_files import (
    Columns,
    SparseTable,
    read_archive,
    read_edges,
    read_ids,
    read_labels,
    read_table,
)

NUMBER = {"a": 0, "b": 1, "c d": 2}


def written(tmp_path, content, name="nodes.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_table_has_ids_features_labels_and_splits(tmp_path):
    text = 'id,age,label,split,"a, b"\r\n\r\nx,1.5,cat,train,0\n" y y ",-2e3,,,7\n"z ""z""",0,dog, VAL ,0\n'
    found = read_table(written(tmp_path, text), Columns())
    assert found.ids == ["x", "y y", 'z "z"']
    assert found.labels == ["cat", "", "dog"]
    assert found.splits == ["train", "", "valid"]
    assert found.features.dense().tolist() == [[1.5, 0], [-2000, 7], [0, 0]]
    assert found.features.start.tolist() == [0, 1, 3, 3]


def test_tabs_gzip_other_columns_and_no_splits(tmp_path):
    text = 'node\tclass\tnote\tf\nx\t"1"\thé\t2\ny\t\t\t3\n'
    path = written(tmp_path, gzip.compress(b"\xef\xbb\xbf" + text.encode()), "nodes.tsv")
    found = read_table(path, Columns("node", "class", "split", ("note",)))
    assert (found.ids, found.labels, found.splits) == (["x", "y"], ['"1"', ""], None)
    assert found.features.dense().tolist() == [[2], [3]]
    assert read_table(written(tmp_path, "id,label\nx,1\n"), Columns()).features.width == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"nodes.csv: there is nothing in it"),
        ("id,label\n", r"nodes.csv: no nodes below the heading"),
        ("id,label,f,f\n", r"nodes.csv:1: two columns are named 'f'"),
        ("name,label\nx,1\n", r"nodes.csv:1: no column is named 'id', .* data.id_column"),
        ("id,lable\nx,1\n", r"no column is named 'label', but 'id', 'lable'; .* data.label_column"),
        ("id,label,f\nx,1\n", r"nodes.csv:2: 2 columns, the first line has 3"),
        ("id,label\nx,1\nx,2\n", r"nodes.csv:3: node 'x' is in line 2 too; keep one of them"),
        ("id,label\n ,1\n", r"nodes.csv:2: the id is empty"),
        ('id,label\n"x,1\n', r"nodes.csv:2: a quote opens in this row"),
        ('id,label\n"x"y,1\n', r"nodes.csv:2: a character stands behind a closing quote"),
        ("id,label,f\nx,1,abc\n", r"nodes.csv:2: feature 'f': 'abc' is no number of 32 bits; write one, or name"),
        ("id,label,f\nx,1,\n", r"nodes.csv:2: feature 'f': is empty"),
        ("id,label,f\nx,1,nan\n", r"'nan' is no number of 32 bits"),
        ("id,label,f\nx,1,-inf\n", r"'-inf' is no number"),
        ("id,label,f\nx,1,1e39\n", r"'1e39' is no number"),
        ("id,label,f\nx,1,1_0\n", r"'1_0' is no number"),
        ("id,label,split\nx,1,tarin\n", r"nodes.csv:2: unknown split 'tarin'; did you mean 'train'\?; leave it empty"),
        (b"id,label\nx,\xff\n", r"nodes.csv:2: byte 11 \(0xff\) is not UTF-8"),
        (b"id,label\nx,\0\n", r"nodes.csv:2: NUL byte"),
        (b"PK\x03\x04\xff", r"a zip archive; unpack it first"),
    ],
)
def test_bad_tables_are_refused_by_line(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, content), Columns())


def test_columns_to_ignore_must_be_there(tmp_path):
    with pytest.raises(DataError, match=r"no column is named 'nite', .* data.ignore"):
        read_table(written(tmp_path, "id,label,note\nx,1,2\n"), Columns(ignored=("nite",)))


def test_labels_and_ids_alone(tmp_path):
    path = written(tmp_path, "label,f,id\n1,abc,x\n2,,y\n")
    assert read_labels(path, Columns()) == [("x", "1", 2), ("y", "2", 3)]
    assert read_ids(path, Columns()) == ["x", "y"]
    assert read_ids(written(tmp_path, "x\n\ny\n"), Columns()) == ["x", "y"]
    for text, message in [
        ("id,label\nx,\n", "nodes.csv:2: node 'x' has no label to compare with"),
        ("id,label\n", "no nodes below the heading"),
    ]:
        with pytest.raises(DataError, match=message):
            read_labels(written(tmp_path, text), Columns())
    for text, message in [
        ("x,1\n", "nodes.csv:1: no column is named 'id'"),
        ("label,id\nx,\n", "nodes.csv:2: the id is empty"),
    ]:
        with pytest.raises(DataError, match=message):
            read_ids(written(tmp_path, text), Columns())


@pytest.mark.parametrize(
    ("text", "edges", "lost", "wider"),
    [
        ("Source\tTarget\na\tb\nb\tc d\n", [[0, 1], [1, 2]], 0, 0),
        ('# comment\na,b,0.5\n\n"c d" , a ,1\r\n', [[0, 1], [2, 0]], 0, 2),
        ("a  b\nb a x\n", [[0, 1], [1, 0]], 0, 1),
        ("a,b\na,z\nz,z\n", [[0, 1]], 2, 0),
        ("", [], 0, 0),
    ],
)
def test_edge_lists(tmp_path, text, edges, lost, wider):
    found = read_edges(written(tmp_path, text, "edges"), NUMBER, skip_unknown=True)
    assert (found[0].T.tolist(), *found[1:]) == (edges, lost, wider)
    assert found[0].shape == (2, len(edges))


def test_a_node_named_like_a_heading_is_a_node(tmp_path):
    path = written(tmp_path, "source,target\n")
    assert read_edges(path, {"source": 0, "target": 1}, skip_unknown=False)[0].T.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\na\n", "edges:2: an edge is a source and a target between tabs, commas or spaces"),
        ("a,b\na,\n", "edges:2: an edge is a source"),
        ("a\tb\na b\n", "edges:2: an edge is a source"),
        ("source\n", "edges:1: an edge is a source"),
        ("a,b\na,z\n", 'edges:2: no node "z" is in the table; add it, or set data.unknown = "skip"'),
        (b"a,b\n\xfe\xfe\n", "edges:2: byte 4 .* is not UTF-8"),
    ],
)
def test_bad_edge_lists_are_refused_by_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_edges(written(tmp_path, text, "edges"), NUMBER, skip_unknown=False)


GOOD = {
    "x_indptr": np.array([0, 2, 2, 3], np.int32),
    "x_indices": np.array([0, 3, 1], np.int16),
    "x_shape": np.array([3, 4]),
    "edges": np.array([[0, 1], [1, 2]], np.int32),
    "y": np.array([1, -1, 0]),
    "train_idx": np.array([0]),
    "val_idx": np.array([2]),
}


def archive(tmp_path, **arrays):
    path = tmp_path / "graph.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def test_an_archive_holds_a_whole_graph(tmp_path):
    found = read_archive(archive(tmp_path, **GOOD))
    assert (found.ids, found.labels, found.splits) == (["0", "1", "2"], ["1", "", "0"], ["train", "", "valid"])
    assert found.features.dense().tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert found.edges.T.tolist() == [[0, 1], [1, 2]]
    masks = {"train_idx": None, "val_idx": None, "test_mask": np.array([False, True, False])}
    other = {**GOOD, **masks, "x": np.eye(3), "edges": None, "edge_index": np.array([[0], [2]])}
    found = read_archive(archive(tmp_path, **other))
    assert (found.splits, found.features.dense().tolist()) == (["", "test", ""], np.eye(3).tolist())
    assert found.edges.tolist() == [[0], [2]]
    bare = read_archive(archive(tmp_path, edges=np.empty((0, 2), int), y=GOOD["y"]))
    assert (bare.splits, bare.features.width, bare.edges.shape) == (None, 0, (2, 0))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": None}, "graph.npz: no array 'y'; it has: edges, train_idx"),
        ({"y": np.array([0.5, 1, 2])}, "y is float64; give whole numbers"),
        ({"y": np.ones((3, 2), int)}, r"y \(3, 2\) must be one class for each node"),
        ({"y": np.array([], int)}, r"y \(0,\) must be one class"),
        ({"y": np.array([1, object()], object)}, "graph.npz: y: holds Python objects, which may be code"),
        ({"edges": np.array([[0, 3]])}, "edges name nodes 0 to 3, but y has nodes 0 to 2"),
        ({"edges": np.array([[0, -1]])}, "edges name nodes -1 to 0"),
        ({"edges": np.array([[0, 1, 2]])}, r"edges \(1, 3\) must be \(edges, 2\): source and target"),
        ({"edges": None}, "no array 'edges'"),
        ({"edge_index": np.zeros((3, 2), int)}, r"edge_index \(3, 2\) must be \(2, edges\)"),
        ({"x_indptr": np.array([0, 2, 1, 3])}, "x_indptr must rise from 0 to the 3 entries"),
        ({"x_indptr": np.array([0, 3])}, "x_indptr must rise"),
        ({"x_indices": np.array([0, 4, 1])}, "x_indices run to 4, but x_shape has 4 features"),
        ({"x_shape": np.array([2, 4])}, r"x_shape \[2, 4\] must be \(nodes, features\); y has 3 nodes"),
        ({"x_shape": None}, "no array 'x_shape'"),
        ({"x_values": np.array([1.0, np.nan, 2])}, "x_values has NaN, infinite or huge numbers"),
        ({"x_values": np.ones(2)}, r"x_values \(2,\) must be a number for each of the 3"),
        ({"x": np.full((3, 2), np.inf)}, "x has NaN, infinite"),
        ({"x": np.ones((2, 2))}, r"x \(2, 2\) float64 must be numbers \(nodes, features\); y has 3"),
        ({"x": np.array([["a"]] * 3)}, "x .* must be numbers"),
        ({"train_idx": np.array([3])}, "train_idx names node 3, but y has nodes 0 to 2"),
        ({"val_idx": np.array([0])}, "val_idx has nodes of another split"),
        ({"test_mask": np.ones(3, int)}, r"test_mask \(3,\) int64 must be a bool for each"),
    ],
)
def test_bad_archives_are_refused_by_array(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        read_archive(archive(tmp_path, **{**GOOD, **changed}))


def test_what_is_no_archive_is_refused(tmp_path):
    good = archive(tmp_path, **GOOD).read_bytes()
    for content in (b"", b"id,label\n", good[:200], good[:-40]):
        with pytest.raises(DataError, match=r"graph.npz: is damaged or no .npz file"):
            read_archive(written(tmp_path, content, "graph.npz"))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("y.npy", b"\x93NUMPY not so")
    with pytest.raises(DataError, match=r"graph.npz: y: is no array of numpy"):
        read_archive(written(tmp_path, stream.getvalue(), "graph.npz"))
    # the first entry says that it is encrypted
    flags = good.index(b"PK\x01\x02") + 8
    encrypted = written(tmp_path, good[:flags] + b"\x01" + good[flags + 1 :], "graph.npz")
    with pytest.raises(DataError, match=r"graph.npz: is damaged or no .npz file \(.* is encrypted"):
        read_archive(encrypted)
    with pytest.raises(DataError, match="no such file"):
        read_archive(tmp_path / "none.npz")
    with pytest.raises(DataError, match="is a folder"):
        read_archive(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"edges": np.zeros((200, 2), np.int8)},
            r"edges: the header says \(200, 2\) of int8, [^ ]+ bytes in memory, more than [\d,]+",
        ),
        (
            {"y": np.zeros(13, np.int8)},
            "y has 13 nodes, [^ ]+ bytes in memory, more than 6,000; make it smaller, or raise data.max_b",
        ),
        ({"x_shape": np.array([3, 12])}, "x has 12 columns, [^ ]+ bytes in memory, more than 6,000"),
    ],
)
def test_a_bomb_is_not_unpacked(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        read_archive(archive(tmp_path, **{**GOOD, **changed}), 6000)


def test_a_sparse_table_is_its_dense_one(monkeypatch):
    dense = np.array([[0, 0, 0], [1.5, 0, -2], [0, 0, 0], [0, 3, 0]])
    found = SparseTable.of(dense)
    assert found.start.tolist() == [0, 0, 2, 2, 3]
    assert found.dense().tolist() == dense.tolist()
    monkeypatch.setattr("headwise.tasks.graphs.graph_files._rows_at_once", lambda width: 3)
    parted = SparseTable.of(dense)
    assert (parted.start.tolist(), parted.column.tolist()) == (found.start.tolist(), found.column.tolist())
    assert parted.dense().tolist() == dense.tolist()
    assert SparseTable.of(dense[:0]).dense().shape == (0, 3)
