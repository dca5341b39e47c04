"""FLAC files, by a stand-in for soundfile: it says what the library would, since the extra is not always there."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sounds import RATE, wave

from headwise.errors import ConfigError, DataError
from headwise.tasks.speech.recordings import RecordingsConfig, recording_of, scan_recordings
from headwise.tasks.speech.sounds import parse_sound

SAMPLES = np.linspace(-0.5, 0.5, 9, dtype=np.float32)


class Flac:
    """A file that promises and gives samples, as soundfile opens it."""

    def __init__(self, samples, promised=None, rate=RATE):
        samples = np.asarray(samples, np.float32)
        self.samples = samples if samples.ndim == 2 else samples[:, None]
        self.frames, self.samplerate = len(samples) if promised is None else promised, rate
        self.channels = self.samples.shape[1]
        self.place = 0

    def __enter__(self):
        return self

    def __exit__(self, *given):
        return None

    def read(self, count, dtype, always_2d):
        assert (dtype, always_2d) == ("float32", True)
        self.place += min(count, 4)
        return self.samples[self.place - min(count, 4) : self.place]


@pytest.fixture
def library(monkeypatch):
    def opened(file):
        def open_(stream):
            assert stream.read(4) == b"fLaC"
            if isinstance(file, Exception):
                raise file
            return file

        monkeypatch.setitem(sys.modules, "soundfile", SimpleNamespace(SoundFile=open_))

    return opened


def test_flac_is_read_by_the_library_and_wav_without(library):
    library(Flac(SAMPLES))
    found = parse_sound(b"fLaC...", "a.flac")
    assert found.rate == RATE
    np.testing.assert_array_equal(found.samples, SAMPLES)
    library(Flac(np.stack([SAMPLES, -SAMPLES], 1)))
    assert not parse_sound(b"fLaC...", "a.flac").samples.any()
    library(Flac(np.stack([SAMPLES, -SAMPLES], 1)))
    with pytest.raises(DataError, match=r'a.flac: has 2 channels; give one, or set data.channels = "mix"'):
        parse_sound(b"fLaC...", "a.flac", "refuse")
    library(ValueError("not asked"))
    assert len(parse_sound(wave(SAMPLES), "a.wav").samples) == 9


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (Flac(SAMPLES, 10**12), "a.flac: its header says 1,000,000,000,000 samples at 1,600 a second, but 9 follow"),
        (Flac([]), "a.flac: has no samples"),
        (Flac(SAMPLES, rate=0), "at 0 a second"),
        (Flac([0.0, np.nan]), "a.flac: sample 1 is no finite number"),
        (RuntimeError("flac decoder lost sync."), r"a.flac: is damaged or cut off \(flac decoder lost sync.\); fetch"),
        (MemoryError(), r"a.flac: is damaged or cut off \(MemoryError\)"),
    ],
)
def test_damaged_flac_is_refused_by_name(library, file, message):
    library(file)
    with pytest.raises(DataError, match=message):
        parse_sound(b"fLaC...", "a.flac")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_seconds": 0.005}, "is 0.005625 s long, more than 0.005; cut it, or set data.max_seconds"),
        (
            {"max_bytes": 35},
            "has 9 samples, [^ ]+ bytes in memory, more than 35; make it smaller, or raise data.max_bytes",
        ),
    ],
)
def test_too_long_a_file_is_refused_before_it_is_converted(library, monkeypatch, limits, message):
    config = RecordingsConfig(train="list.csv", **limits)
    library(Flac(SAMPLES))
    for name in ("one_channel", "_blocks"):
        monkeypatch.setattr(f"headwise.tasks.speech.sounds.{name}", None)
    monkeypatch.setattr("headwise.tasks.speech.sounds._numbers", None)
    for data in (b"fLaC...", wave(SAMPLES)):
        with pytest.raises(DataError, match=message):
            recording_of(data, "a", config)


def test_without_the_library_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(
        ConfigError, match=r"FLAC files need soundfile; install it with: pip install 'headwise\[audio\]"
    ):
        parse_sound(b"fLaC...", "a.flac")
    # nothing is skipped because of what is not installed
    (tmp_path / "a.flac").write_bytes(b"fLaC...")
    (tmp_path / "list.csv").write_text("path,label\na.flac,x\n")
    config = RecordingsConfig(train="list.csv", bad_lines="skip")
    for name, labelled in (("list.csv", True), ("a.flac", False)):
        with pytest.raises(ConfigError, match="need soundfile"):
            list(scan_recordings(tmp_path / name, config, labelled=labelled))
