"""What the tasks of images share."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import UInt8
from torch import Tensor, nn

from headwise.data.files import Bytes
from headwise.data.sources import Limits, Source, spread, spread_places
from headwise.predictors.predictor import Predictor
from headwise.tasks._files import as_json
from headwise.tasks._labelling import Labelling
from headwise.tasks.images.image_sets import ImageMetadata, ImageSet, Loaded, channels_first
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import MAX_PIXELS, Image, PicturesConfig, Shape
from headwise.tasks.task import Assets

O = TypeVar("O")  # noqa: E741

IMAGES_FILE = "images.json"


class ImagePredictor(Predictor[Image, O, Image]):
    """A predictor that reads every image in one shape, of which pictures are made as `data` says."""

    reads = "file"
    given = "image"

    def __init__(self, model: nn.Module, shape: Shape, data: PicturesConfig):
        self.model, self.shape, self.data = model, shape, data

    def parse(self, text: str) -> Image:
        """The picture at a path. Raises: DataError if it cannot be read."""
        return self.fitted(decode(Bytes(self.data.max_bytes).read(Path(text)), text, self.data.max_pixels))

    def opened(self, data: bytes, name: str) -> Image:
        return self.fitted(decode(data, name, min(self.data.max_pixels, MAX_PIXELS)))

    def fitted(self, image: Image) -> Image:
        """As the model reads it: many may wait, each as large as pictures may be."""
        return Image(image.name, self.data.adapted(image, self.shape), image.label, fitted=True)

    def pixels(self, images: Sequence[Image]) -> UInt8[Tensor, "batch channels height width"]:
        return channels_first(np.stack([self.data.adapted(image, self.shape) for image in images]))


def made_assets(loaded: Loaded, metadata: ImageMetadata) -> Assets[dict[str, ImageSet]]:
    """What a task on images keeps."""
    return Assets({IMAGES_FILE: as_json(metadata.model_dump())}, dict(loaded.parts), loaded.digests, loaded.notes)


class ImageTask(Labelling[dict[str, ImageSet]]):
    """Labels of images or of their pixels.

    A batch has `training.batch_sentences` images; `training.batch_tokens` means nothing here.
    """

    # images of a batch where training.batch_sentences is not set
    batch_images: ClassVar[int]
    # what the model knows of the images besides its weights
    known: Any

    @abstractmethod
    def collate(self, split: str, indices: list[int]) -> Any:
        """The images at these places as a batch."""

    def source(self, split: str, limits: Limits) -> Source[Any] | None:
        images = self.split(split)
        if images is None or not len(images):
            return None
        size = limits.sentences or self.batch_images
        return spread(len(images), size, partial(self.collate, split), limits, shuffle=split == "train")

    def select(self, examples: Sequence[Image], count: int) -> list[Image]:
        return [examples[place] for place in spread_places(len(examples), count)]

    def split(self, split: str) -> ImageSet | None:
        """The images of a part; none in a run that is loaded."""
        return (self.assets.data or {}).get(split)

    @property
    def num_labels(self) -> int:
        return len(self.known.classes)

    def shown(self) -> list[Image]:
        """The first images of validation, or of training where there are no others."""
        images = self.split("valid") or self.split("train")
        return [] if images is None else list(images.take(list(range(len(images)))[: self.config.num_shown]).images())

    def samples(self, model: nn.Module) -> list[str]:
        shown = self.shown()
        outputs = zip(shown, self.predictor(model).predict(shown) if shown else [], strict=True)
        return [f"{PurePath(image.name).name}{self.sample(image, output)}" for image, output in outputs]

    @abstractmethod
    def sample(self, image: Image, output: Any) -> str:
        """An output as validations show it, behind the name of the image."""
