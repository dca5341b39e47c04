"""`headwise compare`: models that differ in named keys, trained alike over seeds, with costs and a report."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.output import opened
from headwise.cli.sweep import read_seeds
from headwise.cli.tables import tell, write
from headwise.cli.train import folder_name
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.compare.experiment import Result
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
    words: Annotated[list[str], typer.Argument(help="Recipes, and settings; those with several values are compared.")],
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
    output: Annotated[Path | None, typer.Option(help="Folder for report.html, results.json and rows.csv.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each side.")] = False,
) -> None:
    """Train models that differ in named keys, over seeds, and say which is better, how surely, and at what cost.

    The same command again goes on with what is missing; several processes may run it at once and share the runs.
    """
    from headwise import runtime
    from headwise.compare.experiment import Plan
    from headwise.compare.experiment import compare as compare_sides

    names = [word for word in words if "=" not in word]
    if not names:
        raise ConfigError("name a recipe: headwise compare RECIPE model.mechanism=scored,linear")
    if output is not None and output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output}: is a file; name a folder")
    limits, tokens = _limits(budget)
    settings = [word for word in words if "=" in word] + limits
    settings += [f"model.{key}={value}" for key, value in (("mechanism", mechanism), ("position", position)) if value]
    runtime.apply()
    numbers = [seed for seed in read_seeds(seeds) if seed is not None]
    plan = Plan(names, settings, numbers, partial(run_folder, runs), _tuned(tune), tokens, metric, split, limit, jobs)
    result = compare_sides(plan, lambda text: typer.echo(text, err=True))
    _hand_over(result, output, as_json=as_json)


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


def _hand_over(result: "Result", output: Path | None, *, as_json: bool) -> None:
    from headwise.compare.page import as_html, as_json_text, notes, pictures, rows

    table = rows(result)
    short = [
        {"side": row["side"], result.metric: row[result.metric], **{key: row[key] for key in _SHOWN}} for row in table
    ]
    tell(table if as_json else short, as_json=as_json, output=None)
    if not as_json:
        typer.echo("\n".join(notes(result)))
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["headwise", *sys.argv[1:]])
    figures = pictures(result)
    files = {f"figure-{place}.png": caption for place, caption in enumerate(figures, 1)}
    for name, caption in files.items():
        (output / name).write_bytes(figures[caption])
    for name, text in (
        ("report.html", as_html(result, command, figures)),
        ("results.json", as_json_text(result, command, files)),
    ):
        with opened(output / name) as stream:
            stream.write(text)
    write(table, output / "rows.csv")
    typer.echo(str(output / "report.html"), err=as_json)
