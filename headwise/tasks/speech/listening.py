"""What every predictor of recordings does: reads them, and hands them to a model, many at a time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from headwise.data.bad_lines import strict
from headwise.data.buckets import token_batches
from headwise.data.files import Bytes
from headwise.predictors.predictor import Predictor, several
from headwise.tasks.speech.log_mel import frame_count, log_mel
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate, recording_of, scan_recordings
from headwise.tasks.speech.utterances import SpeechBatch, collate

O = TypeVar("O")  # noqa: E741

# frames that are heard together, padding included
PREDICTION_FRAMES = 8192


class Known(NamedTuple):
    """What a model that listens knows besides its weights.

    Args:
        outputs: classes or units, by their numbers.
        rate: samples a second that it hears.
        mean, deviation: of each band in training.
        frequent: the most frequent class of training; empty for units.
    """

    outputs: list[str]
    rate: int
    mean: list[float]
    deviation: list[float]
    frequent: str = ""

    @classmethod
    def from_json(cls, value: Any) -> "Known":
        """From what `_asdict` gave, by way of JSON. Raises: ValueError or TypeError if it is something else."""
        metadata = cls(**value)
        numbers = [float(number) for number in (*metadata.mean, *metadata.deviation)]
        if (
            not metadata.outputs
            or len(metadata.mean) != len(metadata.deviation)
            or not metadata.mean
            or min(metadata.deviation) <= 0
        ):
            raise ValueError("sizes that do not fit")
        if not np.isfinite(numbers).all() or not isinstance(metadata.rate, int) or not 1000 <= metadata.rate <= 384_000:
            raise ValueError("numbers that cannot be")
        if not all(isinstance(name, str) for name in (*metadata.outputs, metadata.frequent)):
            raise TypeError("outputs that are no texts")
        return metadata


class Listener(Predictor[Recording, O, Recording]):
    """A predictor of recordings.

    Args:
        model: in `eval()` while it predicts.
        known: rate and bands of the model.
        data: how files are read.
    """

    reads = "file"
    given = "sound"

    def __init__(self, model: nn.Module, known: Known, data: RecordingsConfig):
        self.model, self.known, self.data = model, known, data

    def parse(self, text: str) -> Recording:
        """The sound file at a path. Raises: DataError if it cannot be read, or is longer than `max_seconds`."""
        return self._small(recording_of(Bytes(self.data.max_bytes).read(Path(text)), text, self.data))

    def _small(self, recording: Recording) -> Recording:
        """At the rate of the model: many may wait, each as large as recordings may be."""
        return at_rate(recording, self.known.rate) if recording.rate > self.known.rate else recording

    def read(self, path: Path) -> Iterator[Recording]:
        """A sound file, or those of a list or an .npz file; labels and texts are not needed."""
        config = self.data.model_copy(update={"format": "auto"})
        return map(self._small, strict(scan_recordings(path, config, labelled=False)))

    def heard(self, item: Recording | str) -> Recording:
        """At the rate of the model; a text is the path of a sound file."""
        return at_rate(self.inputs(item)[0], self.known.rate)

    def batches(
        self,
        items: Sequence[Recording | str] | str,
        device: torch.device,
        encode: Callable[[Recording], list[int]] = lambda recording: [],
    ) -> Iterator[SpeechBatch]:
        """Recordings of similar length together; `indices` say which, `encode` what each is to give."""
        recordings = [self.heard(item) for item in several(items)]
        lengths = np.array(
            [[frame_count(len(recording.samples), recording.rate)] for recording in recordings], np.int64
        ).reshape(-1, 1)
        if not recordings:
            return
        most = max(PREDICTION_FRAMES, int(lengths.max()))
        for batch in token_batches(lengths, max_tokens=most, shuffle=False):
            collated = collate([recordings[at] for at in batch], encode, len(self.known.mean), batch)
            yield collated.to(device)

    def summaries(self, recordings: Sequence[Recording]) -> Float[np.ndarray, "recordings features"]:
        """Mean and deviation over time of every band of each recording."""
        rows = np.zeros((len(recordings), 2 * len(self.known.mean)))
        for batch in self.batches(recordings, torch.device("cpu")):
            for at, frames, count in zip(batch.indices, batch.frames, batch.lens.tolist(), strict=True):
                heard = frames[:count].double().numpy()
                rows[at] = np.concatenate((heard.mean(0), heard.std(0)))
        return rows

    def spectrogram(self, recording: Recording) -> np.ndarray:
        """(bands, frames) as the model hears them, the lowest band first."""
        frames = log_mel(torch.from_numpy(recording.samples), recording.rate, len(self.known.mean))
        return frames.mT.numpy()
