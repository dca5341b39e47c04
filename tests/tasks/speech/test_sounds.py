"""WAV and FLAC files of every kind of sample, hostile ones, and sines at another rate."""

import io
import struct
import sys

import numpy as np
import pytest
import soundfile
from sounds import RATE, tone, wave

from headwise.errors import ConfigError, DataError
from headwise.tasks.speech.recordings import RecordingsConfig, recording_of, scan_recordings
from headwise.tasks.speech.sounds import Sound, parse_sound, resampled

VALUES = np.array([0.5, -0.25, 0.0, -1.0, 0.75])
GOOD = wave(VALUES)


def flac(samples, rate=RATE, declared=None):
    """A FLAC file; `declared` replaces the number of samples in its header."""
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format="FLAC")
    data = bytearray(stream.getvalue())
    if declared is not None:
        data[22:26] = struct.pack(">I", declared)
    return bytes(data)


@pytest.mark.parametrize(
    ("bits", "code", "step"),
    [(8, 1, 2**-7), (16, 1, 2**-15), (24, 1, 2**-23), (32, 1, 2**-24), (32, 3, 0), (64, 3, 0)],
)
@pytest.mark.parametrize("extensible", [False, True])
def test_samples_of_every_kind_are_read(bits, code, step, extensible):
    values = VALUES + (0 if bits == 8 else 2**-12 * (VALUES == 0))
    sound = parse_sound(wave(values, 8000, bits=bits, code=code, extensible=extensible), "a.wav")
    assert sound.rate == 8000
    np.testing.assert_allclose(sound.samples, values, rtol=0, atol=step / 2)


@pytest.mark.parametrize("write", [flac, lambda samples: wave(samples.ravel(), channels=samples.shape[1])])
def test_channels_are_averaged_or_refused(write):
    both = write(np.array([[0.5, 0.25], [-0.5, 0.0]]))
    assert parse_sound(both, "a").samples.tolist() == [0.375, -0.25]
    with pytest.raises(DataError, match=r"a: has 2 channels; .*data\.channels"):
        parse_sound(both, "a", "refuse")


def changed(place, form, *values):
    data = bytearray(GOOD)
    struct.pack_into(form, data, place, *values)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"OggS" + GOOD, "is no WAV or FLAC file"),
        (GOOD[:12], "is damaged or cut off"),
        (GOOD[:20], "header says 16 bytes of b'fmt ', but only 0 follow"),
        (GOOD[:36], "is damaged or cut off"),
        # libsndfile reads three samples of it
        (GOOD[:-4], "header says 10 bytes of b'data', but only 6 follow"),
        (changed(16, "<I", 4), "header says"),
        (changed(20, "<H", 2), "is damaged or cut off"),
        (changed(22, "<H", 0), "is damaged or cut off"),
        (changed(24, "<I", 0), "is damaged or cut off"),
        (changed(24, "<I", 400_000), "at 400,000 a second"),
        (changed(len(GOOD) - 14, "<I", 9), "header says"),
        (changed(len(GOOD) - 14, "<I", 4), "header says"),
        (changed(len(GOOD) - 14, "<I", 0), "header says"),
        (changed(len(GOOD) - 14, "<I", 0xFFFFFFFF), "header says 4,294,967,295 bytes of b'data', but only 10"),
        (GOOD + b"LIST\x09\x00\x00\x00 name", "header says 9 bytes of b'LIST'"),
        (GOOD + bytes(8) + b"name", "header says .* bytes of"),
        (wave([]), "has no samples"),
        (wave([0.5, np.nan], bits=32, code=3), "sample 1 is no finite number"),
        (wave([0.5, -np.inf], bits=64, code=3), "sample 1 is no finite number"),
        (wave([0.5, 1.0, -1.5, 2.0], bits=32, code=3), "sample 2 is -1.5, and floats go from -1 to 1"),
        # two channels may be too loud and their mean not
        (wave([3.0, -3.0], bits=64, code=3, channels=2), "sample 0 is 3, and floats go from -1 to 1"),
        (flac(VALUES, declared=10**9), "is damaged or cut off"),
        (flac(VALUES, declared=0), "is damaged or cut off"),
        (flac(VALUES)[:50], "is damaged or cut off"),
        (b"fLaC", "is damaged or cut off"),
    ],
)
def test_hostile_files_are_refused_by_name(data, message, capfd):
    with pytest.raises(DataError, match=message) as caught:
        parse_sound(data, "a")
    assert str(caught.value).startswith("a: ")
    assert ";" in str(caught.value)
    # no traceback of a callback of libsndfile
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("behind", [b"LIST\x03\x00\x00\x00abc\x00", b"LIST\x03\x00\x00\x00abc", bytes(11)])
@pytest.mark.parametrize("filled", [b"", b"\x00"])
def test_other_chunks_and_zeros_may_follow_the_samples(behind, filled):
    odd = wave(VALUES, bits=8)
    body = odd[: odd.index(b"data") + 8 + len(VALUES)]
    assert len(parse_sound(body + filled + behind, "a.wav").samples) == len(VALUES)
    assert len(parse_sound(GOOD + behind, "a.wav").samples) == len(VALUES)


