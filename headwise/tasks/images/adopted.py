"""A vision model of transformers that classifies pictures, or only looks at them."""

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from headwise.adoption import transformers_part
from headwise.data.files import Bytes
from headwise.data.idx import MAX_BYTES
from headwise.errors import ConfigError, Unsupported
from headwise.explain.explanation import Explanation
from headwise.explain.places import Grid, OnImage
from headwise.labels import decimals, visible
from headwise.predictors import looking
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form, Predictor, several
from headwise.predictors.saved import PICTURE, adopt_named, read_folder, task_of
from headwise.tasks.images.maps import ImageMap
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.pixels import MAX_PIXELS, Image, Shape, adapted

_PROCESSOR = "preprocessor_config.json"
# of a side of a picture that a processor makes
_MOST_SIDE = 4096


class AdoptedImages(Predictor[Image, str, Image]):
    """A vision model of transformers with its image processor.

    What it answers: the label with its probability where it classifies, nothing otherwise.

    Args:
        files: what says which model it is; none of a model in memory.
    """

    reads, given = "file", "image"

    def __init__(self, name: str, model: Any, processor: Any, files: Sequence[Path] = ()) -> None:
        self.name, self.model, self.files = name, model, tuple(files)
        self.task = task_of(model)
        size = getattr(processor, "size", None) or {}
        if any(isinstance(side, int) and side > _MOST_SIDE for side in dict(size).values()):
            raise Unsupported(f"{name}: its image processor makes pictures of more than {_MOST_SIDE:,} pixels a side")
        self._processor = processor
        adopt_named(name, model)

    @classmethod
    def at(cls, folder: Path) -> "AdoptedImages":
        """The model of a folder, with a preprocessor_config.json; raises as `read_folder`."""

        def read() -> Any:
            how = {"local_files_only": True, "trust_remote_code": False}
            return transformers_part("AutoImageProcessor").from_pretrained(folder, **how)

        model, processor, files = read_folder(folder, PICTURE, _PROCESSOR, read)
        return cls(str(folder), model.eval(), processor, files)

    @classmethod
    def of(cls, model: Any, processor: Any) -> "AdoptedImages":
        """A model in memory, which is adopted in place unless it is so already. Raises: ConfigError, Unsupported."""
        if not isinstance(processor, transformers_part("BaseImageProcessor")):
            raise ConfigError(f"a {type(model).__name__} is explored with its image processor")
        return cls(type(model).__name__, model, processor)

    @property
    def classes(self) -> list[str]:
        """The labels of its choices, by their numbers."""
        config = self.model.config
        return [str(config.id2label[number]) for number in range(config.num_labels)]

    def parse(self, text: str) -> Image:
        """The picture at a path. Raises: DataError if it cannot be read."""
        return self.opened(Bytes(MAX_BYTES).read(Path(text)), text)

    def opened(self, data: bytes, name: str) -> Image:
        image = decode(data, name, MAX_PIXELS)
        height, width, _ = image.shape
        return Image(image.name, adapted(image, Shape(height, width, 3), "resize"))

    def predict(self, items: Sequence[Image | str] | str, options: Any = None) -> list[str]:
        return [self._answer(self._inputs(image)) for image in self.inputs(several(items))]

    def write(self, item: Image, output: str, form: Form, options: Any = None) -> list[str]:
        if form == "text":
            return [visible(output)]
        return [json.dumps({"input": item.name, "output": output}, ensure_ascii=False)]

    def explain(self, item: Image | str, target: str | None = None) -> Explanation:
        """Where the class token looks in every layer, or the places of the picture on average where there is none."""
        if target is not None:
            raise ConfigError("the class of an image cannot be given here; leave the target out")
        (image,) = self.inputs(item)
        inputs = self._inputs(image)
        names, values = list(inspect.signature(self.model.forward).parameters), looking.attended(self.model, inputs)
        assert names[0] == PICTURE, "vision models read pixels first"
        count = max(attention.shape[2] for attention in values.values())
        grid, layers = self._grid(inputs, count), {}
        for name, attention in values.items():
            rows = attention.shape[1]
            query = np.eye(1, rows) if grid.before else np.full((1, rows), 1 / rows)
            keys = looking.fitting(attention.shape[2], grid.labels)
            layers[name] = attention.layer(["class" if grid.before else "mean"], keys, rows=query)
        pixels = self._pixels(inputs)
        draw = ImageMap(pixels, (grid.rows, grid.columns))
        places = OnImage(pixels, [grid], chosen=0 if grid.before else None)
        return Explanation(Path(image.name).name, self._answer(inputs), layers, draw, places=places)

    def _inputs(self, image: Image) -> Float[Tensor, "1 channels height width"]:
        values: Tensor = self._processor(image.pixels, return_tensors="pt", input_data_format="channels_last")[PICTURE]
        return values.to(self.model.device, self.model.dtype)

    def _grid(self, inputs: Tensor, count: int) -> Grid:
        """The patches among `count` tokens. Raises: Unsupported where tokens are no patches of one size."""
        patch = getattr(self.model.config, "patch_size", None)
        height, width = (patch, patch) if isinstance(patch, int) else patch or (0, 0)
        if not height or not width:
            raise Unsupported(f"{self.name}: its configuration has no patch_size")
        rows, columns = inputs.shape[2] // height, inputs.shape[3] // width
        before = count - rows * columns
        if not 0 <= before <= rows * columns:
            raise Unsupported(f"{self.name}: its {count} tokens are no {rows} x {columns} patches")
        return Grid(rows, columns, before)

    def _pixels(self, inputs: Tensor) -> UInt8[np.ndarray, "height width channels"]:
        """The picture as the model reads it, with the processor's normalization undone."""
        values, processor = inputs[0].float().cpu().permute(1, 2, 0).numpy(), self._processor
        if processor.do_normalize:
            values = values * np.array(processor.image_std) + np.array(processor.image_mean)
        if processor.do_rescale:
            values = values / processor.rescale_factor
        pixels: np.ndarray = np.rint(values).clip(0, 255).astype(np.uint8)
        return pixels

    def _answer(self, inputs: Tensor) -> str:
        with evaluating(self.model), torch.no_grad():
            logits = getattr(self.model(inputs), "logits", None)
        if not isinstance(logits, Tensor) or logits.shape != (1, len(self.classes)):
            return ""
        share, label = logits[0].float().softmax(-1).max(-1)
        return f"{self.classes[int(label)]} {decimals(float(share))}"


# by what it reads
ADOPTED = {PICTURE: AdoptedImages}
