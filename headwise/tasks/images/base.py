"""What the tasks of images share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from headwise.data.sources import Limits, Source, spread, spread_places
from headwise.tasks._files import as_json
from headwise.tasks._labelling import Labelling
from headwise.tasks.images.image_sets import ImageSet, Loaded
from headwise.tasks.images.pixels import Image
from headwise.tasks.task import Assets

IMAGES_FILE = "images.json"


def made_assets(loaded: Loaded, known: Mapping[str, Any]) -> Assets[dict[str, ImageSet]]:
    """What a task on images keeps."""
    return Assets({IMAGES_FILE: as_json(known)}, dict(loaded.parts), loaded.digests, loaded.notes)


class ImageTask(Labelling[dict[str, ImageSet]]):
    """Labels of images or of their pixels.

    A batch has `training.batch_sentences` images; `training.batch_tokens` means nothing here.
    """

    # images of a batch where training.batch_sentences is not set
    batch_images: ClassVar[int]

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

    def shown(self, count: int) -> list[Image]:
        """The first images of validation, or of training where there are no others."""
        images = self.split("valid") or self.split("train")
        return [] if images is None else list(images.take(list(range(len(images)))[:count]).images())
