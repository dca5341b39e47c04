"""Trained transcribers, by CTC and by a decoder: what is said in a recording, scores, where each unit was heard."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headwise import metrics
from headwise.attention.precision import wide
from headwise.data.batches import PairBatch
from headwise.data.tokenizers import Tokenizer
from headwise.decoding import ctc
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import times
from headwise.labels import visible
from headwise.models.protocols import Seq2Seq
from headwise.predictors import looking
from headwise.predictors.drafting import Draft
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.predictors.twins import Twin
from headwise.tasks.speech.listening import Known, Listener, gold_of
from headwise.tasks.speech.models import FrameLabeller, SpeechReader, filled
from headwise.tasks.speech.recordings import Recording, RecordingsConfig
from headwise.tasks.speech.utterances import SpeechBatch
from headwise.tasks.text.writer import Output, Request, Writing, text_of


class Units:
    """The units that texts are written in, each an output of the model; output 0 is the blank.

    Args:
        names: from output 1 on.
        words: units are words, with spaces between them; else characters.
    """

    def __init__(self, names: Sequence[str], *, words: bool):
        self.names, self.words = list(names), words
        self._numbers = {name: number for number, name in enumerate(self.names, 1)}

    def __len__(self) -> int:
        return len(self.names) + 1

    def encode(self, text: str) -> list[int]:
        """The outputs that write a text; `len(self)`, which there is not, for a unit that training lacks."""
        return [self._numbers.get(unit, len(self)) for unit in self.split(text)]

    def decode(self, outputs: Sequence[int]) -> str:
        """The text of outputs, without the blank."""
        text = (" " if self.words else "").join(self.names[output - 1] for output in outputs)
        return " ".join(text.split())

    def split(self, text: str) -> list[str]:
        return text.split() if self.words else list(" ".join(text.split()))

    def read(self, log_probs: Tensor, beam: int) -> str:
        """What the places of one recording say, by the best path, or by the best of so many prefixes."""
        outputs = ctc.best_path(log_probs) if beam == 1 else ctc.prefix_beam(log_probs, beam)
        return self.decode(outputs)


class TextListener(Listener[str]):
    """What writes down recordings."""

    def write(self, item: Recording, output: str, form: Form, options: Any = None) -> list[str]:
        """The text; or JSON with the name of the recording."""
        if form == "text":
            return [visible(output)]
        return [json.dumps({"path": item.name, "text": output}, ensure_ascii=False)]

    def scored(self, examples: Sequence[Recording], options: Any = None) -> Scored:
        """Errors of words and of characters in percent, and the share of recordings without an error.

        Raises: DataError: recordings without a text.
        """
        gold = gold_of(examples)
        predicted = self.predict(examples, options)
        words, gold_words = ([text.split() for text in texts] for texts in (predicted, gold))
        scores: dict[str, float | str] = {
            "wer": metrics.error_rate(words, gold_words),
            "cer": metrics.error_rate(predicted, gold),
            "exact": sum(map(list.__eq__, words, gold_words)) / len(gold),
        }
        columns = {
            "word_errors": list(map(metrics.edit_distance, words, gold_words)),
            "words": list(map(len, gold_words)),
            "character_errors": list(map(metrics.edit_distance, predicted, gold)),
            "characters": list(map(len, gold)),
            "exact": [int(a == b) for a, b in zip(words, gold_words, strict=True)],
        }
        formulas = {
            "wer": Formula("percent", ("word_errors", "words")),
            "cer": Formula("percent", ("character_errors", "characters")),
            "exact": Formula("mean", ("exact",)),
        }
        question = question_of([recording.name for recording in examples], gold)
        return Scored(scores, Rows(columns, formulas, question, "recordings"))


class Transcriber(TextListener):
    """A model with its units.

    Args:
        beam: prefixes that are followed; 1: the best path.
    """

    option = "beam_size"

    def __init__(self, model: FrameLabeller, known: Known, units: Units, data: RecordingsConfig, beam: int):
        super().__init__(model, known, data)
        self.units, self.beam = units, beam

    @torch.inference_mode()
    def predict(self, items: Sequence[Recording | str] | str, options: int | None = None) -> list[str]:
        """What is said in each recording; a text is the path of a sound file.

        Args:
            options: the beam; None: the recipe's.
        """

        def texts(batch: SpeechBatch) -> list[str]:
            heard = read_places(self.model, batch.frames, batch.lens)
            return [self.units.read(log_probs, options or self.beam) for log_probs in heard]

        return self.each(texts, self.batches(items))

    def explain(self, item: Recording | str, target: str | None = None) -> Explanation:
        """Where each unit of the text was heard: its share of every place, over all paths that read the text.

        Args:
            target: the text to find in the recording, in place of what the model writes.

        Raises: ConfigError: nothing was heard, units that the model does not know, or more than the recording can hold.
        """
        recording = self.heard(item)
        (batch,) = self.batches(recording)
        text = self.predict([recording])[0] if target is None else target
        units = self.units.encode(text)
        (log_probs,) = read_places(self.model, batch.frames, batch.lens)
        if not units:
            raise ConfigError(f"{recording.name}: nothing was heard; give the text that is said as target")
        if len(self.units) in units or ctc.fewest_places(units) > len(log_probs):
            raise ConfigError(f"'{visible(text)}' has units the model does not know, or too many for this recording")
        shares = ctc.occupancy(log_probs, units)
        weights = (shares / shares.sum(axis=1, keepdims=True))[None]
        layer = Layer(weights, self.units.split(text), times(len(log_probs), recording.seconds), "cross")
        return self.explained(recording, text, {"output": layer})


def read_places(model: FrameLabeller, frames: Tensor, lens: Tensor) -> list[Tensor]:
    """The log probabilities (places, outputs) of each recording, without padding, on the processor; no gradient."""
    with evaluating(model), torch.no_grad():
        logits, places = model(frames, lens)
        log_probs = wide(logits).log_softmax(-1).cpu()
    return [row[:count] for row, count in zip(log_probs, places.tolist(), strict=True)]


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
            return self.writing.search(batch, request.decoding, request.prefix)

        return self.each(outputs, self._heard(items, []), alone=request.decoding.method == "sample")

    def options(self, given: Mapping[str, Any]) -> Request:
        """The keys of `DecodingConfig`, for one text. Raises: ConfigError for options that captions do not have."""
        decoding_keys = ("prefix", *DecodingConfig.model_fields)
        super().options({name: value for name, value in given.items() if name not in decoding_keys})
        if given.get("n_best", 1) > 1:
            raise ConfigError("a transcriber writes one text: remove --n-best")
        return Request.of(self.decoding, given)

    def twin(self) -> Twin[Seq2Seq]:
        return self.writing.twin

    def draft(self, item: Recording | str, options: Request | None = None) -> Draft:
        recording = self.heard(item)
        (batch,) = self._heard(recording, [])
        return self.writing.draft(batch, times(int(batch.src_lens[0]), recording.seconds))

    def writes(self) -> Tokenizer:
        return self.tokenizer

    def state_bytes(self, examples: Sequence[Recording]) -> int:
        longest = max(examples, key=lambda recording: recording.seconds)
        return self.draft(longest).kept_bytes(self.tokenizer.encode(longest.label or ""))

    def explain(self, item: Recording | str, target: str | None = None) -> Explanation:
        """Where each unit of the text looks, below the spectrogram; the encoder's own attention besides.

        Args:
            target: the text to write, in place of the model's own.

        Raises: ConfigError: units that the model does not know.
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
