"""Each system in a process of its own, because allocator settings and peak memory belong to a process.

The parent sends one line of JSON, the worker does what it says and answers one line; so systems take turns on the same
batches and never run at the same time.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

Answer = dict[str, Any]


class Worker:
    """A system of a benchmark as a child process.

    Args:
        module: run as `python -m MODULE --worker JSON`; it must call `serve`.
        job: what the worker is to be; plain values.
    """

    def __init__(self, module: str, job: Mapping[str, Any]):
        self.name = str(job.get("name", module))
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, "--worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **_ONE_THREAD, **_QUIET},
        )

    def ask(self, do: str, **arguments: Any) -> Answer:
        """Has the worker do something and waits for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"worker '{self.name}' ended with status {self._process.wait()}; its message is above")
        answer: Answer = json.loads(line)
        return answer

    def close(self) -> None:
        """Lets the worker end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


class Workers:
    """Several workers that live as long as a `with` block."""

    def __init__(self, module: str, jobs: Iterable[Mapping[str, Any]]):
        self.all: list[Worker] = []
        try:
            for job in jobs:
                self.all.append(Worker(module, job))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.all:
            worker.close()


def serve(actions: Mapping[str, Callable[..., Answer]]) -> None:
    """Answers the parent until it closes the pipe; what else is printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer = actions[request.pop("do")](**request)
        replies.write(json.dumps({**answer, "peak_mib": peak_mib()}) + "\n")
        replies.flush()


def peak_mib() -> float:
    """Largest resident memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # unlike getrusage, this does not begin with the size of the parent
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
