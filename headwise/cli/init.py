"""`headwise init`: a commented recipe fitted to the data, and by choice to a limit of minutes."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import TaskOptions
from headwise.cli.output import opened
from headwise.errors import ConfigError, flag
from headwise.trust import trusting

if TYPE_CHECKING:
    from headwise.tasks.task import Task
    from headwise.training.recipe import Recipe

# data up to so many bytes takes a second to read as training would
_SMALL_BYTES = 1 << 20


def init(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="What to learn: a name from `headwise list tasks`, or my_module:MyTask.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Settings such as model.num_heads=8.")] = None,
    data: Annotated[Path, typer.Option(help="File to train on.")] = ...,  # type: ignore[assignment]
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    valid: Annotated[Path | None, typer.Option(help="File to validate on; default: a part of --data.")] = None,
    test: Annotated[Path | None, typer.Option(help="File to test on; default: a part of --data.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Choose size and schedule for this many minutes of training on this machine.")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Run, or folder of Hugging Face, to train further.")] = None,
    output: Annotated[Path, typer.Option(help="Recipe to write.")] = Path("recipe.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing recipe.")] = False,
) -> None:
    """Write a commented recipe.toml that suits the data and, with --minutes, this machine and the time."""
    from headwise.config import file_keys, value_of
    from headwise.tasks import registry
    from headwise.training.trial import check_trainable

    # a task that is named here is the user's own word
    with trusting():
        kind = registry.task_type(task)
    if output.exists() and not force:
        raise ConfigError(f"{output} is there already; give another --output, or --force to replace it")
    files = {"data": data, "target_data": target_data, "valid": valid, "test": test}
    sources = {name: None if path is None else str(path.resolve()) for name, path in files.items()}
    task_options = TaskOptions.of(context, "data")
    options = {name: task_options.values.get(name) for name in task_options.kind.model_fields}
    keys = data_keys(kind, task, {**sources, **options})
    heading, recipe, values = _chosen(kind, task, keys, settings or [], minutes, start)
    paths = [value_of(recipe, key) for key in file_keys(recipe) if key.rpartition(".")[2] in keys]
    # of small data there may be too little: it is read as training would, before there is a recipe for it
    if sum(os.path.getsize(path) for path in paths if os.path.exists(path)) <= _SMALL_BYTES:
        check_trainable(recipe)
    text = f"# {heading}; train it with: headwise train {output}\n{commented(recipe, values, output, paths)}"
    with opened(output) as stream:
        stream.write(text)
    typer.echo(f"wrote {output}: {_summary(recipe)}")
    typer.echo(f"next: headwise train {output}")


def data_keys(kind: "type[Task[Any]]", task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line as keys of the task's `[data]`, or of the task itself if it has no such section.

    Raises: ConfigError for an option that the task has no key for.
    """
    fields = kind.config_type.model_fields
    if "data" in fields:
        fields = getattr(fields["data"].annotation, "model_fields", {})
    names = {"data": "train", "target_data": "train_target"}
    keys = {}
    for option, value in options.items():
        key = names.get(option, option)
        if value is not None and key not in fields:
            there = [flag(name) for name in options if names.get(name, name) in fields]
            raise ConfigError(f"task '{task}' has no option {flag(option)}; it has: {', '.join(there) or 'none'}")
        if value is not None:
            keys[key] = value
    return keys


def fitted(
    kind: "type[Task[Any]]", task: str, keys: Mapping[str, Any], settings: list[str], minutes: float | None
) -> "tuple[str, Recipe, dict[str, Any]]":
    """The heading of the recipe, the recipe, and the values that are written of it."""
    from dataclasses import replace

    from headwise import runtime
    from headwise.config import override
    from headwise.training.fitting import fit_recipe
    from headwise.training.recipe import read_recipe

    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes ({minutes:g}) must be above 0")
    # data is read as it will be for training: an option may decide whether it can be
    of_data = [setting for setting in settings if setting.startswith("data.")]
    suggestion = kind.suggest(override({"data": dict(keys)}, of_data)["data"])
    suggestion = replace(suggestion, values={"task": task, "seed": 0, **suggestion.values})
    heading = f"{suggestion.about} of {Path(keys['train']).name}"
    if minutes is None:
        values = override(suggestion.values, settings)
    else:
        runtime.apply()
        values = fit_recipe(suggestion, settings, minutes, lambda message: typer.echo(message, err=True))
        heading += f", and to {_counted(minutes, 'minute')} on the machine it was written on"
    return heading, read_recipe(values), values


