"""Recordings as the frames a model hears: parts, strings of several recordings, batches."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.data.buckets import token_batches
from headwise.data.files import resolve
from headwise.data.readers import Pair
from headwise.data.sources import Drawn, Limits
from headwise.data.splits import SPLITS, DataSet, Nouns, draw_limit, hold_out
from headwise.errors import DataError
from headwise.tasks.speech.log_mel import constants, frame_count, log_mel
from headwise.tasks.speech.marks import Mark
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate, scan_recordings
from headwise.tasks.speech.strings import Strings


@dataclass(frozen=True)
class SpeechBatch:
    """Frames of utterances, padded by zeros, and the numbers that each is to give.

    `targets` are padded by -1, which also stands for a frame without a label; an utterance has as many as `target_lens`
    says. `labels` are the same as text.
    """

    indices: list[int]
    frames: Float[Tensor, "batch length bands"]
    lens: Int[Tensor, "batch"]
    targets: Int[Tensor, "batch target_len"]
    target_lens: Int[Tensor, "batch"]
    labels: list[str]

    @property
    def num_tokens(self) -> int:
        """Real targets, by which the loss is divided."""
        return int((self.targets >= 0).sum())

    def to(self, device: torch.device | str) -> "SpeechBatch":
        """The same on a device."""
        names = ("frames", "lens", "targets", "target_lens")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


@dataclass(frozen=True)
class Recordings:
    """The parts of a recipe's recordings, all of one rate; SHA-256 of each file that was read; notes."""

    parts: Mapping[str, list[Recording]]
    rate: int
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load_recordings(config: RecordingsConfig) -> Recordings:
    """Reads and splits the recordings of a recipe; parts without a file come from train, by groups or at random.

    At random a recording follows its samples into a part, so that equal ones stay together.

    Raises:
        DataError: recordings that cannot be read, groups that there are not, a part that comes out empty.
    """
    own, notes = recording_set(config).read_own(), []
    rate = config.sample_rate or own.examples["train"][0].rate
    for split, recordings in own:
        if changed := sum(one.rate != rate for one in recordings):
            notes.append(f"{split}: {changed:,} of {len(recordings):,} recordings resampled to {rate:,} Hz")
        own.examples[split] = [at_rate(one, rate) for one in recordings]
    parts = _split(own.examples, config)
    parts["train"] = draw_limit(parts["train"], config.limit, config.split_seed)
    for split, recordings in parts.items():
        seconds = sum(one.seconds for one in recordings)
        notes.append(f"{split}: {len(recordings):,} recordings, {seconds:,.1f} s")
    return Recordings(parts, rate, own.digests, (*own.notes, *notes))


def recording_set(config: RecordingsConfig) -> DataSet[Recording]:
    """The recordings of a recipe as they are; two of equal samples are the same."""
    return DataSet(
        config,
        lambda split, read: scan_recordings(resolve(getattr(config, split)), config, read),
        _by_samples,
        Nouns("recordings"),
        files=(),
        unit="recording",
        report=None,
    )


def read_recordings(config: RecordingsConfig, part: str) -> list[Recording]:
    """The recordings of one part; of one with a file of its own, without those of training.

    Raises: DataError as `load_recordings`.
    """
    if part == "train" or getattr(config, part) is None:
        return load_recordings(config).parts[part]
    return recording_set(config).examples(part)


def _split(own: Mapping[str, list[Recording]], config: RecordingsConfig) -> dict[str, list[Recording]]:
    """The recordings of own files; those of train by their groups, or else held out."""
    asked = {split: getattr(config, f"{split}_groups") for split in SPLITS[1:] if split not in own}
    grouped: dict[str, list[Recording]] = {split: [] for split, groups in asked.items() if groups}
    rest: list[Recording] = []
    for one in own["train"]:
        grouped.get(next((split for split, groups in asked.items() if one.group in groups), ""), rest).append(one)
    for split, groups in asked.items():
        if missing := set(groups) - {one.group for one in grouped.get(split, ())}:
            raise DataError(f"{config.train}: no recording is of group '{min(missing)}'; correct data.{split}_groups")
    keys = {id(one): _by_samples(one).source for one in rest}
    given = {**own, **grouped, "train": rest}
    return hold_out(given, config, lambda one: keys[id(one)], "recordings")


