"""Image classification: an image in, one of the classes out; Transformers over patches or pixels, residual networks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.image_classes import load_images, read_part, suggest_for_images
from headwise.data.image_sets import ImageBatch, ImageSet, as_batch, constants
from headwise.data.images import ImagesConfig
from headwise.data.pixels import Image
from headwise.data.suggestions import Suggestion
from headwise.layers.image_blocks import Augmentation
from headwise.models.image_classifier import ImageClassifier, build_image_classifier
from headwise.models.image_config import ImageEncoderConfig
from headwise.predictors.baselines import Baseline, logistic_regression, named, of_labels, sample, standardised
from headwise.predictors.recogniser import Known, Recogniser
from headwise.tasks._files import from_json
from headwise.tasks._images import IMAGES_FILE, ImageTask, made_assets
from headwise.tasks.task import Assets, Probe

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
    """Telling images apart, each of which is of one class.

    A batch has `training.batch_sentences` images, 128 unless set; `training.batch_tokens` means nothing here.
    """

    name: ClassVar[str] = "image-classify"
    unit: ClassVar[str] = "images"
    config_type: ClassVar[type[Config]] = ImageClassifyConfig
    batch_images: ClassVar[int] = 128
    config: ImageClassifyConfig

    def __init__(self, config: ImageClassifyConfig, assets: Assets[dict[str, ImageSet]]):
        super().__init__(config, assets)
        self.known = from_json(assets.files, IMAGES_FILE, Known.from_json, "does not tell classes, shape and constants")
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
        known = Known(loaded.classes, loaded.shape, *constants(train.pixels), frequent)
        return made_assets(loaded, known._asdict())

    @classmethod
    def examples(cls, config: ImageClassifyConfig, split: str) -> list[Image]:
        # a part with files of its own is scored without the images that were trained on
        if split != "train" and getattr(config.data, split) is not None:
            return read_part(config.data, split)
        return list(load_images(config.data).parts[split].images())

    @classmethod
    def baselines(
        cls, config: ImageClassifyConfig, predictor: Recogniser, examples: Sequence[Image]
    ) -> Iterator[Baseline]:
        """Logistic regression on pixels."""
        every = cls.examples(config, "train")
        train = sample(every, _ROWS)
        known, features = standardised(predictor.table(train, _SIDE), predictor.table(examples, _SIDE))
        predicted = logistic_regression(known, [one.label or "" for one in train], features, _STRENGTH)
        name = named("pixels and logistic regression", len(train), len(every))
        yield of_labels(name, predicted, [one.label or "" for one in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        return suggest_for_images(data)

    def build(self) -> ImageClassifier:
        config, known = self.config, self.known
        augmentation = Augmentation(config.augmentation.shift, flip=config.augmentation.flip)
        return build_image_classifier(
            config.model, augmentation, (known.mean, known.deviation), known.shape, len(known.classes)
        )

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        assert isinstance(model, ImageClassifier)
        seen, (height, width, _) = model.encoder.receptive_field, self.known.shape
        told = f"a place of the last map sees {seen} x {seen} pixels of the image of {height} x {width}"
        return [told] if seen is not None else []

    def collate(self, split: str, indices: list[int]) -> ImageBatch:
        images = self.split(split)
        assert images is not None
        return as_batch(images.pixels[indices], self._labels[split][indices], indices)

    @property
    def num_labels(self) -> int:
        return len(self.known.classes)

    def answered(self, model: nn.Module, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        return model(batch.pixels), batch.labels

    def samples(self, model: nn.Module) -> list[str]:
        shown = self.shown(self.config.num_shown)
        if not shown:
            return []
        found = self.predictor(model).predict(shown)
        return [
            f"{PurePath(image.name).name} ({image.label}) → {next(iter(said))} {next(iter(said.values())):.2f}"
            for image, said in zip(shown, found, strict=True)
        ]

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(image) for image in self.shown(self.config.num_shown)]

    def predictor(self, model: nn.Module) -> Recogniser:
        assert isinstance(model, ImageClassifier)
        return Recogniser(model, self.known, self.config.data)

    def card(self, metrics: Mapping[str, float]) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        count = len(self.split("train") or ())
        return (
            f"# Image classifier trained on {PurePath(self.config.data.train).name}\n\n"
            f"An encoder of kind {self.config.model.kind} that reads images of {self.known.shape} and tells"
            f" {len(self.known.classes)} classes apart, trained with Headwise on {count:,} images."
            f" Validation: {scores or 'none'}.\n\n"
            "    headwise predict RUN photo.png\n    headwise evaluate RUN --data folder_of_class_folders\n"
            "    headwise explain RUN photo.png\n\n"
            "`RUN` is this folder. It is complete and can be moved.\n"
        )
