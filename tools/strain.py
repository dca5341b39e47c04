"""A service under strain: floods, slow clients and a signal; prints what it reached, exits 1 where a goal is missed.

    python tools/strain.py RUN VERB TEXT

starts `headwise serve RUN` in a process of its own and asks it over the network of this machine.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

GOALS = {
    "answered within s": 5.0,
    "health within s": 0.5,
    "memory grows by MiB": 64.0,
    "slow clients closed within s": 10.0,
    "a request beside them within s": 1.0,
    "ends within s": 10.0,
}


def main() -> int:
    """Runs every trial and prints a line for each goal."""
    run, verb, text = sys.argv[1:4]
    command = [sys.executable, "-m", "headwise", "serve", run, "--port", "0", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening at "):
            break
    port = int(line.rstrip("/\n").rpartition(":")[2])
    try:
        found = asyncio.run(_trials(port, verb, text, process.pid))
    finally:
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    found["ends within s"] = time.monotonic() - begun
    failed = [name for name, goal in GOALS.items() if found[name] > goal]
    for name, goal in GOALS.items():
        print(f"{name:34s} {found[name]:8.2f}  (goal {goal:g}){'  MISSED' if name in failed else ''}")
    print(f"exit code {code}")
    return 1 if failed else 0


async def _trials(port: int, verb: str, text: str, pid: int) -> dict[str, float]:
    body = json.dumps({"texts": [text]}).encode()
    await _asked(port, verb, body)
    before = _memory(pid)
    found = await _flood(port, verb, body)
    found["memory grows by MiB"] = _memory(pid) - before
    return found | await _slow(port, verb, body)


async def _flood(port: int, verb: str, body: bytes) -> dict[str, float]:
    """1,000 requests at once, and the health of the service meanwhile."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        # in a process of its own, since a thousand clients keep this one busy
        await asyncio.wrap_future(other.submit(_slowest_health, port, 1))
        health = other.submit(_slowest_health, port, 400)
        found = await asyncio.gather(*(_timed(_asked(port, verb, body)) for _ in range(1000)))
        slowest = await asyncio.wrap_future(health)
    statuses = Counter(status for status, _ in found)
    assert statuses.keys() <= {200, 429, 503}, statuses
    print(f"1,000 requests at once: {dict(statuses)}")
    return {"answered within s": max(s for _, s in found), "health within s": slowest}


async def _slow(port: int, verb: str, body: bytes) -> dict[str, float]:
    """500 clients that never end their headers, and 500 that send their bodies a byte a second."""
    half = [asyncio.create_task(_held(port, b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"")) for _ in range(500)]
    head = f"POST /api/v1/{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 999\r\n\r\n"
    trickle = [asyncio.create_task(_held(port, head.encode(), b" ")) for _ in range(500)]
    await asyncio.sleep(2)
    _, beside = await _timed(_asked(port, verb, body))
    seconds = await asyncio.gather(*half, *trickle)
    return {"slow clients closed within s": max(seconds), "a request beside them within s": beside}


async def _held(port: int, first: bytes, again: bytes) -> float:
    """Seconds until the service closes a connection that sends `again` every second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begun = time.monotonic()
    writer.write(first)
    try:
        while time.monotonic() - begun < 60:
            try:
                if not await asyncio.wait_for(reader.read(4096), 1.0):
                    break
            except TimeoutError:
                writer.write(again)
    except ConnectionError:
        pass
    writer.close()
    return time.monotonic() - begun


def _slowest_health(port: int, count: int) -> float:
    """Seconds that the slowest of so many questions took, one every hundredth of a second."""

    async def asked() -> list[float]:
        found = []
        for _ in range(count):
            found.append((await _timed(_asked(port, "", b"")))[1])
            await asyncio.sleep(0.01)
        return found

    return max(asyncio.run(asked()))


async def _asked(port: int, verb: str, body: bytes) -> int:
    """The status of an answer; without a verb that of /health."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /api/v1/{verb} HTTP/1.1" if verb else "GET /health HTTP/1.1"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if verb else ""
    writer.write(f"{head}\r\nHost: 127.0.0.1\r\nConnection: close\r\n{kind}\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


async def _timed(work: Awaitable[int]) -> tuple[int, float]:
    begun = time.monotonic()
    return await work, time.monotonic() - begun


def _memory(pid: int) -> float:
    """Resident memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
