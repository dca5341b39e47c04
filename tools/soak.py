"""The explorer and the service under mixed requests for minutes: right ones, wrong ones, and clients that leave.

    python tools/soak.py RUN [RUN ...] --minutes 10

starts `headwise explore` for the runs in a process of its own. Between rounds, when nothing is under way, it notes the
process's memory, open files and threads. It prints how they grew over the last two thirds of the time, and exits with 1
where memory grows by more than 1 MiB a minute, files or threads become more, or anything is answered with 500.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

GOAL_MIB = 1.0
CLIENTS, ROUND_S = 8, 10.0
SAID = "i you she go went lost home . ? the film is good bad a b \U0001f600 <b> not very \u202e tom"
BAD = (
    b"",
    b"{",
    b"\xff",
    b"[]",
    b'{"texts": [NaN]}',
    b'{"texts": ["\\ud800"]}',
    b"[" * 5000,
    b'{"texts": ["a"], "x": 1}',
)
PATHS = ("", "metrics", "static/../../etc/passwd", "api/v1/traces/nothing/summary?group=x", "api/v1/openapi.json")
PAGES = (
    "",
    "static/main.js",
    "api/v1/meta",
    "api/v1/bench",
    "api/v1/patterns",
    "api/v1/patterns/pairs",
    "api/v1/ramps",
)


@dataclass
class Soak:
    """Clients of one service, and what they were answered."""

    port: int
    runs: list[dict[str, str]]
    draws: random.Random
    told: Counter[str] = field(default_factory=Counter)

    async def ask(self, path: str, values: Any = None, *, take: int = -1, host: str = "127.0.0.1") -> bytes:
        """The body of an answer: to a POST of values, or bytes, if there are any.

        Args:
            take: bytes after which the client leaves; -1: it reads all.
        """
        body = values if isinstance(values, bytes) else b"" if values is None else json.dumps(values).encode()
        kind = "" if values is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head = (
            f"{'GET' if values is None else 'POST'} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{kind}\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head.encode() + body)
            if take == 0:
                await asyncio.sleep(self.draws.random() * 0.05)
                return b""
            answer = await reader.read(take)
        except ConnectionError:
            # the service closes what it refuses before it was read
            answer = b"HTTP/1.1 400 "
        finally:
            writer.close()
        if take < 0:
            self.told[answer.split(b" ", 2)[1].decode()] += 1
        return answer.partition(b"\r\n\r\n")[2]

    def text(self) -> str:
        """Some words."""
        return " ".join(self.draws.choices(SAID.split(), k=self.draws.randint(1, 12)))

    def asked(self) -> dict[str, Any]:
        """A request for a run that is asked by its own verb."""
        run = self.draws.choice(self.runs)
        return {"model": run["name"], "texts": [self.text() for _ in range(self.draws.randint(1, 4))]}

    def verb(self, name: str) -> str:
        """The address of a run."""
        return f"api/v1/{next(run['verb'] for run in self.runs if run['name'] == name)}"

    async def answered(self) -> None:
        """A right request, with attention sometimes."""
        asked = self.asked()
        await self.ask(self.verb(asked["model"]), {**asked, "attention": self.draws.random() < 0.2})

    async def left(self) -> None:
        """The client leaves while its answer is made."""
        asked = self.asked()
        await self.ask(self.verb(asked["model"]), asked, take=0)

    async def streamed(self) -> None:
        """What is written step by step, to its end or not."""
        take = self.draws.choice((-1, 0, 300))
        run = self.draws.choice([one["name"] for one in self.runs if one["verb"] in ("complete", "translate")])
        if self.verb(run).endswith("complete") and self.draws.random() < 0.5:
            await self.ask("api/v1/complete", {"model": run, "texts": [self.text()], "stream": True}, take=take)
        else:
            await self.ask("api/v1/generate", {"model": run, "text": self.text(), "max_new": 20}, take=take)

    async def bad(self) -> None:
        """What is refused."""
        asked = self.asked()
        which = self.draws.randrange(5)
        if which == 0:
            await self.ask(self.draws.choice(PATHS), host=self.draws.choice(("127.0.0.1", "evil.example")))
        elif which == 1:
            await self.ask(self.verb(asked["model"]), self.draws.choice(BAD))
        elif which == 2:
            await self.ask(self.verb(asked["model"]), {**asked, "options": {"beam_size": 10**9}})
        elif which == 3:
            await self.ask("api/v1/traces", {**asked, "text": "x" * 9000})
        else:
            await self.ask("api/v1/translate", b"x" * (1 << 25), take=0)

    async def looked(self) -> None:
        """A trace, and parts of it."""
        asked: dict[str, Any] = {"model": self.draws.choice(self.runs)["name"], "text": self.text()}
        told = json.loads(await self.ask("api/v1/traces", asked))
        if "groups" not in told:
            return
        group = self.draws.choice(told["groups"])
        layer = self.draws.choice(group["layers"])
        at, name = f"api/v1/traces/{told['trace_id']}", quote(group["name"])
        parts = ("summary", "thumbs", "similar", "export", "row?q=0"), ("matrix?head=0", "alike", "steps?head=0")
        for part in self.draws.choices(parts[0], k=2):
            await self.ask(f"{at}/{part}{'&' if '?' in part else '?'}group={name}")
        for part in self.draws.choices(parts[1], k=2):
            await self.ask(f"{at}/{part}{'&' if '?' in part else '?'}layer={layer}")
        edits = [{"kind": "mute", "layer": layer, "heads": [0]}]
        await self.ask("api/v1/traces", {**asked, "options": {"edits": edits}}, take=self.draws.choice((-1, 0)))

    async def muted(self) -> None:
        """Heads muted one after another, to the end or not."""
        run = self.draws.choice(self.runs)["name"]
        await self.ask("api/v1/ablations", {"model": run, "texts": [self.text()]}, take=self.draws.choice((-1, 400)))

    async def paged(self) -> None:
        """Pages, and what they load; a film from its beginning."""
        await self.ask(self.draws.choice(PAGES))
        known = json.loads(await self.ask("api/v1/films"))["models"]
        if known:
            told = json.loads(await self.ask(f"api/v1/films/{self.draws.choice(known)}"))
            if "film_id" in told:
                layer = self.draws.choice(told["layers"])["name"]
                await self.ask(f"api/v1/films/{told['film_id']}/curves?layer={layer}")
                step = self.draws.choice(told["steps"])
                await self.ask(f"api/v1/films/{told['film_id']}/thumbs?step={step}&probe=0&layer={layer}")

    async def round(self, seconds: float) -> None:
        """So many clients, each one request after another; then rest, until nothing waits."""
        kinds: list[Callable[[], Any]] = [self.answered, self.left, self.streamed, self.bad, self.looked, self.paged]
        end = time.monotonic() + seconds

        async def client() -> None:
            while time.monotonic() < end:
                # half of the requests are plain ones
                await self.draws.choice([self.answered, *kinds, self.looked, self.muted])()

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        while json.loads(await self.ask("health"))["waiting"]:
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)


class Noted(NamedTuple):
    """What a process held at a moment of rest."""

    minutes: float
    mib: float
    files: int
    threads: int


@contextmanager
def explorer(runs: list[str]) -> Iterator[tuple[int, int]]:
    """Port and process of an explorer of these runs."""
    command = [sys.executable, "-m", "headwise", "explore", *runs, "--no-browser", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield int(line.partition("/;")[0].rpartition(":")[2]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            print(f"exit code {process.wait(60)}")


def resources(pid: int) -> tuple[float, int, int]:
    """Resident memory in MiB, open files, threads."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    files, threads = (len(os.listdir(f"/proc/{pid}/{name}")) for name in ("fd", "task"))
    return pages * os.sysconf("SC_PAGESIZE") / 2**20, files, threads


