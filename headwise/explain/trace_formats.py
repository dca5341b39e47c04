"""A layer trace as text: JSON, CSV, LaTeX or Markdown, so that every number can be checked by hand."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from headwise.errors import ConfigError, unknown
from headwise.explain.layer_trace import LayerTrace, TracedStep
from headwise.labels import significant

# rows and columns of a matrix that is shown whole; of a larger one the first and the last
_WHOLE = 12
# significant ones in LaTeX and Markdown
_DIGITS = 4


def formatted(trace: LayerTrace, form: str) -> str:
    """The trace in one of `FORMS`; JSON and CSV have all digits of the numbers.

    Raises: ConfigError for another form.
    """
    check_form(form)
    return FORMS[form](trace)


def check_form(form: str) -> None:
    """Raises: ConfigError for a form that is not in `FORMS`."""
    if form not in FORMS:
        raise ConfigError(f"--trace: {unknown('form', form, FORMS)}")


def _json(trace: LayerTrace) -> str:
    """Minus infinity, the score of a forbidden pair, is null."""
    steps = [
        {
            "name": step.name,
            "symbol": step.symbol,
            "formula": step.formula,
            "text": step.text,
            "axes": step.axes,
            "shape": step.values.shape,
            "values": _finite(step.values),
        }
        for step in trace.steps
    ]
    facts = {"layer": trace.layer, "head": trace.head, "queries": trace.queries, "keys": trace.keys, "steps": steps}
    shapes = [{"name": name, "what": what, "shape": shape} for name, what, shape in trace.shapes]
    return json.dumps({**facts, "model": shapes}, ensure_ascii=False, indent=1)


def _csv(trace: LayerTrace) -> str:
    """A line for each number."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["step", "row", "column", "depth", "row_label", "column_label", "value"])
    for step in trace.steps:
        names = [trace.labels(axis, length) for axis, length in zip(step.axes, step.values.shape, strict=True)]
        for place in np.ndindex(step.values.shape):
            depth = place[2] if len(place) > 2 else ""
            labels = [names[axis][place[axis]] for axis in range(2)]
            rows.writerow([step.name, *place[:2], depth, *labels, repr(float(step.values[place]))])
    return stream.getvalue().rstrip("\n")


def _markdown(trace: LayerTrace) -> str:
    lines = [f"# {trace.layer}, head {trace.head}", ""]
    if trace.shapes:
        lines += ["| name | what | shape |", "|---|---|---|"]
        lines += [f"| {name} | {what} | {shape} |" for name, what, shape in trace.shapes] + [""]
    for step in trace.steps:
        shape = " x ".join(map(str, step.values.shape))
        lines += [f"## {step.name}: ${step.formula}$", "", f"{step.text} ({shape})" if step.text else shape, ""]
        for title, rows, columns, table in _tables(trace, step):
            if title:
                lines += [f"{_cell(title)}:", ""]
            lines += [f"| | {' | '.join(map(_cell, columns))} |", "|---" * (len(columns) + 1) + "|"]
            lines += [
                f"| **{_cell(row)}** | {' | '.join(_number(value) for value in values)} |"
                for row, values in zip(rows, table, strict=True)
            ]
            lines.append("")
    return "\n".join(lines).rstrip()


def _latex(trace: LayerTrace) -> str:
    """A line of `align*` for each step; needs the package amsmath."""
    lines = [f"% {trace.layer}, head {trace.head}".replace("\n", " ")]
    for step in trace.steps:
        lines += [f"% {step.name}: {step.text}", r"\begin{align*}"]
        parts = []
        for title, _, _, table in _tables(trace, step, marked=r"\cdots"):
            body = r" \\ ".join(" & ".join(_number(value, tex=True) for value in row) for row in table)
            number = f"_{{{title.partition(' ')[0]}}}" if title else ""
            left = f"{step.symbol}{number}" if title else step.formula
            parts.append(rf"{left} &= \begin{{pmatrix}} {body} \end{{pmatrix}}")
        lines += [" \\\\\n".join(parts), r"\end{align*}"]
    return "\n".join(lines)


FORMS = {"json": _json, "csv": _csv, "latex": _latex, "markdown": _markdown}


def _tables(
    trace: LayerTrace, step: TracedStep, marked: str = "…"
) -> Iterator[tuple[str, list[str], list[str], list[list[object]]]]:
    """(title, rows, columns, cells) of a step: one table, or one for each query where there are three axes."""
    values, axes = step.values, step.axes
    if values.ndim == 2:
        yield "", *_cut(values, trace.labels(axes[0], values.shape[0]), trace.labels(axes[1], values.shape[1]), marked)
        return
    names = trace.labels(axes[0], values.shape[0])
    for place in _ends(len(names)):
        one = values[place]
        rows, columns = trace.labels(axes[1], one.shape[0]), trace.labels(axes[2], one.shape[1])
        yield f"{place} {names[place]}", *_cut(one, rows, columns, marked)


def _cut(
    table: np.ndarray, rows: list[str], columns: list[str], marked: str
) -> tuple[list[str], list[str], list[list[object]]]:
    """The table, of a large one its edges, with a mark where something is left out."""
    down, across = _ends(len(rows)), _ends(len(columns))
    cells: list[list[object]] = [
        _gapped([float(table[row, column]) for column in across], columns, marked) for row in down
    ]
    shown = _gapped([rows[row] for row in down], rows, marked)
    if len(down) < len(rows):
        cells.insert(len(down) // 2, [marked] * len(cells[0]))
    return [str(row) for row in shown], [str(c) for c in _gapped([columns[c] for c in across], columns, marked)], cells


def _ends(length: int) -> list[int]:
    return list(range(length)) if length <= _WHOLE else [*range(_WHOLE // 2), *range(length - _WHOLE // 2, length)]


def _gapped(shown: list[object] | list[float] | list[str], whole: list[str], marked: str) -> list[object]:
    found: list[object] = list(shown)
    if len(shown) < len(whole):
        found.insert(len(shown) // 2, marked)
    return found


def _number(value: object, *, tex: bool = False) -> str:
    if isinstance(value, str):
        return value
    number = float(value)  # type: ignore[arg-type]
    if np.isinf(number):
        return (r"-\infty" if number < 0 else r"\infty") if tex else ("−∞" if number < 0 else "∞")
    text = significant(number, _DIGITS)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if tex else text


def _cell(text: str) -> str:
    """A label as Markdown shows it as it is."""
    return text.replace("\\", "\\\\").replace("|", r"\|").replace("\n", "↵").replace("<", "&lt;").replace("*", r"\*")


def _finite(values: Any) -> object:
    if values.ndim:
        return [_finite(np.asarray(part)) for part in values]
    return float(values) if np.isfinite(values) else None
