"""What all tasks have in common that make a text of a text: pairs in, an encoder-decoder that writes the second."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field
from torch import nn

from headwise.config import Config, StartFile, build
from headwise.data.batches import PairBatch, Ragged, collate, fit_lengths, pair_lengths
from headwise.data.readers import Pair
from headwise.data.sources import Limits, Source, bucketed
from headwise.data.splits import Splits
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.tasks._files import tokenizer_in
from headwise.tasks.task import Assets, Description, Given, Probe
from headwise.tasks.text.vectors import filled
from headwise.tasks.text.writer import Scoring, Writer, WriterConfig, Writing
from headwise.tasks.translation.data import DataConfig, DialogueConfig, pair_set
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent
from headwise.tasks.translation.rouge import RougeConfig
from headwise.tasks.translation.suggestions import DROPOUTS, suggest, timed_sizes
from headwise.tasks.translation.translator import Translator

# models at least as wide learn more slowly, with a longer warm-up
_WIDE = 512
# a film keeps the weights of such sentences at each of its frames
_MOST_WORDS = 9
SOURCE_FILE, TARGET_FILE = "source.tokenizer.json", "target.tokenizer.json"

ModelConfig = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="kind")]


class VectorsConfig(Config):
    """Pretrained word vectors to start from, in the text format of GloVe and word2vec."""

    source: StartFile | None = Field(None, description="file for the source embeddings")
    target: StartFile | None = Field(None, description="file for the target embeddings")
    frozen: bool = Field(False, description="keep them fixed instead of training them")


class TextToTextConfig(WriterConfig):
    """Which texts to read and write, with which tokens and model, and how to train it to."""

    data: DataConfig | DialogueConfig = Field(description="the texts")
    model: ModelConfig = Field(description="the network")
    vectors: VectorsConfig = Field(VectorsConfig(), description="pretrained word vectors")
    show: list[str] = Field(default=[], description="sources shown with outputs at each validation; if empty, some")


@dataclass(frozen=True)
class Pairs:
    """The examples of a split: the pairs that are kept, and their tokens."""

    pairs: list[Pair]
    sources: Ragged
    targets: Ragged


class TextToText(Writer[dict[str, Pairs]]):
    """A task that writes a text from a text, trained by teacher forcing on pairs; what it is called is left to say."""

    # what the README of a run calls the model and its examples, and the commands that it names
    title: ClassVar[str]
    noun: ClassVar[str] = "sentence pairs"
    commands: ClassVar[tuple[str, ...]] = ('predict RUN "a sentence"', "evaluate RUN --data pairs.tsv")
    config: TextToTextConfig

    def __init__(self, config: TextToTextConfig, assets: Assets[dict[str, Pairs]]):
        super().__init__(config, assets)
        self.tokenizers = _tokenizers(assets.files, config)

    @classmethod
    def prepare_with(cls, config: TextToTextConfig, given: Given) -> Assets[dict[str, Pairs]]:
        splits = cls.read(config)
        if given.files is None:
            source, target = _trained(*cls.texts(splits.examples["train"]), config.tokenizer)
        else:
            source, target = _tokenizers(given.files, config)
        data, notes = {}, splits.notes
        for split, pairs in splits:
            data[split], lost = cls.encoded(pairs, source, target, config)
            notes += [f"{split}: {note}" for note in lost]
        if not data["train"].pairs:
            raise DataError(f"{config.data.train}: every pair is longer than {_limits(config.data)}; raise the limits")
        files = {SOURCE_FILE: source.to_bytes()}
        if target is not source.target:
            files[TARGET_FILE] = target.to_bytes()
        return Assets(files, data, splits.digests, tuple(notes))

    @classmethod
    def examples(cls, config: TextToTextConfig, split: str) -> list[Pair]:
        assert isinstance(config.data, DataConfig)
        return pair_set(config.data, config.tokenizer.normalize, config.tokenizer.lowercase).examples(split)

    @classmethod
    def read(cls, config: TextToTextConfig) -> Splits[Pair]:
        """Reads and splits the files of a recipe. Raises: DataError for one that cannot be read."""
        assert isinstance(config.data, DataConfig)
        return pair_set(config.data, config.tokenizer.normalize, config.tokenizer.lowercase).read()

    @classmethod
    def texts(cls, pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
        """What the tokens of sources and targets are learned from."""
        return [pair.source for pair in pairs], [pair.target for pair in pairs]

    @classmethod
    def encoded(
        cls, pairs: list[Pair], source: Tokenizer, target: Tokenizer, config: TextToTextConfig
    ) -> tuple[Pairs, list[str]]:
        """The pairs within the limits of length, and their tokens; and notes of what is left out."""
        data = config.data
        assert isinstance(data, DataConfig)
        fitted = fit_lengths(
            Ragged.of(source.encode_batch([pair.source for pair in pairs])),
            Ragged.of(target.encode_batch([pair.target for pair in pairs])),
            max_source_len=data.max_source_len,
            max_target_len=data.max_target_len,
            too_long=data.too_long,
        )
        fitting = Pairs([pairs[place] for place in fitted.kept], fitted.sources, fitted.targets)
        lost, notes = len(pairs) - len(fitted.kept), []
        if lost:
            longer = f"max_target_len {data.max_target_len}" if data.too_long == "truncate_source" else _limits(data)
            notes.append(f"{lost:,} of {len(pairs):,} pairs are longer than {longer}")
        if fitted.cut:
            read = "is read" if fitted.cut == 1 else "are read"
            notes.append(f"of {fitted.cut:,} of {len(pairs):,} pairs only what is within {_limits(data)} {read}")
        return fitting, notes

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A Transformer for the sentence pairs of these keys of `[data]`."""
        data = {**data, "empty": data.get("empty", "skip")}
        data_set = pair_set(build(DataConfig, data, "data"))
        pairs = data_set.read_file("train")[0]
        suggested = suggest(pairs)
        wide = suggested["model"]["d_model"] >= _WIDE
        values = {
            "label_smoothing": 0.1,
            "data": {**data_set.shares(data, pairs), **data, **suggested["data"]},
            "tokenizer": suggested["tokenizer"],
            "model": suggested["model"],
            "training": {
                "learning_rate": 7e-4 if wide else 2e-3,
                "warmup_steps": 4000 if wide else 400,
                **suggested["training"],
                "max_epochs": max(10, min(60, 1_500_000 // len(pairs))),
                "patience": 10,
                "precision": "fp32",
            },
        }
        about = f"Translation, fitted to the {len(pairs):,} pairs"
        return Suggestion(values, about, timed_sizes(pairs, suggested), DROPOUTS)

    def build(self) -> Seq2Seq:
        model = build_model(self.config.model, *self.tokenizers)
        for path, embedding, _ in self._vectors(model):
            # a tied table is frozen by either side
            if path is not None and self.config.vectors.frozen:
                embedding.requires_grad_(False)
        return model

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        assert isinstance(model, Seq2Seq)
        notes = []
        for path, embedding, tokenizer in self._vectors(model):
            if path is not None:
                notes.append(f"{path}: {filled(embedding, path, tokenizer, seed)}")
        return notes

    def source(self, split: str, limits: Limits) -> Source[PairBatch] | None:
        examples = self.split(split)
        if not examples.pairs:
            return None
        lengths = pair_lengths(examples.sources, examples.targets)
        return bucketed(lengths, partial(self.collate, split), limits, shuffle=split == "train")

    def split(self, split: str) -> Pairs:
        """The examples of a split; none in a run that is loaded."""
        return (self.assets.data or {}).get(split, Pairs([], Ragged.of([]), Ragged.of([])))

    def collate(self, split: str, indices: list[int]) -> PairBatch:
        examples, ids = self.split(split), self.tokenizers[1]
        batch = collate(
            examples.sources, examples.targets, indices, pad_id=ids.pad_id, bos_id=ids.bos_id, eos_id=ids.eos_id
        )
        if split == "train":
            return batch
        return replace(batch, references=[[examples.pairs[place].target] for place in indices])

    def samples(self, model: nn.Module) -> list[str]:
        references, shown = self._references(), self._shown()
        outputs = self.said(model, shown)
        endings = [f"    ({references[text]})" if text in references else "" for text in shown]
        return [f"{text}  →  {output}{end}" for text, output, end in zip(shown, outputs, endings, strict=True)]

    def probe(self, predictor: Any, text: str) -> Probe:
        return Probe(predictor.parse(text), self._references().get(self.tokenizers[0].clean(text)))

    def probes(self, predictor: Any) -> list[Probe]:
        references = self._references()
        pairs = self.split("valid").pairs or self.split("train").pairs
        # a sentence of some words, in which their order can turn
        longer = max(pairs, key=lambda pair: min(len(pair.source.split()), _MOST_WORDS), default=None)
        # what the model would write by itself has other rows in every frame
        sources = [*(text for text in self._shown() if text in references), *([longer.source] if longer else [])]
        return [Probe(source, references[source]) for source in dict.fromkeys(sources)]

    def _references(self) -> dict[str, str]:
        """Targets by their sources; those of training before others."""
        return {pair.source: pair.target for split in ("valid", "train") for pair in self.split(split).pairs}

    def _shown(self) -> list[str]:
        pairs = self.split("valid").pairs or self.split("train").pairs
        clean = self.tokenizers[0].clean
        return [clean(text) for text in self.config.show] or [pair.source for pair in pairs[: self.config.num_shown]]

    def said(self, model: nn.Module, sources: list[str]) -> list[str]:
        """What the model writes of each source, by greedy search."""
        return self.predictor(model).translate(sources, config=self.greedy())

    def rouge(self) -> RougeConfig | None:
        """How ROUGE is computed, where it is a score of the task; here it is none."""
        return None

    def writing(self, model: nn.Module) -> Writing:
        return self.predictor(model).writing

    def scoring(self) -> Scoring:
        return self.config.bleu.scoring(self.tokenizers[1])

    def predictor(self, model: nn.Module) -> Translator:
        assert isinstance(model, Seq2Seq)
        # beyond several times what it was trained on, a model only costs more; beginnings are all that some have seen
        data = self.config.data
        assert isinstance(data, DataConfig)
        longest = data.max_source_len * (4 if data.too_long == "drop" else 1)
        if isinstance(self.config.model, TransformerConfig) and self.config.model.position == "learned":
            longest = min(longest, self.config.model.max_len - 1)
        config, cuts = self.config, data.too_long != "drop"
        return Translator(model, *self.tokenizers, config.decoding, config.bleu, longest, self.rouge(), cuts=cuts)

    def description(self) -> Description:
        text = (
            f"A {self.config.model.kind} encoder-decoder over {self.config.tokenizer.kind} tokens, trained with"
            f" Headwise on {len(self.split('train').pairs)} {self.noun}."
        )
        return Description(self.title, text, self.commands)

    def _vectors(self, model: Seq2Seq) -> Iterator[tuple[str | None, nn.Module, Tokenizer]]:
        """The file of word vectors, the embedding and the tokenizer of each side."""
        paths = self.config.vectors.source, self.config.vectors.target
        for path, side, tokenizer in zip(paths, (model.encoder, model.decoder), self.tokenizers, strict=True):
            assert isinstance(side.embedding, nn.Module)
            yield path, side.embedding, tokenizer


def _limits(data: DataConfig | DialogueConfig) -> str:
    return f"max_source_len {data.max_source_len}, max_target_len {data.max_target_len}"


def build_model(config: TransformerConfig | RecurrentConfig, source: Tokenizer, target: Tokenizer) -> Seq2Seq:
    if isinstance(config, TransformerConfig):
        return build_transformer(config, source.vocab_size, target.vocab_size, joint=target is source.target)
    return build_recurrent(config, source.vocab_size, target.vocab_size)


def _trained(sources: list[str], targets: list[str], config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    if config.joint:
        joint = Tokenizer.train([*sources, *targets], config)
        return joint, joint
    return Tokenizer.train(sources, config), Tokenizer.train(targets, config)


def _tokenizers(files: Mapping[str, bytes], config: TextToTextConfig) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of a run; a joint one is both."""
    source = tokenizer_in(files, SOURCE_FILE, config.tokenizer)
    if TARGET_FILE in files:
        return source, tokenizer_in(files, TARGET_FILE, config.tokenizer).target
    return source, source.target
