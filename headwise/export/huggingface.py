"""Folders of Hugging Face transformers: config.json, safetensors, tokenizer, generation configuration, card."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.adoption import transformers_part
from headwise.errors import CheckpointError
from headwise.exchange import huggingface
from headwise.exchange.folder import CONFIG, GENERATION, WEIGHTS
from headwise.exchange.safetensors import plain_file
from headwise.exchange.tokens import as_json
from headwise.export import their_encoders
from headwise.export.answers import Answers
from headwise.export.parity import Runner
from headwise.export.subject import ROWS, Case, Subject, Written, decoder_inputs, padded, picked
from headwise.export.their_encoders import TheirEncoder
from headwise.runs.commits import Writable

NAME = "huggingface"
_STOPPING: dict[str, bool | str] = {"full": True, "estimate": False, "bound": "never"}


def files_of(subject: Subject | Answers) -> dict[str, Writable]:
    """The files of a run in this format. Raises: Unsupported naming the keys that no class of theirs has."""
    if isinstance(subject, Answers):
        exported = their_encoders.exported(subject)
    else:
        exported = huggingface.write(subject.flat(), subject.tensors(), subject.tokenizers)
    files: dict[str, Writable] = {CONFIG: as_json(exported.config), **exported.files}
    if exported.generation is not None:
        files[GENERATION] = as_json(exported.generation)
    files[WEIGHTS] = plain_file(exported.tensors)
    files["README.md"] = _card(subject, exported.config["architectures"][0]).encode()
    return files


def runner_of(folder: Path, subject: Subject | Answers) -> Runner:
    """What runs a folder of this format."""
    return TheirEncoder(folder, subject) if isinstance(subject, Answers) else HuggingFaceRunner(folder, subject)


def _card(subject: Subject | Answers, kind: str) -> str:
    return (
        f"# {subject.run.resolve().name}\n\nA {kind} exported from a Headwise run of task {subject.recipe.task}."
        " [PARITY.md](PARITY.md) compares both.\n\n"
        f'    from transformers import AutoTokenizer, {kind}\n    model = {kind}.from_pretrained("FOLDER")\n'
    )


class HuggingFaceRunner(Runner):
    """A folder in transformers."""

    def __init__(self, folder: Path, subject: Subject):
        self._subject = subject
        kind = transformers_part("AutoModelForSeq2SeqLM" if subject.reads else "AutoModelForCausalLM")
        model, report = kind.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, attn_implementation="eager", dtype=torch.float32
        )
        if wrong := [*sorted(report["missing_keys"]), *sorted(report["unexpected_keys"])]:
            raise CheckpointError(f"{folder}: transformers does not take {wrong[0]}")
        self._model = model.eval()
        self._tokenizer = transformers_part("AutoTokenizer").from_pretrained(folder, local_files_only=True)
        self._check_tokens(folder)

    def versions(self) -> dict[str, str]:
        return {"transformers": str(transformers_part("__version__"))}

    @torch.inference_mode()
    def search(self, cases: Sequence[Case]) -> list[Written]:
        written: dict[int, Written] = {}
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for place, case in enumerate(cases):
            # prompts of a decoder are read without padding
            groups[case.limit, 0 if self._subject.reads else len(case.source)].append(place)
        for (limit, _), places in groups.items():
            for start in range(0, len(places), ROWS):
                part = places[start : start + ROWS]
                written |= dict(zip(part, self._generated([cases[place] for place in part], limit), strict=True))
        return [written[place] for place in range(len(cases))]

    def _generated(self, cases: Sequence[Case], limit: int) -> list[Written]:
        config, target = self._subject.decoding, self._subject.tokenizers[-1]
        pad = target.pad_id
        tokens, lens = padded([case.source for case in cases], pad)
        beams = config.beam_size if config.method == "beam" else 1
        options: dict[str, Any] = {"num_beams": beams, "do_sample": False, "max_new_tokens": limit, "max_length": None}
        options |= {"min_new_tokens": config.min_len or None, "min_length": 0, "pad_token_id": pad}
        options |= {"length_penalty": config.length_penalty, "early_stopping": _STOPPING[config.stopping]}
        generated = self._model.generate(
            input_ids=tokens,
            attention_mask=(torch.arange(tokens.shape[1]) < lens[:, None]).long(),
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        )
        start = 1 if self._subject.reads else tokens.shape[1]
        scores = generated.get("sequences_scores")
        rows = [self._cut(row[start:].tolist()) for row in generated.sequences]
        return [Written(row, float("nan") if scores is None else float(scores[n])) for n, row in enumerate(rows)]

    def _cut(self, row: list[int]) -> list[int]:
        eos = self._subject.tokenizers[-1].eos_id
        return row[: row.index(eos)] if eos in row else row

    @torch.inference_mode()
    def log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        rows = []
        for start in range(0, len(cases), ROWS):
            part = cases[start : start + ROWS]
            rows += picked(self._logits(part), part, reads=self._subject.reads)
        return rows

    def _logits(self, cases: Sequence[Case]) -> Tensor:
        pad = self._subject.tokenizers[-1].pad_id
        tokens, lens = padded(decoder_inputs(self._subject, cases), pad)
        if not self._subject.reads:
            keep = (torch.arange(tokens.shape[1]) < lens[:, None]).long()
            logits: Tensor = self._model(input_ids=tokens, attention_mask=keep).logits
            return logits
        sources, lens = padded([case.source for case in cases], pad)
        keep = (torch.arange(sources.shape[1]) < lens[:, None]).long()
        logits = self._model(input_ids=sources, attention_mask=keep, decoder_input_ids=tokens).logits
        return logits

    def _check_tokens(self, folder: Path) -> None:
        """Raises: CheckpointError where their tokenizer reads a text of the examples in another way."""
        subject = self._subject
        texts = [subject.predictor.text_of(example) if subject.reads else example for example in subject.held_out]
        begin = [] if subject.reads else subject.predictor.begin()
        ours = [[*begin, *subject.tokenizers[0].encode(text)] for text in texts]
        ends = [subject.tokenizers[0].target.eos_id] if subject.reads else []
        for text, row in zip(texts, ours, strict=True):
            theirs = self._tokenizer(text)["input_ids"]
            if theirs != [*row, *ends] and len(row) > len(begin):
                raise CheckpointError(f"{folder}: transformers reads {text[:40]!r} as other tokens")
