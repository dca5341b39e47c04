"""Dialogue: the turns so far in, the next one out; every turn of one side is learned after those before it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from torch import nn

from headwise.config import Config, build
from headwise.data.batches import Ragged
from headwise.data.inspection import DataKind
from headwise.data.readers import Pair
from headwise.data.splits import DataSet, Splits, overlaps_of
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer
from headwise.models.protocols import Seq2Seq
from headwise.tasks.demo import Demo
from headwise.tasks.task import Generator
from headwise.tasks.text.options import BleuOptions, WritingOptions
from headwise.tasks.text.writer import Writing
from headwise.tasks.translation import talk
from headwise.tasks.translation.answerer import Answerer
from headwise.tasks.translation.data import PAIR_NOUNS, DialogueConfig, answers_of, dialogue_set, encoded, turns_of
from headwise.tasks.translation.data import Dialogue as Turns
from headwise.tasks.translation.demo import DIALOGUE
from headwise.tasks.translation.pairs import Pairs, TextToText, TextToTextConfig
from headwise.tasks.translation.report import DIALOGUES
from headwise.tasks.translation.suggestions import suggest
from headwise.tasks.translation.translator import Translator

# tokens of a context, and of an answer, that a first model reads and writes at most
_LONGEST, _ANSWER = 512, 128


class DialogueTaskConfig(TextToTextConfig):
    """Which dialogues to learn from, with which tokens and model, and how to train it to."""

    data: DialogueConfig = Field(description="the dialogues")


class Dialogue(TextToText):
    """Answers in dialogues, trained by teacher forcing on each answer and the turns before it."""

    name: ClassVar[str] = "dialogue"
    kinds: ClassVar[tuple[DataKind, ...]] = (DIALOGUES,)
    demo: ClassVar[Demo | None] = DIALOGUE
    generators: ClassVar[Mapping[str, Generator]] = {"dialogues": talk.make}
    title: ClassVar[str] = "Partner in dialogue"
    noun: ClassVar[str] = "answers"
    commands = ('predict RUN "a turn ||| the next turn"', "evaluate RUN --data dialogues.jsonl")
    config_type: ClassVar[type[Config]] = DialogueTaskConfig
    options = (WritingOptions, BleuOptions)
    config: DialogueTaskConfig

    @classmethod
    def examples(cls, config: TextToTextConfig, split: str) -> list[Pair]:
        return answers_of(_data_set(config).examples(split))

    @classmethod
    def read(cls, config: TextToTextConfig) -> Splits[Pair]:
        dialogues = _data_set(config).read()
        pairs = {split: answers_of(examples) for split, examples in dialogues}
        own = [split for split in pairs if getattr(config.data, split) is not None]
        overlaps = overlaps_of(pairs, own, lambda pair: pair, config.tokenizer.lowercase)
        return Splits(pairs, dialogues.digests, dialogues.skipped, overlaps, PAIR_NOUNS)

    @classmethod
    def texts(cls, pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
        # the last answer of a dialogue has all turns before it, each of which counts once
        last = {pair.line: pair for pair in pairs}
        return [turn for pair in last.values() for turn in turns_of(pair.source)], [pair.target for pair in pairs]

    @classmethod
    def encoded(
        cls, pairs: list[Pair], source: Tokenizer, target: Tokenizer, config: TextToTextConfig
    ) -> tuple[Pairs, list[str]]:
        data = config.data
        assert isinstance(data, DialogueConfig)
        targets = Ragged.of(target.encode_batch([pair.target for pair in pairs]))
        fitting = np.flatnonzero(targets.lengths <= data.max_target_len)
        chosen = [pairs[place] for place in fitting]
        contexts = encoded([pair.source for pair in chosen], source, data.max_source_len, data.max_turns)
        notes = [f"{len(chosen):,} answers in {len({pair.line for pair in chosen}):,} dialogues"]
        if lost := len(pairs) - len(fitting):
            notes.append(f"{lost:,} of {len(pairs):,} answers are longer than max_target_len {data.max_target_len}")
        if contexts.shortened:
            limits = f"max_source_len {data.max_source_len}"
            limits += "" if data.max_turns is None else f", max_turns {data.max_turns}"
            notes.append(
                f"before {contexts.shortened:,} of {len(chosen):,} answers the oldest turns are not read,"
                f" {contexts.lost:,} in all ({limits})"
            )
        return Pairs(chosen, contexts.rows, targets.take(fitting)), notes

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A Transformer for the dialogues of these keys of `[data]`."""
        data_set = dialogue_set(build(DialogueConfig, data, "data"))
        dialogues = data_set.read_file("train")[0]
        pairs = answers_of(dialogues)
        suggested = suggest(pairs)
        longest = min(suggested["data"]["max_source_len"], _LONGEST)
        limits = {"max_source_len": longest, "max_target_len": min(suggested["data"]["max_target_len"], _ANSWER)}
        values = {
            "label_smoothing": 0.1,
            "data": {**data_set.shares(data, dialogues), **limits, **data},
            "tokenizer": {**suggested["tokenizer"], "joint": True},
            "model": suggested["model"],
            "training": {
                "learning_rate": 2e-3,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_tokens": max(suggested["training"]["batch_tokens"], 2 * longest),
                "max_epochs": max(5, min(30, 300_000 // len(pairs))),
                "monitor": "perplexity",
            },
        }
        turns = max(answer for dialogue in dialogues for answer in dialogue.answers)
        return Suggestion(values, f"Dialogue, fitted to {len(pairs):,} answers after up to {turns:,} turns")

    def said(self, model: nn.Module, sources: list[str]) -> list[str]:
        return self.predictor(model).answer(sources, self.greedy())

    def writing(self, model: nn.Module) -> Writing:
        return self.predictor(model).writing

    def predictor(self, model: nn.Module) -> Answerer:  # type: ignore[override]
        assert isinstance(model, Seq2Seq)
        config = self.config
        translator = Translator(model, *self.tokenizers, config.decoding, config.bleu)
        return Answerer(translator, config.data, config.data.max_source_len)


def _data_set(config: TextToTextConfig) -> DataSet[Turns]:
    assert isinstance(config.data, DialogueConfig)
    return dialogue_set(config.data, config.tokenizer.normalize, config.tokenizer.lowercase)
