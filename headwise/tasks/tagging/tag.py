"""The task of tagging words: files of the run, model, loss and scores."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from pydantic import Field, TypeAdapter, model_validator
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data import spans
from headwise.data.batches import NO_TAG
from headwise.data.files import resolve
from headwise.data.inspection import DataKind
from headwise.data.long_range import MQAR, NEEDLE, REPEAT
from headwise.data.readers import Pair
from headwise.data.sources import Limits, Source, bucketed
from headwise.data.spans import Scheme, illegal_sentences
from headwise.data.splits import DataSet, Nouns
from headwise.data.suggestions import Suggestion
from headwise.data.synthetic import Drawing
from headwise.data.tokenizers import TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.models.token_encoders import AttentionConfig, EncoderConfig
from headwise.predictors.classes import count_scores, counted, mean
from headwise.tasks._files import as_json, from_json, tokenizer_in
from headwise.tasks._labelling import lacking
from headwise.tasks.demo import Demo
from headwise.tasks.tagging.demo import TAG
from headwise.tasks.tagging.model import (
    Independent,
    Legal,
    LinearChain,
    OutputConfig,
    PoolingConfig,
    Tagging,
    TokenTagger,
    build_token_tagger,
)
from headwise.tasks.tagging.tagger import Tagger, most_frequent, tag_count_scores, tag_counts
from headwise.tasks.task import Assets, Description, Generator, Given, Metric, Probe, Stats, Task
from headwise.tasks.text.report import TAGGED
from headwise.tasks.text.start import StartRunConfig, freeze, take_over, tokenizer_of_run
from headwise.tasks.text.tagged import Tagged, TaggedConfig, scan_tagged, scheme_of
from headwise.tasks.text.words import SpellingConfig, WordBatch, WordRows, WordTokenizer, collate_words, encode_words

TOKENIZER_FILE, SPELLING_FILE = "tokenizer.json", "spelling.tokenizer.json"
TAGS_FILE, WORDS_FILE, SPANS_FILE = "tags.json", "words.json", "spans.json"
_TAGS = TypeAdapter(Annotated[list[str], Field(min_length=1)])
_WORDS = TypeAdapter(dict[str, str])
_SCHEME = TypeAdapter(dict[Literal["scheme"], Scheme])


class Learned(NamedTuple):
    """What tagging learns from its data besides weights: tokens, tags, their scheme, each word's usual tag."""

    tokenizer: WordTokenizer
    tags: list[str]
    words: dict[str, str]
    scheme: Scheme

    @classmethod
    def read(cls, files: Mapping[str, bytes], pieces: TokenizerConfig, longest: int) -> "Learned":
        """That of a run's files.

        Args:
            pieces: what the tokenizer must be made by.
            longest: characters of the longest beginning and ending that tell the spelling of a word; 0: none do.

        Raises: CheckpointError naming a file that is missing or damaged.
        """
        tokenizer = tokenizer_in(files, TOKENIZER_FILE, pieces)
        spelling = tokenizer_in(files, SPELLING_FILE) if longest else None
        tags = from_json(files, TAGS_FILE, _TAGS.validate_python, "not a list of tags")
        words = from_json(files, WORDS_FILE, _WORDS.validate_python, "not a table of words")
        # there is no such file where tags are no spans
        spans = SPANS_FILE in files
        named = from_json(files, SPANS_FILE, _SCHEME.validate_python, "names no scheme of spans") if spans else {}
        return cls(WordTokenizer(tokenizer, spelling, longest), tags, words, named.get("scheme", "none"))

    def files(self) -> dict[str, bytes]:
        files = {TOKENIZER_FILE: self.tokenizer.pieces.to_bytes(), TAGS_FILE: as_json(self.tags)}
        if self.tokenizer.spelling is not None:
            files[SPELLING_FILE] = self.tokenizer.spelling.to_bytes()
        if self.scheme != "none":
            files[SPANS_FILE] = as_json({"scheme": self.scheme})
        return {**files, WORDS_FILE: as_json(self.words)}


def _odd(split: str, sentences: Sequence[Tagged], learned: Learned, untagged: str | None) -> list[str]:
    """What of the sentences of a split training lacks, and how many of them break the scheme."""
    notes = []
    if broken := illegal_sentences([sentence.tags or () for sentence in sentences], learned.scheme):
        notes.append(f"{split}: tags of {broken:,} of {len(sentences):,} sentences break the scheme {learned.scheme}")
    if split == "train" or not sentences:
        return notes
    total = sum(len(sentence.words) for sentence in sentences)
    unseen = sum(word not in learned.words for sentence in sentences for word in sentence.words)
    notes.append(f"{split}: {unseen / total:.1%} of {total:,} words are not in the training part")
    tags = Counter(tag for sentence in sentences for tag in sentence.tags or () if tag != untagged)
    return notes + lacking(split, tags, learned.tags, "tags")


