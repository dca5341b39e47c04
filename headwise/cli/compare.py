"""`headwise compare`: models that differ in named keys, trained alike over seeds, with costs and a report."""

import html
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.make import read_lengths
from headwise.cli.output import opened
from headwise.cli.sweep import read_seeds
from headwise.cli.tables import tell, write
from headwise.cli.train import folder_name
from headwise.errors import ConfigError
from headwise.registry import split

if TYPE_CHECKING:
    from headwise.compare.experiment import Plan, Result
    from headwise.training.sweep import Swept

_SEEDS = "0,1,2,3,4,5"
# columns of the table on the terminal
_SHOWN = ("behind", "p", "seeds", "parameters", "step_cpu_ms", "peak_mib", "state_bytes", "cpu_s")


Tune = Annotated[
    str | None,
    typer.Option(help="KEY=A,B,C: each side takes the value that is best on the validation data, with another seed."),
]
Budget = Annotated[
    str | None, typer.Option(help="Of each run: steps=N, cpu_s=S or tokens=N; default: the limits of the recipe.")
]


def compare(
    words: Annotated[list[str] | None, typer.Argument(help="Recipes and settings; several values are sides.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Values of model.mechanism, such as scored,linear.")] = None,
    position: Annotated[str | None, typer.Option(help="Values of model.position, such as rotary,alibi,none.")] = None,
    seeds: Annotated[str, typer.Option(help="A run of each side for each; six or more can decide.")] = _SEEDS,
    tune: Tune = None,
    budget: Budget = None,
    metric: Annotated[str | None, typer.Option(help="A score of `evaluate`; default: the monitored one.")] = None,
    split: Annotated[str, typer.Option(help="Part of the data that is scored: test, valid or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first examples.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the run folders.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(min=1, help="Runs that train at once, each in a process of its own.")] = 1,
    suite: Annotated[str | None, typer.Option(help="long-range: mechanisms on eight tasks, without recipes.")] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these of the suite, such as ListOps,Pathfinder.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Such as 1,2,4,8: score inputs so many times as long.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for report.html, results.json and rows.csv.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each side.")] = False,
) -> None:
    """Train models that differ in named keys, over seeds, and say which is better, how surely, and at what cost.

    The same command again goes on with what is missing; several processes may run it at once and share the runs.
    """
    from headwise.compare.experiment import Plan

    words = words or []
    names = [word for word in words if "=" not in word]
    if output is not None and output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output}: is a file; name a folder")
    limits, tokens = _limits(budget)
    settings = [word for word in words if "=" in word] + limits
    numbers = [seed for seed in read_seeds(seeds) if seed is not None]
    times = None if lengths is None else read_lengths(lengths)
    folder = partial(run_folder, runs)
    plan = Plan(names, settings, numbers, folder, _tuned(tune), tokens, metric, split, limit, jobs)
    if suite is None:
        result = _trained(plan, {"mechanism": mechanism, "position": position})
        return _hand_over(result, output, times, limit, as_json=as_json)
    _check_suite(names, position, metric, lengths)
    return _suite(suite, tasks or "", mechanism or "", plan, output, as_json=as_json)


def _trained(plan: "Plan", axes: Mapping[str, str | None]) -> "Result":
    from headwise import runtime
    from headwise.compare.experiment import compare as compare_sides

    if not plan.names:
        raise ConfigError("name a recipe: headwise compare RECIPE model.mechanism=scored,linear")
    values = [f"model.{key}={value}" for key, value in axes.items() if value]
    runtime.apply()
    return compare_sides(replace(plan, settings=[*plan.settings, *values]), _say)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _check_suite(names: list[str], position: str | None, metric: str | None, lengths: str | None) -> None:
    others = {"a recipe": names, "--position": position, "--metric": metric, "--lengths": lengths}
    if given := [name for name, value in others.items() if value]:
        raise ConfigError(f"a suite has recipes, positions and scores of its own: leave out {', '.join(given)}")


def _suite(name: str, tasks: str, mechanisms: str, plan: "Plan", output: Path | None, *, as_json: bool) -> None:
    from headwise import runtime
    from headwise.compare.page import document, plain, plain_table
    from headwise.compare.suite import notes, rows, run_suite, tasks_of
    from headwise.files import json_text

    chosen = tasks_of(name, [task.strip() for task in tasks.split(",") if task.strip()])
    runtime.apply()
    scored = run_suite(chosen, list(split(mechanisms, ",")) if mechanisms else [], plan, _say)
    table = rows(scored)
    short = [{key: value for key, value in row.items() if not key.endswith(" ±")} for row in table]
    tell(table if as_json else short, as_json=as_json, output=None)
    if not as_json:
        typer.echo("\n".join(notes(scored)))
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["headwise", *sys.argv[1:]])
    words = "".join(f"<li>{html.escape(note)}</li>" for note in notes(scored))
    body = [plain_table("Accuracy in percent, with 95 % intervals over seeds", table), f"<ul>{words}</ul>"]
    whole = {"headwise suite": 1, "command": command, "rows": table, "notes": notes(scored), "scores": scored.scores}
    whole["tasks"] = {task: [plain(side) for side in result.sides] for task, result in scored.results.items()}
    for file, text in {
        "report.html": document(f"Suite {name}", body, {}, command),
        "results.json": json_text(whole) + "\n",
    }.items():
        with opened(output / file) as stream:
            stream.write(text)
    write(table, output / "rows.csv")
    typer.echo(str(output / "report.html"), err=as_json)


