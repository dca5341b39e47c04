"""Labels of pixels by a trained model: what it knows besides its weights, what it predicts, its scores."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from pydantic import Field, model_validator
from torch import Tensor

from headwise.data.bad_lines import strict
from headwise.data.files import Bytes
from headwise.errors import ConfigError, DataError, ShapeError
from headwise.explain.explanation import Explained, Explanation
from headwise.explain.places import NO_CLASS, Grid, OnImage
from headwise.labels import probability, visible
from headwise.metrics import mean_overlap, overlaps
from headwise.positions import Position
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import mean
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form, Predictor
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.processes import divided
from headwise.tasks.images.image_sets import ImageMetadata, channels_first
from headwise.tasks.images.maps import Labelled, LabelMap
from headwise.tasks.images.mask_pictures import LABELS, Legend, fitted, restored
from headwise.tasks.images.masks import MasksConfig, classes_of, picture_with_mask, scan_masks
from headwise.tasks.images.picture_files import decode, encode
from headwise.tasks.images.pixels import MAX_PIXELS, Image, Shape
from headwise.tasks.images.segmenter import Segmenter

# pairs of classes, and classes, that are told
_CONFUSED, _SHOWN = 5, 40


def pixel_scores(stats: Mapping[str, float], num_classes: int) -> dict[str, float]:
    """Pixel accuracy and mean IoU of the counts of `counted`; all classes that training lacks are one."""
    right, predicted, gold = (
        np.array([stats.get(f"{name}_{number}", 0.0) for number in range(num_classes + 1)])
        for name in ("right", "predicted", "gold")
    )
    accuracy = mean(float(right.sum()), float(gold.sum()))
    return {"pixel_accuracy": accuracy, "mean_iou": mean_overlap(right, predicted, gold)}


def confusion(
    predicted: Int64[np.ndarray, "pixels"], gold: Int64[np.ndarray, "pixels"], num_classes: int
) -> Int64[np.ndarray, "gold_classes predicted_classes"]:
    """How many pixels of each class are said to be of each; the last class is that of all that training lacks.

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 2]), 2).tolist()
    [[1, 1, 0], [0, 0, 0], [0, 1, 0]]
    """
    side = num_classes + 1
    return np.bincount(gold * side + predicted, minlength=side * side).reshape(side, side)


def majority_of_pixels(gold: Int64[np.ndarray, "classes"]) -> Baseline:
    """The most frequent class predicted of every pixel, from how many pixels each has.

    >>> majority_of_pixels(np.array([3, 1])).scores
    {'pixel_accuracy': 0.75, 'mean_iou': 0.375}
    """
    predicted = np.where(np.arange(len(gold)) == gold.argmax(), gold.sum(), 0)
    right = np.minimum(predicted, gold)
    accuracy, mean_iou = float(right.sum() / gold.sum()), mean_overlap(right, predicted, gold)
    return Baseline("majority", {"pixel_accuracy": accuracy, "mean_iou": mean_iou})


def confusion_scores(
    counts: Int64[np.ndarray, "gold_classes predicted_classes"], names: Sequence[str]
) -> dict[str, float | str]:
    """Scores of a confusion matrix: accuracy, mean IoU, that of each class with its pixels, the usual confusions.

    Args:
        names: of the classes, and of what training lacks.
    """
    right, gold, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    ious = overlaps(right, predicted, gold)
    shown = sorted(np.flatnonzero(gold + predicted).tolist(), key=lambda number: -gold[number])
    by_class = [f"{names[number]} {ious[number]:.4f} ({gold[number]:,})" for number in shown[:_SHOWN]]
    wrong = counts - np.diag(right)
    pairs = [divmod(int(place), len(names)) for place in np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSED]]
    confused = [
        f"{names[true]} for {names[other]} {wrong[true, other]:,} ({wrong[true, other] / gold[true]:.1%})"
        for true, other in pairs
        if wrong[true, other]
    ]
    return {
        "pixel_accuracy": float(right.sum() / counts.sum()),
        "mean_iou": mean_overlap(right, predicted, gold),
        "iou_of_each": ", ".join(by_class) + (", ..." if len(shown) > _SHOWN else ""),
        "confused": ", ".join(confused) or "none",
    }


class PixelClasses(ImageMetadata):
    """What a labeller of pixels knows besides its weights.

    Args:
        classes: by their numbers.
        labels: the label of each class in masks.
        frequent: the number of the class that most pixels of training have.
    """

    classes: list[str] = Field(min_length=2)
    labels: list[Annotated[int, Field(ge=0, lt=LABELS)]]
    frequent: int = Field(ge=0)

    @model_validator(mode="after")
    def _classes_fit(self) -> "PixelClasses":
        if len(self.classes) != len(self.labels) or self.frequent >= len(self.labels):
            raise ValueError("classes that do not fit")
        return self


# pixels that are read together, but for a larger picture; and most of one from elsewhere that keeps its size
PREDICTION_PIXELS = 1 << 18
# classes that an explanation names; what those that training lacks are called together
_NAMED = 3
_LACKED, _LACKED_COLOUR = "labels that training lacks", (255, 0, 255)


@dataclass(frozen=True)
class Painted:
    """The label of each pixel of a picture, and the share of each class in it."""

    labels: UInt8[np.ndarray, "height width"]
    shares: dict[str, float]

    def __str__(self) -> str:
        return "\t".join(f"{visible(name)} {probability(share)}" for name, share in self.shares.items())


class PixelLabeller(Predictor[Image, Painted, Image]):
    """A model with its classes.

    Pictures are made the size that the recipe names, and answers that of the picture again; without one, pictures keep
    their own, whatever the training had, where the model's positions allow it.

    Args:
        build: a new model for images of a shape.
        patch: what sides must be multiples of; other pictures are filled up by repeating their edges.
        data: how pictures and masks are read.
    """

    reads = "file"
    given = "image"
    option = "max_pixels"
    ending: ClassVar[str] = ".png"

    def __init__(
        self, model: Segmenter, known: PixelClasses, build: Callable[[Shape], Segmenter], patch: int, data: MasksConfig
    ):
        self.model, self.known, self.build, self.patch, self.data = model, known, build, patch, data
        self.legend: Legend = data.legend()
        self._other: tuple[Shape, Segmenter] | None = None

    def parse(self, text: str) -> Image:
        """The picture at a path, or `{"path": ..., "mask": ...}` with its mask. Raises: DataError for what is none."""
        files = Bytes(self.data.max_bytes)
        if not text.lstrip().startswith("{"):
            return decode(files.read(Path(text)), text, self.data.max_pixels, whole=True)
        keys = self.data.path_key, self.data.mask_key
        try:
            fields = json.loads(text)
            names = [fields[key] for key in keys if key in fields]
        except (ValueError, RecursionError):
            names = []
        if not names or keys[0] not in fields or not all(isinstance(name, str) for name in names):
            raise DataError(f'{text[:60]}: give a path, or JSON such as {{"{keys[0]}": "a.png", "{keys[1]}": "b.png"}}')
        return picture_with_mask(names[0], names[1], self.data, files) if len(names) > 1 else self.parse(names[0])

    def opened(self, data: bytes, name: str) -> Image:
        most = PREDICTION_PIXELS if self.data.size is None else MAX_PIXELS
        return decode(data, name, min(self.data.max_pixels, most), whole=True)

    def read(self, path: Path) -> Iterator[Image]:
        """A picture, or those of a table or an .npz file; masks are not needed."""
        return strict(scan_masks(path, None, self.data.model_copy(update={"format": "auto"}), masked=False))

    @torch.inference_mode()
    def predict(self, items: Sequence[Image | str] | Image | str, options: int | None = None) -> list[Painted]:
        """The labels of the pixels of each picture, in its own size; a text is the path of a picture.

        Args:
            options: pixels of a picture at most where `data.size` is absent; None: 262,144, or as many as training had.
        """
        images = self.inputs(items)
        self._check_sizes(images, options)
        together: list[tuple[list[Image], Shape]] = []
        for shape, alike in groupby(images, self._shape):
            same = list(alike)
            size = max(1, PREDICTION_PIXELS // (shape.height * shape.width))
            together += [(same[start : start + size], shape) for start in range(0, len(same), size)]
        return [output for _, outputs in divided(lambda part: self._painted(*part), together) for output in outputs]

    def _check_sizes(self, images: Sequence[Image], most: int | None = None) -> None:
        """Raises: DataError for a picture of more pixels where each keeps its size: the model needs memory for each."""
        if self.data.size is not None:
            return
        most = most or max(PREDICTION_PIXELS, self.known.shape.height * self.known.shape.width)
        for image in images:
            if (pixels := image.shape.height * image.shape.width) > most:
                raise DataError(
                    f"{image.name}: {pixels:,} pixels, and pictures that keep their size have at most {most:,}; make it"
                    " smaller (`predict` takes --max-pixels)"
                )

    def write(self, item: Image, output: Painted, form: Form, options: Any = None) -> list[str]:
        """`class share` for each class in the picture, the largest first; or JSON with its name and size."""
        if form == "text":
            return [str(output)]
        height, width = output.labels.shape
        fields = {"image": item.name, "height": height, "width": width, "shares": output.shares}
        return [json.dumps(fields, ensure_ascii=False)]

    def file_of(self, item: Image, output: Painted) -> bytes:
        """A PNG file whose pixels are labels, with a palette to see them: `data.colours` where there are any."""
        return encode(output.labels, self.legend.palette)

    def scored(self, examples: Sequence[Image], options: Any = None) -> Scored:
        """Pixel accuracy and mean IoU over all pixels; `iou_of_each` is the IoU of each class with its pixels.

        `confused` are the pairs of classes of which most pixels of the first are taken for the second.

        Raises: DataError: no pictures, pictures without a mask, or masks that count nowhere.
        """
        predicted = [output.labels for output in self.predict(examples, self.data.max_pixels)]
        each = self._confusions(examples, predicted)
        columns = {
            "right": [counts.diagonal().tolist() for counts in each],
            "predicted": [counts.sum(0).tolist() for counts in each],
            "gold": [counts.sum(1).tolist() for counts in each],
            "right_pixels": [int(counts.trace()) for counts in each],
            "pixels": [int(counts.sum()) for counts in each],
        }
        formulas = {
            "pixel_accuracy": Formula("mean", ("right_pixels", "pixels")),
            "mean_iou": Formula("overlap", ("right", "predicted", "gold")),
        }
        question = question_of([image.name for image in examples], columns["gold"])
        scores = confusion_scores(np.sum(each, 0), [*self.known.classes, _LACKED])
        return Scored(scores, Rows(columns, formulas, question, "pictures"))

    def baselines(self, examples: Sequence[Image]) -> Iterator[Baseline]:
        yield majority_of_pixels(np.sum(self._confusions(examples, [image.mask for image in examples]), 0).sum(1))

    def _confusions(self, examples: Sequence[Image], predicted: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """How many pixels of each class are predicted as each, in each picture. Raises: as `evaluate`."""
        each: list[np.ndarray] = []
        for image, labels in zip(examples, predicted, strict=True):
            if image.mask is None or labels is None:
                raise DataError(f"{image.name}: has no mask to compare with; give every picture one")
            gold, classes = (self._classes(label_map) for label_map in (image.mask, labels.astype(np.int16)))
            each.append(confusion(classes[gold != NO_CLASS], gold[gold != NO_CLASS], len(self.known.classes)))
        if not any(counts.any() for counts in each):
            raise DataError("there is nothing to score: no pixels whose label counts")
        return each

    def explain(self, item: Image | str, target: str | None = None) -> Explained:
        """The picture, its mask where it has one, the prediction, and what one pixel attends to.

        Args:
            target: `row,column` of that pixel, from 0, in the picture as the model reads it; its middle if None.
        """
        (image,) = self.inputs(item)
        self._check_sizes([image])
        shape = self._shape(image)
        pixel, read = _pixel(target, shape), self._filled(shape)
        model, (classes,) = self._model(shape, image.name), self._predicted([image], shape)
        colours = [*(self.legend.palette[label] for label in self.known.labels), _LACKED_COLOUR]
        draw = LabelMap(
            self.data.adapted(image, shape),
            model.encoder.grid,
            classes.astype(np.int64),
            None if image.mask is None else self._classes(fitted(image.mask, shape, self.data.fit)),
            list(zip([*self.known.classes, _LACKED], colours, strict=True)),
            pixel,
            (read.height, read.width),
        )
        name, shares = Path(image.name).name, str(*self._painted([image], shape))
        output = f"{self.known.classes[classes[pixel]]} at {pixel[0]},{pixel[1]}"
        if not looking.has_attention(self.model):
            return Labelled(name, ", ".join(shares.split("\t")[:_NAMED]), draw, shares.split("\t"))
        query, labels = self._query(model.encoder.patches, pixel, read), model.encoder.patches.labels
        layers = {
            name: attention.layer([f"pixel {pixel[0]},{pixel[1]}"], labels)
            for name, attention in looking.attended(model, self._pixels([image], shape), query=query).items()
        }
        places = OnImage(draw.pixels, [model.encoder.patches], draw.covered, query, draw.labels)
        return Explanation(name, output, layers, draw, shares.replace("\t", "\n"), places)

    @staticmethod
    def _query(grid: Grid, pixel: tuple[int, int], read: Shape) -> int:
        row, column = pixel[0] * grid.rows // read.height, pixel[1] * grid.columns // read.width
        return grid.before + row * grid.columns + column

    def _painted(self, images: Sequence[Image], shape: Shape) -> list[Painted]:
        """What is said of images that are read in this shape, in the sizes that they have."""
        labels = np.array(self.known.labels, np.uint8)
        painted = []
        for classes, image in zip(self._predicted(images, shape), images, strict=True):
            full_size = restored(classes, image.shape, self.data.fit)
            counts = np.bincount(full_size.ravel(), minlength=len(labels))
            order = [number for number in np.argsort(-counts, kind="stable").tolist() if counts[number]]
            shares = {self.known.classes[number]: float(counts[number] / full_size.size) for number in order}
            painted.append(Painted(labels[full_size], shares))
        return painted

    @torch.inference_mode()
    def _predicted(self, images: Sequence[Image], shape: Shape) -> list[np.ndarray]:
        """The class of each pixel, as the images are read."""
        model = self._model(shape, images[0].name)
        with evaluating(model):
            classes = model(self._pixels(images, shape)).argmax(1)[:, : shape.height, : shape.width]
        return list(classes.to(torch.uint8).cpu().numpy())

    def _shape(self, image: Image) -> Shape:
        if self.data.size is not None:
            return self.known.shape
        return Shape(image.shape.height, image.shape.width, self.known.shape.channels)

    def _filled(self, shape: Shape) -> Shape:
        """The same, whose sides are multiples of a patch."""
        height, width = (-(-side // self.patch) * self.patch for side in shape[:2])
        return Shape(height, width, shape.channels)

    def _pixels(self, images: Sequence[Image], shape: Shape) -> Tensor:
        height, width = (filled - side for filled, side in zip(self._filled(shape)[:2], shape[:2], strict=True))
        read = [self.data.adapted(image, shape) for image in images]
        pixels = np.pad(np.stack(read), ((0, 0), (0, height), (0, width), (0, 0)), "edge")
        return channels_first(pixels).to(next(self.model.parameters()).device)

    def _model(self, shape: Shape, name: str) -> Segmenter:
        """The model for images of this shape: the same weights, where they do not belong to places.

        Args:
            name: of an image, for the error.

        Raises: DataError for weights that do, or an image that is too small.
        """
        read = self._filled(shape)
        if read == self.known.shape:
            return self.model
        if self._other is None or self._other[0] != read:
            self._other = read, self._rebuilt(read, f"{name}: {shape.height} x {shape.width} pixels cannot be read")
        return self._other[1]

    def _rebuilt(self, shape: Shape, refusal: str) -> Segmenter:
        own = f"{self.known.shape.height} x {self.known.shape.width}"
        # random weights that are replaced: the caller's random numbers are left alone
        with torch.random.fork_rng(devices=[]):
            try:
                rebuilt = self.build(shape)
            except (ConfigError, ShapeError) as error:
                raise DataError(f"{refusal}: {error}") from None
        weights = self.model.state_dict()
        # a table of as many places may have other rows and columns
        others = [
            f"{name}.{of}"
            for name, module in self.model.named_modules()
            if isinstance(module, Position)
            for of, _ in module.named_parameters()
        ]
        others += [name for name, value in rebuilt.state_dict().items() if value.shape != weights[name].shape]
        if others:
            raise DataError(
                f"{refusal}: {others[0]} is learned for each place of {own}; give pictures of that size, or train with"
                " data.size for all to be made one size, or with a model.position that is not learned"
            )
        rebuilt.load_state_dict(weights, assign=True)
        return rebuilt.to(next(self.model.parameters()).device).train(False)

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        return classes_of(labels, self.known.labels).astype(np.int64)


def _pixel(target: str | None, shape: Shape) -> tuple[int, int]:
    """The pixel that is meant. Raises: ConfigError for one that is not there."""
    if target is None:
        return shape.height // 2, shape.width // 2
    parts = [part.strip() for part in target.split(",")]
    if len(parts) == 2 and all(part.isdecimal() and len(part) < 9 for part in parts):
        row, column = map(int, parts)
        if row < shape.height and column < shape.width:
            return row, column
    raise ConfigError(
        f"pixel '{target}' is not there; give its row and column from 0, such as 3,5, of {shape.height} x {shape.width}"
    )
