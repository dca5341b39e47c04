"""Runs as folders of CTranslate2, compared with what CTranslate2 computes from these."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headwise.exchange import ctranslate2
from headwise.export.parity import Runner
from headwise.export.subject import ROWS, Case, Subject, Written
from headwise.runs.commits import Writable

NAME = "ctranslate2"


def files_of(subject: Subject, quantization: str = "float32") -> dict[str, Writable]:
    """The files of a run in this format. Raises: Unsupported naming the keys that CTranslate2 does not compute."""
    return ctranslate2.files_of(subject.model, subject.tokenizers, subject.flat(), quantization)


class CTranslate2Runner(Runner):
    """A folder in CTranslate2, on the processor."""

    def __init__(self, folder: Path, subject: Subject):
        self._subject, self._library = subject, ctranslate2.library()
        kind = self._library.Translator if subject.reads else self._library.Generator
        self._model = kind(str(folder), device="cpu", inter_threads=1, intra_threads=torch.get_num_threads())
        self._entries = [ctranslate2.unique_entries(tokenizer) for tokenizer in subject.tokenizers]
        self._numbers = {entry: number for number, entry in enumerate(self._entries[-1])}

    def versions(self) -> dict[str, str]:
        return {"ctranslate2": self._library.__version__}

    def search(self, cases: Sequence[Case]) -> list[Written]:
        written: dict[int, Written] = {}
        by_limit: dict[int, list[int]] = {}
        for place, case in enumerate(cases):
            by_limit.setdefault(case.limit, []).append(place)
        for limit, places in by_limit.items():
            for start in range(0, len(places), ROWS):
                part = places[start : start + ROWS]
                written |= dict(zip(part, self._searched([cases[place] for place in part], limit), strict=True))
        return [written[place] for place in range(len(cases))]

    def _searched(self, cases: Sequence[Case], limit: int) -> list[Written]:
        config, target = self._subject.decoding, self._subject.tokenizers[-1]
        first = () if target.imported is None else target.imported.first
        beams = config.beam_size if config.method == "beam" else 1
        options: dict[str, Any] = {"beam_size": beams, "length_penalty": config.length_penalty, "return_scores": True}
        options |= {"no_repeat_ngram_size": config.no_repeat_ngram}
        banned = target.banned_ids if self._subject.reads or target.imported else (*target.banned_ids, target.eos_id)
        options["suppress_sequences"] = [[self._entries[-1][token]] for token in banned]
        sources = [[self._entries[0][token] for token in case.source] for case in cases]
        if self._subject.reads:
            prefix = [[self._entries[-1][token] for token in first]] * len(cases) if first else None
            options |= {"max_decoding_length": limit, "min_decoding_length": config.min_len}
            results = self._model.translate_batch(sources, target_prefix=prefix, **options)
            rows = [(result.hypotheses[0], result.scores[0]) for result in results]
            return [Written([self._numbers[token] for token in row], float(score)) for row, score in rows]
        options |= {"max_length": limit, "min_length": config.min_len, "include_prompt_in_result": False}
        results = self._model.generate_batch(sources, **options)
        return [Written(list(result.sequences_ids[0]), float(result.scores[0])) for result in results]

    def log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        names = self._entries
        targets = [[names[-1][token] for token in case.target] for case in cases]
        sources = [[names[0][token] for token in case.source] for case in cases]
        if self._subject.reads:
            results = self._model.score_batch(sources, [row[:-1] for row in targets])
            return [list(result.log_probs) for result in results]
        whole = [[*source, *target] for source, target in zip(sources, targets, strict=True)]
        results = self._model.score_batch(whole)
        return [list(result.log_probs)[-len(row) :] for result, row in zip(results, targets, strict=True)]