class TagConfig(Config):
    """What to tag, with which tokens and model, and how to train it to."""

    data: TaggedConfig = Field(description="the tagged sentences")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a word becomes tokens")
    spelling: SpellingConfig = Field(SpellingConfig(), description="tokens for the beginnings and endings of words")
    model: EncoderConfig = Field(description="the encoder: token, window, cnn, rnn or attention")
    pooling: PoolingConfig = Field(PoolingConfig(), description="how the tokens of a word become one vector")
    output: OutputConfig = Field(OutputConfig(), description="how tags are chosen by the scores of words")
    start: StartRunConfig = Field(StartRunConfig(), description="a trained encoder to start from")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the tags")
    show: list[str] = Field(
        default=[], description="sentences, words between spaces, tagged at each validation; the first ones if empty"
    )
    num_shown: int = Field(4, ge=0, description="number of sentences to show if show is empty")

    def places(self) -> int | None:
        """Tokens of a sentence at most, where the encoder has a table of positions for tokens."""
        model = self.model
        return model.places() if self.pooling.place == "after" and isinstance(model, AttentionConfig) else None

    @model_validator(mode="after")
    def _spelling_is_pooled_first(self) -> "TagConfig":
        if self.spelling.longest and (self.pooling.place, self.pooling.kind) != ("before", "mean"):
            raise ValueError('spelling has no order to read: set pooling.place = "before" and pooling.kind = "mean"')
        if self.spelling.longest and self.start.weights is not None:
            raise ValueError("start.weights knows no tokens of spelling: leave out spelling.longest")
        return self


@dataclass(frozen=True)
class Sentences:
    """The examples of a split: the sentences that are kept, and their numbers.

    `tags` are the names of all tags by their numbers, those that training lacks behind those of the model.
    """

    sentences: list[Tagged]
    rows: WordRows
    tags: tuple[str, ...]


