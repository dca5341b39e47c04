"""A service under strain: crowds, slow clients, a slow model, a pause and signals; prints what each got, as a table.

    python -m tools.strain RUN VERB TEXT

starts `headwise serve RUN` in processes of its own and asks it over the network of this machine. Whoever has sent a
whole request is to be answered with 200, 429 or 503. Exits with 1 where somebody is not, or a goal is missed.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

GOALS = {
    "answered within s": 5.0,
    "health within s": 0.5,
    "memory grows by MiB": 64.0,
    "slow clients closed within s": 10.0,
    "a request beside them within s": 1.0,
    "ends within s": 10.0,
}
# how long an answer of the slow model takes, and how long its clients may be slow
SLOW_S, RECEIVE_S = 3.0, 1.0
# longer than clients may be slow where nothing is set
STOPPED_S = 9.0
# after which an idle service has returned the memory of its answers
IDLE_S = 2.0
# what stands for a status where there was no answer
CLOSED = 0


@dataclass
class Service:
    """One that listens, and what it is asked."""

    process: "subprocess.Popen[str]"
    port: int
    verb: str
    body: bytes

    async def connected(self) -> "Client":
        """A client that has asked nothing yet."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))

    async def ask(self) -> int:
        """The status of an answer, or `CLOSED`."""
        (one,) = await self.asked(1)
        return await one.status()

    async def asked(self, count: int) -> list["Client"]:
        """So many clients, all of whom have sent a request."""
        sent = []
        for _ in range(count):
            # at once: a client that is kept from sending, as here by a thousand others, is a slow one
            sent.append(socket.create_connection(("127.0.0.1", self.port)))
            sent[-1].sendall(self.request())
        return [Client(*await asyncio.open_connection(sock=one)) for one in sent]

    def request(self) -> bytes:
        """What is asked."""
        head = f"POST /api/v1/{self.verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n\r\n"
        return (head + kind).encode() + self.body

    def end(self) -> float:
        """Tells it to end; the seconds that it takes."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert code == 128 + signal.SIGTERM, f"exit code {code}"
        return time.monotonic() - begun


@dataclass
class Client:
    """A connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Sends some of a request, or all."""
        self.writer.write(data)

    async def status(self) -> int:
        """That of the answer, or `CLOSED`."""
        try:
            answer = await self.reader.read()
        except ConnectionError:
            answer = b""
        self.writer.close()
        return int(answer.split(b" ", 2)[1]) if answer else CLOSED


class Table:
    """A line for each trial: how many got what, and when the last did; and what failed."""

    def __init__(self) -> None:
        self.failed = list[str]()
        print(f"{'trial':42s} {'200':>5s} {'429':>5s} {'503':>5s} {'other':>5s} {'closed':>6s} {'last, s':>8s}")

    def add(self, trial: str, found: Sequence[tuple[int, float]]) -> None:
        """A trial: of each request the status of its answer, and the seconds to it."""
        told = Counter(status for status, _ in found)
        other = sum(count for status, count in told.items() if status not in (200, 429, 503, CLOSED))
        counts = f"{told[200]:5d} {told[429]:5d} {told[503]:5d} {other:5d} {told[CLOSED]:6d}"
        failed = bool(other or told[CLOSED])
        print(f"{trial:42s} {counts} {max(s for _, s in found):8.2f}{'  FAILED' if failed else ''}", flush=True)
        if failed:
            self.failed.append(trial)

    def compare(self, found: dict[str, float]) -> None:
        """What was measured beside its goals."""
        for name, goal in GOALS.items():
            missed = found[name] > goal
            print(f"{name:42s} {found[name]:8.2f}  (goal {goal:g}){'  MISSED' if missed else ''}")
            if missed:
                self.failed.append(name)


def main() -> int:
    """Runs every trial and prints the table."""
    run, verb, text = sys.argv[1:4]
    asked: dict[str, Any] = {"run": run, "verb": verb, "text": text}
    table, ends = Table(), list[float]()
    with service(**asked) as one:
        found = asyncio.run(_crowds(one, table))
        asyncio.run(_stopped(one, table))
        ends.append(one.end())
    with service(**asked, slow=True) as one:
        table.add("1,000 at once, slow model", asyncio.run(_all(one, 1000)))
        ends.append(one.end())
    for slow in (False, True):
        for after in (0.05, 0.3, 1.0):
            with service(**asked, slow=slow) as one:
                told, seconds = asyncio.run(_signalled(one, 200, after))
            table.add(f"SIGTERM {after:g} s after 200{', slow model' if slow else ''}", told)
            ends.append(seconds)
    table.compare({**found, "ends within s": max(ends)})
    return 1 if table.failed else 0


@contextmanager
def service(run: str, verb: str, text: str, slow: bool = False) -> Iterator[Service]:
    """`headwise serve`, until it is left."""
    begin = ["-c", "from tools.strain import slowly; slowly()"] if slow else ["-m", "headwise"]
    command = [sys.executable, *begin, "serve", run, "--port", "0", "--threads", "1"]
    command += ["--set", f"receive_s={RECEIVE_S}"] if slow else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if line.startswith("listening at "))
            port = int(address.rstrip("/\n").rpartition(":")[2])
            yield Service(process, port, verb, json.dumps({"texts": [text]}).encode())
        finally:
            process.kill()


def slowly() -> None:
    """The command line, whose services take their time with every answer."""
    from headwise.cli.main import run
    from headwise.service.worker import Job, Worker

    submit = Worker.submit

    def submit_slowly(worker: Worker, job: Job) -> None:
        work = job.run

        def later(items: list[Any]) -> Sequence[Any]:
            time.sleep(SLOW_S)
            return work(items)

        job.run, job.flow = later, None
        submit(worker, job)

    Worker.submit = submit_slowly  # type: ignore[assignment,method-assign]
    run()


async def _crowds(one: Service, table: Table) -> dict[str, float]:
    await one.ask()
    before = _memory(one.process.pid)
    found = await _flood(one, table)
    await asyncio.sleep(IDLE_S)
    found["memory grows by MiB"] = _memory(one.process.pid) - before
    return found | await _slow(one)


async def _all(one: Service, count: int) -> list[tuple[int, float]]:
    begun = time.monotonic()
    found = await _statuses(await one.asked(count))
    late = time.monotonic() - begun - max(seconds for _, seconds in found)
    return [(status, late + seconds) for status, seconds in found]


async def _flood(one: Service, table: Table) -> dict[str, float]:
    """1,000 requests at once, and the health of the service meanwhile."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        # in a process of its own, since a thousand clients keep this one busy
        await asyncio.wrap_future(other.submit(_slowest_health, one.port, 1))
        health = other.submit(_slowest_health, one.port, 400)
        found = await _all(one, 1000)
        slowest = await asyncio.wrap_future(health)
    table.add("1,000 at once", found)
    return {"answered within s": max(s for _, s in found), "health within s": slowest}


