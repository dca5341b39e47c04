"""A comparison as a table, as JSON, and as one HTML file that needs nothing else."""

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from headwise import runtime
from headwise.compare.experiment import Result
from headwise.compare.sides import ENOUGH_SEEDS, Difference, Side, front, rank
from headwise.compare.verdicts import Interval
from headwise.explain.canvas import PRINT_DPI
from headwise.explain.comparisons import frontier
from headwise.files import json_text
from headwise.training.comparison import score_text

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f27; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem 1rem .3rem 0; text-align: right; vertical-align: bottom; border-bottom: 1px solid #d6dae2; }}
td {{ white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
img {{ max-width: 100%; }}
code {{ overflow-wrap: anywhere; }}
.scroll {{ overflow-x: auto; }}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def rows(result: Result) -> list[dict[str, Any]]:
    """A row for each side, the best first: score, how far it is behind, and what it costs."""
    order, differences = rank(result.sides, result.better)
    table = []
    for side in order:
        difference = differences.get(side.name)
        score = side.score
        table.append(
            {
                "side": side.name,
                result.metric: score.value if math.isfinite(score.value) else None,
                "low": score.low if math.isfinite(score.low) else None,
                "high": score.high if math.isfinite(score.high) else None,
                **_behind(difference),
                "p": difference.p if difference else None,
                "seeds": len(side.scores),
                "parameters": side.cost.parameters,
                "step_cpu_ms": 1e3 * side.cost.step_cpu_s,
                "token_cpu_us": side.cost.token_cpu_us,
                "peak_mib": side.cost.peak_bytes / 2**20,
                "state_bytes": side.state_bytes,
                "cpu_s": side.cpu_s,
                **({"tuned": side.tuned} if side.tuned is not None else {}),
                **({"failed": len(side.failures)} if side.failures else {}),
            }
        )
    return table


def _behind(difference: Difference | None) -> dict[str, float | None]:
    ahead = difference.ahead if difference else Interval(math.inf, math.inf, math.inf)
    ends = {"behind": ahead.value, "behind_low": ahead.low, "behind_high": ahead.high}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}


def notes(result: Result) -> list[str]:
    """What a reader must know to judge the numbers: in words, a sentence each."""
    order, differences = rank(result.sides, result.better)
    seeds, sizes = len(order[0].scores), [side.cost.parameters for side in order]
    steps = {round(side.steps) for side in order}
    edges = ", ".join(f"{side.name} ({side.tuned})" for side in order if side.at_edge)
    sentences = [_winner(order[0].name, differences)]
    for side in order:
        for seed, reason in side.failures.items():
            words = f"{side.name} failed with seed {seed}, which counts as the worst score"
            sentences.append(f"{words}: {reason.partition(chr(10))[0]}.")
    if seeds < ENOUGH_SEEDS:
        words = f"With {seeds} seed{'s' * (seeds > 1)} a difference has to be large to be clear"
        sentences.append(f"{words}; take {ENOUGH_SEEDS} or more.")
    if max(sizes) > 1.02 * min(sizes):
        words = f"The models have {min(sizes):,} to {max(sizes):,} parameters"
        sentences.append(f"{words}: what is compared is models of different size.")
    if edges:
        sentences.append(f"The best tuned value is the first or last one for {edges}: a better one may lie beyond.")
    if len(steps) > 1:
        sentences.append(f"The runs have {min(steps):,} to {max(steps):,} steps.")
    return [
        *sentences,
        f"Intervals are of 95 %, {_over(seeds, differences)}; p is that of a paired t-test with the same variance,"
        " Holm-corrected. CPU time is of a training step on one thread, memory its height in a process of its own,"
        f" the state what a decoder keeps at the end of the longest example; {runtime.processor()}.",
    ]


def _over(seeds: int, differences: Mapping[str, Difference]) -> str:
    examples = {difference.examples for difference in differences.values()}
    if not examples or 0 in examples:
        return "over seeds"
    return f"over {'seeds and ' if seeds > 1 else ''}{max(examples):,} examples or groups of them"


def _winner(best: str, differences: Mapping[str, Difference]) -> str:
    clear = [name for name, difference in differences.items() if difference.clear]
    unclear = [name for name, difference in differences.items() if not difference.clear]
    if differences and all(difference.p is None for difference in differences.values()):
        words = f"{best} has the best score; with one seed the intervals are over examples alone"
        return f"{words}: another seed is another model."
    if not differences:
        return f"{best} has the best score; with one seed nothing is known of chance."
    if not unclear:
        return f"{best} is better than all others."
    if not clear:
        return f"No difference is clear; {best} has the best mean."
    return f"{best} is better than {', '.join(clear)}; between it and {', '.join(unclear)} no difference is clear."


def as_json_text(
    result: Result, command: str, figures: Mapping[str, str] | None = None, more: Mapping[str, Any] | None = None
) -> str:
    """All numbers, those of each seed too, and `more` by its names; `figures` are captions by the names of files."""
    sides = [plain(side) for side in result.sides]
    efficient = [side.name for side in front(result.sides, result.better)]
    whole = {"headwise comparison": 1, "command": command, "metric": result.metric, "better": result.better}
    return (
        json_text(
            {
                **whole,
                "conditions": result.conditions,
                "rows": rows(result),
                "notes": notes(result),
                "front": efficient,
                "sides": sides,
                "figures": [{"file": name, "caption": caption} for name, caption in (figures or {}).items()],
                **(more or {}),
            }
        )
        + "\n"
    )


def plain(side: Side) -> dict[str, Any]:
    """A side as JSON holds it, which has no infinite number."""
    values = asdict(replace(side, resampled={}))
    values["scores"] = {seed: score if math.isfinite(score) else None for seed, score in side.scores.items()}
    return {name: value for name, value in values.items() if name != "resampled"}


def as_html(
    result: Result,
    command: str,
    figures: Mapping[str, bytes],
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> str:
    """The report; figures are PNG images by their captions, further tables have captions too."""
    table = _table(rows(result), result.metric)
    body = [f"<p>{html.escape(note)}</p>" for note in notes(result)[:1]]
    body.append(f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in result.conditions)}</ul>")
    body += [f'<div class="scroll">{table}</div>', *(f"<p>{html.escape(note)}</p>" for note in notes(result)[1:])]
    title = f"{result.metric} of {', '.join(side.name for side in result.sides)}"
    return document(title, [*body, *(plain_table(*table) for table in (tables or {}).items())], figures, command)


def document(title: str, body: Sequence[str], figures: Mapping[str, bytes], command: str) -> str:
    """A page of HTML that needs nothing else: parts of HTML, then figures by their captions, and what made it."""
    parts = list(body)
    for caption, image in figures.items():
        data = base64.b64encode(image).decode()
        parts.append(f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(caption)}">')
        parts.append(f"<figcaption>{html.escape(caption)}</figcaption></figure>")
    parts.append(f"<p>Made by <code>{html.escape(command)}</code></p>")
    return _PAGE.format(title=html.escape(title[:120]), body="\n".join(parts))


def plain_table(caption: str, table: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same keys as HTML; a key that ends in ± stands in the cell of the one before it."""
    names = [name for name in table[0] if not name.endswith(" ±")] if table else []
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    lines = [f'<h2>{html.escape(caption)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>']
    for row in table:
        cells = "".join(f"<td>{html.escape(_with_half(row, name))}</td>" for name in names)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _with_half(row: Mapping[str, Any], name: str) -> str:
    value, half = row[name], row.get(f"{name} ±")
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    return f"{value:.4g}" + ("" if half is None else f" ± {half:.2g}")


def _table(table: Sequence[Mapping[str, Any]], metric: str) -> str:
    names = {
        "side": "",
        metric: metric,
        "behind": "behind the best",
        "p": "p",
        "seeds": "seeds",
        "parameters": "parameters",
    }
    names |= {
        "step_cpu_ms": "CPU ms a step",
        "token_cpu_us": "CPU µs a token",
        "peak_mib": "memory, MiB",
        "state_bytes": "state, bytes",
        "cpu_s": "CPU s in all",
    }
    if any("tuned" in row for row in table):
        names["tuned"] = "tuned"
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names.values())
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in table:
        cells = "".join(f"<td>{html.escape(_text(key, row, metric))}</td>" for key in names)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def _text(key: str, row: Mapping[str, Any], metric: str) -> str:
    value = row.get(key)
    if key == metric and row.get("failed"):
        return f"{row['failed']} of {row['seeds']} failed"
    if value is None:
        return "–"
    if key == metric:
        return _score(metric, value) + ("" if row["low"] is None else f" ± {_score(metric, row['high'] - value)}")
    if key == "behind":
        ends = [_score(metric, row[end]) for end in ("behind_low", "behind_high")]
        return f"{_score(metric, value)} ({' to '.join(ends)})"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def pictures(result: Result) -> dict[str, bytes]:
    """What a CPU second buys, as a PNG image by its caption."""
    sides = {}
    for side in (side for side in result.sides if not side.failures):
        score = side.score
        sides[side.name] = (
            side.cost.token_cpu_us,
            score.value,
            (score.high - score.value) if math.isfinite(score.high) else 0.0,
        )
    if not sides:
        return {}
    names = [side.name for side in front(result.sides, result.better)]
    drawn = frontier(sides, names, across="CPU time of training, µs a token", down=result.metric)
    caption = (
        f"{result.metric} beside the CPU time of a token in training; none is better at less than those on the line"
    )
    return {caption: png(drawn)}


def png(drawn: Any) -> bytes:
    """A figure as a PNG image."""
    stream = io.BytesIO()
    drawn.savefig(stream, format="png", dpi=PRINT_DPI)
    return stream.getvalue()


def _score(metric: str, value: float) -> str:
    """Two decimals, or one of a percentage; four below 1."""
    if metric.endswith("accuracy"):
        return score_text(metric, value)
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"