def _by_samples(recording: Recording) -> Pair:
    return Pair(hashlib.sha256(recording.samples.tobytes()).hexdigest(), recording.label or "", 0)


def measured(recordings: Iterable[Recording], bands: int) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every band over all frames."""
    sums, count = torch.zeros(2, bands, dtype=torch.float64), 0
    for one in recordings:
        frames = log_mel(torch.from_numpy(one.samples), one.rate, bands).double()
        sums += torch.stack([frames.sum(0), frames.square().sum(0)])
        count += len(frames)
    return constants(sums, count)


@dataclass(frozen=True)
class Utterances:
    """A part of the data as a model hears it.

    Args:
        recordings: all of one rate.
        encode: the numbers that a recording is to give.
        strings: which are heard together.
        bands: of a frame.
    """

    recordings: list[Recording]
    encode: Callable[[Recording], list[int]]
    strings: Strings
    bands: int

    def source(self, limits: Limits, *, shuffle: bool) -> Drawn[SpeechBatch]:
        """Batches of utterances of similar length within a budget of frames; evaluation hears the strings of pass 0."""
        stride = len(self.recordings) * self.strings.passes
        # batches of a pass share its strings
        strings_of = lru_cache(2)(self.strings.drawn)

        def draw(seed: int, epoch: int) -> list[list[int]]:
            epoch = epoch if shuffle else 0
            strings = strings_of(limits.seed if shuffle else 0, epoch)[: limits.examples]
            lengths = np.array([self.frames(string) for string in strings], np.int64).reshape(-1, 1)
            longest = 0 if shuffle else int(lengths.max(initial=0))
            batches = token_batches(
                lengths,
                max_tokens=max(limits.tokens, longest),
                max_sentences=limits.sentences,
                seed=seed,
                epoch=epoch,
                shuffle=shuffle,
            )
            # a number says the pass too, so that it is enough to make the batch
            return [[epoch * stride + at for at in batch] for batch in batches]

        def numbered(indices: list[int]) -> SpeechBatch:
            strings = strings_of(limits.seed if shuffle else 0, indices[0] // stride)
            return collate([self._joined(strings[at % stride]) for at in indices], self.encode, self.bands, indices)

        return Drawn(draw, numbered, seed=limits.seed)

    def frames(self, string: list[int]) -> int:
        """How many frames a string has."""
        samples = sum(len(self.recordings[at].samples) for at in string)
        return frame_count(samples, self.recordings[0].rate)

    def heard(self, seed: int = 0, epoch: int = 0) -> list[Recording]:
        """Every utterance of a pass."""
        return [self._joined(string) for string in self.strings.drawn(seed, epoch)]

    def _joined(self, string: list[int]) -> Recording:
        return joined([self.recordings[at] for at in string])


def joined(parts: list[Recording]) -> Recording:
    """Recordings of one rate, one after another, with their labels between spaces, and those in time."""
    if len(parts) == 1:
        return parts[0]
    samples = np.concatenate([one.samples for one in parts])
    names, labels = (" ".join(map(str, found)) for found in zip(*((one.name, one.label) for one in parts), strict=True))
    marks, start = [], 0.0
    for one in parts:
        marks += [Mark(start + mark.start, start + mark.end, mark.label) for mark in one.marks or ()]
        start += one.seconds
    return Recording(names, samples, parts[0].rate, labels, marks=None if parts[0].marks is None else tuple(marks))


def collate(
    recordings: list[Recording], encode: Callable[[Recording], list[int]], bands: int, indices: list[int]
) -> SpeechBatch:
    """A batch of these recordings."""
    frames = [log_mel(torch.from_numpy(one.samples), one.rate, bands) for one in recordings]
    labels = [one.label or "" for one in recordings]
    rows = [torch.tensor(encode(one), dtype=torch.int64) for one in recordings]
    return SpeechBatch(
        list(indices),
        pad_sequence(frames, batch_first=True),
        torch.tensor([len(one) for one in frames]),
        pad_sequence(rows, batch_first=True, padding_value=-1),
        torch.tensor([len(row) for row in rows]),
        labels,
    )
