"""The rate of a service under many clients beside that of the command line's batches, as ratios of one run.

    python -m benchmarks.service RUN TEXTS
    python -m benchmarks.service RUN TEXTS --clients 64 --rounds 5 --per-request 1
    python -m benchmarks.service RUN TEXTS --engine ctranslate2    # and CTranslate2's own batched call

Every round answers all lines of the file TEXTS twice: in this program as `headwise predict RUN --file TEXTS` does, and
by `headwise serve RUN` in a process of its own, which so many clients ask over the network of this machine, each
sending its next request when its last one is answered. Loading is not counted; both use one thread for the model.
Rates are told by the clock and, for machines that have other work too, by the CPU time of whoever answers.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.tables import ratio, spread, write_json

Rates = tuple[float, float]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("texts", type=Path, help="a file of texts, one a line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-request", type=int, default=1, help="texts of a request")
    parser.add_argument("--engine", choices=("headwise", "ctranslate2"), default="headwise", help="what searches")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    texts = given.texts.read_text(encoding="utf-8").splitlines()
    predict, batched = _predictor(given.run, given.engine)
    service = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "headwise",
            "serve",
            str(given.run),
            "--port=0",
            "--threads=1",
            f"--engine={given.engine}",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = _port(service)
        ours, theirs, calls = list[Rates](), list[Rates](), list[Rates]()
        requests = _requests(texts, given.per_request)
        # what is done for the first time is not counted
        asyncio.run(_ask(port, _requests(texts[:64], 1), given.clients))
        predict(texts[:64])
        for _ in range(given.rounds):
            theirs.append(_rates(len(texts), lambda: predict(texts), os.getpid()))
            calls += [_rates(len(texts), lambda: batched(texts), os.getpid())] if batched else []
            ours.append(_rates(len(texts), lambda: asyncio.run(_ask(port, requests, given.clients)), service.pid))
    finally:
        service.terminate()
        service.wait(60)
    print(f"{len(texts):,} texts, {given.clients} clients, {given.per_request} a request")
    for place, clock in enumerate(("second", "CPU second")):
        mine, other = ([each[place] for each in rates] for rates in (ours, theirs))
        print(f"command line  {spread(other)} texts a {clock}")
        print(f"service       {spread(mine)} texts a {clock}, {ratio(mine, other):.2f} of the command line's")
        if calls:
            call = [each[place] for each in calls]
            print(f"CTranslate2   {spread(call)} texts a {clock}; the service has {ratio(mine, call):.2f} of it")
    write_json(given.json, {"service": ours, "command line": theirs, "CTranslate2": calls})


def _predictor(run: Path, engine: str) -> tuple[Callable[[list[str]], list[str]], Callable[[list[str]], object] | None]:
    """What answers texts as the command line does, and CTranslate2's own batched call of their tokens."""
    import headwise
    from headwise import runtime

    runtime.apply(threads=1, fast_products=False)
    predictor = headwise.load(run)
    options = predictor.options({"engine": engine})

    def predict(texts: list[str]) -> list[str]:
        items = [predictor.parse(text) for text in texts]
        found = predictor.predict(items, options)
        return [predictor.write(*each, "json", options)[0] for each in zip(items, found, strict=True)]

    return predict, None if engine == "headwise" else _batched(predictor, options.decoding, run)


def _batched(predictor: Any, decoding: Any, run: Path) -> Callable[[list[str]], object]:
    """`translate_batch` of all texts, 64 at a time, of tokens that are made before.

    Outputs stay tokens. A call has one limit: the longest that the recipe gives to any of the texts.
    """
    from importlib import import_module

    predictor.translate("a", config=decoding)
    package: Any = import_module("ctranslate2")
    model = package.Translator(str(run / "ctranslate2"), device="cpu", inter_threads=1, intra_threads=1)
    source, target = predictor.source_tokenizer, predictor.target_tokenizer
    names = source.entries()
    rows: dict[tuple[str, ...], list[list[str]]] = {}
    beams = decoding.beam_size if decoding.method == "beam" else 1

    def call(texts: list[str]) -> object:
        key = tuple(texts)
        if key not in rows:
            rows[key] = [[*(names[token] for token in row), names[target.eos_id]] for row in source.encode_batch(texts)]
        options = {"beam_size": beams, "length_penalty": decoding.length_penalty, "max_input_length": 0}
        limit = max(decoding.limit(len(row)) for row in rows[key])
        return model.translate_batch(
            rows[key], max_batch_size=64, max_decoding_length=limit, return_scores=True, **options
        )

    return call


def _rates(texts: int, work: Callable[[], object], pid: int) -> Rates:
    """Texts a second, and texts a second of the CPU time of a process."""
    begun, used = time.perf_counter(), _cpu_s(pid)
    work()
    return texts / (time.perf_counter() - begun), texts / (_cpu_s(pid) - used)


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process, of all its threads."""
    facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def _port(service: "subprocess.Popen[str]") -> int:
    assert service.stdout is not None
    for line in service.stdout:
        if line.startswith("listening at "):
            return int(line.rstrip("/\n").rpartition(":")[2])
    raise SystemExit("the service did not start")


def _requests(texts: list[str], per_request: int) -> list[bytes]:
    """All requests as they are sent, made before anything is measured."""
    head = "POST /api/v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    parts = [texts[start : start + per_request] for start in range(0, len(texts), per_request)]
    bodies = [json.dumps({"texts": part}) for part in parts]
    return [f"{head}{len(body)}\r\n\r\n{body}".encode() for body in bodies]


async def _ask(port: int, requests: list[bytes], clients: int) -> None:
    waiting = iter(requests)
    await asyncio.gather(*(_client(port, waiting) for _ in range(clients)))


async def _client(port: int, requests: Iterator[bytes]) -> None:
    """Sends one request after another over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    for request in requests:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        size = answer.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        told = await reader.readexactly(int(size))
        if status != 200:
            raise SystemExit(f"{status}: {told.decode()}")
    writer.close()


if __name__ == "__main__":
    main()
