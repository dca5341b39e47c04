"""What every predictor of recordings does: reads them, and hands them to a model, many at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import nn

from headwise.config import Config
from headwise.data.bad_lines import strict
from headwise.data.batches import PairBatch
from headwise.data.buckets import token_batches
from headwise.data.files import Bytes
from headwise.errors import DataError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import OnSound
from headwise.predictors.predictor import Predictor, several
from headwise.processes import divided
from headwise.tasks.speech.log_mel import log_mel
from headwise.tasks.speech.look import SoundMap, Track
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate, recording_of, scan_recordings
from headwise.tasks.speech.utterances import SpeechBatch, collate

O = TypeVar("O")  # noqa: E741
R = TypeVar("R")
B = TypeVar("B", SpeechBatch, PairBatch)

# frames that are heard together, padding included
PREDICTION_FRAMES = 8192


class Known(Config):
    """What a model that listens knows besides its weights.

    Args:
        outputs: classes or units, by their numbers.
        rate: samples a second that it hears.
        mean, deviation: of each band in training.
        frequent: the most frequent class of training; empty for units.
    """

    outputs: list[str] = Field(min_length=1)
    rate: int = Field(ge=1000, le=384_000)
    mean: list[float]
    deviation: list[Annotated[float, Field(gt=0)]] = Field(min_length=1)
    frequent: str = ""


class Listener(Predictor[Recording, O, Recording]):
    """A predictor of recordings, which hears them at the rate that its model knows."""

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
        items: Sequence[Recording | str] | Recording | str,
        encode: Callable[[Recording], list[int]] = lambda recording: [],
    ) -> Iterator[SpeechBatch]:
        """Recordings of similar length together; `indices` say which, `encode` what each is to give."""
        recordings, device = [self.heard(item) for item in several(items)], next(self.model.parameters()).device
        lengths = np.array([[recording.frames] for recording in recordings], np.int64)
        if not recordings:
            return
        most = max(PREDICTION_FRAMES, int(lengths.max()))
        for batch in token_batches(lengths, max_tokens=most, shuffle=False):
            yield collate([recordings[at] for at in batch], encode, len(self.known.mean), batch).to(device)

    def each(self, work: Callable[[B], Sequence[R]], batches: Iterable[B], *, alone: bool = False) -> list[R]:
        """What `work` gives for the recordings of these batches, in the order of the recordings.

        Args:
            alone: as of `divided`.
        """
        by_index: dict[int, R] = {}
        for batch, results in divided(work, batches, alone=alone):
            by_index |= zip(batch.indices, results, strict=True)
        return [by_index[at] for at in range(len(by_index))]

    def explained(
        self, recording: Recording, output: str, layers: Mapping[str, Layer], track: Track | None = None
    ) -> Explanation:
        """An explanation over the places of a recording."""
        sound = OnSound(self.spectrogram(recording), recording.seconds)
        return Explanation(Path(recording.name).name, output, dict(layers), SoundMap(sound, track), places=sound)

    def summaries(self, recordings: Sequence[Recording]) -> Float[np.ndarray, "recordings features"]:
        """Mean and deviation over time of every band of each recording."""
        rows = np.zeros((len(recordings), 2 * len(self.known.mean)))
        for batch in self.batches(recordings):
            for at, frames, count in zip(batch.indices, batch.frames.cpu(), batch.lens.tolist(), strict=True):
                heard = frames[:count].double().numpy()
                rows[at] = np.concatenate((heard.mean(0), heard.std(0)))
        return rows

    def spectrogram(self, recording: Recording) -> np.ndarray:
        """(bands, frames) as the model hears them, the lowest band first."""
        frames = log_mel(torch.from_numpy(recording.samples), recording.rate, len(self.known.mean))
        return frames.mT.numpy()


def gold_of(examples: Sequence[Recording]) -> list[str]:
    """What is right for each example. Raises: DataError for one without a label."""
    for recording in examples:
        if recording.label is None:
            raise DataError(f"{recording.name}: has no label to compare with; give every recording its label")
    return [recording.label or "" for recording in examples]
