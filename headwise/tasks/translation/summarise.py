"""Summaries: long texts in, short ones out; only the beginning of a source is read, and ROUGE scores the result."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from headwise.config import Config
from headwise.data.batches import LongRule
from headwise.data.inspection import DataKind
from headwise.data.readers import Pair
from headwise.data.suggestions import Suggestion
from headwise.predictors.baselines import Baseline
from headwise.tasks.demo import Demo
from headwise.tasks.task import Metric, Stats
from headwise.tasks.text.options import BleuOptions
from headwise.tasks.text.writer import Writer
from headwise.tasks.translation.data import DataConfig
from headwise.tasks.translation.demo import SUMMARISE
from headwise.tasks.translation.options import TranslationOptions
from headwise.tasks.translation.pairs import TextToText, TextToTextConfig
from headwise.tasks.translation.report import PAIRS
from headwise.tasks.translation.rouge import NAMES, RougeConfig, rouge_counts, rouge_of
from headwise.tasks.translation.translator import Translator

# tokens of a source that `init` lets a model read
_LONGEST = 512


class SummariseDataConfig(DataConfig):
    """Which texts and summaries to read, and how."""

    max_source_len: int = Field(_LONGEST, ge=1, description="tokens of a text that are read, unless too_long is drop")
    too_long: LongRule = Field("truncate_source", description="what happens to longer texts, as for translate")


class SummariseConfig(TextToTextConfig):
    """What to summarise, with which tokens and model, and how to train it to."""

    data: SummariseDataConfig = Field(description="the texts and their summaries")
    rouge: RougeConfig = Field(RougeConfig(), description="how ROUGE is computed")


class Summarise(TextToText):
    """Summaries of texts, trained by teacher forcing on pairs of a text and its summary."""

    name: ClassVar[str] = "summarise"
    kinds: ClassVar[tuple[DataKind, ...]] = (PAIRS,)
    demo: ClassVar[Demo | None] = SUMMARISE
    title: ClassVar[str] = "Summariser"
    config_type: ClassVar[type[Config]] = SummariseConfig
    options = (TranslationOptions, BleuOptions)
    metrics: ClassVar[tuple[Metric, ...]] = (*Writer.metrics, *(Metric(name, "high") for name in NAMES))
    config: SummariseConfig

    @classmethod
    def baselines(cls, config: SummariseConfig, predictor: Translator, examples: Sequence[Pair]) -> Iterator[Baseline]:
        """The beginning of a text, as many words as summaries of training have on average."""
        words = [len(pair.target.split()) for pair in cls.examples(config, "train")]
        size = max(1, round(sum(words) / len(words)))
        outputs = [" ".join(pair.source.split()[:size]) for pair in examples]
        counts = rouge_counts(outputs, [pair.target for pair in examples], config.rouge.tokenize)
        yield Baseline(f"lead of {size} words", rouge_of(counts))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """That of pairs, with sources cut to 512 tokens where they are longer."""
        suggestion = super().suggest(data)
        keys = suggestion.values["data"]
        cut = {"max_source_len": min(keys["max_source_len"], _LONGEST), "too_long": "truncate_source"}
        tokens = min(suggestion.values["training"]["batch_tokens"], 4096)
        values = {
            **suggestion.values,
            "data": {**keys, **cut, **data},
            "training": {
                **suggestion.values["training"],
                "batch_tokens": max(tokens, 2 * _LONGEST),
                "monitor": "rougeL",
            },
        }
        return Suggestion(values, suggestion.about.replace("Translation", "Summaries"))

    def more_counts(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Stats:
        return rouge_counts(outputs, references, self.config.rouge.tokenize)

    def more_scores(self, stats: Stats) -> dict[str, float]:
        return rouge_of(stats)

    def rouge(self) -> RougeConfig:
        return self.config.rouge
