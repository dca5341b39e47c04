"""What a labeller of pixels knows besides its weights; a file of the run holds it."""

from typing import Any, NamedTuple

from headwise.data.image_sets import checked
from headwise.data.mask_pictures import LABELS
from headwise.data.pixels import Shape


class PixelClasses(NamedTuple):
    """What a labeller of pixels knows besides its weights.

    Args:
        classes: by their numbers.
        labels: the label of each class in masks.
        shape: of the images that it was trained on.
        mean, deviation: of each channel in training, as fractions of 255.
        frequent: the number of the class that most pixels of training have.
    """

    classes: list[str]
    labels: list[int]
    shape: Shape
    mean: list[float]
    deviation: list[float]
    frequent: int

    @classmethod
    def from_json(cls, value: Any) -> "PixelClasses":
        """From what `_asdict` gave, by way of JSON. Raises: ValueError or TypeError if it is something else."""
        made = cls(**value)
        shape = checked(made.shape, made.mean, made.deviation)
        if not all(isinstance(name, str) for name in made.classes):
            raise TypeError("classes that are no texts")
        labels = [int(label) for label in made.labels]
        if not 2 <= len(made.classes) == len(labels) or not 0 <= int(made.frequent) < len(labels):
            raise ValueError("classes that do not fit")
        if not all(0 <= label < LABELS for label in labels):
            raise ValueError("labels that cannot be")
        return made._replace(shape=shape, labels=labels)
