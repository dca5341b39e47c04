"""A model that writes about an image, and a trained one that captions and scores itself."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headwise import metrics
from headwise.data.bad_lines import strict
from headwise.data.batches import PairBatch, Ragged, padded
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import Grid, OnImage
from headwise.labels import visible
from headwise.layers.embeddings import TokenEmbedding
from headwise.models.protocols import Encoder, Memory, Seq2Seq
from headwise.models.recurrent import initialize_with_cells
from headwise.models.transformer import build_writer, initialize_and_tie
from headwise.models.transformer_config import DecoderConfig
from headwise.models.transformer_parts import build_positions
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import summed
from headwise.predictors.drafting import Draft
from headwise.predictors.predictor import Form, several
from headwise.processes import divided
from headwise.tasks.images.base import ImagePredictor
from headwise.tasks.images.captions import CaptionsConfig, captions_of, scan_captions
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
from headwise.tasks.images.maps import WordMaps
from headwise.tasks.images.pixels import Image, adapted
from headwise.tasks.text.writer import BleuConfig, Output, Request, Writing, likelihood, likelihood_scores, text_of


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
        """States of an image."""
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
    embedding = TokenEmbedding(vocab_size, decoder.d_model, build_positions(decoder), decoder.dropout)
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
            return self.writing.found(self._batch(chosen, [[] for _ in chosen]), request.decoding, request.prefix)

        starts = range(0, len(images), PREDICTION_IMAGES)
        for _, captions in divided(written, starts, alone=request.decoding.method == "sample"):
            outputs += captions
        return outputs

    def options(self, given: Mapping[str, Any]) -> Request:
        """As for translations. Raises: ConfigError for options that mean nothing here."""
        for name in ("stop", "alignments"):
            if name in given:
                raise ConfigError(f"--{name} means nothing to captions of images; leave it out")
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

    def scores_of(self, examples: Sequence[Image], options: Request | None = None) -> dict[str, float | str]:
        """BLEU and chrF against all captions of each image, and loss, perplexity and token accuracy of the captions.

        Raises:
            DataError: no images, or images without a caption.
        """
        references = [captions_of(image) for image in examples]
        if [] in references:
            raise DataError(
                f"{examples[references.index([])].name}: has no caption to compare with; give every image one"
            )
        outputs = [text_of(captions) for captions in self.predict(examples, options)]
        scoring = self.bleu.scoring(self.tokenizer, None if options is None else options.tokenize)
        return scoring.scores(outputs, references) | self._likelihood(examples)

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
    def _likelihood(self, examples: Sequence[Image]) -> dict[str, float]:
        pairs = [(image, text) for image in examples for text in captions_of(image)]
        tokens = self.tokenizer.encode_batch([text for _, text in pairs])

        def counted(start: int) -> dict[str, float]:
            part = slice(start, start + PREDICTION_IMAGES)
            return likelihood(self.model, self._batch([image for image, _ in pairs[part]], tokens[part]))

        starts = range(0, len(pairs), PREDICTION_IMAGES)
        return likelihood_scores(summed(counts for _, counts in divided(counted, starts)))

    def _on(self, image: Image) -> OnImage:
        """What the encoder's attention, and then the decoder's, lies on."""
        encoder = self._reader.encoder
        return OnImage(adapted(image, self.seen.shape, self.data.fit), [encoder.patches, Grid(*encoder.map)])

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
