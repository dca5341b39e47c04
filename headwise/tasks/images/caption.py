"""Captions: an image in, a text out; an encoder of images, a decoder whose words look at its places, and the task."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from headwise import metrics
from headwise.config import Config, build
from headwise.data.bad_lines import strict
from headwise.data.batches import PairBatch, Ragged, padded
from headwise.data.sources import Limits, Source, spread, spread_places
from headwise.data.suggestions import Suggestion
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import Grid, OnImage
from headwise.labels import visible
from headwise.models.protocols import Encoder, Memory, Seq2Seq
from headwise.models.recurrent import initialize_with_cells
from headwise.models.transformer import build_writer, initialize_and_tie
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions, token_embedding
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.drafting import Draft
from headwise.predictors.predictor import Form, several
from headwise.predictors.rows import Rows, Scored, question_of
from headwise.predictors.twins import Twin
from headwise.processes import divided
from headwise.tasks._files import as_json, from_json, tokenizer_in
from headwise.tasks.demo import Demo
from headwise.tasks.images import shapes
from headwise.tasks.images.base import IMAGES_FILE, ImagePredictor
from headwise.tasks.images.captions import CaptionsConfig, captions_of, load_captions, scan_captions, scan_of
from headwise.tasks.images.demo import CAPTION
from headwise.tasks.images.encoders import (
    Augmentation,
    Constants,
    ImageEncoder,
    ImageEncoderConfig,
    Pixels,
    Sizes,
    Standardized,
)
from headwise.tasks.images.image_sets import ImageMetadata, ImageSet, channels_first, examples_of, measured
from headwise.tasks.images.maps import WordMaps
from headwise.tasks.images.pixels import Image
from headwise.tasks.task import Assets, Description, Generator, Given
from headwise.tasks.text.options import BleuOptions, WritingOptions
from headwise.tasks.text.writer import (
    LIKELIHOOD,
    WRITTEN,
    BleuConfig,
    Likelihood,
    Output,
    Request,
    Scoring,
    Writer,
    WriterConfig,
    Writing,
    likelihood_of_each,
    likelihoods,
    text_of,
)


class ImageReader(Encoder):
    """projection(places(standardized(augmentation(pixels)))): a state for every place of an image, row by row.

    Args:
        projection: to the width of the decoder.
    """

    def __init__(
        self, augmentation: Augmentation, standardized: Standardized, encoder: ImageEncoder, projection: nn.Module
    ):
        super().__init__()
        self.augmentation, self.standardized = augmentation, standardized
        self.encoder, self.projection = encoder, projection

    @property
    def num_places(self) -> int:
        rows, columns = self.encoder.map
        return rows * columns

    def forward(self, inputs: Pixels, valid_lens: Int[Tensor, "batch"]) -> Memory:
        return Memory(self.projection(self.encoder.places(self.standardized(self.augmentation(inputs)))))


def build_captioner(
    encoder: ImageEncoderConfig,
    decoder: DecoderConfig,
    augmentation: Augmentation,
    constants: Constants,
    sizes: Sizes,
    vocab_size: int,
) -> Seq2Seq:
    """The model of a configuration; a linear layer joins encoder and decoder where their widths differ.

    Raises: ConfigError: an image that the encoder cannot read; a decoder with a memory of segments.

    >>> import torch
    >>> from headwise.tasks.images.encoders import PatchConfig
    >>> small = {"d_model": 8, "d_ff": 16, "num_heads": 2}
    >>> configs = PatchConfig(**small, encoder_layers=1, patch=7), DecoderConfig(**small, num_layers=1)
    >>> model = build_captioner(*configs, Augmentation(0, flip=False), ([0.5], [0.5]), (28, 21, 1), 10)
    >>> model(torch.zeros(2, 1, 28, 21, dtype=torch.uint8), torch.tensor([12, 12]), torch.tensor([[1], [1]])).shape
    torch.Size([2, 1, 10])
    """
    if decoder.memory_len:
        raise ConfigError(f"model.memory_len ({decoder.memory_len}) is for long texts; leave it out here")
    reader = encoder.encoder(sizes)
    joined = nn.Identity() if reader.width == decoder.d_model else nn.Linear(reader.width, decoder.d_model)
    inputs = ImageReader(augmentation, Standardized(*constants), reader, joined)
    initialize_with_cells(inputs, encoder.initializer)
    embedding = token_embedding(decoder, vocab_size, build_positions(decoder))
    writer = build_writer(decoder, embedding, decoder.mechanism, decoder.num_layers, cross=True)
    return Seq2Seq(inputs, initialize_and_tie(writer, writer, decoder.initializer, decoder.tie_output))


# images that are read together
PREDICTION_IMAGES = 64


class Seen(ImageMetadata):
    """What a captioner knows besides weights and tokens: also the most frequent caption of training."""

    frequent: str


class Captioner(ImagePredictor[list[Output]]):
    """A model with its tokenizer.

    Args:
        decoding: how to search unless told otherwise.
    """

    data: CaptionsConfig

    def __init__(
        self,
        model: Seq2Seq,
        tokenizer: Tokenizer,
        seen: Seen,
        decoding: DecodingConfig,
        bleu: BleuConfig,
        data: CaptionsConfig,
    ):
        super().__init__(model, seen.shape, data)
        self.tokenizer, self.seen, self.decoding, self.bleu = tokenizer, seen, decoding, bleu
        self.writing = Writing(model, tokenizer)

    def read(self, path: Path) -> Iterator[Image]:
        """A picture, or those of a table or an .npz file; captions are not needed."""
        config = self.data.model_copy(update={"format": "auto"})
        return map(self.fitted, strict(scan_captions(path, config, captioned=False)))

    def predict(self, items: Sequence[Image | str] | Image | str, options: Request | None = None) -> list[list[Output]]:
        """The captions of each image, best first; a text is the path of a picture."""
        images = several(items)
        request = Request(self.decoding) if options is None else options
        outputs: list[list[Output]] = []

        def written(start: int) -> list[list[Output]]:
            chosen = self.inputs(images[start : start + PREDICTION_IMAGES])
            return self.writing.search(self._batch(chosen, [[] for _ in chosen]), request.decoding, request.prefix)

        starts = range(0, len(images), PREDICTION_IMAGES)
        for _, captions in divided(written, starts, alone=request.decoding.method == "sample"):
            outputs += captions
        return outputs

    def twin(self) -> Twin[Seq2Seq]:
        return self.writing.twin

    def options(self, given: Mapping[str, Any]) -> Request:
        """As for translations. Raises: ConfigError for options that captions do not have."""
        for name in ("stop", "alignments"):
            if name in given:
                raise ConfigError(f"captions of images have no --{name}: remove it")
        return Request.of(self.decoding, given)

    def write(self, item: Image, output: list[Output], form: Form, options: Request | None = None) -> list[str]:
        """A caption a line, after its score where that is asked for; or JSON with the name of the image."""
        if form == "json":
            answers = [caption.fields() for caption in output]
            return [json.dumps({"image": item.name, "captions": answers}, ensure_ascii=False)]
        scored = options is not None and options.scores
        return [
            f"{caption.score:.4f}\t{visible(caption.text)}" if scored else visible(caption.text) for caption in output
        ]

    def scored(self, examples: Sequence[Image], options: Request | None = None) -> Scored:
        """BLEU and chrF against all captions of each image, and loss, perplexity and token accuracy of the captions.

        Raises: DataError: no images, or images without a caption.
        """
        references = [captions_of(image) for image in examples]
        if [] in references:
            raise DataError(
                f"{examples[references.index([])].name}: has no caption to compare with; give every image one"
            )
        outputs = [text_of(captions) for captions in self.predict(examples, options)]
        scoring = self.bleu.scoring(self.tokenizer, None if options is None else options.tokenize)
        scores, columns = self._likelihood(examples)
        # an image has several captions
        of_image = [len(captions) for captions in references]
        ends = np.cumsum(of_image)
        counted = {
            name: [math.fsum(values[end - count : end]) for end, count in zip(ends, of_image, strict=True)]
            for name, values in columns.items()
        }
        question = question_of([image.name for image in examples], references)
        rows = Rows(scoring.rows(outputs, references) | counted, WRITTEN | LIKELIHOOD, question, "images")
        return Scored({**scoring.scores(outputs, references), **scores}, rows)

    def state_bytes(self, examples: Sequence[Image]) -> int:
        captions = [(image, text) for image in examples for text in captions_of(image)]
        tokens = self.tokenizer.encode_batch([text for _, text in captions])
        place = max(range(len(tokens)), key=lambda number: len(tokens[number]))
        return self.draft(captions[place][0]).kept_bytes(tokens[place])

    def baselines(self, examples: Sequence[Image]) -> Iterator[Baseline]:
        references, scoring = [captions_of(image) for image in examples], self.bleu.scoring(self.tokenizer, None)
        bleu = metrics.bleu([self.seen.frequent] * len(examples), references, **scoring._asdict())
        yield Baseline("most frequent caption", {"bleu": bleu.value})

    def draft(self, item: Image | str, options: Request | None = None) -> Draft:
        (image,) = self.inputs(item)
        on = self._on(image)
        return self.writing.draft(self._batch([image], [[]]), on.grids[1].labels, on)

    def writes(self) -> Tokenizer:
        return self.tokenizer

    def explain(self, item: Image | str, target: str | None = None) -> Explanation:
        """Where each word of the caption looks, in every layer; the encoder's own attention besides.

        Args:
            target: a caption in place of the model's own.
        """
        (image,) = self.inputs(item)
        text, tokens = self.writing.forced(target, lambda: self.predict([image])[0])
        batch = self._batch([image], [tokens])
        on = self._on(image)
        read, places = (grid.labels for grid in on.grids)
        written = [*map(self.tokenizer.shown, tokens), looking.EOS]
        weights = looking.attended(self.model, batch.src, batch.src_lens, batch.tgt_in)
        layers = looking.layers_of(weights, read, places, written)
        draw = WordMaps(on.pixels, self._reader.encoder.map)
        return Explanation(Path(image.name).name, text, layers, draw, places=on)

    @torch.inference_mode()
    def _likelihood(self, examples: Sequence[Image]) -> Likelihood:
        pairs = [(image, text) for image in examples for text in captions_of(image)]
        tokens = self.tokenizer.encode_batch([text for _, text in pairs])

        def counted(places: Sequence[int]) -> tuple[dict[str, float], dict[str, list[float]]]:
            batch = self._batch([pairs[place][0] for place in places], [tokens[place] for place in places])
            return likelihood_of_each(self.model, batch)

        starts = range(0, len(pairs), PREDICTION_IMAGES)
        batches = (range(start, min(start + PREDICTION_IMAGES, len(pairs))) for start in starts)
        return likelihoods(counted, batches, len(pairs))

    def _on(self, image: Image) -> OnImage:
        """What the encoder's attention, and then the decoder's, lies on."""
        encoder = self._reader.encoder
        return OnImage(self.data.adapted(image, self.seen.shape), [encoder.patches, Grid(*encoder.map)])

    @property
    def _reader(self) -> ImageReader:
        assert isinstance(self.model.encoder, ImageReader)
        return self.model.encoder

    def _batch(self, images: Sequence[Image], targets: Sequence[Sequence[int]]) -> PairBatch:
        return paired(self.pixels(images), self._reader.num_places, Ragged.of(targets), self.tokenizer).to(
            self.model.decoder.output.weight.device
        )


def paired(
    pixels: Tensor, places: int, targets: Ragged, ids: Tokenizer, indices: Sequence[int] | None = None
) -> PairBatch:
    """Images with the tokens that are written about them, as a batch.

    Args:
        pixels: (batch, channels, height, width), bytes.
        places: states that an encoder makes of an image.
        indices: the numbers of the examples; from 0 if None.
    """
    lens = torch.from_numpy(targets.lengths + 1)
    return PairBatch(
        src=pixels,
        src_lens=torch.full((len(pixels),), places),
        tgt_in=padded(targets, ids.pad_id, first=ids.bos_id),
        tgt_out=padded(targets, ids.pad_id, last=ids.eos_id),
        tgt_lens=lens,
        indices=list(range(len(pixels)) if indices is None else indices),
        num_target_tokens=int(lens.sum()),
    )


TOKENIZER_FILE = "tokenizer.json"
# captions of a batch where training.batch_sentences is not set
BATCH_CAPTIONS = 64
# places across of what a first model attends to
_ACROSS = 8


class CaptionConfig(WriterConfig):
    """Which images to describe, and with which model."""

    data: CaptionsConfig = Field(description="the images and their captions")
    shift: int = Field(0, ge=0, le=2**14, description="pixels that a training image is moved by at most")
    flip: bool = Field(False, description="mirror every second training image; not where captions tell left from right")
    encoder: ImageEncoderConfig = Field(description="what reads the image: vit, pixels, cnn or attention_cnn")
    model: DecoderConfig = Field(description="what writes the caption")

    @model_validator(mode="after")
    def _fits(self) -> "CaptionConfig":
        longest, places = max(self.data.max_len, self.decoding.max_len) + 1, self.model.places()
        if places is not None and longest > places:
            raise ValueError(
                f"captions of up to {longest - 1} tokens take {longest} places, but the model has a table of {places}:"
                f" set model.max_len to at least {longest}, or data.max_len and decoding.max_len lower"
            )
        return self


@dataclass(frozen=True)
class Captioned:
    """The examples of a part: its images, the tokens of their captions, and of which image each caption is."""

    images: ImageSet
    targets: Ragged
    of: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """Whether a caption is the first of its image."""
        return np.diff(self.of, prepend=-1) != 0


class Caption(Writer[dict[str, Captioned]]):
    """Description of images, each of which has one or more captions; an example is one caption.

    A batch has `training.batch_sentences` captions, 64 unless set; `training.batch_tokens` means nothing here.
    """

    name: ClassVar[str] = "caption"
    demo: ClassVar[Demo | None] = CAPTION
    generators: ClassVar[Mapping[str, Generator]] = {"shapes": shapes.make}
    config_type: ClassVar[type[Config]] = CaptionConfig
    options = (WritingOptions, BleuOptions)
    config: CaptionConfig

    def __init__(self, config: CaptionConfig, assets: Assets[dict[str, Captioned]]):
        super().__init__(config, assets)
        self.tokenizer = tokenizer_in(assets.files, TOKENIZER_FILE, config.tokenizer)
        self.seen = _metadata(assets.files)

    @classmethod
    def prepare_with(cls, config: CaptionConfig, given: Given) -> Assets[dict[str, Captioned]]:
        loaded = load_captions(config.data, config.tokenizer.normalize)
        train, files = loaded.parts["train"], given.files
        if files is None:
            texts = [text for label in train.labels for text in captions_of(label)]
            frequent = Counter(texts).most_common(1)[0][0]
            metadata = Seen.of(train.pixels, frequent=frequent)
            tokens = Tokenizer.train(texts, config.tokenizer).to_bytes()
            files = {TOKENIZER_FILE: tokens, IMAGES_FILE: as_json(metadata.model_dump())}
        elif _metadata(files).shape != loaded.shape:
            shape = _metadata(files).shape
            raise DataError(
                f"{config.data.train}: images of {loaded.shape}, the run has read {shape}; set data.size ="
                f" [{shape.height}, {shape.width}] and data.channels = {shape.channels}"
            )
        tokenizer, notes, data = tokenizer_in(files, TOKENIZER_FILE, config.tokenizer), list(loaded.notes), {}
        for part, images in loaded.parts.items():
            data[part], lost = _encoded(images, tokenizer, config.data.max_len)
            notes += [f"{part}: {lost:,} captions are longer than max_len {config.data.max_len}"] if lost else []
        if not len(data["train"].targets):
            raise DataError(f"{config.data.train}: every caption is longer than data.max_len; raise it")
        return Assets(dict(files), data, loaded.digests, tuple(notes))

    @classmethod
    def examples(cls, config: CaptionConfig, split: str) -> list[Image]:
        return examples_of(config.data, scan_of(config.data, config.tokenizer.normalize), split)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A residual network and a Transformer that writes, for the captioned images of these keys of `[data]`."""
        config = build(CaptionsConfig, data, "data")
        measures = measured(config, scan_of(config))
        # a last map of about eight places across
        stages = max(1, min(5, round(math.log2(min(config.size or measures.size) / _ACROSS)) + 1))
        sizes = {"d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.1}
        values = {
            "data": {"train": config.train, **measures.keys(), **data},
            "tokenizer": {"kind": "word", "min_frequency": 2 if measures.number > 2000 else 1},
            "encoder": {"kind": "cnn", "width": 128 >> (stages - 1), "stages": stages, "dropout": 0.1},
            "model": {"kind": "decoder", **sizes, "num_layers": 2},
            "training": {
                "learning_rate": 2e-3,
                "schedule": "budget",
                "warmup_share": 0.1,
                "batch_sentences": max(16, min(64, measures.number // 20)),
                "max_epochs": 10 if measures.number > 5000 else 30,
                "monitor": "bleu",
            },
        }
        return Suggestion(values, f"Captions, fitted to the {measures.number:,} images")

    def build(self) -> Seq2Seq:
        config, metadata = self.config, self.seen
        augmentation = Augmentation(config.shift, flip=config.flip)
        return build_captioner(
            config.encoder,
            config.model,
            augmentation,
            (metadata.mean, metadata.deviation),
            metadata.shape,
            self.tokenizer.vocab_size,
        )

    def source(self, split: str, limits: Limits) -> Source[PairBatch] | None:
        captioned = self.split(split)
        if captioned is None:
            return None
        size = limits.sentences or BATCH_CAPTIONS
        return spread(len(captioned.targets), size, partial(self.collate, split), limits, shuffle=split == "train")

    def select(self, examples: Sequence[Image], count: int) -> list[Image]:
        captioned = self.split("valid")
        assert captioned is not None
        rows = spread_places(len(captioned.targets), count)
        # an image is scored with the first of its captions
        return [examples[image] for image in captioned.of[rows[captioned.firsts[rows]]]]

    def split(self, split: str) -> Captioned | None:
        """The examples of a part; None where there are none, as in a run that is loaded."""
        captioned = (self.assets.data or {}).get(split)
        return captioned if captioned is not None and len(captioned.targets) else None

    def collate(self, split: str, indices: list[int]) -> PairBatch:
        """The examples at these places as a batch; an image is scored once, with the first of its captions."""
        captioned = self.split(split)
        assert captioned is not None
        rows = np.asarray(indices)
        images = captioned.of[rows]
        read = channels_first(captioned.images.pixels[images])
        lines, columns = self.config.encoder.map(self.seen.shape)
        batch = paired(read, lines * columns, captioned.targets.take(rows), self.tokenizer, indices)
        if split == "train":
            return batch
        scored = zip(captioned.firsts[rows], images, strict=True)
        return replace(
            batch, references=[captions_of(captioned.images.labels[image]) if once else [] for once, image in scored]
        )

    def samples(self, model: nn.Module) -> list[str]:
        captioned = self.split("valid") or self.split("train")
        if captioned is None:
            return []
        shown = list(captioned.images.take(list(range(len(captioned.images)))[: self.config.num_shown]).images())
        predictions = self.predictor(model).predict(shown, Request(self.greedy()))
        return [
            f"{PurePath(image.name).name}  →  {text_of(outputs)}    ({captions_of(image)[0]})"
            for image, outputs in zip(shown, predictions, strict=True)
        ]

    def writing(self, model: nn.Module) -> Writing:
        return self.predictor(model).writing

    def scoring(self) -> Scoring:
        return self.config.bleu.scoring(self.tokenizer)

    def predictor(self, model: nn.Module) -> Captioner:
        assert isinstance(model, Seq2Seq)
        config = self.config
        return Captioner(model, self.tokenizer, self.seen, config.decoding, config.bleu, config.data)

    def description(self) -> Description:
        captioned = self.split("train")
        count = 0 if captioned is None else len(captioned.images)
        text = (
            f"An encoder of kind {self.config.encoder.kind} that reads images of {self.seen.shape}, and a decoder that"
            f" writes {self.config.tokenizer.kind} tokens, trained with Headwise on {count:,} images."
        )
        commands = ("predict RUN photo.png", "evaluate RUN --data captions.csv", "explain RUN photo.png")
        return Description("Captioner", text, commands)


def _encoded(images: ImageSet, tokenizer: Tokenizer, max_len: int) -> tuple[Captioned, int]:
    """The captions of images within the limit, image by image, and how many are longer."""
    texts = [captions_of(label) for label in images.labels]
    rows = Ragged.of(tokenizer.encode_batch([text for every in texts for text in every]))
    fitting = np.flatnonzero(rows.lengths <= max_len)
    of = np.repeat(np.arange(len(texts)), list(map(len, texts)))
    return Captioned(images, rows.take(fitting), of[fitting]), len(rows) - len(fitting)


def _metadata(files: Mapping[str, bytes]) -> Seen:
    return from_json(files, IMAGES_FILE, Seen.model_validate, "does not tell shape, constants and caption")
