"""`headwise advise`: which way to mix tokens fits a length, a width and a memory, by what was measured here."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import ConfigError
from headwise.files import json_text

if TYPE_CHECKING:
    from headwise.compare.measured import Advice, Estimate

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def advise(
    length: Annotated[int, typer.Option(min=1, help="Tokens of a sequence.")],
    width: Annotated[int, typer.Option(min=1, help="Numbers of a token.")],
    memory: Annotated[str, typer.Option(help="That a pass may add, or a stream keep: bytes, or such as 64MiB.")],
    streaming: Annotated[bool, typer.Option("--streaming", help="Tokens come one by one.")] = False,
    device: Annotated[str, typer.Option(help="That was measured.")] = "cpu",
    table: Annotated[Path, typer.Option(help="The measurements, of `headwise complexity --table`.")] = Path(
        "measured.jsonl"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which way to mix tokens, and which kernel, is the fastest that fits, why, and what the runner-up costs."""
    from headwise.compare import measured

    advice = measured.advise(
        measured.read_table(table), length, width, _bytes(memory), streaming=streaming, device=device
    )
    if as_json:
        typer.echo(json_text({"fits": [_row(estimate, advice) for estimate in advice.fits], "refused": advice.refused}))
        return
    typer.echo("\n".join(_lines(advice, length, streaming=streaming)))


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS or float(match[1]) <= 0:
        raise ConfigError(f"--memory '{text}': give bytes, or a number with a unit: 64MiB, 1.5GiB")
    return int(float(match[1]) * _UNITS[match[2]])


def _row(estimate: "Estimate", advice: "Advice") -> dict[str, Any]:
    row = {name: value for name, value in asdict(estimate).items() if name != "draws"}
    return row | {"seconds": estimate.seconds, "front": advice.front[estimate.name]}


def _lines(advice: "Advice", length: int, *, streaming: bool) -> list[str]:
    from headwise.compare.measured import reach

    lines = []
    if advice.fits:
        best, *others = advice.fits
        lines.append(f"{_named(best)}: {_cost(best, streaming=streaming)}")
        if others:
            times = others[0].seconds / best.seconds
            lines.append(f"  runner-up: {_named(others[0])}, {times:.2f} times its time")
    else:
        lines.append("nothing that was measured fits")
    for estimate in advice.fits[1:]:
        lines.append(f"  fits too: {_named(estimate)}: {_cost(estimate, streaming=streaming)}")
    reaches = {estimate.name: reach(estimate.name, length) for estimate in advice.fits}
    lines += [f"  {name} {what}" for name, what in reaches.items() if what]
    lines += [f"  not {name}: {why}" for name, why in advice.refused.items()]
    front = ", ".join(f"{name} {share:.0%}" for name, share in advice.front.items() if share > 0)
    if front:
        lines.append(f"  none is faster and smaller (Pareto front of time and memory, share of draws): {front}")
    if len(advice.fits) > 1:
        lines.append("  quality is not weighed here: headwise compare trains them on your data")
    return lines


def _named(estimate: "Estimate") -> str:
    return estimate.name + (f" (kernel {estimate.kernel})" if estimate.kernel else "")


def _cost(estimate: "Estimate", *, streaming: bool) -> str:
    how = "measured" if estimate.measured else "between measured sizes"
    (time, memory) = (f"{1e3 * estimate.seconds:.3g} ms of CPU time", f"{estimate.peak_bytes / 2**20:.3g} MiB")
    text = f"{time} a pass, {memory} at its height, {how}"
    state = estimate.state_bytes
    return text + (f"; keeps {state:,} bytes" if streaming and state is not None else "")