class Tag(Task[dict[str, Sentences]]):
    """Tagging of words, each of which has one tag."""

    name: ClassVar[str] = "tag"
    kinds: ClassVar[tuple[DataKind, ...]] = (TAGGED,)
    demo: ClassVar[Demo | None] = TAG
    generators: ClassVar[Mapping[str, Generator]] = {
        name: Drawing(name, problem) for name, problem in (("mqar", MQAR), ("repeat", REPEAT), ("needle", NEEDLE))
    }
    unit: ClassVar[str] = "words"
    config_type: ClassVar[type[Config]] = TagConfig
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("accuracy", "high"),
        Metric("macro_f1", "high"),
        Metric("accuracy_seen", "high"),
        Metric("accuracy_unseen", "high"),
    )
    config: TagConfig

    def __init__(self, config: TagConfig, assets: Assets[dict[str, Sentences]]):
        super().__init__(config, assets)
        self.learned = Learned.read(assets.files, config.tokenizer, config.spelling.longest)
        self.tags = self.learned.tags

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.tags)

    @classmethod
    def prepare_with(cls, config: TagConfig, given: Given) -> Assets[dict[str, Sentences]]:
        parts = _data_set(config.data, config.tokenizer).read()
        notes, train = parts.notes, parts.examples["train"]
        if given.files is None or given.start:
            learned = _learned(train, config, given)
        else:
            learned = Learned.read(given.files, config.tokenizer, config.spelling.longest)
            _refuse_unknown(train, learned.tags, config.data)
        others = {tag for _, sentences in parts for sentence in sentences for tag in sentence.tags or ()}
        names, data = (*learned.tags, *sorted(others - {*learned.tags, config.data.untagged})), {}
        for split, sentences in parts:
            data[split] = _encoded(sentences, learned, names, config)
            usable = data[split].sentences
            if lost := len(sentences) - len(usable):
                places = "" if config.places() is None else f", or than the {config.places()} positions of the model"
                longer = f"are longer than max_len {config.data.max_len}{places}"
                notes.append(f"{split}: {lost:,} of {len(sentences):,} sentences {longer}")
            notes += _odd(split, usable, learned, config.data.untagged)
        if not data["train"].sentences:
            raise DataError(
                f"{config.data.train}: every sentence is longer than max_len {config.data.max_len}; raise the limit"
            )
        return Assets(learned.files(), data, parts.digests, tuple(notes))

    @classmethod
    def examples(cls, config: TagConfig, split: str) -> list[Tagged]:
        return _data_set(config.data, config.tokenizer).examples(split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return suggest_for_tagged(data)

    def build(self) -> TokenTagger:
        config, tagging, tokenizer = self.config, self._tagging(), self.learned.tokenizer
        before, behind = map(len, tokenizer.around)
        model = build_token_tagger(
            config.model, config.pooling, tokenizer.vocab_size, len(self.tags), tagging, (before, behind)
        )
        if config.start.weights is not None and config.start.frozen:
            freeze(model)
        return model

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        start = self.config.start
        if start.weights is None:
            return []
        return [take_over(model, start.weights, self.config.model, frozen=start.frozen)]

    def _tagging(self) -> Tagging:
        output, scheme = self.config.output, self.learned.scheme
        if output.legal and scheme == "none":
            raise ConfigError(
                "output.legal: the tags of the training part mark no spans, so no sequence is illegal; leave it out, "
                "or name the scheme in data.scheme"
            )
        legal = Legal(*spans.legal(self.tags, scheme)) if output.legal else None
        return LinearChain(len(self.tags), legal) if output.kind == "crf" else Independent()

    def source(self, split: str, limits: Limits) -> Source[WordBatch] | None:
        rows = self.split(split).rows
        if not len(rows):
            return None
        return bucketed(rows.lengths(), partial(self.collate, split), limits, shuffle=split == "train")

    def split(self, split: str) -> Sentences:
        """The examples of a split; none in a run that is loaded."""
        nothing = Sentences([], encode_words([], self.learned.tokenizer), tuple(self.tags))
        return (self.assets.data or {}).get(split, nothing)

    def collate(self, split: str, indices: list[int]) -> WordBatch:
        return collate_words(self.split(split).rows, indices)

    def loss(self, model: nn.Module, batch: WordBatch) -> Float[Tensor, ""]:
        scores = model(batch.tokens, batch.pieces)
        return self._loss(model, scores, batch, self.config.label_smoothing)

    def measure(self, model: nn.Module, batches: Iterable[WordBatch]) -> Stats:
        """Log-likelihood of the tags that the model knows; how often tags and spans are right, predicted and gold."""
        assert isinstance(model, TokenTagger)
        stats: Counter[str] = Counter()
        names, nll = self.split("train").tags, 0.0
        for batch in batches:
            scores = model(batch.tokens, batch.pieces)
            nll += float(self._loss(model, scores, batch, 0.0))
            best = model.tagging.best(scores, batch.lens)
            stats["tokens"] += int(((batch.tags != NO_TAG) & (batch.tags < len(self.tags))).sum())
            stats.update(counted(best, batch.tags, len(self.tags)))
            stats.update(tag_counts(best, batch.tags, batch.unseen, names, self.learned.scheme))
        return {"nll": nll, **stats}

    def summarise(self, stats: Stats) -> dict[str, float]:
        """The scores; of words that training lacks NaN where there are none, of spans only where tags mark them."""
        loss = mean(stats.get("nll", 0.0), stats.get("tokens", 0.0))
        return {"loss": loss} | count_scores(stats, len(self.tags)) | tag_count_scores(stats, self.learned.scheme)

    def samples(self, model: nn.Module) -> list[str]:
        tagger = self.predictor(model)
        shown = self._shown(tagger)
        return [line for pair in zip(shown, tagger.predict(shown), strict=True) for line in tagger.write(*pair, "text")]

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(sentence) for sentence in self._shown(predictor)]

    def _shown(self, tagger: Tagger) -> list[Tagged]:
        first = self.split("valid").sentences or self.split("train").sentences
        return [tagger.parse(text) for text in self.config.show] or first[: self.config.num_shown]

    def predictor(self, model: nn.Module) -> Tagger:
        assert isinstance(model, TokenTagger)
        return Tagger(
            model,
            self.learned.tokenizer,
            self.tags,
            self.learned.words,
            self.config.data,
            self.learned.scheme,
            self.config.places(),
        )

    def description(self) -> Description:
        text = (
            f"An encoder of kind {self.config.model.kind} over {self.config.tokenizer.kind} tokens that gives each word"
            f" one of {len(self.tags)} tags, trained with Headwise on {len(self.split('train').sentences)} sentences."
        )
        commands = ('predict RUN "words between spaces"', "evaluate RUN --data sentences.conllu")
        return Description("Tagger", text, commands)

    def _loss(self, model: nn.Module, scores: Tensor, batch: WordBatch, smoothing: float) -> Tensor:
        assert isinstance(model, TokenTagger)
        # a tag that training lacks has no score: it is not known; there is none in training itself
        loss: Tensor = model.tagging(scores, batch.tags, batch.lens, smoothing)
        return loss


