"""A folder of programs with meta.json beside them: how it is made of a run, and how it answers in place of the run."""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from headwise import runtime
from headwise.data.tokenizers import Tokenizer
from headwise.errors import CheckpointError, HeadwiseError, Unsupported
from headwise.exchange.tokens import as_json, theirs_of_tokenizers
from headwise.export.answers import Answers, settled
from headwise.export.decoders import writer_programs
from headwise.export.parity import Runner
from headwise.export.programs import Interface, Program, called, refuse_loops
from headwise.export.stand_ins import Session, stand_in
from headwise.export.subject import Subject, Written
from headwise.models.decoder_only import DecoderOnly
from headwise.models.protocols import Seq2Seq
from headwise.predictors.looking import has_attention
from headwise.runs.commits import Writable
from headwise.training.loading import task_of

META = "meta.json"
# examples of which one call of the model is traced
_TRACED = 3
# a maximum that no tokenizer meets
_ANY_LENGTH = 1_000_000

AnySubject = Subject | Answers


def program_files(
    subject: AnySubject,
    suffix: str,
    written: Callable[[ExportedProgram, Interface], bytes],
    *,
    attention: bool,
    settings: Mapping[str, Any],
) -> dict[str, Writable]:
    """The files of a run as programs.

    Args:
        suffix: of the files of programs.
        written: a program as the content of its file.
        attention: whether the weights of attention are outputs too.
        settings: what meta.json says besides.

    Raises: Unsupported naming what cannot be traced.
    """
    if not subject.predictor.passes:
        raise Unsupported(f"task {subject.recipe.task} answers from a table of vectors: there is no program to export")
    refuse_loops(subject.flat())
    if attention and not has_attention(subject.model):
        raise Unsupported("this model has no attention whose weights could be outputs: remove --attention")
    files: dict[str, Writable] = {}
    described = {}
    for program in _programs(subject, attention=attention):
        traced, interface = program.trace()
        files[f"{program.name}{suffix}"] = written(traced, interface)
        described[program.name] = {"file": f"{program.name}{suffix}", **interface.described()}
    tokenizers = _tokenizers(subject.predictor)
    if tokenizers:
        flat = subject.flat()
        files |= theirs_of_tokenizers(tokenizers, flat, flat.get("model.max_len", _ANY_LENGTH))
    task = task_of(subject.run)
    files |= {name: data for name, data in task.assets.files.items() if not name.endswith("tokenizer.json")}
    files[META] = as_json({"task": subject.recipe.task, "headwise": runtime.version(), "programs": described,
                           **_special_tokens(tokenizers), **settings,
                           "recipe": subject.recipe.model_dump(mode="json", exclude_none=True)})  # fmt: skip
    return files


def _programs(subject: AnySubject, *, attention: bool) -> list[Program]:
    model = subject.model
    if isinstance(model, DecoderOnly):
        return writer_programs(model, (), attention=attention)
    part = model.encoder if isinstance(model, Seq2Seq) else model
    arguments, output = _example_call(subject, part)
    if isinstance(model, Seq2Seq):
        return writer_programs(model, arguments, attention=attention)
    return [called(model, arguments, output, attention=attention)]


def _example_call(subject: AnySubject, part: nn.Module) -> tuple[tuple[Any, ...], Any]:
    """What a part of the model was called with for a few examples, and what it gave."""
    calls: list[tuple[tuple[Any, ...], Any]] = []
    handle = part.register_forward_hook(lambda module, inputs, output: calls.append((inputs, output)))
    predictor, examples = task_of(subject.run).predictor(subject.model), subject.held_out[:_TRACED]
    try:
        with torch.inference_mode(False), torch.no_grad():
            predictor.evaluate(examples)
    finally:
        handle.remove()
    return calls[0]


def _tokenizers(predictor: Any) -> tuple[Tokenizer, ...]:
    """Of what is read, then of what is written where that is another one."""
    holder = getattr(predictor, "translator", predictor)
    names = ("source_tokenizer", "target_tokenizer", "tokenizer")
    tokenizers = [getattr(holder, name, None) for name in names]
    parts = [getattr(each, "pieces", each) if not isinstance(each, Tokenizer) else each for each in tokenizers]
    own = [each for each in parts if isinstance(each, Tokenizer)]
    return tuple(own[:1] if len(own) > 1 and own[1].target is own[0].target else own)


def _special_tokens(tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
    if not tokenizers:
        return {}
    last = tokenizers[-1]
    banned = [int(token) for token in last.banned_ids]
    return {"tokens": {"pad": last.pad_id, "bos": last.bos_id, "eos": last.eos_id, "never": banned}}


class ProgramRunner(Runner):
    """The run with its model's passes done by the programs of a folder."""

    def __init__(self, folder: Path, subject: AnySubject):
        try:
            meta = json.loads((folder / META).read_bytes())
            parts = {name: (folder / entry["file"], Interface.of(entry)) for name, entry in meta["programs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise CheckpointError(f"{folder}: has no {META} that names its programs; export it again") from None
        if missing := [path for path, _ in parts.values() if path.parent != folder or not path.is_file()]:
            raise CheckpointError(f"{missing[0]}: is no program of this folder; export it again")
        sessions = {name: self.opened(*part) for name, part in parts.items()}
        predictor = task_of(subject.run).predictor(stand_in(subject.model, sessions))
        self._subject = replace(subject, predictor=settled(predictor))

    @abstractmethod
    def opened(self, path: Path, interface: Interface) -> Session:
        """The program of a file. Raises: CheckpointError for a file that is none."""

    def search(self, cases: Sequence[Any]) -> list[Written]:
        return self._subject.search(cases)

    def log_probs(self, cases: Sequence[Any]) -> list[Any]:
        return self._subject.log_probs(cases)

    def metric(self, subject: AnySubject, cases: Any, outputs: Any, log_probs: Any) -> dict[str, float]:
        return self._subject.metric(cases, outputs, log_probs)


def damaged(path: Path, error: Exception) -> HeadwiseError:
    """What to raise for a file that is no program."""
    return CheckpointError(f"{path}: cannot be read: {str(error).splitlines()[0][:200]}; export it again")