def _tuned(setting: str | None) -> "Swept | None":
    from headwise.training.sweep import Swept

    if setting is None:
        return None
    key = Swept.parse(setting)
    # of two values the better one is always at an end
    if key is None or len(key.values) < 3:
        raise ConfigError(f"--tune '{setting}': give three values or more: training.learning_rate=0.0005,0.001,0.002")
    return key


def _limits(budget: str | None) -> tuple[list[str], int | None]:
    """Settings that end each run alike, and the tokens of training where those are given."""
    if budget is None:
        return [], None
    name, _, text = budget.partition("=")
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if name not in ("steps", "cpu_s", "tokens") or not 0 < number < 1e15:
        raise ConfigError(f"--budget '{budget}': give steps=300, cpu_s=60 or tokens=1000000")
    if name == "tokens":
        return [], int(number)
    others = [f"training.{key}=0" for key in ("max_steps", "max_cpu_s", "max_epochs") if key != f"max_{name}"]
    return [f"training.max_{name}={int(number) if name == 'steps' else number}", *others], None


def run_folder(runs: Path, name: str, settings: list[str]) -> Path:
    """The run folder of these settings, with limits: runs of different length are not the same side."""
    return runs / folder_name(Path(name).stem, settings, limits=True)


def _hand_over(
    result: "Result", output: Path | None, times: Sequence[int] | None, limit: int | None, *, as_json: bool
) -> None:
    from headwise.compare import lengths
    from headwise.compare.page import as_html, as_json_text, notes, pictures, png, rows

    table = rows(result)
    short = [
        {"side": row["side"], result.metric: row[result.metric], **{key: row[key] for key in _SHOWN}} for row in table
    ]
    tell(table if as_json else short, as_json=as_json, output=None)
    if not as_json:
        typer.echo("\n".join(notes(result)))
    tables: dict[str, list[dict[str, Any]]] = {}
    drawn: dict[str, bytes] = {}
    if times is not None:
        longer = lengths.extrapolate(result.sides, result.metric, times, limit)
        caption = " ".join(lengths.notes(longer))
        tables, drawn = {caption: lengths.rows(longer)}, {caption: png(lengths.picture(longer))}
        tell(tables[caption], as_json=as_json, output=None)
        typer.echo("" if as_json else "\n".join(lengths.notes(longer)), nl=not as_json)
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["headwise", *sys.argv[1:]])
    more = {"lengths": [row for table_rows in tables.values() for row in table_rows]} if tables else {}
    figures = pictures(result) | drawn
    files = {f"figure-{place}.png": caption for place, caption in enumerate(figures, 1)}
    for name, caption in files.items():
        (output / name).write_bytes(figures[caption])
    for name, text in (
        ("report.html", as_html(result, command, figures, tables)),
        ("results.json", as_json_text(result, command, files, more)),
    ):
        with opened(output / name) as stream:
            stream.write(text)
    write(table, output / "rows.csv")
    typer.echo(str(output / "report.html"), err=as_json)
