"""Every benchmark runs in its quick form, without the peers' packages, and the peer's weights are the model's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import memory, planner

ROOT = Path(__file__).resolve().parents[2]

# as on a machine without the optional packages
_WITHOUT_TRANSFORMERS = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "transformers" else find(name, *rest)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_SKIPPED = "peer skipped: transformers is not installed; pip install 'headwise[bench]'"


def _run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-c", _WITHOUT_TRANSFORMERS, module, "--quick", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", memory.LINEAR)
def test_every_way_whose_memory_is_weighed_runs(name: str) -> None:
    memory.LINEAR[name](name, 64)()


def test_the_planner_is_measured_beside_every_kernel_but_the_compiled_one() -> None:
    shape = planner.Shape(2, 2, 5, 7, 8, learns=True, mask="padding")
    [ratio] = planner.report("default", [shape], every_call=False)
    assert ratio >= 1.0
    assert "flex" not in planner.measure(planner.Shape(2, 2, 5, 7, 8).build(), rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("memory", "--quick"),
        ("planner", "--quick", "--all"),
        ("kernels", "--only", "bfloat16 64x4", "--rounds", "1"),
        ("gradients", "--rounds", "1"),
        ("copies", "--batch-tokens", "128"),
        ("lengths", "--quick"),
        ("recurrences", "--quick"),
        ("sparse", "--quick"),
        ("processes", "--quick"),
        ("shares", "--quick"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_at_its_smallest_size(arguments: tuple[str, ...]) -> None:
    name, *rest = arguments
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", *rest]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    # a table, or ratios line by line
    assert "---" in done.stdout or " times " in done.stdout


@pytest.mark.slow
def test_adoption() -> None:
    pytest.importorskip("transformers")
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.adoption", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_course_book(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("go .\tva !\ni lost .\tj'ai perdu .\n" * 40)
    command = [sys.executable, "-W", "ignore", "benchmarks/bahdanau.py", "--data", str(pairs), "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "headwise, all padded" in done.stdout


@pytest.mark.slow
def test_machine(tmp_path: Path) -> None:
    output = _run("benchmarks.machine", "--json", str(tmp_path / "machine.json"))
    assert "oneDNN / default" in output
    figures = json.loads((tmp_path / "machine.json").read_text())
    assert all(rate > 0 for row in figures["training"].values() for rate in row)


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    target = tmp_path / "training.json"
    output = _run("benchmarks.training", "--data", str(tmp_path), "--settings", "default", "--json", str(target))
    assert _SKIPPED in output
    assert "synthetic token numbers" in output
    assert "ceiling fp32" in output
    [table] = json.loads(target.read_text())["tables"]
    assert [system["name"] for system in table["systems"]] == ["Headwise fp32", "Headwise bf16", "nn.Transformer fp32"]
    assert all(min(system["tokens_per_cpu_s"]) > 0 for system in table["systems"])
    # an untrained model knows nothing: near the logarithm of 200 tokens
    assert all(4.5 < loss < 7.0 for system in table["systems"] for loss in system["losses"])
    assert table["ceilings"]["fp32"]["ratios"].keys() == {"nn.Transformer fp32"}


@pytest.mark.slow
def test_decoding(tmp_path: Path) -> None:
    output = _run("benchmarks.decoding", "--data", str(tmp_path), "--json", str(tmp_path / "decoding.json"))
    assert _SKIPPED in output
    figures = json.loads((tmp_path / "decoding.json").read_text())
    assert set(figures["held"]) == {"beam 2, batch 1", "greedy, batch 3"}


@pytest.mark.slow
def test_decoding_beside_the_peer(tmp_path: Path) -> None:
    """The workers exit unless the converted weights give the same logits to 1e-4."""
    pytest.importorskip("transformers")
    command = [sys.executable, "-m", "benchmarks.decoding", "--quick", "--data", str(tmp_path)]
    for norm, family in (("post", "HF Marian"), ("pre", "HF Pegasus")):
        done = subprocess.run([*command, "--norm", norm], cwd=ROOT, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert f"{family}: largest difference of logits" in done.stdout


@pytest.mark.slow
def test_a_worker_that_fails_is_named(tmp_path: Path) -> None:
    code = (
        "from benchmarks.workers import Workers\n"
        "with Workers('benchmarks.decoding', [{'name': 'broken', 'tuned': False, 'folder': '/nonexistent'}]) as all:\n"
        "    all.all[0].ask('about')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "worker 'broken' ended with status 1; its message is above" in done.stderr