def _data_set(data: TaggedConfig, tokenizer: TokenizerConfig) -> DataSet[Tagged]:
    return DataSet(
        data,
        lambda split, _: scan_tagged(resolve(getattr(data, split)), data, tokenizer.normalize),
        lambda sentence: Pair(sentence.text, " ".join(sentence.tags or ()), sentence.line),
        Nouns("sentences", "tags"),
        tokenizer.lowercase,
        limit=data.limit,
    )


def _learned(train: list[Tagged], config: TagConfig, given: Given) -> Learned:
    words = [word for sentence in train for word in sentence.words]
    tags = sorted({tag for sentence in train for tag in sentence.tags or ()} - {config.data.untagged})
    if not tags:
        raise DataError(f"{config.data.train}: every tag is '{config.data.untagged}', data.untagged: nothing to learn")
    start = config.start.weights
    scheme = scheme_of(train, config.data)
    if given.files is not None:
        tokenizer = WordTokenizer(tokenizer_in(given.files, TOKENIZER_FILE, config.tokenizer), None, 0)
        # of a model that the run starts from, where it knows all of them
        before = from_json(given.files, TAGS_FILE, _TAGS.validate_python, "") if TAGS_FILE in given.files else []
        tags = before if set(tags) <= set(before) else tags
    elif start is None:
        tokenizer = WordTokenizer.train(words, config.tokenizer, config.spelling)
    else:
        tokenizer = WordTokenizer(tokenizer_of_run(start, config.tokenizer), None, 0)
    return Learned(tokenizer, tags, most_frequent(train, config.data.untagged), scheme)


def _refuse_unknown(train: list[Tagged], tags: list[str], data: TaggedConfig) -> None:
    """There is no tag for the unknown, so data with another tag than the run's cannot be trained on."""
    for sentence in train:
        if others := [tag for tag in sentence.tags or () if tag not in (*tags, data.untagged)]:
            raise DataError(
                f"{data.train}:{sentence.line}: tag '{others[0]}' is not one of the {len(tags)} that the run began"
                " with; take such sentences out, or begin another run"
            )


def _encoded(sentences: list[Tagged], learned: Learned, names: tuple[str, ...], config: TagConfig) -> Sentences:
    """The sentences within the limit of length, and their numbers."""
    data, places = config.data, config.places()
    number = {data.untagged: NO_TAG} | {tag: place for place, tag in enumerate(names)}
    tags = [[number[tag] for tag in sentence.tags or ()] for sentence in sentences]
    rows = encode_words([sentence.words for sentence in sentences], learned.tokenizer, tags, learned.words)
    short = rows.pieces.lengths <= data.max_len
    if places is not None:
        short &= rows.tokens.lengths <= places
    chosen = np.flatnonzero(short)
    return Sentences([sentences[row] for row in chosen], rows.take(chosen), names)


def suggest_for_tagged(data: Mapping[str, Any]) -> Suggestion:
    """A recurrent tagger of words known by their spelling, with a CRF if tags mark spans, for these keys of `[data]`.

    Raises: ConfigError: unknown keys; DataError: the files.
    """
    config = build(TaggedConfig, data, "data")
    data_set = _data_set(config, TokenizerConfig())
    sentences = data_set.read_file("train")[0]
    words = Counter(word for sentence in sentences for word in sentence.words)
    longest = max(len(sentence.words) for sentence in sentences)
    scheme = scheme_of(sentences, config)
    values = {
        "label_smoothing": 0.1,
        **({} if scheme == "none" else {"output": {"kind": "crf"}}),
        "data": {**data_set.shares(data, sentences), **data, "max_len": max(256, longest)},
        "tokenizer": {"kind": "bpe", "vocab_size": min(8000, 1000 * math.ceil((len(words) + 4) / 1000))},
        "spelling": {"longest": 4, "vocab_size": 12_000, "min_frequency": 2 if len(words) > 2000 else 1},
        "pooling": {"kind": "mean", "place": "before"},
        "model": {"kind": "rnn", "cell": "gru", "d_model": 128, "hidden_dim": 128, "num_layers": 1, "dropout": 0.3},
        "training": {
            "learning_rate": 4e-3,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_tokens": max(1024, longest),
            "budget": "target",
            "max_epochs": 6 if words.total() > 100_000 else 20,
            "monitor": "accuracy" if scheme == "none" else "span_f1",
        },
    }
    return Suggestion(values, f"Tagging, fitted to the {len(sentences):,} sentences")
