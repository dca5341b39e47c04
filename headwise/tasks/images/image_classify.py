"""The task of naming what an image shows: classes, loss and scores; a recipe to begin with."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data.inspection import DataKind
from headwise.data.suggestions import Suggestion
from headwise.labels import decimals
from headwise.predictors.baselines import Baseline, logistic_regression, named, of_labels, sample, standardised
from headwise.predictors.classes import class_names
from headwise.tasks._files import from_json
from headwise.tasks._labelling import lacking
from headwise.tasks.demo import Demo
from headwise.tasks.images.base import IMAGES_FILE, ImageTask, made_assets
from headwise.tasks.images.demo import IMAGE_CLASSIFY
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig
from headwise.tasks.images.image_sets import (
    ImageBatch,
    ImageSet,
    Loaded,
    channels_first,
    examples_of,
    load_parts,
    measured,
)
from headwise.tasks.images.images import ImagesConfig, scan_of
from headwise.tasks.images.pixels import Image
from headwise.tasks.images.recogniser import ImageClassifier, Known, Recogniser, build_image_classifier
from headwise.tasks.images.report import IMAGES
from headwise.tasks.task import Assets, Description, Probe


def load_images(config: ImagesConfig) -> Loaded:
    """Reads and splits the labelled images of a recipe, as `load_parts`.

    Raises:
        DataError: as `load_parts`; labels that are not as the recipe names them, or all alike.
    """
    loaded = load_parts(config, scan_of(config))
    train, notes = loaded.parts["train"], list(loaded.notes)
    classes = class_names(train.labels, config.classes)
    for part, images in loaded.parts.items():
        notes += _notes(part, images, classes) if len(images) else []
    return replace(loaded, classes=classes, notes=tuple(notes))


def _notes(part: str, images: ImageSet, classes: list[str]) -> list[str]:
    """What a part is like, and what of it training has or lacks."""
    counts = Counter(images.labels)
    most, least = max(counts.values()), min(counts.values())
    span = f"{most:,}" if most == least else f"{least:,} to {most:,}"
    notes = [f"{part}: {len(images):,} images of {len(counts):,} classes, {span} each"]
    return notes if part == "train" else notes + lacking(part, counts, classes)


# of the baseline: images that it is fitted to, pixels of a side that it reads, inverse of its penalty
_ROWS, _SIDE, _STRENGTH = 10_000, 32, 0.01


class AugmentationConfig(Config):
    """How training images are changed at random."""

    shift: int = Field(0, ge=0, le=2**14, description="pixels that an image is moved by at most; its edge is repeated")
    flip: bool = Field(False, description="mirror every second image, left to right")


class ImageClassifyConfig(Config):
    """Which images to tell apart, and with which model."""

    data: ImagesConfig = Field(description="the images")
    augmentation: AugmentationConfig = Field(AugmentationConfig(), description="random changes of training images")
    model: ImageEncoderConfig = Field(description="the encoder: vit, pixels, cnn or attention_cnn")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the classes")
    num_shown: int = Field(4, ge=0, description="how many images are named at each validation, with what is said")


class ImageClassify(ImageTask):
    """Telling images apart, each of which is of one class."""

    name: ClassVar[str] = "image-classify"
    kinds: ClassVar[tuple[DataKind, ...]] = (IMAGES,)
    demo: ClassVar[Demo | None] = IMAGE_CLASSIFY
    unit: ClassVar[str] = "images"
    config_type: ClassVar[type[Config]] = ImageClassifyConfig
    batch_images: ClassVar[int] = 128
    config: ImageClassifyConfig

    def __init__(self, config: ImageClassifyConfig, assets: Assets[dict[str, ImageSet]]):
        super().__init__(config, assets)
        self.known = from_json(
            assets.files, IMAGES_FILE, Known.model_validate, "does not tell classes, shape and constants"
        )
        numbers = {name: number for number, name in enumerate(self.known.classes)}
        self._labels = {
            part: np.array([numbers.get(label, len(numbers)) for label in images.labels], np.int64)
            for part, images in (assets.data or {}).items()
        }

    @classmethod
    def prepare(cls, config: ImageClassifyConfig) -> Assets[dict[str, ImageSet]]:
        loaded = load_images(config.data)
        train = loaded.parts["train"]
        frequent = Counter(train.labels).most_common(1)[0][0]
        return made_assets(loaded, Known.of(train.pixels, classes=loaded.classes, frequent=frequent))

    @classmethod
    def examples(cls, config: ImageClassifyConfig, split: str) -> list[Image]:
        return examples_of(config.data, scan_of(config.data), split)

    @classmethod
    def baselines(
        cls, config: ImageClassifyConfig, predictor: Recogniser, examples: Sequence[Image]
    ) -> Iterator[Baseline]:
        """Logistic regression on pixels."""
        every = cls.examples(config, "train")
        train = sample(every, _ROWS)
        train_features, features = standardised(predictor.table(train, _SIDE), predictor.table(examples, _SIDE))
        predicted = logistic_regression(train_features, [image.label or "" for image in train], features, _STRENGTH)
        name = named("pixels and logistic regression", len(train), len(every))
        yield of_labels(name, predicted, [image.label or "" for image in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A residual network for the images of these keys of `[data]`."""
        config = build(ImagesConfig, data, "data")
        measures = measured(config, scan_of(config))
        # a last map of two places across or more
        stages = max(1, min(3, math.ceil(math.log2(min(config.size or measures.size)))))
        values = {
            "data": {"train": config.train, **measures.keys(), **data},
            "augmentation": {"shift": 2, "flip": False},
            "model": {"kind": "cnn", "width": 32, "stages": stages, "blocks": 1, "norm": "batch", "dropout": 0.2},
            "training": {
                "learning_rate": 4e-3,
                "weight_decay": 0.05,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_sentences": max(16, min(128, measures.number // 20)),
                "max_epochs": 10 if measures.number > 20_000 else 30,
                "monitor": "accuracy",
            },
        }
        return Suggestion(values, f"Classification, fitted to the {measures.number:,} images")

    def build(self) -> ImageClassifier:
        config, metadata = self.config, self.known
        augmentation = Augmentation(config.augmentation.shift, flip=config.augmentation.flip)
        return build_image_classifier(
            config.model, augmentation, (metadata.mean, metadata.deviation), metadata.shape, len(metadata.classes)
        )

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        assert isinstance(model, ImageClassifier)
        field, (height, width, _) = model.encoder.receptive_field, self.known.shape
        note = f"a place of the last map sees {field} x {field} pixels of the image of {height} x {width}"
        return [note] if field is not None else []

    def collate(self, split: str, indices: list[int]) -> ImageBatch:
        images = self.split(split)
        assert images is not None
        labels = torch.from_numpy(self._labels[split][indices])
        return ImageBatch(indices, channels_first(images.pixels[indices]), labels)

    def answered(self, model: nn.Module, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        return model(batch.pixels), batch.labels

    def sample(self, image: Image, output: Mapping[str, float]) -> str:
        label, probability = next(iter(output.items()))
        return f" ({image.label}) → {label} {decimals(probability)}"

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(image) for image in self.shown()]

    def predictor(self, model: nn.Module) -> Recogniser:
        assert isinstance(model, ImageClassifier)
        return Recogniser(model, self.known, self.config.data)

    def description(self) -> Description:
        count = len(self.split("train") or ())
        text = (
            f"An encoder of kind {self.config.model.kind} that reads images of {self.known.shape} and tells"
            f" {len(self.known.classes)} classes apart, trained with Headwise on {count:,} images."
        )
        commands = ("predict RUN photo.png", "evaluate RUN --data folder_of_class_folders", "explain RUN photo.png")
        return Description("Image classifier", text, commands)
