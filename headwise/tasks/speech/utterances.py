"""Recordings as the frames a model hears: splits, strings of several recordings, batches."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.data.batches import OnDevice
from headwise.data.buckets import permutation, token_batches
from headwise.data.files import resolve
from headwise.data.readers import Pair
from headwise.data.sources import Drawn, Limits
from headwise.data.splits import SPLITS, DataSet, Nouns, draw_limit, hold_out
from headwise.errors import DataError
from headwise.tasks.speech.log_mel import constants, frame_count, log_mel
from headwise.tasks.speech.marks import Mark, Marking, MarksUnit
from headwise.tasks.speech.recordings import Recording, RecordingsConfig, at_rate, scan_recordings


@dataclass(frozen=True)
class Strings:
    """Which recordings are heard one after another: each alone, or several drawn together anew in every pass.

    Args:
        count: recordings that there are.
        span: the fewest and the most of a string; None: every recording alone.
        passes: how often a pass over the data hears each.
    """

    count: int
    span: tuple[int, int] | None = None
    passes: int = 1

    def drawn(self, seed: int, epoch: int) -> list[list[int]]:
        """The strings of a pass, by seed and pass alone.

        >>> [len(string) for string in Strings(10, (2, 3)).drawn(seed=0, epoch=0)]
        [2, 2, 2, 3]
        """
        if self.span is None:
            return [[place] for place in range(self.count)]
        strings: list[list[int]] = []
        fewest, most = self.span
        for number in range(self.passes):
            stream = 2 * (epoch * self.passes + number)
            order = permutation(self.count, seed, stream).tolist()
            # sizes in equal shares, in an order of their own
            sizes = [fewest + at % (most - fewest + 1) for at in permutation(self.count, seed, stream + 1).tolist()]
            start = 0
            for size in sizes:
                if start + size > self.count:
                    break
                strings.append(order[start : start + size])
                start += size
        return strings


class JoinedConfig(RecordingsConfig):
    """Which recordings to read, what belongs to each, and whether several make one."""

    concatenate: tuple[int, int] | None = Field(
        None, description="the fewest and the most recordings of a part that are joined to one, drawn anew every pass"
    )
    held_out_passes: int = Field(1, ge=1, le=100, description="with concatenate: how often each held-out one is joined")

    @model_validator(mode="after")
    def _a_span_rises(self) -> "JoinedConfig":
        if self.concatenate is not None and not 1 <= self.concatenate[0] <= self.concatenate[1]:
            raise ValueError(
                f"concatenate {list(self.concatenate)} must be the fewest, from 1, and the most recordings"
            )
        return self

    def strings(self, count: int, *, held_out: bool) -> Strings:
        return Strings(count, self.concatenate, self.held_out_passes if held_out and self.concatenate else 1)


class MarkedConfig(JoinedConfig):
    """The same with labels in time."""

    marks_key: str | None = Field(
        None,
        description="column of the file of labels in time, as seen from the list; in .npz the array of a label for each"
        " sample or frame; if absent, label_key labels each recording from its beginning to its end",
    )
    marks_unit: MarksUnit = Field(
        "seconds", description="of the times in label files: seconds, samples of the recording, or htk (100 ns)"
    )
    rest: str | None = Field(None, description="label of frames without one; if absent, they are not learned or scored")

    def marking(self) -> Marking | None:
        return Marking(self.marks_key, self.marks_unit, self.rest)


@dataclass(frozen=True)
class SpeechBatch(OnDevice):
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

    Raises: DataError: recordings that cannot be read, groups that there are not, a part that comes out empty.
    """
    own, notes = recording_set(config).read_own(), []
    rate = config.sample_rate or own.examples["train"][0].rate
    for split, recordings in own:
        if changed := sum(recording.rate != rate for recording in recordings):
            notes.append(f"{split}: {changed:,} of {len(recordings):,} recordings resampled to {rate:,} Hz")
        own.examples[split] = [at_rate(recording, rate) for recording in recordings]
    parts = _split(own.examples, config)
    parts["train"] = draw_limit(parts["train"], config.limit, config.split_seed)
    for split, recordings in parts.items():
        seconds = sum(recording.seconds for recording in recordings)
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
    split_groups = {split: getattr(config, f"{split}_groups") for split in SPLITS[1:] if split not in own}
    grouped: dict[str, list[Recording]] = {split: [] for split, groups in split_groups.items() if groups}
    rest: list[Recording] = []
    for recording in own["train"]:
        grouped.get(
            next((split for split, groups in split_groups.items() if recording.group in groups), ""), rest
        ).append(recording)
    for split, groups in split_groups.items():
        if missing := set(groups) - {recording.group for recording in grouped.get(split, ())}:
            raise DataError(f"{config.train}: no recording is of group '{min(missing)}'; correct data.{split}_groups")
    keys = {id(recording): _by_samples(recording).source for recording in rest}
    splits = {**own, **grouped, "train": rest}
    return hold_out(splits, config, lambda recording: keys[id(recording)], "recordings")


def _by_samples(recording: Recording) -> Pair:
    return Pair(hashlib.sha256(recording.samples.tobytes()).hexdigest(), recording.label or "", 0)


def measured(recordings: Iterable[Recording], bands: int) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every band over all frames."""
    sums, count = torch.zeros(2, bands, dtype=torch.float64), 0
    for recording in recordings:
        frames = log_mel(torch.from_numpy(recording.samples), recording.rate, bands).double()
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
        samples = sum(len(self.recordings[at].samples) for at in string)
        return frame_count(samples, self.recordings[0].rate)

    def _joined(self, string: list[int]) -> Recording:
        return concatenated([self.recordings[at] for at in string])


def concatenated(parts: list[Recording]) -> Recording:
    """Recordings of one rate, one after another, with their labels between spaces, and those in time."""
    if len(parts) == 1:
        return parts[0]
    samples = np.concatenate([recording.samples for recording in parts])
    names, labels = (
        " ".join(map(str, values))
        for values in zip(*((recording.name, recording.label) for recording in parts), strict=True)
    )
    marks, start = [], 0.0
    for recording in parts:
        marks += [Mark(start + mark.start, start + mark.end, mark.label) for mark in recording.marks or ()]
        start += recording.seconds
    return Recording(names, samples, parts[0].rate, labels, marks=None if parts[0].marks is None else tuple(marks))


def collate(
    recordings: list[Recording], encode: Callable[[Recording], list[int]], bands: int, indices: list[int]
) -> SpeechBatch:
    frames = [log_mel(torch.from_numpy(recording.samples), recording.rate, bands) for recording in recordings]
    labels = [recording.label or "" for recording in recordings]
    rows = [torch.tensor(encode(recording), dtype=torch.int64) for recording in recordings]
    return SpeechBatch(
        list(indices),
        pad_sequence(frames, batch_first=True),
        torch.tensor([len(frame_rows) for frame_rows in frames]),
        pad_sequence(rows, batch_first=True, padding_value=-1),
        torch.tensor([len(row) for row in rows]),
        labels,
    )
