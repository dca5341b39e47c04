"""`headwise doctor`: what this machine and installation can do, with advice where something is missing."""

from importlib import metadata
from typing import Annotated

import typer

from headwise import native
from headwise.files import json_text

Row = tuple[str, str, str]

PACKAGES = ("headwise", "torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "matplotlib", "pydantic")
EXTRAS = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow-skinny": "mlflow", "trackio": "trackio"}
EXTRAS |= {
    "transformers": "hf",
    "sentencepiece": "hf",
    "ctranslate2": "ctranslate2",
    "onnx": "onnx",
    "onnxruntime": "onnx",
}
EXTRAS |= {"rdkit": "molecules", "soundfile": "audio", "soxr": "audio", "fla-core": "fla"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Report versions, machine settings, fonts and the data cache, with advice."""
    from headwise import runtime
    from headwise.explain.fonts import ADVICE, NONE, report

    sections = {
        "versions": [(name, metadata.version(name), "") for name in PACKAGES],
        "machine": runtime.report(),
        "decoding": [_steps()],
        "extras": [_extra(package, extra) for package, extra in EXTRAS.items()],
        "fonts": [(script, font, ADVICE if font == NONE else "") for script, font in report()],
        "data": _data(),
    }
    if as_json:
        values = {
            title: {name: {"value": value, **({"advice": advice} if advice else {})} for name, value, advice in rows}
            for title, rows in sections.items()
        }
        typer.echo(json_text(values))
        return
    for title, rows in sections.items():
        _section(title, rows)


def _steps() -> Row:
    build = native.build()
    return (
        "8-bit steps",
        str(build),
        "" if build.library else "a C++ compiler (g++ or clang++) decodes faster in 8 bits",
    )


def _section(title: str, rows: list[Row]) -> None:
    typer.echo(title)
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, advice in rows:
        typer.echo(f"  {name:<{width}}  {value}" + (f"  ({advice})" if advice else ""))


def _extra(package: str, extra: str) -> Row:
    try:
        return package, metadata.version(package), ""
    except metadata.PackageNotFoundError:
        return package, "not installed", f"pip install 'headwise[{extra}]'"


def _data() -> list[Row]:
    from headwise.data.files import data_cache

    folder = data_cache()
    if folder.is_dir():
        return [("cache", str(folder), "")]
    return [("cache", f"{folder} is not there", "recipes look for data there; set HEADWISE_DATA to another folder")]
