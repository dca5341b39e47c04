"""Word vectors: plain text in, a vector for each word, by skip-gram or CBOW with negative sampling."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data.files import digested, resolve
from headwise.data.inspection import DataKind
from headwise.data.report import embedding_size
from headwise.data.sources import Limits, Source
from headwise.data.splits import own_files
from headwise.data.streams import Text
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.tasks._files import as_json, from_json, tokenizer_in
from headwise.tasks.demo import Demo
from headwise.tasks.task import Assets, Description, Given, Metric, Stats, Task
from headwise.tasks.text.plain import (
    SPECIALS,
    TRAINED_CHARS,
    TextConfig,
    encode,
    portions,
    suggested_portion,
    train_tokenizer,
    unknown_count,
    word_counts,
)
from headwise.tasks.text.report import TEXT
from headwise.tasks.text.running import lines_of
from headwise.tasks.vectors.contexts import ContextBatch, ContextConfig, Lines, Windows, context_source
from headwise.tasks.vectors.demo import WORD_VECTORS
from headwise.tasks.vectors.lexicon import (
    Lexicon,
    WordVectors,
    WordVectorsConfig,
    held_out_loss,
    loss_of,
    sampling_loss,
)
from headwise.tasks.vectors.options import NeighbourOptions, WordTestOptions
from headwise.tasks.vectors.word_tests import Test, TestKind, read_tests

TOKENIZER_FILE, COUNTS_FILE = "words.tokenizer.json", "counts.json"

_WORDS = TokenizerConfig(kind="word", vocab_size=100_000, min_frequency=5, lowercase=True)
_SHOWN = 5
# lines of a text whose words are counted for a first recipe
_LINES = 1_000_000
# characters of a text below which every word counts and many passes are made, and from which fewer repetitions are kept
_SMALL_TEXT, _LARGE_TEXT = 500_000, 500_000_000


class WordsConfig(TextConfig):
    """Which text to read, what of it is held out, and what else the vectors are tested on."""

    test_kind: TestKind = Field("text", description="what the test file holds: text, similarity, analogies or labels")
    target_key: str = Field("upos", description="label in a CoNLL-U file: upos, xpos, or a feature such as Number")


class WordVectorsTaskConfig(Config):
    """Which text to learn from, what a word is, and how its vector is learned."""

    data: WordsConfig = Field(description="the text")
    tokenizer: TokenizerConfig = Field(_WORDS, description="what a word is, and how often it has to occur")
    model: WordVectorsConfig = Field(WordVectorsConfig(), description="what predicts what")
    context: ContextConfig = Field(ContextConfig(), description="the words around a word, and those drawn against them")
    show: list[str] = Field(default=[], description="words whose neighbours are shown at validations; if empty, some")

    @field_validator("tokenizer", mode="before")
    @classmethod
    def _of_words(cls, value: Any) -> Any:
        return _WORDS.model_dump() | value if isinstance(value, dict) else value

    def model_post_init(self, context: object) -> None:
        if (self.tokenizer.kind, self.tokenizer.spaces) != ("word", "joined"):
            raise ConfigError(
                'word vectors are of words: set tokenizer.kind to "word" and tokenizer.spaces to "joined"'
            )


class WordVectorsTask(Task[dict[str, Text]]):
    """A vector for each word of a text, such that words in like contexts have like vectors."""

    name: ClassVar[str] = "word-vectors"
    kinds: ClassVar[tuple[DataKind, ...]] = (TEXT,)
    demo: ClassVar[Demo | None] = WORD_VECTORS
    unit: ClassVar[str] = "pairs"
    config_type: ClassVar[type[Config]] = WordVectorsTaskConfig
    options = (NeighbourOptions, WordTestOptions)
    metrics = (Metric("loss", "low"),)
    config: WordVectorsTaskConfig

    def __init__(self, config: WordVectorsTaskConfig, assets: Assets[dict[str, Text]]):
        super().__init__(config, assets)
        self.tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, config.tokenizer)
        self.counts = _counts(assets.files, self.tokenizer.vocab_size)

    @classmethod
    def prepare_with(cls, config: WordVectorsTaskConfig, given: Given) -> Assets[dict[str, Text]]:
        texts = config.data if config.data.test_kind == "text" else config.data.model_copy(update={"test": None})
        with digested(own_files(texts)) as digests:
            parts = portions(texts)
            learned = None if given.files is None else tokenizer_in(given.files, TOKENIZER_FILE, config.tokenizer)
            tokenizer = learned or train_tokenizer(parts["train"], config.tokenizer)
            filled = {part: portion for part, portion in parts.items() if portion.chars}
            data = {part: encode(portion, tokenizer, given.scratch) for part, portion in filled.items()}
        counts = word_counts(data["train"], tokenizer.vocab_size)
        if not counts.any():
            raise DataError(
                f"{config.data.train}: no word of the text is frequent enough: lower tokenizer.min_frequency"
            )
        if given.files is not None:
            counts = _counts(given.files, tokenizer.vocab_size)
        notes = list(dict.fromkeys(f"{portion.path}: {portion.bad}" for portion in parts.values() if portion.bad))
        notes += _notes(config, data, tokenizer, parts["train"].chars if learned is None else 0)
        files = {TOKENIZER_FILE: tokenizer.to_bytes(), COUNTS_FILE: as_json(counts.tolist())}
        return Assets(files, data, digests, tuple(notes))

    @classmethod
    def examples(cls, config: WordVectorsTaskConfig, split: str) -> list[str] | list[Test]:
        data = config.data
        if split == "test" and data.test_kind != "text":
            if data.test is None:
                raise ConfigError(f'data.test_kind is "{data.test_kind}": name the file with data.test, or --data FILE')
            return read_tests(resolve(data.test), data.test_kind, data.target_key, config.tokenizer.normalize)
        return lines_of(data, split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """Skip-gram for the plain text of these keys of `[data]`; vectors as wide as the number of words asks for."""
        texts = {key: value for key, value in data.items() if key in TextConfig.model_fields}
        fractions, train = suggested_portion(build(TextConfig, texts, "data"), data)
        small = train.chars < _SMALL_TEXT
        rare = 1 if small else 5
        words = Counter(word.lower() for line in islice(train.lines(), _LINES) for word in line.split())
        size = sum(count >= rare for count in words.values())
        values = {
            "data": {**fractions, **data},
            "tokenizer": {"kind": "word", "vocab_size": 100_000, "min_frequency": rare, "lowercase": True},
            "model": {"kind": "skip-gram", "embed_dim": max(32, 4 * math.ceil(embedding_size(size) / 4))},
            "context": {"window": 5, "negatives": 5, "subsample": 1e-3 if train.chars < _LARGE_TEXT else 1e-5},
            "training": {
                "learning_rate": 3e-3,
                "schedule": "budget",
                "warmup_share": 0.05,
                "batch_tokens": 512 if small else 4096,
                "max_epochs": 20 if small else 5,
                "monitor": "loss",
            },
        }
        return Suggestion(values, f"Word vectors, fitted to a text of {train.chars:,} characters")

    def build(self) -> WordVectors:
        return WordVectors(self.tokenizer.vocab_size, self.config.model.embed_dim)

    def source(self, split: str, limits: Limits) -> Source[ContextBatch] | None:
        text = (self.assets.data or {}).get(split)
        if text is None:
            return None
        train = split == "train"
        windows = Windows(
            Lines(text), self.counts, self.config.context, self.config.model.kind, limits.seed if train else 0
        )
        return context_source(windows, limits, shuffle=train)

    def loss(self, model: nn.Module, batch: ContextBatch) -> Float[Tensor, ""]:
        return sampling_loss(model(batch.inputs, batch.given, batch.outputs), batch.counted)

    def measure(self, model: nn.Module, batches: Iterable[ContextBatch]) -> Stats:
        assert isinstance(model, WordVectors)
        return held_out_loss(model, batches)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return loss_of(stats)

    def samples(self, model: nn.Module) -> list[str]:
        lexicon = self.predictor(model)
        shown = self.config.show or [
            lexicon.tokenizer.piece(int(number)) for number in np.argsort(-self.counts)[:_SHOWN]
        ]
        items = [lexicon.parse(text) for text in shown]
        return [
            f"{item.text} → {lexicon.told(nearest)}"
            for item, nearest in zip(items, lexicon.predict(items), strict=True)
        ]

    def predictor(self, model: nn.Module) -> Lexicon:
        assert isinstance(model, WordVectors)
        return Lexicon(model, self.tokenizer, self.counts, self.config.context, self.config.model.kind)

    def description(self) -> Description:
        model, size = self.config.model, self.tokenizer.vocab_size - SPECIALS
        text = (
            f"Vectors of {model.embed_dim} numbers for {size:,} words, trained with Headwise by {model.kind} with"
            f" negative sampling on {int(self.counts.sum()):,} running words."
        )
        commands = ('predict RUN "king - man + woman"', "predict RUN --vectors --output vectors.txt")
        return Description("Word vectors", text, commands)


def _notes(config: WordVectorsTaskConfig, data: Mapping[str, Text], tokenizer: Tokenizer, chars: int) -> list[str]:
    """What to tell of the text; `chars` are those of a text whose words were counted for the vocabulary."""
    size, dim = tokenizer.vocab_size - SPECIALS, config.model.embed_dim
    notes = [f"vocabulary: {size:,} words that occur at least {config.tokenizer.min_frequency} times"]
    for part, text in data.items():
        lines = Lines(text)
        words, lost = int(lines.lengths.sum()), unknown_count(text, tokenizer)
        notes.append(f"{part}: {words:,} running words, {lost / max(1, words):.1%} of them left out as too rare")
    if dim < (least := embedding_size(size)):
        notes.append(
            f"model.embed_dim is {dim}; the rule 8.33 ln V (Su Jianlin 2020, kexue.fm/archives/7695) asks for"
            f" {least:.0f} or more for {size:,} words"
        )
    if chars > TRAINED_CHARS:
        notes.append(f"the vocabulary is that of the first {TRAINED_CHARS:,} characters of the text")
    return notes


def _counts(files: Mapping[str, bytes], size: int) -> np.ndarray:
    def read(content: Any) -> np.ndarray:
        counts = np.array(content, dtype=np.int64)
        if counts.shape != (size,) or (counts < 0).any() or counts[:SPECIALS].any() or not counts.any():
            raise ValueError(content)
        return counts

    return from_json(files, COUNTS_FILE, read, f"not the counts of {size:,} tokens")
