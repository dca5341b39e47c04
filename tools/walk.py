"""Counts what a command walks through: modules loaded, files and functions of the package entered.

    python -m tools.walk train phrasebook training.max_steps=6 --run-folder /tmp/run
    python -m tools.walk attend       # what `attend` enters under Causal() & Padding(lens) before SDPA

Functions are code objects, each counted once, comprehensions included; of `attend` each call of one counts.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = str(Path(__file__).parents[1] / "headwise") + "/"


def entered(work: Callable[[], object], last: str = "") -> list[CodeType]:
    """The functions of the package that this work enters, in order; `last`: the builtin that ends the walk."""
    calls: list[CodeType] = []
    done = False

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal done
        done = done or bool(last and event == "c_call" and argument.__name__ == last)
        if event == "call" and not done and frame.f_code.co_filename.startswith(PACKAGE):
            calls.append(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def attention() -> int:
    """Calls from `attend` to `scaled_dot_product_attention`, on a call that an earlier one has warmed up."""
    import torch

    from headwise import Causal, Padding, attend

    x = torch.randn(2, 4, 64, 32)
    lens = torch.tensor([64, 40])
    attend(x, x, x, mask=Causal() & Padding(lens), kernel="fused")
    mask = Causal() & Padding(lens)
    return len(entered(lambda: attend(x, x, x, mask=mask, kernel="fused"), "scaled_dot_product_attention"))


def command(arguments: list[str]) -> str:
    """What `headwise` with these arguments loads and enters."""

    def run() -> None:
        from headwise.cli.main import main

        main(arguments)

    functions = {code for code in entered(run) if code.co_name != "<module>"}
    modules = sum(name.partition(".")[0] == "headwise" for name in sys.modules)
    files = len({code.co_filename for code in functions})
    return f"{modules} modules loaded, {files} files and {len(functions)} functions entered"


if __name__ == "__main__":
    print(f"{attention()} calls before SDPA" if sys.argv[1:] == ["attend"] else command(sys.argv[1:]))
