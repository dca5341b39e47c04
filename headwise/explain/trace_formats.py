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

# a matrix of more rows or columns is cut to the first and the last of them
_MOST_ROWS = 12
# significant digits in LaTeX and Markdown
_DIGITS = 4


def format_trace(trace: LayerTrace, form: str) -> str:
    """The trace in one of `FORMS`; JSON and CSV have all digits.

    Raises: ConfigError for another form.
    """
    check_form(form)
    return FORMS[form](trace)


def check_form(form: str) -> None:
    """Raises: ConfigError for a form that is not in `FORMS`."""
    if form not in FORMS:
        raise ConfigError(f"--trace: {unknown('form', form, FORMS)}")


def as_dict(trace: LayerTrace) -> dict[str, Any]:
    """The trace as JSON has it; minus infinity, the score of a forbidden pair, is null."""
    steps = [
        {
            "name": step.name,
            "symbol": step.symbol,
            "formula": step.formula,
            "text": step.text,
            "axes": step.axes,
            "shape": step.values.shape,
            "values": np.where(np.isfinite(step.values), step.values, np.array(None)).tolist(),
        }
        for step in trace.steps
    ]
    return {"layer": trace.layer, "head": trace.head, "queries": trace.queries, "keys": trace.keys, "steps": steps}


def _json(trace: LayerTrace) -> str:
    shapes = [{"name": name, "what": what, "shape": shape} for name, what, shape in trace.shapes]
    return json.dumps({**as_dict(trace), "model": shapes}, ensure_ascii=False, indent=1)


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
            lines += [f"| **{_cell(row)}** | {' | '.join(values)} |" for row, values in zip(rows, table, strict=True)]
            lines.append("")
    return "\n".join(lines).rstrip()


def _latex(trace: LayerTrace) -> str:
    """A line of `align*` for each step; needs the package amsmath."""
    lines = [f"% {trace.layer}, head {trace.head}".replace("\n", " ")]
    for step in trace.steps:
        lines += [f"% {step.name}: {step.text}", r"\begin{align*}"]
        parts = []
        for title, _, _, table in _tables(trace, step, tex=True):
            body = r" \\ ".join(" & ".join(row) for row in table)
            number = f"_{{{title.partition(' ')[0]}}}" if title else ""
            left = f"{step.symbol}{number}" if title else step.formula
            parts.append(rf"{left} &= \begin{{pmatrix}} {body} \end{{pmatrix}}")
        lines += [" \\\\\n".join(parts), r"\end{align*}"]
    return "\n".join(lines)


FORMS = {"json": _json, "csv": _csv, "latex": _latex, "markdown": _markdown}


def _tables(
    trace: LayerTrace, step: TracedStep, *, tex: bool = False
) -> Iterator[tuple[str, list[str], list[str], list[list[str]]]]:
    """(title, rows, columns, cells) of a step: one table, or one for each query where there are three axes."""
    values, gap = step.values, r"\cdots" if tex else "…"
    *queries, rows, columns = (trace.labels(*axis) for axis in zip(step.axes, values.shape, strict=True))
    tables = [("", values)]
    if queries:
        tables = [(f"{at} {queries[0][at]}", values[at]) for at in _visible_rows(len(values)) if at is not None]
    down, across = _visible_rows(len(rows)), _visible_rows(len(columns))
    for title, table in tables:
        cells = [
            [gap if row is None or column is None else _number(float(table[row, column]), tex=tex) for column in across]
            for row in down
        ]
        row_names, column_names = (
            [gap if at is None else names[at] for at in numbers] for names, numbers in ((rows, down), (columns, across))
        )
        yield title, row_names, column_names, cells


def _visible_rows(length: int) -> list[int | None]:
    """The rows or columns that are shown, None where some are left out."""
    half = _MOST_ROWS // 2
    return list(range(length)) if length <= _MOST_ROWS else [*range(half), None, *range(length - half, length)]


def _number(number: float, *, tex: bool) -> str:
    if np.isinf(number):
        return (r"-\infty" if number < 0 else r"\infty") if tex else ("−∞" if number < 0 else "∞")
    text = significant(number, _DIGITS)
    if "e" not in text or not tex:
        return text
    mantissa, exponent = text.split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"


def _cell(text: str) -> str:
    """A label with the characters escaped that Markdown would interpret."""
    return text.replace("\\", "\\\\").replace("|", r"\|").replace("\n", "↵").replace("<", "&lt;").replace("*", r"\*")