def _chosen(
    kind: "type[Task[Any]]",
    task: str,
    keys: Mapping[str, Any],
    settings: list[str],
    minutes: float | None,
    start: Path | None,
) -> "tuple[str, Recipe, dict[str, Any]]":
    if start is None:
        return fitted(kind, task, keys, settings, minutes)
    if minutes is not None:
        raise ConfigError("--minutes chooses the size of a model, which --start has; leave one of them out")
    return started(kind, task, keys, settings, start)


def started(
    kind: "type[Task[Any]]", task: str, keys: Mapping[str, Any], settings: list[str], folder: Path
) -> "tuple[str, Recipe, dict[str, Any]]":
    """As `fitted`, for a model that goes on from a trained one: its parts, its tokens, its lengths, a low rate."""
    from headwise.config import override
    from headwise.training.recipe import read_recipe
    from headwise.training.start import Start

    start = Start.read(folder, task)
    values = kind.suggest(override({"data": dict(keys)}, [s for s in settings if s.startswith("data.")])["data"]).values
    values = override({"task": task, "seed": 0, **values, **start.settings(folder, values["data"], task)}, settings)
    return f"Fine-tuning of {start.origin.name} on {Path(keys['train']).name}", read_recipe(values), values


def commented(recipe: "Recipe", values: Mapping[str, Any], output: Path, files: Collection[str]) -> str:
    """The values as TOML, each key with the description of its field; keys without a value are left out.

    Args:
        output: the recipe; paths that are among `files` are written as seen from it, so that both can move together.
    """
    from headwise.config import file_keys, value_of

    # other keys are read as seen from the working folder
    relative_paths = {
        key: os.path.relpath(value_of(recipe, key), output.resolve().parent)
        for key in file_keys(recipe)
        if value_of(recipe, key) in files
    }
    sections = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [_line(key, value, recipe, relative_paths.get(key)) for key, value in values.items() if key not in sections]
    for name, section in sections.items():
        lines += _table(name, section, recipe, relative_paths)
    return "\n".join(lines) + "\n"


def _table(name: str, values: Mapping[str, Any], around: Any, relative_paths: Mapping[str, str]) -> list[str]:
    """A section as lines, and after its keys the sections inside it; `around` is what it is a part of."""
    key = name.rpartition(".")[2]
    config, described = getattr(around, key), type(around).model_fields[key].description
    inner = [inside for inside, value in values.items() if isinstance(value, Mapping)]
    lines = ["", f"[{name}]" + (f"  # {described}" if described else "")]
    for inside, value in values.items():
        if inside not in inner and value is not None:
            lines.append(_line(inside, value, config, relative_paths.get(f"{name}.{inside}")))
    for inside in inner:
        lines += _table(f"{name}.{inside}", values[inside], config, relative_paths)
    return lines


def _line(key: str, value: Any, config: Any, path: str | None) -> str:
    import tomli_w

    value = value if path is None else path
    description = type(config).model_fields[key].description
    if isinstance(value, tuple | list):
        # tomli_w would break a list over lines, with no place for a comment
        items = [tomli_w.dumps({"item": item}).strip().removeprefix("item = ") for item in value]
        text = f"{key} = [{', '.join(items)}]"
    else:
        text = tomli_w.dumps({key: value}).strip()
    return f"{text}  # {description}" if description else text


def _summary(recipe: "Recipe") -> str:
    """Task, tokens, model and limits in a line, as far as the recipe has them."""
    values = recipe.model_dump(mode="json")
    parts = [recipe.task]
    tokenizer, model, training = values.get("tokenizer"), values.get("model"), recipe.training
    if isinstance(tokenizer, Mapping):
        parts.append(f"{tokenizer['kind']} tokens, at most {tokenizer['vocab_size']}")
    if isinstance(model, Mapping):
        layers = [
            str(value) for key, value in model.items() if key.endswith("layers") and isinstance(value, int) and value
        ]
        wide = f", {model['d_model']} wide" if "d_model" in model else ""
        count = f" of {'+'.join(layers)} layers" if layers else ""
        parts.append(f"{model.get('kind', 'model')}{count}{wide}")
    limits = {"pass": training.max_epochs, "step": training.max_steps, "minute": training.max_minutes}
    parts.append("at most " + ", ".join(_counted(limit, name) for name, limit in limits.items() if limit))
    return "; ".join(parts)


def _counted(number: int | float, name: str) -> str:
    """A number of things.

    >>> _counted(1, "minute"), _counted(0.5, "minute"), _counted(2000, "pass")
    ('1 minute', '0.5 minutes', '2,000 passes')
    """
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{number:,g} {name if number == 1 else plural}"