def slope(times: list[float], values: list[float]) -> float:
    """Least squares: the growth of values in a unit of time."""
    mean, middle = sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - mean) ** 2 for at in times)
    return sum((at - mean) * (value - middle) for at, value in zip(times, values, strict=True)) / spread


def failures(found: list[Noted], told: Mapping[str, int]) -> list[str]:
    """What did not go as it should: growth after the first third, in which caches and the store of traces fill up."""
    rest = found[len(found) // 3 :]
    grown = slope([one.minutes for one in rest], [one.mib for one in rest])
    print(f"memory grows by {grown:.2f} MiB a minute (goal {GOAL_MIB:g})")
    problems = [f"memory grows by {grown:.2f} MiB a minute"] if grown > GOAL_MIB else []
    for name in ("files", "threads"):
        if (more := getattr(rest[-1], name) - getattr(rest[0], name)) > 0:
            problems.append(f"{more} more {name} at the end")
    failed = {status: count for status, count in told.items() if status >= "500" and status != "503"}
    return problems + [f"{count} requests were answered with {status}" for status, count in failed.items()]


async def soaked(port: int, pid: int, minutes: float, seed: int) -> list[str]:
    """What did not go as it should; prints what was found."""
    soak = Soak(port, [], random.Random(seed))
    soak.runs = json.loads(await soak.ask("api/v1/meta"))["models"]
    begun, found = time.monotonic(), list[Noted]()
    while (passed := (time.monotonic() - begun) / 60) < minutes or len(found) < 6:
        await soak.round(min(ROUND_S, minutes * 10))
        found.append(Noted(passed, *resources(pid)))
        print("{:6.2f} min {:8.1f} MiB {:4d} files {:3d} threads".format(*found[-1]), flush=True)
    print(f"answers: {dict(sorted(soak.told.items()))}")
    return failures(found, soak.told)


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", help="run folders")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with explorer(options.runs) as (port, pid):
        problems = asyncio.run(soaked(port, pid, options.minutes, options.seed))
    for problem in problems:
        print(f"MISSED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
