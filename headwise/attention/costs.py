"""Seconds that a kernel needs: its amounts of work times the price of each, measured on this processor or a like one.

The prices come from `costs.json` beside this file, or from the file that `headwise tune` wrote for this processor.
"""

import json
from functools import cache
from pathlib import Path

import torch

from headwise import runtime
from headwise.attention import kernels
from headwise.attention.call import Call

# kernel: kind of call: term: seconds per unit
Prices = dict[str, dict[str, dict[str, float]]]

# for a kernel or term without a measurement
_DEFAULT = {"calls": 5e-5, "products": 3e-11, "pairs": 4e-9, "rows": 1e-8, "hidden": 3e-9}
# a pass with gradients costs about this many forward ones
_GRADIENTS = 2.8


def seconds(name: str, call: Call) -> float:
    """Estimated seconds of the kernel of this name for a call."""
    terms = kernels.kernel(name).terms(call)
    found, slower = prices().get(name, {}).get(kind(call)), 1.0
    if found is None:
        found, slower = _DEFAULT, _GRADIENTS if call.learns else 1.0
    # fitted prices may leave nothing for a call that is nearly empty
    return max(1e-7, slower * sum(amount * found.get(term, 0.0) for term, amount in terms.items()))


def kind(call: Call) -> str:
    """The row of the price table: number type, product path, and whether gradients are asked for."""
    wide = call.query.element_size() > 2
    products = "float32" if wide else "bfloat16"
    if wide and torch.get_float32_matmul_precision() != "highest":
        products = "float32 by oneDNN"
    return f"{products}, with gradients" if call.learns else products


def prices() -> Prices:
    """The price table in use."""
    return _read(tuned_file())


def tuned_file() -> Path:
    """Where `headwise tune` keeps the prices of this processor."""
    name = "".join(letter if letter.isalnum() else "-" for letter in runtime.processor())
    return Path.home() / ".cache" / "headwise" / f"costs-{name}.json"


def save(table: Prices, path: Path) -> None:
    """Writes a table; the file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {"processor": runtime.processor(), "torch": torch.__version__, "prices": table}
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)
    _read.cache_clear()


@cache
def _read(tuned: Path) -> Prices:
    shipped = json.loads((Path(__file__).parent / "costs.json").read_text(encoding="utf-8"))["prices"]
    if not tuned.is_file():
        return dict(shipped)
    try:
        return {**shipped, **json.loads(tuned.read_text(encoding="utf-8"))["prices"]}
    except (ValueError, KeyError, TypeError):
        # a damaged file costs speed, not correctness
        return dict(shipped)
