"""Dialogue: the turns so far in, the next one out; every turn of one side is learned after those before it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from torch import nn

from headwise.config import Config, build
from headwise.data.bad_lines import strict
from headwise.data.batches import Ragged
from headwise.data.inspection import DataKind
from headwise.data.readers import Pair
from headwise.data.splits import DataSet, Splits, overlaps_of
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.models.protocols import Seq2Seq
from headwise.predictors import looking
from headwise.predictors.drafting import Draft
from headwise.predictors.engines import Engines
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.predictors.rows import Rows, Scored, question_of
from headwise.predictors.twins import Twin
from headwise.tasks.demo import Demo
from headwise.tasks.task import Generator
from headwise.tasks.text.options import BleuOptions, WritingOptions
from headwise.tasks.text.writer import LIKELIHOOD, WRITTEN, Output, Request, Writing, text_of
from headwise.tasks.translation import talk
from headwise.tasks.translation.data import (
    BETWEEN,
    PAIR_NOUNS,
    SEPARATOR,
    DialogueConfig,
    answers_of,
    dialogue_set,
    encoded,
    join_turns,
    scan_contexts,
    turns_of,
)
from headwise.tasks.translation.data import Dialogue as Turns
from headwise.tasks.translation.demo import DIALOGUE
from headwise.tasks.translation.pairs import Pairs, TextToText, TextToTextConfig
from headwise.tasks.translation.report import DIALOGUES
from headwise.tasks.translation.suggestions import suggest
from headwise.tasks.translation.translator import Translator, distinct


def _dialogues(contexts: Sequence[str]) -> list[int]:
    """The dialogue of each context, counted from 0: one with a single turn begins the next.

    >>> _dialogues(["hi", "hi ||| hello ||| how are you?", "good morning"])
    [0, 0, 1]
    """
    number, numbers = -1, []
    for context in contexts:
        number += number < 0 or len(turns_of(context)) < 2
        numbers.append(number)
    return numbers


class Answerer(Predictor[str, list[Output], Pair]):
    """A model with its tokenizers, which reads turns and writes the next one. Without a turn there is no answer.

    A context is a text, its turns joined by `|||`.

    Args:
        translator: searches and scores; what is read as a text there is given as tokens here.
        data: how many turns and tokens of a context are read.
        longest: tokens of a context at most.
    """

    verb = "translate"

    def __init__(self, translator: Translator, data: DialogueConfig, longest: int):
        self.translator, self.data, self.longest = translator, data, longest
        self.model, self.writing = translator.model, translator.writing

    def parse(self, text: str) -> str:
        """Turns as `turn ||| turn`, or an object such as `{"turns": [...]}`. Raises: ConfigError for other JSON."""
        try:
            return join_turns(turns_of(text))
        except DataError as error:
            raise ConfigError(f"'{text[:40]}': {error.message}; write turns as 'turn {SEPARATOR} turn'") from None

    def read(self, path: Path) -> Iterator[str]:
        """The contexts of a file, a line each: JSON lines, TSV, or plain text. Raises: DataError with the line."""
        return strict(scan_contexts(path, self.data.model_copy(update={"format": "auto"})))

    def options(self, given: Mapping[str, Any]) -> Request:
        """As for translations. Raises: ConfigError for options that captions do not have."""
        if "alignments" in given:
            raise ConfigError("answers have no --alignments: remove it")
        return self.translator.options(given)

    def answer(self, contexts: Sequence[str] | str, config: DecodingConfig | None = None) -> list[str]:
        """The best answer to each context; to one without turns the empty string."""
        rows = self._rows(several(contexts))
        return [text_of(outputs) for outputs in self.translator.search(rows, config or self.translator.decoding)]

    def predict(self, items: Sequence[str] | str, options: Request | None = None) -> list[list[Output]]:
        """The answers to each context, best first."""
        request = options or Request(self.translator.decoding)
        return self.translator.search(self._rows(several(items)), request.decoding, request.prefix)

    def write(self, item: str, output: list[Output], form: Form, options: Request | None = None) -> list[str]:
        """An answer a line, after its score where that is asked for; or JSON with the turns."""
        if form == "text":
            return self.translator.write(item, output, form, options)
        answers = [answer.fields() for answer in output]
        return [json.dumps({"turns": turns_of(item), "answers": answers}, ensure_ascii=False)]

    def text_of(self, example: Pair) -> str:
        return example.source

    def scored(self, examples: Sequence[Pair], options: Request | None = None) -> Scored:
        """BLEU, chrF, exact answers, loss, perplexity and accuracy; and how often the model repeats itself.

        `distinct1` and `distinct2` are the different words, and pairs of them, by all words of the answers;
        `reference_distinct1` and `reference_distinct2` those of the answers that were given.
        """
        contexts, gold = [pair.source for pair in examples], [pair.target for pair in examples]
        outputs = self.answer(contexts, None if options is None else options.decoding)
        scoring = self.translator.bleu_options(None if options is None else options.tokenize)
        targets = Ragged.of(self.translator.target_tokenizer.encode_batch(gold))
        likelihood = self.translator.likelihood(self._rows(contexts), targets)
        scores = scoring.scores(outputs, gold) | likelihood.scores
        for name, texts in (("", outputs), ("reference_", gold)):
            scores |= {f"{name}distinct{n}": distinct(texts, n) for n in (1, 2)}
        rows = Rows(
            scoring.rows(outputs, gold) | likelihood.columns,
            WRITTEN | LIKELIHOOD,
            question_of(contexts, gold),
            "dialogues",
            _dialogues(contexts),
        )
        return Scored(scores | {"unseen": self.unknown(contexts).share}, rows)

    def state_bytes(self, examples: Sequence[Pair]) -> int:
        targets = self.translator.target_tokenizer.encode_batch([pair.target for pair in examples])
        return self.translator.kept_bytes(self._rows([pair.source for pair in examples]), Ragged.of(targets))

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens of turns, words or pieces of them, that are not in the vocabulary."""
        return unknown_tokens(self.translator.source_tokenizer, [turn for item in items for turn in turns_of(item)])

    def twin(self) -> Twin[Seq2Seq]:
        return self.writing.twin

    def engines(self) -> Engines:
        return self.translator.engines()

    def draft(self, item: str, options: Request | None = None) -> Draft:
        context = self.parse(item)
        if not context:
            raise ConfigError("there is no turn to answer; there is nothing to write about it")
        rows = self._rows([context])
        return self.translator.writing.draft(self.translator.collated(rows, rows, [0]), self._labels(rows))

    def writes(self) -> Tokenizer:
        return self.translator.target_tokenizer

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model reads the turns and writes the answer, or `target` instead."""
        context = self.parse(item)
        if not context:
            raise ConfigError("there is no turn to answer; there is nothing to look at")
        ids = self.translator.target_tokenizer
        text, tokens = self.writing.forced(target, lambda: self.predict([context])[0])
        rows = self._rows([context])
        batch, read = self.translator.collated(rows, Ragged.of([tokens]), [0]), self._labels(rows)
        attention = looking.attended(self.model, batch.src, batch.src_lens, batch.tgt_in)
        written = [*map(ids.shown, tokens), looking.EOS]
        tokenizer = self.translator.source_tokenizer
        context_tokens = looking.tokens_of(tokenizer, batch.src[0].tolist(), read, BETWEEN)
        token_words = [context_tokens, *looking.written_tokens(ids, tokens)]
        return Explanation(context, text, looking.layers_of(attention, read, read, written), tokens=token_words)

    def _labels(self, rows: Ragged) -> list[str]:
        shown = self.translator.source_tokenizer.shown
        return [SEPARATOR if token == BETWEEN else shown(token) for token in rows[0].tolist()] + [looking.EOS]

    def _rows(self, contexts: Sequence[str]) -> Ragged:
        dialogues = [self.parse(context) for context in contexts]
        return encoded(dialogues, self.translator.source_tokenizer, self.longest, self.data.max_turns).rows


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