def test_a_file_of_chunks_alone_is_given_up(monkeypatch):
    empty = b"junk\x00\x00\x00\x00" * 100_000
    assert len(parse_sound(GOOD + empty, "a.wav").samples) == len(VALUES)
    monkeypatch.setattr("headwise.tasks.speech.sounds._MAX_CHUNKS", 20)
    with pytest.raises(DataError, match=r"a\.wav: more than 20 chunks"):
        parse_sound(GOOD + empty, "a.wav")


@pytest.mark.parametrize(("old", "new"), [(8000, 16000), (16000, 8000), (44100, 16000), (8000, 11025), (11027, 8000)])
def test_a_sine_is_the_same_sine_at_another_rate(old, new):
    times = np.arange(old // 5) / old
    found = resampled(Sound(np.sin(2 * np.pi * 440 * times).astype(np.float32), old), new)
    assert (found.rate, len(found.samples)) == (new, new // 5)
    wanted = np.sin(2 * np.pi * 440 * np.arange(new // 5) / new)
    edge = new // 50
    np.testing.assert_allclose(found.samples[edge:-edge], wanted[edge:-edge], rtol=0, atol=2e-4)


def test_what_the_lower_rate_cannot_hold_is_left_out():
    high = resampled(Sound(tone(7000, 0.2, 16000).astype(np.float32), 16000), 8000).samples
    assert np.abs(high[200:-200]).max() < 0.05
    sound = Sound(VALUES.astype(np.float32), 8000)
    assert resampled(sound, 8000) is sound
    assert len(resampled(sound, 1000).samples) == 1


def test_samples_are_decoded_some_at_a_time(monkeypatch):
    stereo = wave(np.tile(VALUES, 20), 8000, channels=2)
    whole = parse_sound(stereo, "a.wav")
    monkeypatch.setattr("headwise.tasks.speech.sounds._AT_ONCE", 6)
    np.testing.assert_array_equal(parse_sound(stereo, "a.wav").samples, whole.samples)
    # what is wrong is named by its place in the file
    loud = wave(np.append(np.tile(VALUES, 20), 2.0), 8000, bits=32, code=3)
    with pytest.raises(DataError, match=f"a.wav: sample {20 * len(VALUES)} is 2, and floats go from -1 to 1"):
        parse_sound(loud, "a.wav")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_seconds": 0.005}, "is 0.005625 s long, more than 0.005; cut it, or set data.max_seconds"),
        ({"max_bytes": 35}, "has 9 samples, [^ ]+ bytes in memory, more than 35; .* data.max_bytes"),
    ],
)
def test_too_long_a_file_is_refused_before_it_is_decoded(monkeypatch, limits, message):
    config = RecordingsConfig(train="list.csv", **limits)
    monkeypatch.setattr("headwise.tasks.speech.sounds._blocks", None)
    for data in (flac(np.zeros(9)), wave(np.zeros(9))):
        with pytest.raises(DataError, match=message):
            recording_of(data, "a", config)


def test_without_the_libraries_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(ConfigError, match=r"headwise\[audio\]"):
        resampled(Sound(VALUES.astype(np.float32), 8000), 16000)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ConfigError, match=r"headwise\[audio\]"):
        parse_sound(GOOD, "a.wav")
    # nothing is skipped because of what is not installed
    (tmp_path / "a.wav").write_bytes(GOOD)
    (tmp_path / "list.csv").write_text("path,label\na.wav,x\n")
    config = RecordingsConfig(train="list.csv", bad_lines="skip")
    for name, labelled in (("list.csv", True), ("a.wav", False)):
        with pytest.raises(ConfigError, match="need soundfile"):
            list(scan_recordings(tmp_path / name, config, labelled=labelled))
