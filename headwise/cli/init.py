"""`headwise init`: a commented recipe fitted to the data."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from pydantic import BaseModel

    from headwise.data.readers import Pair

TASKS = ("translate",)
WIDE = 512  # models at least as wide learn more slowly, with a longer warm-up


def init(
    task: Annotated[str, typer.Argument(help=f"What to learn: {', '.join(TASKS)}.")],
    data: Annotated[Path, typer.Option(help="TSV or JSON lines of pairs, plain or gzip.")],
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    columns: Annotated[tuple[int, int] | None, typer.Option(help="Source and target column of a TSV, from 0.")] = None,
    source_key: Annotated[str | None, typer.Option(help="Source field, or language, of JSON lines.")] = None,
    target_key: Annotated[str | None, typer.Option(help="Target field, or language, of JSON lines.")] = None,
    output: Annotated[Path, typer.Option(help="The recipe to write.")] = Path("recipe.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a recipe that is there.")] = False,
) -> None:
    """Write a commented recipe.toml with sizes, tokenizer and lengths that suit the data."""
    if task not in TASKS:
        raise ConfigError(f"{unknown('task', task, TASKS)}; for others begin with a recipe of `headwise list recipes`")
    if output.exists() and not force:
        raise ConfigError(f"{output} is there already; give another --output, or --force to replace it")
    from headwise.data.readers import read_pairs

    pairs = read_pairs(
        data, target_path=target_data, columns=columns, source_key=source_key, target_key=target_key, empty="skip"
    )
    files = {
        "train": _beside(data, output),
        "train_target": target_data and _beside(target_data, output),
        "columns": columns,
        "source_key": source_key,
        "target_key": target_key,
        "empty": "skip",
    }
    settings = fitted(pairs, files)
    heading = f"Translation, fitted to the {len(pairs):,} pairs of {data.name}; train it with: headwise train {output}"
    _write(output, f"# {heading}\n" + commented(settings))
    typer.echo(f"wrote {output}: {_summary(settings)}")
    typer.echo(f"next: headwise train {output}")


def fitted(pairs: "list[Pair]", files: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's values for these pairs, in the order in which they are written."""
    from headwise.data.suggestions import suggest

    found = suggest(pairs)
    model = dict(found["model"])
    layers = model.pop("num_layers")
    wide = model["d_model"] >= WIDE
    epochs = max(10, min(60, 1_500_000 // len(pairs)))
    return {
        "task": "translate",
        "seed": 0,
        "label_smoothing": 0.1,
        "data": {**files, **found["data"], "valid_fraction": 0.05, "test_fraction": 0.05},
        "tokenizer": found["tokenizer"],
        "model": {"kind": "transformer", **model, "encoder_layers": layers, "decoder_layers": layers, "norm": "pre"},
        "training": {
            "learning_rate": 7e-4 if wide else 2e-3,
            "warmup_steps": 4000 if wide else 400,
            **found["training"],
            "max_epochs": epochs,
            "patience": 10,
            "precision": "fp32",
        },
    }


def commented(values: Mapping[str, Any]) -> str:
    """The values as TOML, each key with the description of its field; keys without a value are left out."""
    from headwise.models.transformer_config import TransformerConfig
    from headwise.tasks.translate import TranslateConfig
    from headwise.training.recipe import Recipe

    sections = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [_line(key, values[key], [TranslateConfig, Recipe]) for key in values if key not in sections]
    for name, section in sections.items():
        field = TranslateConfig.model_fields.get(name) or Recipe.model_fields[name]
        # the section of a model is a union of models; this recipe's is a Transformer
        kind: Any = TransformerConfig if name == "model" else field.annotation
        lines += ["", f"[{name}]  # {field.description}"]
        lines += [_line(key, value, [kind]) for key, value in section.items() if value is not None]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any, kinds: "list[type[BaseModel]]") -> str:
    import tomli_w

    description = next((kind.model_fields[key].description for kind in kinds if key in kind.model_fields), None)
    if isinstance(value, tuple):
        # tomli_w would break a list over lines, with no place for a comment
        text = f"{key} = [{', '.join(map(str, value))}]"
    else:
        text = tomli_w.dumps({key: value}).strip()
    return f"{text}  # {description}" if description else text


def _beside(data: Path, output: Path) -> str:
    """The path of the data as seen from the recipe, so that both can be moved together."""
    return os.path.relpath(data.resolve(), output.resolve().parent)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _summary(settings: Mapping[str, Any]) -> str:
    tokenizer, model = settings["tokenizer"], settings["model"]
    return (
        f"{tokenizer['kind']} tokens, at most {tokenizer['vocab_size']}; Transformer of "
        f"{model['encoder_layers']}+{model['decoder_layers']} layers, {model['d_model']} wide"
    )
