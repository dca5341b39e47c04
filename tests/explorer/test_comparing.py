"""Measurements are read from a file and never made; pictures of pairs are those of the masks."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from headwise.attention import mechanisms
from headwise.errors import HeadwiseError
from headwise.explorer.bench import read_measurements
from headwise.explorer.comparing import bench_routes
from headwise.explorer.patterns import patterns
from headwise.service.app import create_app

ROOT = Path(__file__).resolve().parents[2]
RECORD = {
    "mechanism": "scored",
    "n": 256,
    "d": 64,
    "heads": 8,
    "dtype": "float32",
    "device": "cpu, one thread",
    "hardware": "a processor",
    "fwd_ms": {"p50": 1.5, "p90": 2.0},
    "mem_mib": 3.25,
}


def client_of(records):
    return TestClient(create_app({}, more=[bench_routes(records)]), base_url="http://127.0.0.1:8000")


def written(folder, content):
    path = folder / "lengths.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_records_are_told_as_they_were_written(tmp_path):
    records = read_measurements(written(tmp_path, {"records": [RECORD, {**RECORD, "n": 512, "mechanism": "=linear"}]}))
    with client_of(records) as client:
        told = client.get("/api/v1/bench").json()
        table = list(csv.DictReader(io.StringIO(client.get("/api/v1/bench?format=csv").text)))
        assert client.get("/api/v1/bench?format=xml").status_code == 422
    assert [one["n"] for one in told["records"]] == [256, 512]
    assert told["records"][0] == {**RECORD, "commit": ""}
    assert [row["n"] for row in table] == ["256", "512"]
    assert (table[0]["fwd_ms_p50"], table[0]["mem_mib"], table[0]["hardware"]) == ("1.5", "3.25", "a processor")
    # no program takes it for a formula
    assert table[1]["mechanism"] == "'=linear"


def test_without_records_it_says_what_makes_them():
    with client_of([]) as client:
        told = client.get("/api/v1/bench").json()
    assert told["records"] == []
    assert told["made_by"] == "python -m benchmarks.lengths --json lengths.json"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no json", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ([], 'no list "records"'),
        ({"records": [1]}, 'no list "records"'),
        ({"records": [{**RECORD, "n": 0}]}, "record 0"),
        ({"records": [RECORD, {**RECORD, "fwd_ms": {"p50": float("inf"), "p90": 1}}]}, "record 1"),
        ({"records": [{**RECORD, "more": 1}]}, "more"),
        ({"records": [{}] * 10_001}, "at most 10,000"),
    ],
    ids=["text", "deep", "list", "numbers", "length", "infinite", "key", "many"],
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path, content, told):
    path = written(tmp_path, content)
    with pytest.raises(HeadwiseError, match=told) as error:
        read_measurements(path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    with pytest.raises(HeadwiseError, match="cannot be read"):
        read_measurements(tmp_path / "nothing.json")


def test_pictures_are_of_all_masks_and_mechanisms():
    known, pictures = patterns()
    with client_of([]) as client:
        told = client.get("/api/v1/patterns").json()
        found = np.load(io.BytesIO(client.get("/api/v1/patterns/pairs").content), allow_pickle=False)
    np.testing.assert_array_equal(found, pictures)
    assert [one["name"] for one in told["patterns"]] == [one.name for one in known]
    assert {one.name for one in known if one.kind == "mechanism"} == set(mechanisms.names())
    by_name = dict(zip((one.name for one in known), pictures, strict=True))
    for q in range(32):
        for k in range(32):
            assert bool(by_name["causal"][q, k]) == (k <= q)
            assert bool(by_name["window"][q, k]) == (abs(k - q) <= 3)
            assert bool(by_name["blocks"][q, k]) == (k // 8 == q // 8)
    # a recurrence sees no later key, attention by its definition sees all
    assert not np.triu(by_name["retention"], 1).any()
    assert by_name["scored"].astype(bool).all()


@pytest.mark.slow
def test_the_benchmark_writes_what_is_read(tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.lengths", "--quick", "--rounds", "2", "--json"]
    subprocess.run([*command, str(tmp_path / "lengths.json")], cwd=ROOT, check=True, capture_output=True)
    records = read_measurements(tmp_path / "lengths.json")
    assert [(one.mechanism, one.n) for one in records] == [
        (name, n) for name in ("scored", "scored, window 128") for n in (32, 64)
    ]
    assert all(one.fwd_ms.p90 >= one.fwd_ms.p50 > 0 and one.hardware for one in records)
