"""A trained writer of what is said: searches for the text with a decoder, shows where each unit of it looks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from headwise.data.batches import PairBatch
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation
from headwise.explain.places import times
from headwise.labels import visible
from headwise.models.protocols import Seq2Seq
from headwise.predictors import looking
from headwise.predictors.drafting import Draft
from headwise.tasks.speech.listening import Known
from headwise.tasks.speech.models import SpeechReader, filled
from headwise.tasks.speech.recordings import Recording, RecordingsConfig
from headwise.tasks.speech.transcriber import TextListener
from headwise.tasks.speech.utterances import SpeechBatch
from headwise.tasks.text.writer import Output, Request, Writing, text_of


class SpeechWriter(TextListener):
    """A model with its tokenizer.

    Args:
        decoding: how to search unless told otherwise.
    """

    def __init__(
        self, model: Seq2Seq, known: Known, tokenizer: Tokenizer, data: RecordingsConfig, decoding: DecodingConfig
    ):
        super().__init__(model, known, data)
        self.tokenizer, self.decoding = tokenizer, decoding
        self.writing = Writing(model, tokenizer)

    def predict(
        self, items: Sequence[Recording | str] | str, options: Request | DecodingConfig | None = None
    ) -> list[str]:
        """What is said in each recording; a text is the path of a sound file.

        Args:
            options: how to search; None: as the recipe says.
        """
        return [text_of(outputs) for outputs in self._n_best(items, options)]

    def outputs(self, item: Recording | str, options: Request | DecodingConfig | None = None) -> list[Output]:
        return self._n_best([item], options)[0]

    def _n_best(
        self, items: Sequence[Recording | str] | str, options: Request | DecodingConfig | None
    ) -> list[list[Output]]:
        request = options if isinstance(options, Request) else Request(options or self.decoding)

        def outputs(batch: PairBatch) -> list[list[Output]]:
            return self.writing.found(batch, request.decoding, request.prefix)

        return self.each(outputs, self._heard(items, []), alone=request.decoding.method == "sample")

    def options(self, given: Mapping[str, Any]) -> Request:
        """The keys of `DecodingConfig`, for one text. Raises: ConfigError for options that mean nothing here."""
        decoding_keys = ("prefix", *DecodingConfig.model_fields)
        super().options({name: value for name, value in given.items() if name not in decoding_keys})
        if given.get("n_best", 1) > 1:
            raise ConfigError("--n-best means nothing to a transcriber, which writes one text; leave it out")
        return Request.of(self.decoding, given)

    def draft(self, item: Recording | str, options: Request | None = None) -> Draft:
        recording = self.heard(item)
        (batch,) = self._heard(recording, [])
        return self.writing.draft(batch, times(int(batch.src_lens[0]), recording.seconds))

    def writes(self) -> Tokenizer:
        return self.tokenizer

    def explain(self, item: Recording | str, target: str | None = None) -> Explanation:
        """Where each unit of the text looks, below the spectrogram; the encoder's own attention besides.

        Args:
            target: the text to write, in place of the model's own.

        Raises:
            ConfigError: units that the model does not know.
        """
        recording, ids = self.heard(item), self.tokenizer
        text = self.predict([recording])[0] if target is None else target
        tokens = ids.encode(text)
        if ids.unk_id in tokens:
            raise ConfigError(f"'{visible(text)}' has units the model does not know; write it with others")
        (batch,) = self._heard(recording, tokens)
        places = times(int(batch.src_lens[0]), recording.seconds)
        weights = looking.attended(self.model, batch.src, batch.src_lens, batch.tgt_in)
        layers = looking.layers_of(weights, places, places, [*map(ids.shown, tokens), looking.EOS])
        return self.explained(recording, text, layers)

    def _heard(self, items: Sequence[Recording | str] | Recording | str, tokens: list[int]) -> Iterator[PairBatch]:
        """Recordings of similar length together, with these tokens and an end to write about each."""
        written = [*tokens, self.tokenizer.eos_id]
        for batch in self.batches(items, lambda recording: written):
            yield paired(batch, self.model, self.tokenizer)


def paired(batch: SpeechBatch, model: Seq2Seq, ids: Tokenizer) -> PairBatch:
    """Recordings with the tokens that are written about them, the end among them, as a batch of sources and targets."""
    assert isinstance(model.encoder, SpeechReader)
    frames, places = filled(batch.frames, batch.lens, model.encoder.factor)
    behind = torch.arange(batch.targets.shape[1], device=frames.device) >= batch.target_lens[:, None]
    first = batch.targets.new_full((len(batch.targets), 1), ids.bos_id)
    return PairBatch(
        src=frames,
        src_lens=places,
        tgt_in=torch.cat([first, batch.targets[:, :-1]], 1).masked_fill(behind, ids.pad_id),
        tgt_out=batch.targets.masked_fill(behind, ids.pad_id),
        tgt_lens=batch.target_lens,
        indices=batch.indices,
        num_target_tokens=batch.num_tokens,
        references=[[label] for label in batch.labels],
    )
