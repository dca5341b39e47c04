"""The formats, and the way to each: write, compare, and keep the folder only if both sides are equal."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise.decoding.constraints import Stopping
from headwise.errors import CheckpointError, ConfigError, unknown
from headwise.export import ctranslate2, huggingface, onnx, torch_programs
from headwise.export.answers import Answers, subject_of
from headwise.export.exported import AnySubject
from headwise.export.parity import FILE, Parity, Runner, compare
from headwise.runs.commits import Draft, Writable, size_of


@dataclass(frozen=True)
class Format:
    """A format.

    Args:
        files: of a run, with the options of the format.
        runner: what runs a folder of it.
        options: names of its options.
        stopping: when its beam search ends; None: as is asked.
        everything: it takes any task; else those that write texts.
    """

    files: Callable[..., dict[str, Writable]]
    runner: Callable[[Path, Any], Runner]
    options: tuple[str, ...] = ()
    stopping: Stopping | None = None
    everything: bool = False


FORMATS = {
    huggingface.NAME: Format(huggingface.files_of, huggingface.runner_of, everything=True),
    ctranslate2.NAME: Format(ctranslate2.files_of, ctranslate2.CTranslate2Runner, ("quantization",), "full"),
    onnx.NAME: Format(onnx.files_of, onnx.OnnxRunner, ("quantization", "attention"), everything=True),
    torch_programs.NAME: Format(torch_programs.files_of, torch_programs.TorchRunner, ("attention",), everything=True),
}


def export(
    run: Path,
    name: str,
    folder: Path,
    *,
    split: str | None = None,
    data: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Parity:
    """Writes a run in a format, and the comparison of both sides.

    Args:
        split, data: where the examples of the comparison come from; the test part, else that of validation or training.
        options: of the format.

    Raises:
        ConfigError: an unknown format or option, or a folder that is there already.
        Unsupported: a model that the format cannot hold, with what it cannot.
        CheckpointError: both sides are not equal; nothing is left behind.
    """
    chosen = _format(name, options or {})
    if folder.exists():
        raise ConfigError(f"{folder}: is there already; name another folder")
    subject = _subject(chosen, run, split, data)
    files = chosen.files(subject, **(options or {}))
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Draft.begin(folder, sum(map(size_of, files.values())))
    try:
        for file, content in files.items():
            draft.write(file, content)
        settings = {**(options or {}), "data": dict(data or {})}
        parity = compare(subject, chosen.runner(draft.path, subject), name, settings, quantized=_is_quantized(options))
        if failures := parity.failures():
            raise CheckpointError(f"{folder}: not written: the exported model is not equal: {'; '.join(failures)}")
        for file, content in parity.files().items():
            draft.write(file, content)
        draft.path.rename(folder)
    except BaseException:
        draft.discard()
        raise
    return parity


def check(folder: Path) -> Parity:
    """Repeats the comparison of an exported folder, and writes it anew.

    Raises: CheckpointError: no such folder, another run, or both sides are no longer equal.
    """
    try:
        before = json.loads((folder / FILE).read_bytes())
        name, options, run = before["format"], dict(before["options"]), Path(before["run"])
        split, digest = before["split"], before["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder}: has no {FILE} that says which run it is of") from None
    data = options.pop("data", None)
    chosen = _format(name, options)
    subject = _subject(chosen, run, split, data)
    if subject.digest() != digest:
        raise CheckpointError(f"{run}: its weights are not those that were exported to {folder}; export it again")
    settings = {**options, "data": data}
    parity = compare(subject, chosen.runner(folder, subject), name, settings, quantized=_is_quantized(options))
    for file, content in parity.files().items():
        (folder / file).write_bytes(content)
    if failures := parity.failures():
        raise CheckpointError(f"{folder}: no longer equal to {run}: {'; '.join(failures)}")
    return parity


def _subject(chosen: Format, run: Path, split: str | None, data: Mapping[str, Any] | None) -> AnySubject:
    subject = subject_of(run, split, data, everything=chosen.everything)
    return subject if isinstance(subject, Answers) else replace(subject, stopping=chosen.stopping)


def _format(name: str, options: Mapping[str, Any]) -> Format:
    if name not in FORMATS:
        raise ConfigError(unknown("format", name, tuple(FORMATS)))
    chosen = FORMATS[name]
    if others := [option for option in options if option not in chosen.options]:
        raise ConfigError(f"format {name} has no option {others[0]}: leave it out")
    return chosen


def _is_quantized(options: Mapping[str, Any] | None) -> bool:
    return (options or {}).get("quantization", "float32") != "float32"
