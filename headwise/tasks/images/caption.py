"""Captions: an image in, a text out; an encoder of images and a decoder whose words look at the places of the image."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from torch import nn

from headwise.config import Config, build
from headwise.data.batches import PairBatch, Ragged
from headwise.data.sources import Limits, Source, spread, spread_places
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer
from headwise.errors import DataError
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer_config import DecoderConfig
from headwise.tasks._files import as_json, from_json, tokenizer_in
from headwise.tasks.demo import Demo
from headwise.tasks.images import shapes
from headwise.tasks.images.base import IMAGES_FILE
from headwise.tasks.images.captioner import Captioner, Seen, build_captioner, paired
from headwise.tasks.images.captions import CaptionsConfig, captions_of, load_captions, scan_of
from headwise.tasks.images.demo import CAPTION
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig
from headwise.tasks.images.image_sets import ImageSet, channels_first, examples_of, measured
from headwise.tasks.images.pixels import Image
from headwise.tasks.task import Assets, Description, Generator, Given
from headwise.tasks.text.options import BleuOptions, WritingOptions
from headwise.tasks.text.writer import Request, Scoring, Writer, WriterConfig, Writing, text_of

TOKENIZER_FILE = "tokenizer.json"
# captions of a batch where training.batch_sentences is not set
BATCH_CAPTIONS = 64
# places across of what a first model attends to
_ACROSS = 8


class CaptionConfig(WriterConfig):
    """Which images to describe, and with which model."""

    data: CaptionsConfig = Field(description="the images and their captions")
    shift: int = Field(0, ge=0, le=2**14, description="pixels that a training image is moved by at most")
    flip: bool = Field(False, description="mirror every second training image; not where captions tell left from right")
    encoder: ImageEncoderConfig = Field(description="what reads the image: vit, pixels, cnn or attention_cnn")
    model: DecoderConfig = Field(description="what writes the caption")

    @model_validator(mode="after")
    def _fits(self) -> "CaptionConfig":
        longest, places = max(self.data.max_len, self.decoding.max_len) + 1, self.model.places()
        if places is not None and longest > places:
            raise ValueError(
                f"captions of up to {longest - 1} tokens take {longest} places, but the model has a table of {places}:"
                f" set model.max_len to at least {longest}, or data.max_len and decoding.max_len lower"
            )
        return self


@dataclass(frozen=True)
class Captioned:
    """The examples of a part: its images, the tokens of their captions, and of which image each caption is."""

    images: ImageSet
    targets: Ragged
    of: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """Whether a caption is the first of its image."""
        return np.diff(self.of, prepend=-1) != 0


class Caption(Writer[dict[str, Captioned]]):
    """Description of images, each of which has one or more captions; an example is one caption.

    A batch has `training.batch_sentences` captions, 64 unless set; `training.batch_tokens` means nothing here.
    """

    name: ClassVar[str] = "caption"
    demo: ClassVar[Demo | None] = CAPTION
    generators: ClassVar[Mapping[str, Generator]] = {"shapes": shapes.make}
    config_type: ClassVar[type[Config]] = CaptionConfig
    options = (WritingOptions, BleuOptions)
    config: CaptionConfig

    def __init__(self, config: CaptionConfig, assets: Assets[dict[str, Captioned]]):
        super().__init__(config, assets)
        self.tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, config.tokenizer)
        self.seen = _metadata(assets.files)

    @classmethod
    def prepare_with(cls, config: CaptionConfig, given: Given) -> Assets[dict[str, Captioned]]:
        loaded = load_captions(config.data, config.tokenizer.normalize)
        train, files = loaded.parts["train"], given.files
        if files is None:
            texts = [text for label in train.labels for text in captions_of(label)]
            frequent = Counter(texts).most_common(1)[0][0]
            metadata = Seen.of(train.pixels, frequent=frequent)
            tokens = Tokenizer.train(texts, config.tokenizer).to_bytes()
            files = {TOKENIZER_FILE: tokens, IMAGES_FILE: as_json(metadata.model_dump())}
        elif _metadata(files).shape != loaded.shape:
            shape = _metadata(files).shape
            raise DataError(
                f"{config.data.train}: images of {loaded.shape}, the run has read {shape}; set data.size ="
                f" [{shape.height}, {shape.width}] and data.channels = {shape.channels}"
            )
        tokenizer, notes, data = tokenizer_in(files, TOKENIZER_FILE, config.tokenizer), list(loaded.notes), {}
        for part, images in loaded.parts.items():
            data[part], lost = _encoded(images, tokenizer, config.data.max_len)
            notes += [f"{part}: {lost:,} captions are longer than max_len {config.data.max_len}"] if lost else []
        if not len(data["train"].targets):
            raise DataError(f"{config.data.train}: every caption is longer than data.max_len; raise it")
        return Assets(dict(files), data, loaded.digests, tuple(notes))

    @classmethod
    def examples(cls, config: CaptionConfig, split: str) -> list[Image]:
        return examples_of(config.data, scan_of(config.data, config.tokenizer.normalize), split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A residual network and a Transformer that writes, for the captioned images of these keys of `[data]`."""
        config = build(CaptionsConfig, data, "data")
        measures = measured(config, scan_of(config))
        # a last map of about eight places across
        stages = max(1, min(5, round(math.log2(min(config.size or measures.size) / _ACROSS)) + 1))
        sizes = {"d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.1}
        values = {
            "data": {"train": config.train, **measures.keys(), **data},
            "tokenizer": {"kind": "word", "min_frequency": 2 if measures.number > 2000 else 1},
            "encoder": {"kind": "cnn", "width": 128 >> (stages - 1), "stages": stages, "dropout": 0.1},
            "model": {"kind": "decoder", **sizes, "num_layers": 2},
            "training": {
                "learning_rate": 2e-3,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_sentences": max(16, min(64, measures.number // 20)),
                "max_epochs": 10 if measures.number > 5000 else 30,
                "monitor": "bleu",
            },
        }
        return Suggestion(values, f"Captions, fitted to the {measures.number:,} images")

    def build(self) -> Seq2Seq:
        config, metadata = self.config, self.seen
        augmentation = Augmentation(config.shift, flip=config.flip)
        return build_captioner(
            config.encoder,
            config.model,
            augmentation,
            (metadata.mean, metadata.deviation),
            metadata.shape,
            self.tokenizer.vocab_size,
        )

    def source(self, split: str, limits: Limits) -> Source[PairBatch] | None:
        captioned = self.split(split)
        if captioned is None:
            return None
        size = limits.sentences or BATCH_CAPTIONS
        return spread(len(captioned.targets), size, partial(self.collate, split), limits, shuffle=split == "train")

    def select(self, examples: Sequence[Image], count: int) -> list[Image]:
        captioned = self.split("valid")
        assert captioned is not None
        rows = spread_places(len(captioned.targets), count)
        # an image is scored with the first of its captions
        return [examples[image] for image in captioned.of[rows[captioned.firsts[rows]]]]

    def split(self, split: str) -> Captioned | None:
        """The examples of a part; None where there are none, as in a run that is loaded."""
        captioned = (self.assets.data or {}).get(split)
        return captioned if captioned is not None and len(captioned.targets) else None

    def collate(self, split: str, indices: list[int]) -> PairBatch:
        """The examples at these places as a batch; an image is scored once, with the first of its captions."""
        captioned = self.split(split)
        assert captioned is not None
        rows = np.asarray(indices)
        images = captioned.of[rows]
        read = channels_first(captioned.images.pixels[images])
        lines, columns = self.config.encoder.map(self.seen.shape)
        batch = paired(read, lines * columns, captioned.targets.take(rows), self.tokenizer, indices)
        if split == "train":
            return batch
        scored = zip(captioned.firsts[rows], images, strict=True)
        return replace(
            batch, references=[captions_of(captioned.images.labels[image]) if once else [] for once, image in scored]
        )

    def samples(self, model: nn.Module) -> list[str]:
        captioned = self.split("valid") or self.split("train")
        if captioned is None:
            return []
        shown = list(captioned.images.take(list(range(len(captioned.images)))[: self.config.num_shown]).images())
        predictions = self.predictor(model).predict(shown, Request(self.greedy()))
        return [
            f"{PurePath(image.name).name}  →  {text_of(outputs)}    ({captions_of(image)[0]})"
            for image, outputs in zip(shown, predictions, strict=True)
        ]

    def writing(self, model: nn.Module) -> Writing:
        return self.predictor(model).writing

    def scoring(self) -> Scoring:
        return self.config.bleu.scoring(self.tokenizer)

    def predictor(self, model: nn.Module) -> Captioner:
        assert isinstance(model, Seq2Seq)
        config = self.config
        return Captioner(model, self.tokenizer, self.seen, config.decoding, config.bleu, config.data)

    def description(self) -> Description:
        captioned = self.split("train")
        count = 0 if captioned is None else len(captioned.images)
        text = (
            f"An encoder of kind {self.config.encoder.kind} that reads images of {self.seen.shape}, and a decoder that"
            f" writes {self.config.tokenizer.kind} tokens, trained with Headwise on {count:,} images."
        )
        commands = ("predict RUN photo.png", "evaluate RUN --data captions.csv", "explain RUN photo.png")
        return Description("Captioner", text, commands)


def _encoded(images: ImageSet, tokenizer: Tokenizer, max_len: int) -> tuple[Captioned, int]:
    """The captions of images within the limit, image by image, and how many are longer."""
    texts = [captions_of(label) for label in images.labels]
    rows = Ragged.of(tokenizer.encode_batch([text for every in texts for text in every]))
    fitting = np.flatnonzero(rows.lengths <= max_len)
    of = np.repeat(np.arange(len(texts)), list(map(len, texts)))
    return Captioned(images, rows.take(fitting), of[fitting]), len(rows) - len(fitting)


def _metadata(files: Mapping[str, bytes]) -> Seen:
    return from_json(files, IMAGES_FILE, Seen.model_validate, "does not tell shape, constants and caption")
