"""Classification of images: the model, what applies it, and the task."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.config import Config, build
from headwise.data.bad_lines import strict
from headwise.data.inspection import DataKind
from headwise.data.suggestions import Suggestion
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import OnImage
from headwise.labels import decimals, probability, visible
from headwise.models.recurrent import initialize_with_cells
from headwise.predictors import looking
from headwise.predictors.baselines import (
    Baseline,
    logistic_regression,
    majority,
    named,
    of_labels,
    sample,
    standardised,
)
from headwise.predictors.classes import class_names, verdict_scores
from headwise.predictors.predictor import Form, several
from headwise.predictors.rows import Scored
from headwise.processes import divided
from headwise.tasks._files import as_json, from_json
from headwise.tasks._labelling import lacking
from headwise.tasks.demo import Demo
from headwise.tasks.images import pathfinder
from headwise.tasks.images.base import IMAGES_FILE, ImagePredictor, ImageTask, made_assets
from headwise.tasks.images.demo import IMAGE_CLASSIFY
from headwise.tasks.images.encoders import (
    Augmentation,
    Constants,
    ImageEncoder,
    ImageEncoderConfig,
    Pixels,
    Sizes,
    Standardized,
)
from headwise.tasks.images.image_sets import (
    ImageBatch,
    ImageMetadata,
    ImageSet,
    Loaded,
    channels_first,
    examples_of,
    load_parts,
    measured,
    spanned,
)
from headwise.tasks.images.images import ImagesConfig, scan_images, scan_of
from headwise.tasks.images.maps import ImageMap
from headwise.tasks.images.pixels import Image
from headwise.tasks.images.report import IMAGES
from headwise.tasks.task import Assets, Description, Generator, Given, Probe


class ImageClassifier(nn.Module):
    """head(dropout(encoder(standardized(augmentation(pixels)))))."""

    def __init__(
        self,
        augmentation: Augmentation,
        standardized: Standardized,
        encoder: ImageEncoder,
        head: nn.Linear,
        dropout: float,
    ):
        super().__init__()
        self.augmentation, self.standardized, self.encoder = augmentation, standardized, encoder
        self.head, self.dropout = head, Dropout(dropout)

    def forward(self, pixels: Pixels) -> Float[Tensor, "batch classes"]:
        x = self.standardized(self.augmentation(pixels))
        logits: Tensor = self.head(self.dropout(self.encoder(x)))
        return logits


def build_image_classifier(
    config: ImageEncoderConfig, augmentation: Augmentation, constants: Constants, sizes: Sizes, num_classes: int
) -> ImageClassifier:
    """The model of a configuration. Raises: ConfigError: an image that the encoder cannot read.

    >>> import torch
    >>> from headwise.tasks.images.encoders import PatchConfig
    >>> config = PatchConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, patch=7)
    >>> model = build_image_classifier(config, Augmentation(0, flip=False), ([0.5], [0.5]), (28, 21, 1), 10)
    >>> model(torch.zeros(2, 1, 28, 21, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """
    encoder = config.encoder(sizes)
    head = nn.Linear(encoder.width, num_classes)
    model = ImageClassifier(augmentation, Standardized(*constants), encoder, head, config.dropout)
    initialize_with_cells(model, config.initializer)
    return model


# images that are read together
PREDICTION_IMAGES = 128


class Known(ImageMetadata):
    """What a classifier of images knows besides its weights.

    Args:
        classes: by their numbers.
        frequent: the most frequent class of training.
    """

    classes: list[str] = Field(min_length=1)
    frequent: str


class Recogniser(ImagePredictor[dict[str, float]]):
    """A model with its classes."""

    data: ImagesConfig

    option = "n_best"

    def __init__(self, model: ImageClassifier, known: Known, data: ImagesConfig):
        super().__init__(model, known.shape, data)
        self.known = known

    def read(self, path: Path) -> Iterator[Image]:
        """A picture, or those of an IDX, .npz or CSV file; labels are not needed."""
        config = self.data.model_copy(update={"format": "auto"})
        return map(self.fitted, strict(scan_images(path, None, config, labelled=False)))

    @torch.inference_mode()
    def predict(self, items: Sequence[Image | str] | str, options: Any = None) -> list[dict[str, float]]:
        """The probability of every class for each image, the likeliest first; a text is the path of a picture."""
        images = several(items)
        outputs = []

        def odds(start: int) -> list[list[float]]:
            pixels = self._pixels(images[start : start + PREDICTION_IMAGES])
            rows: list[list[float]] = self.model(pixels).float().softmax(-1).tolist()
            return rows

        for _, rows in divided(odds, range(0, len(images), PREDICTION_IMAGES)):
            for row in rows:
                shares = dict(zip(self.known.classes, row, strict=True))
                outputs.append(dict(sorted(shares.items(), key=lambda share: -share[1])))
        return outputs

    def write(self, item: Image, output: dict[str, float], form: Form, options: Any = None) -> list[str]:
        """`class<tab>probability`, a line for each class asked for; or JSON with the name of the image."""
        best = list(output.items())[: options or 1]
        if form == "text":
            return [f"{visible(name)}\t{probability(share)}" for name, share in best]
        label, share = best[0]
        fields: dict[str, Any] = {"image": item.name, "label": label, "probability": share}
        if options:
            fields["probabilities"] = dict(best)
        return [json.dumps(fields, ensure_ascii=False)]

    def scored(self, examples: Sequence[Image], options: Any = None) -> Scored:
        """Scores as of `verdict_scores`. Raises: DataError: images without a label."""
        gold = [image.label or "" for image in examples]
        if "" in gold:
            raise DataError(
                f"{examples[gold.index('')].name}: has no label to compare with; give every image its class"
            )
        return verdict_scores(self.predict(examples), gold, [image.name for image in examples])

    def baselines(self, examples: Sequence[Image]) -> Iterator[Baseline]:
        yield majority([image.label or "" for image in examples])

    def table(self, images: Sequence[Image], side: int) -> np.ndarray:
        """Images as rows of numbers from 0 to 1, as the model reads them, or means over squares of larger ones.

        Args:
            side: pixels of a row's image, in height and width, at most.
        """
        rows = []
        for start in range(0, len(images), PREDICTION_IMAGES):
            pixels = self._pixels(images[start : start + PREDICTION_IMAGES]).cpu().float()
            height, width = (min(side, length) for length in pixels.shape[-2:])
            rows.append(F.adaptive_avg_pool2d(pixels, (height, width)).flatten(1).numpy() / 255)
        return np.concatenate(rows)

    def explain(self, item: Image | str, target: str | None = None) -> Explanation:
        """Where the class token looks in every layer, or the places of the map on average where there is none.

        Raises: Unsupported for a model without attention.
        """
        if target is not None:
            raise ConfigError("the class of an image cannot be given here; leave the target out")
        (image,) = self.inputs(item)
        pixels, encoder = self._pixels([image]), self.model.encoder
        grid, layers = encoder.patches, {}
        for name, attention in looking.attended(self.model, pixels).items():
            count = attention.shape[1]
            query = np.eye(1, count) if encoder.class_tokens else np.full((1, count), 1 / count)
            layers[name] = attention.layer(["class" if encoder.class_tokens else "mean"], grid.labels, rows=query)
        (label, share), *_ = self.predict([image])[0].items()
        read = self.data.adapted(image, self.known.shape)
        draw = ImageMap(read, encoder.grid)
        places = OnImage(read, [grid], chosen=0 if encoder.class_tokens else None)
        return Explanation(Path(image.name).name, f"{label} {decimals(share)}", layers, draw, places=places)

    def _pixels(self, items: Sequence[Image | str]) -> torch.Tensor:
        return self.pixels(self.inputs(items)).to(self.model.head.weight.device)


def load_images(config: ImagesConfig) -> Loaded:
    """Reads and splits the labelled images of a recipe, as `load_parts`.

    Raises: DataError: as `load_parts`; labels that are not as the recipe names them, or all alike.
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
    notes = [f"{part}: {len(images):,} images of {len(counts):,} classes, {spanned(counts.values())} each"]
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
    num_shown: int = Field(4, ge=0, description="images shown at each validation, with the prediction")


class ImageClassify(ImageTask):
    """Telling images apart, each of which is of one class."""

    name: ClassVar[str] = "image-classify"
    kinds: ClassVar[tuple[DataKind, ...]] = (IMAGES,)
    demo: ClassVar[Demo | None] = IMAGE_CLASSIFY
    generators: ClassVar[Mapping[str, Generator]] = {"pathfinder": pathfinder.make}
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
    def prepare_with(cls, config: ImageClassifyConfig, given: Given) -> Assets[dict[str, ImageSet]]:
        if given.files is None or getattr(config.model, "start", None) is None:
            return super().prepare_with(config, given)
        # what a trained model reads stays as it was
        start = from_json(given.files, IMAGES_FILE, Known.model_validate, "does not tell classes, shape and constants")
        assets = cls.prepare(config)
        known = Known.model_validate(json.loads(assets.files[IMAGES_FILE]))
        if known.shape != start.shape:
            height, width, channels = start.shape
            raise ConfigError(
                f"model.start reads images of {height} x {width} pixels and {channels} channels: set data.size to"
                f" {[height, width]} and data.channels to {channels}"
            )
        classes = start.classes if {*known.classes} <= {*start.classes} or not given.start else known.classes
        own = start.model_copy(update={"classes": classes, "frequent": known.frequent})
        return replace(assets, files={IMAGES_FILE: as_json(own.model_dump())})

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.known.classes)

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
