"""The soak asks for everything and says what leaks; that nothing does in ten minutes is for the tool to find."""

import asyncio
import importlib
import json
import random
import sys
from pathlib import Path

import pytest

import headwise

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module("soak")
    finally:
        sys.path.remove(str(TOOLS))


def test_what_leaks_is_said(tool):
    steady = [tool.Noted(at / 2, 300 + (40 if at < 4 else 50), 14, 5) for at in range(12)]
    assert tool.failures(steady, {"200": 9, "503": 1, "422": 3}) == []
    leaking = [one._replace(mib=300 + 2 * one.minutes, files=14 + int(one.minutes)) for one in steady]
    told = tool.failures(leaking, {"500": 2})
    assert told == [
        "memory grows by 2.00 MiB a minute",
        "3 more files at the end",
        "2 requests were answered with 500",
    ]


@pytest.mark.slow
def test_a_round_asks_for_everything(tool, tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"a{n % 7} b{n % 5} c\n" for n in range(60)))
    recipe = {
        "task": "language-model",
        "length": 16,
        "data": {"train": str(tmp_path / "lines.txt")},
        "tokenizer": {"kind": "char"},
        "model": {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 2},
        "decoding": {"method": "greedy", "max_len": 7},
        "training": {"max_steps": 3, "batch_tokens": 64, "validate_every_epochs": 0, "warmup_steps": 1},
        "film": {"every": 1},
    }
    headwise.train(recipe, tmp_path / "run")

    async def rounds(port):
        soak = tool.Soak(port, [], random.Random(0))
        soak.runs = json.loads(await soak.ask("api/v1/meta"))["models"]
        for kind in (soak.answered, soak.left, soak.streamed, soak.bad, soak.looked, soak.muted, soak.paged):
            for _ in range(4):
                await kind()
        await soak.round(0.5)
        return soak.told

    with tool.explorer([str(tmp_path / "run")]) as (port, pid):
        told = asyncio.run(rounds(port))
        noted = tool.Noted(0.0, *tool.resources(pid))
    assert {"200", "201", "422"} <= told.keys() <= {"200", "201", "400", "404", "413", "422", "429", "503"}
    assert noted.mib > 10
    assert min(noted.files, noted.threads) > 1
