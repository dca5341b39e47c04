"""Tables of very many columns: read in a time that grows with them, refused in a message that does not."""

import io
import json
import time
import zipfile

import pytest

from headwise.data.bad_lines import strict
from headwise.data.idx import parse_npz
from headwise.errors import HeadwiseError
from headwise.tasks.graphs.graph_files import Columns, read_labels, read_table
from headwise.tasks.graphs.molecules import MoleculesConfig, molecule_set
from headwise.tasks.ranking.click_logs import ClicksConfig
from headwise.tasks.series.data import SeriesConfig, read_file
from headwise.tasks.text.labelled import LabelledConfig, scan_labelled

NAMES = [f"c{number}" for number in range(40_000)]
SERIES = SeriesConfig(train="x")


def table(tmp_path, *first, sep=","):
    path = tmp_path / ("wide.tsv" if sep == "\t" else "wide.csv")
    path.write_text(sep.join([*first, *NAMES]) + "\n" + sep.join(["1"] * (len(first) + len(NAMES))) + "\n")
    return path


def objects(tmp_path):
    path = tmp_path / "wide.jsonl"
    path.write_text(json.dumps(dict.fromkeys(NAMES, 1)) + "\n")
    return path


@pytest.mark.parametrize(
    "read",
    [
        lambda at: read_table(table(at, "id", "label"), Columns(ignored=tuple(NAMES[:9_000]))),
        lambda at: read_file(table(at), SERIES),
        lambda at: read_file(objects(at), SERIES),
        lambda at: read_file(table(at), SERIES)[0].of(NAMES[::-1]),
        lambda at: SeriesConfig(train="x", columns=NAMES, targets=NAMES[::-1]),
        lambda at: ClicksConfig(train="x", session="s", item="i", features=tuple(NAMES)),
    ],
    ids=["nodes", "series", "objects", "chosen columns", "columns of a recipe", "clicks"],
)
def test_no_time_grows_with_the_square_of_the_columns(read, tmp_path):
    began = time.process_time()
    read(tmp_path)
    # processor time, a tenth of it or less; 40,000 names compared with each other take twice as much and more
    assert time.process_time() - began < 6


def packed():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in NAMES[:200]:
            archive.writestr(f"{name * 50}.npy", b"")
    return stream.getvalue()


@pytest.mark.parametrize(
    "read",
    [
        lambda at: read_table(table(at), Columns()),
        lambda at: read_labels(table(at), Columns()),
        lambda at: read_file(table(at), SERIES)[0].of(["other"]),
        lambda at: list(strict(scan_labelled(table(at, sep="\t"), LabelledConfig(train="x")))),
        lambda at: list(strict(scan_labelled(objects(at), LabelledConfig(train="x")))),
        lambda at: molecule_set(MoleculesConfig(train=str(table(at)))).read_file("train"),
        lambda at: parse_npz(packed(), "x.npz", ("other",)),
    ],
    ids=["nodes", "labels", "series", "texts", "objects", "molecules", "arrays"],
)
def test_a_message_names_the_first_of_very_many_columns(read, tmp_path):
    with pytest.raises(HeadwiseError) as caught:
        read(tmp_path)
    assert len(str(caught.value)) < 10_000
