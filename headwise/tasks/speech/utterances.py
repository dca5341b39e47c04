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

from headwise.data.bad_lines import Unreadable, warn_skipped
from headwise.data.buckets import permutation, token_batches
from headwise.data.corpus import resolve
from headwise.data.files import Bytes
from headwise.data.parts import PARTS
from headwise.data.sources import Drawn, Limits
from headwise.data.splits import split_by
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
    read: dict[str, list[Recording]] = {}
    digests: dict[str, str] = {}
    notes: list[str] = []
    rate = config.sample_rate
    for part in PARTS:
        if getattr(config, part) is not None:
            found, bad = Bytes(config.max_bytes), Unreadable(config.bad_lines, "recording", "data.bad_lines")
            path = resolve(getattr(config, part))
            read[part] = list(bad.good(scan_recordings(path, config, found)))
            if not read[part]:
                raise DataError(f"{path}: no recordings in it" + (f"; {bad.note()}" if bad.note() else ""))
            digests |= found.digests(part)
            notes += [f"{part}: {bad.note()}"] if bad.note() else []
            rate = rate or read[part][0].rate
            if changed := sum(one.rate != rate for one in read[part]):
                notes.append(f"{part}: {changed:,} of {len(read[part]):,} recordings resampled to {rate:,} Hz")
            read[part] = [at_rate(one, rate) for one in read[part]]
    assert rate is not None
    split = _split(read.pop("train"), config, set(read))
    if config.limit is not None:
        drawn = permutation(len(split["train"]), config.split_seed, 0)[: config.limit]
        split["train"] = [split["train"][at] for at in sorted(drawn.tolist())]
    parts = split | read
    for part, found_there in parts.items():
        seconds = sum(one.seconds for one in found_there)
        notes.append(f"{part}: {len(found_there):,} recordings, {seconds:,.1f} s")
    return Recordings(parts, rate, digests, tuple(notes))


def read_recordings(config: RecordingsConfig, part: str) -> list[Recording]:
    """The recordings of one part; of one with a file of its own, without those of training.

    Raises: DataError as `load_recordings`.
    """
    if part == "train" or getattr(config, part) is None:
        return load_recordings(config).parts[part]
    path, bad = resolve(getattr(config, part)), Unreadable(config.bad_lines, "recording", "data.bad_lines")
    found = list(bad.good(scan_recordings(path, config)))
    warn_skipped(str(path), bad.note())
    return found


def _split(train: list[Recording], config: RecordingsConfig, given: set[str]) -> dict[str, list[Recording]]:
    asked = {"valid": config.valid_groups, "test": config.test_groups}
    parts: dict[str, list[Recording]] = {part: [] for part in PARTS}
    rest: list[Recording] = []
    for one in train:
        of = next((part for part, groups in asked.items() if one.group in groups and part not in given), None)
        (rest if of is None else parts[of]).append(one)
    for part, groups in asked.items():
        if missing := set(groups) - {one.group for one in parts[part]} if part not in given else set():
            raise DataError(f"{config.train}: no recording is of group '{min(missing)}'; correct data.{part}_groups")
    open_parts = [part for part in ("valid", "test") if part not in given and not asked[part]]
    fractions = tuple(getattr(config, f"{part}_fraction") if part in open_parts else 0.0 for part in ("valid", "test"))
    keys = {id(one): hashlib.sha256(one.samples.tobytes()).hexdigest() for one in rest}
    valid, test = fractions
    taken = split_by(rest, lambda one: keys[id(one)], (valid, test), config.split_seed, "recordings")
    return {part: parts[part] + taken[number] for number, part in enumerate(PARTS)}


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
