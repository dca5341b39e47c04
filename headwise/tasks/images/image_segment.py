"""The task of labelling each pixel: loss and scores; a recipe to begin with."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data.batches import NO_TAG
from headwise.data.suggestions import Suggestion
from headwise.explain.places import NO_CLASS
from headwise.tasks._files import from_json
from headwise.tasks.demo import Demo
from headwise.tasks.images.base import IMAGES_FILE, ImageTask, made_assets
from headwise.tasks.images.demo import IMAGE_SEGMENT
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig, PatchConfig
from headwise.tasks.images.image_sets import ImageSet, channels_first, examples_of, measured
from headwise.tasks.images.masks import MaskBatch, MasksConfig, classes_of, load_masks, scan_of
from headwise.tasks.images.options import PictureOptions
from headwise.tasks.images.pixel_labeller import Painted, PixelClasses, PixelLabeller, pixel_scores
from headwise.tasks.images.pixels import Image, Shape
from headwise.tasks.images.segmenter import Segmenter, build_segmenter
from headwise.tasks.task import Assets, Description, Metric, Stats

# side of the largest pictures that a small network is made to read
_LARGEST = 96


class ImageSegmentConfig(Config):
    """Which pixels to tell apart, and with which model."""

    data: MasksConfig = Field(description="the pictures and their masks")
    shift: int = Field(0, ge=0, le=2**14, description="pixels that a training image and its mask are moved by at most")
    flip: bool = Field(False, description="mirror every second training image with its mask")
    model: ImageEncoderConfig = Field(description="the encoder: vit, pixels, cnn or attention_cnn")
    skips: bool = Field(True, description="finer maps of cnn and attention_cnn join on the way back to pixels")
    num_shown: int = Field(4, ge=0, description="images shown at each validation")


class ImageSegment(ImageTask):
    """Telling the pixels of images apart."""

    name: ClassVar[str] = "image-segment"
    demo: ClassVar[Demo | None] = IMAGE_SEGMENT
    options = (PictureOptions,)
    unit: ClassVar[str] = "pixels"
    config_type: ClassVar[type[Config]] = ImageSegmentConfig
    metrics = (Metric("loss", "low"), Metric("pixel_accuracy", "high"), Metric("mean_iou", "high"))
    batch_images: ClassVar[int] = 32
    config: ImageSegmentConfig

    def __init__(self, config: ImageSegmentConfig, assets: Assets[dict[str, ImageSet]]):
        super().__init__(config, assets)
        self.known = from_json(
            assets.files, IMAGES_FILE, PixelClasses.model_validate, "does not tell classes, labels, shape and constants"
        )

    @classmethod
    def prepare(cls, config: ImageSegmentConfig) -> Assets[dict[str, ImageSet]]:
        loaded, labels = load_masks(config.data)
        train = loaded.parts["train"]
        assert train.masks is not None
        # counts image by image: all at once would take eight bytes a pixel
        counts = Counter[int]()
        for mask in train.masks:
            classes, pixels = np.unique(classes_of(mask, labels), return_counts=True)
            counts.update(dict(zip(classes.tolist(), pixels.tolist(), strict=True)))
        del counts[NO_CLASS]
        frequent = min(counts, key=lambda number: (-counts[number], number))
        known = PixelClasses.of(train.pixels, classes=loaded.classes, labels=labels, frequent=frequent)
        return made_assets(loaded, known)

    @classmethod
    def examples(cls, config: ImageSegmentConfig, split: str) -> list[Image]:
        # a part with files of its own is scored in the size of its pictures
        return examples_of(config.data, scan_of(config.data), split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A residual network with a way back to pixels for the pictures of these keys of `[data]`."""
        config = build(MasksConfig, data, "data")
        measures = measured(config, scan_of(config), _LARGEST)
        # a last map of four places across or more
        stages = max(1, min(4, math.floor(math.log2(min(config.size or measures.size))) - 1))
        values = {
            "data": {"train": config.train, **measures.keys(), **data},
            "flip": False,
            "model": {"kind": "cnn", "width": 16, "stages": stages, "blocks": 1, "norm": "batch", "dropout": 0.1},
            "training": {
                "learning_rate": 4e-3,
                "weight_decay": 0.01,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_sentences": max(4, min(32, measures.number // 20)),
                "max_epochs": 10 if measures.number > 5000 else 30,
                "monitor": "mean_iou",
            },
        }
        return Suggestion(values, f"Labels of pixels, fitted to the {measures.number:,} pictures")

    def build(self) -> Segmenter:
        return self.built(self.known.shape)

    def built(self, shape: Shape) -> Segmenter:
        """A new model for images of a shape. Raises: ConfigError for one that the encoder cannot read."""
        config, metadata = self.config, self.known
        augmentation = Augmentation(config.shift, flip=config.flip)
        constants_of = (metadata.mean, metadata.deviation)
        return build_segmenter(
            config.model, augmentation, constants_of, shape, len(metadata.classes), skips=config.skips
        )

    def collate(self, split: str, indices: list[int]) -> MaskBatch:
        images = self.split(split)
        assert images is not None
        assert images.masks is not None
        masks = classes_of(images.masks[indices], self.known.labels)
        pixels = channels_first(images.pixels[indices])
        return MaskBatch(indices, pixels, torch.from_numpy(masks), int((masks < len(self.known.classes)).sum()))

    @property
    def label_smoothing(self) -> float:
        return 0.0

    def answered(self, model: nn.Module, batch: MaskBatch) -> tuple[Tensor, Tensor]:
        assert isinstance(model, Segmenter)
        pixels, masks = model.moved(batch.pixels, batch.masks)
        return model(pixels), masks.long().masked_fill(masks == NO_CLASS, NO_TAG)

    def scores(self, stats: Stats) -> dict[str, float]:
        return pixel_scores(stats, self.num_labels)

    def sample(self, image: Image, output: Painted) -> str:
        return f"  →  {str(output).replace(chr(9), ', ')}"

    def predictor(self, model: nn.Module) -> PixelLabeller:
        assert isinstance(model, Segmenter)
        patch = self.config.model.patch if isinstance(self.config.model, PatchConfig) else 1
        return PixelLabeller(model, self.known, self.built, patch, self.config.data)

    def description(self) -> Description:
        count = len(self.split("train") or ())
        text = (
            f"An encoder of kind {self.config.model.kind} that reads images such as {self.known.shape} and tells"
            f" {len(self.known.classes)} kinds of pixels apart, trained with Headwise on {count:,} images."
        )
        commands = (
            "predict RUN photo.png --output masks/",
            "evaluate RUN --data masks.csv",
            "explain RUN photo.png --target 12,20",
        )
        return Description("Labeller of pixels", text, commands)
