"""What was measured on a processor: prices of kernels, and the size from which oneDNN multiplies faster than MKL.

Read from `costs.json` beside this file, or from the file that `headwise tune` wrote for this processor.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from headwise import runtime

# kernel: kind of call: term: seconds per unit
Prices = dict[str, dict[str, dict[str, float]]]

_SHIPPED = Path(__file__).parent / "costs.json"
# what `headwise tune` measures with
_tried: float | None = None


def prices() -> Prices:
    """The price table in use."""
    return _prices(tuned_file())


def onednn_from() -> float:
    """Multiplications in a float32 product from which oneDNN is faster than MKL; infinity if it never is."""
    return _read_onednn_from(tuned_file()) if _tried is None else _tried


@contextmanager
def trying(onednn: float) -> Iterator[None]:
    """Inside, this is the answer of `onednn_from`."""
    global _tried
    _tried = onednn
    try:
        yield
    finally:
        _tried = None


def tuned_file() -> Path:
    """Where `headwise tune` keeps what it measured on this processor."""
    name = "".join(letter if letter.isalnum() else "-" for letter in runtime.processor())
    return Path.home() / ".cache" / "headwise" / f"costs-{name}.json"


def save(table: Prices, onednn: float, path: Path) -> None:
    """Writes prices and the answer of `onednn_from`; the file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {
        "processor": runtime.processor(),
        "torch": torch.__version__,
        "onednn_from": None if math.isinf(onednn) else onednn,
        "prices": table,
    }
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)
    forget()


def forget() -> None:
    """Reads the files again when next asked."""
    for cached in (_read, _prices, _read_onednn_from):
        cached.cache_clear()


@cache
def _prices(tuned: Path) -> Prices:
    return {**_read(_SHIPPED)["prices"], **_read(tuned).get("prices", {})}


@cache
def _read_onednn_from(tuned: Path) -> float:
    own = _read(tuned)
    if "onednn_from" in own:
        found = own["onednn_from"]
    else:
        # MKL does not use the wide instructions of other makers' processors
        found = _read(_SHIPPED)["onednn_from"] if runtime.is_wide_amd() else None
    return math.inf if found is None else max(1.0, float(found))


@cache
def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(found["prices"], dict) and isinstance(found.get("onednn_from"), int | float | None)
    except (ValueError, KeyError, TypeError):
        whole = False
    # a damaged file costs speed, not correctness
    return found if whole else {}