async def _stopped(one: Service, table: Table) -> None:
    """A service that is stopped before it has read what was sent, for longer than clients may be slow."""
    early = [await one.connected() for _ in range(50)]
    one.process.send_signal(signal.SIGSTOP)
    late = await one.asked(50)
    for client in early:
        client.send(one.request())
    await asyncio.sleep(STOPPED_S)
    one.process.send_signal(signal.SIGCONT)
    table.add(f"100 while stopped for {STOPPED_S:g} s", await _statuses([*early, *late]))


async def _signalled(one: Service, count: int, after: float) -> tuple[list[tuple[int, float]], float]:
    """What so many got that had asked when a signal came, and the seconds until the end."""
    asked = await one.asked(count)
    await asyncio.sleep(after)
    ended = asyncio.create_task(asyncio.to_thread(one.end))
    return await _statuses(asked), await ended


async def _statuses(clients: Sequence[Client]) -> list[tuple[int, float]]:
    return await asyncio.gather(*(_timed(client.status()) for client in clients))


async def _slow(one: Service) -> dict[str, float]:
    """500 clients that never end their headers, and 500 that send their bodies a byte a second."""
    half = [asyncio.create_task(_held(one, b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"")) for _ in range(500)]
    head = one.request().partition(b"Content-Length")[0] + b"Content-Length: 999\r\n\r\n"
    trickle = [asyncio.create_task(_held(one, head, b" ")) for _ in range(500)]
    await asyncio.sleep(2)
    _, beside = await _timed(one.ask())
    seconds = await asyncio.gather(*half, *trickle)
    return {"slow clients closed within s": max(seconds), "a request beside them within s": beside}


async def _held(one: Service, first: bytes, again: bytes) -> float:
    """Seconds until the service closes a connection that sends `again` every second."""
    client = await one.connected()
    begun = time.monotonic()
    client.send(first)
    try:
        while time.monotonic() - begun < 60:
            try:
                if not await asyncio.wait_for(client.reader.read(4096), 1.0):
                    break
            except TimeoutError:
                client.send(again)
    except ConnectionError:
        pass
    client.writer.close()
    return time.monotonic() - begun


def _slowest_health(port: int, count: int) -> float:
    """Seconds that the slowest of so many questions took, one every hundredth of a second."""

    async def health() -> int:
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        client.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return await client.status()

    async def asked() -> list[float]:
        found = []
        for _ in range(count):
            found.append((await _timed(health()))[1])
            await asyncio.sleep(0.01)
        return found

    return max(asyncio.run(asked()))


async def _timed(work: Awaitable[int]) -> tuple[int, float]:
    begun = time.monotonic()
    return await work, time.monotonic() - begun


def _memory(pid: int) -> float:
    """Resident memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
