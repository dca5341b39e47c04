"""A model that says which class an image is of, and a trained one that names and scores itself."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.data.bad_lines import strict
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import OnImage
from headwise.labels import decimals, probability, visible
from headwise.models.initializers import initialize
from headwise.models.recurrent import initialize_cells
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline, majority
from headwise.predictors.classes import verdict_scores
from headwise.predictors.predictor import Form, several
from headwise.processes import divided
from headwise.tasks.images.base import ImagePredictor
from headwise.tasks.images.encoders import (
    Augmentation,
    Constants,
    ImageEncoder,
    ImageEncoderConfig,
    Pixels,
    Sizes,
    Standardized,
)
from headwise.tasks.images.image_sets import ImageMetadata
from headwise.tasks.images.images import ImagesConfig, scan_images
from headwise.tasks.images.maps import ImageMap
from headwise.tasks.images.pixels import Image, adapted


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
        """Logits of the classes."""
        x = self.standardized(self.augmentation(pixels))
        logits: Tensor = self.head(self.dropout(self.encoder(x)))
        return logits


def build_image_classifier(
    config: ImageEncoderConfig,
    augmentation: Augmentation,
    constants: Constants,
    sizes: Sizes,
    num_classes: int,
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
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
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

    def scores_of(self, examples: Sequence[Image], options: Any = None) -> dict[str, float | str]:
        """Scores as of `verdict_scores`. Raises: DataError: images without a label."""
        gold = [image.label or "" for image in examples]
        if "" in gold:
            raise DataError(
                f"{examples[gold.index('')].name}: has no label to compare with; give every image its class"
            )
        return verdict_scores(self.predict(examples), gold)

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
            count = attention.weights.shape[2]
            query = np.eye(1, count) if encoder.class_tokens else np.full((1, count), 1 / count)
            layers[name] = attention.layer(["class" if encoder.class_tokens else "mean"], grid.labels, rows=query)
        (label, share), *_ = self.predict([image])[0].items()
        read = adapted(image, self.known.shape, self.data.fit)
        draw = ImageMap(read, encoder.grid, encoder.class_tokens)
        places = OnImage(read, [grid], chosen=0 if encoder.class_tokens else None)
        return Explanation(Path(image.name).name, f"{label} {decimals(share)}", layers, draw, places=places)

    def _pixels(self, items: Sequence[Image | str]) -> torch.Tensor:
        return self.pixels(self.inputs(items)).to(self.model.head.weight.device)
