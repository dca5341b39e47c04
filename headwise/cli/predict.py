"""`headwise predict`: inputs from arguments, files or standard input through a trained model, in order."""

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain, islice
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from headwise.cli.files import files_of, in_folder
from headwise.cli.options import TaskOptions
from headwise.cli.output import opened
from headwise.errors import ConfigError, DataError
from headwise.processes import ALONE, Processes, process_group, sharing, together

if TYPE_CHECKING:
    from headwise.predictors.predictor import Form, Predictor, Unknown

STDIN = "-"
_FOLDER_MARKS = ("/", os.sep)


def predict(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    inputs: Annotated[list[str] | None, typer.Argument(help="Texts, files, or - for stdin.", metavar="INPUT")] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A file of inputs; may be given several times.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="A text, even if it looks like a file name.")] = None,
    output: Annotated[Path | None, typer.Option(help="File for the answers; a folder for pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per input.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of inputs read at a time.")] = 256,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random numbers, for sampling.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE that a predictor of your own takes; repeat it.")
    ] = None,
) -> None:
    """Apply a trained model to texts, files or standard input: one line of output for each input, in order.

    With --n-best, each line begins with the number of its input, from 0; tabs separate columns. Control characters
    are written as escapes, such as \\x1b.
    """
    from headwise.config import build, override

    places = sources(inputs or [], file or [], text or [])
    _refuse_own(output, places)
    kind, values = TaskOptions.of(context, "predict")
    chosen = values | override({}, settings or [])
    build(kind, {name: value for name, value in chosen.items() if name in kind.model_fields}, "options")
    chunk = 1 if inputs == [STDIN] and sys.stdin.isatty() else batch
    with process_group() as processes, sharing(processes):
        predictor = together(processes, lambda: loaded(run, seed))
        numbered = not as_json and chosen.get("n_best", 1) != 1
        _apply(predictor, chosen, places, _To(output, chunk, as_json, numbered), processes)


class _To(NamedTuple):
    """Where answers go: file or standard output, so many at a time, as JSON, or after their number."""

    output: Path | None
    chunk: int
    as_json: bool
    numbered: bool


def _apply(
    predictor: "Predictor[Any, Any, Any]",
    chosen: Mapping[str, Any],
    places: list[tuple[str, bool]],
    to: _To,
    processes: Processes,
) -> None:
    options = predictor.options(chosen)
    read_all = chain.from_iterable(read(predictor, place, is_file) for place, is_file in places)
    items = read_all if places else predictor.everything(options)
    if to.output is not None and predictor.ending and in_folder(to.output):
        # each path as soon as the file is written
        for path in files_of(predictor, items, options, to.chunk, to.output) if processes.first else ():
            typer.echo(str(path))
        return
    unknown: list[Unknown] = []
    chunks = in_chunks(items, to.chunk, processes)
    written = answers(predictor, chunks, options, "json" if to.as_json else "text", unknown)
    if not processes.first:
        # the same work, whose answers the first process writes
        deque(written, maxlen=0)
        return
    _write(written, to.output, to.chunk, to.numbered)
    warn(unknown)
    report_search(predictor)


def _refuse_own(output: Path | None, places: list[tuple[str, bool]]) -> None:
    """An input is not replaced by its answers. Raises: ConfigError."""
    files = (name for name, is_file in places if is_file and name != STDIN)
    if output is not None and output.is_file() and any(output.samefile(name) for name in files):
        raise ConfigError(f"{output}: is one of the inputs; name another file with --output")


def _write(written: Iterable[list[str]], output: Path | None, chunk: int, numbered: bool) -> None:
    """The lines of each answer, after its number if asked; flushed with every chunk of inputs."""
    with opened(output) as stream:
        for number, lines in enumerate(written):
            stream.writelines(f"{number}\t{line}".rstrip() + "\n" if numbered else f"{line}\n" for line in lines)
            if (number + 1) % chunk == 0:
                stream.flush()


def loaded(run: Path, seed: int | None) -> "Predictor[Any, Any, Any]":
    """The predictor of a run, in a process that draws its random numbers from this seed."""
    import torch

    import headwise
    from headwise import runtime

    runtime.apply(fast_products=False)
    if seed is not None:
        torch.manual_seed(seed)
    predictor: Predictor[Any, Any, Any] = headwise.load(run)
    return for_search(predictor)


def for_search(predictor: "Predictor[Any, Any, Any]") -> "Predictor[Any, Any, Any]":
    """The predictor in a process that trains nothing: no search has to see whether its weights changed."""
    if predictor.twin() is not None:
        predictor.model.requires_grad_(False)
    return predictor


def report_search(predictor: "Predictor[Any, Any, Any]") -> None:
    """Prints which engines searched, the precisions that were chosen, and why."""
    from headwise import native

    twin, engines = predictor.twin(), predictor.engines()
    for report in () if engines is None else engines.reports:
        typer.echo(f"engine {report}", err=True)
    for choice in () if twin is None else twin.choices:
        typer.echo(f"precision {choice}", err=True)
        if choice.precision == "int8":
            typer.echo(f"decoder steps {native.build()}", err=True)


def in_chunks(items: Iterable[Any], chunk: int, processes: Processes = ALONE) -> Iterator[list[Any]]:
    """The items, so many at a time, as the first process reads them: the others need neither files nor input."""
    left = iter(items)
    while batch := processes.once(lambda: list(islice(left, chunk))):
        yield batch


def answers(
    predictor: "Predictor[Any, Any, Any]",
    chunks: Iterable[list[Any]],
    options: Any,
    form: "Form",
    unknown: "list[Unknown]",
) -> Iterator[list[str]]:
    """The lines of each answer, in the order of the inputs; what is unknown in each chunk is added to `unknown`."""
    for batch in chunks:
        unknown.append(predictor.unknown(batch))
        for item, output in zip(batch, predictor.predict(batch, options), strict=True):
            yield predictor.write(item, output, form, options)


def warn(unknown: "list[Unknown]") -> None:
    """Says once what of all inputs training has not taught the model."""
    if unknown and (lost := reduce(add, unknown)).count:
        typer.echo(f"warning: {lost}", err=True)


def sources(inputs: list[str], files: list[Path], texts: list[str]) -> list[tuple[str, bool]]:
    """What to read, in this order, and whether it is a file.

    Raises: ConfigError: what looks like a file is not there; DataError: a folder in place of a file.
    """
    places = [(name, _is_file(name)) for name in inputs]
    places += [(os.fspath(path), True) for path in files] + [(line, False) for line in texts]
    for name, is_file in places:
        if is_file and os.path.isdir(name):
            raise DataError(f"{name}: is a folder; name the files in it")
    return places


def _is_file(name: str) -> bool:
    """Whether an argument names a file: one that is there, or a pipe; what only looks like one is refused."""
    if name == STDIN or os.path.exists(name):
        return True
    one_word = not any(letter.isspace() for letter in name) and bool(name)
    ending = Path(name).suffix
    if one_word and (any(mark in name for mark in _FOLDER_MARKS) or (1 < len(ending) < 7 and ending[1:].isalnum())):
        raise ConfigError(f"{name}: no such file; if these are the words themselves, write --text {json.dumps(name)}")
    return False


def read(predictor: "Predictor[Any, Any, Any]", place: str, is_file: bool) -> Iterator[Any]:
    from headwise.data.files import decode_lines

    if not is_file:
        yield predictor.parse(place)
    elif place == STDIN:
        yield from (predictor.parse(line) for _, line in decode_lines(sys.stdin.buffer, "standard input"))
    else:
        yield from predictor.read(Path(place))
