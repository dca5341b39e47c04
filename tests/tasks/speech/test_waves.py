"""WAV files of every kind of sample, hostile ones, and sines at another rate."""

import struct

import numpy as np
import pytest
from sounds import tone, wave

from headwise.errors import DataError
from headwise.tasks.speech.sounds import Sound, parse_wave, resampled

VALUES = np.array([0.5, -0.25, 0.0, -1.0, 0.75])


@pytest.mark.parametrize(
    ("bits", "code", "step"),
    [(8, 1, 2**-7), (16, 1, 2**-15), (24, 1, 2**-23), (32, 1, 2**-24), (32, 3, 0), (64, 3, 0)],
)
@pytest.mark.parametrize("extensible", [False, True])
def test_samples_of_every_kind_are_read(bits, code, step, extensible):
    values = VALUES + (0 if bits == 8 else 2**-12 * (VALUES == 0))
    sound = parse_wave(wave(values, 8000, bits=bits, code=code, extensible=extensible), "a.wav")
    assert sound.rate == 8000
    np.testing.assert_allclose(sound.samples, values, rtol=0, atol=step / 2)


def test_channels_are_averaged_or_refused():
    both = wave([0.5, 0.25, -0.5, 0.0], channels=2)
    assert parse_wave(both, "a.wav").samples.tolist() == [0.375, -0.25]
    with pytest.raises(DataError, match=r'a\.wav: has 2 channels; give one, or set data\.channels = "mix"'):
        parse_wave(both, "a.wav", "refuse")


GOOD = wave(VALUES)


def changed(place, form, *values):
    data = bytearray(GOOD)
    struct.pack_into(form, data, place, *values)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"OggS" + GOOD, "is an Ogg file; convert it to WAV or FLAC"),
        (b"ID3\x04", "is an MP3 file"),
        (b"some text", "is no WAV file"),
        (GOOD[:12], "ends before its format"),
        (GOOD[:20], "header says 16 bytes of fmt, but only 0 follow: it is truncated"),
        (GOOD[:36], "ends before its samples"),
        (GOOD[:-4], "header says 10 bytes of data, but only 6 follow: it is truncated"),
        (changed(16, "<I", 4), "its format has 4 bytes, not 16 or more"),
        (changed(20, "<H", 2), "samples of 16 bits in format 2"),
        (changed(34, "<H", 12), "samples of 12 bits in format 1"),
        (changed(22, "<H", 0), "0 channels"),
        (changed(24, "<I", 0), "0 samples a second"),
        (changed(32, "<H", 7), "7 bytes a sample"),
        (changed(len(GOOD) - 14, "<I", 9), "9 bytes of samples are no multiple of 2"),
        (changed(len(GOOD) - 14, "<I", 4), "says 4 bytes of data, but 6 follow them that are no other chunk"),
        (changed(len(GOOD) - 14, "<I", 0), "says 0 bytes of data, but 10 follow them"),
        (GOOD + b"LIST\x09\x00\x00\x00 name", "says 10 bytes of data, but 13 follow them"),
        (changed(len(GOOD) - 14, "<I", 0xFFFFFFFF), "header says 4,294,967,295 bytes of data, but only 10"),
        (wave([]), "has no samples"),
        (wave([0.5, np.nan], bits=32, code=3), "sample 1 is no finite number"),
        (wave([0.5, -np.inf], bits=64, code=3), "sample 1 is no finite number"),
        (wave([0.5, 1.0, -1.5, 2.0], bits=32, code=3), "sample 2 is -1.5, and floats go from -1 to 1; divide all"),
        # two channels may be too loud and their mean not
        (wave([3.0, -3.0], bits=64, code=3, channels=2), "sample 0 is 3, and floats go from -1 to 1"),
    ],
)
def test_hostile_files_are_refused_by_name(data, message):
    with pytest.raises(DataError, match=message) as caught:
        parse_wave(data, "a.wav")
    assert str(caught.value).startswith("a.wav: ")
    assert ";" in str(caught.value)


@pytest.mark.parametrize("behind", [b"LIST\x03\x00\x00\x00abc\x00", b"LIST\x03\x00\x00\x00abc", bytes(11)])
@pytest.mark.parametrize("filled", [b"", b"\x00"])
def test_other_chunks_and_zeros_may_follow_the_samples(behind, filled):
    odd = wave(VALUES, bits=8)
    body = odd[: odd.index(b"data") + 8 + len(VALUES)]
    assert len(parse_wave(body + filled + behind, "a.wav").samples) == len(VALUES)
    assert len(parse_wave(GOOD + behind, "a.wav").samples) == len(VALUES)


def test_as_many_chunks_as_there_is_room_for_are_passed_over():
    # looked through again for each chunk, these would be forty gigabytes
    empty = b"junk\x00\x00\x00\x00" * 100_000
    place = GOOD.index(b"data")
    for file in (GOOD + empty, GOOD[:place] + empty + GOOD[place:]):
        assert len(parse_wave(file, "a.wav").samples) == len(VALUES)
    with pytest.raises(DataError, match="800,009 follow them that are no other chunk"):
        parse_wave(GOOD + empty + b"LIST\xff\x00\x00\x00n", "a.wav")


@pytest.mark.parametrize(("old", "new"), [(8000, 16000), (16000, 8000), (44100, 16000), (8000, 11025), (11027, 8000)])
def test_a_sine_is_the_same_sine_at_another_rate(old, new):
    times = np.arange(old // 5) / old
    found = resampled(Sound(np.sin(2 * np.pi * 440 * times).astype(np.float32), old), new)
    assert (found.rate, len(found.samples)) == (new, new // 5)
    wanted = np.sin(2 * np.pi * 440 * np.arange(new // 5) / new)
    edge = new // 50
    np.testing.assert_allclose(found.samples[edge:-edge], wanted[edge:-edge], rtol=0, atol=2e-3)


def test_what_the_lower_rate_cannot_hold_is_left_out():
    high = resampled(Sound(tone(7000, 0.2, 16000).astype(np.float32), 16000), 8000).samples
    assert np.abs(high[200:-200]).max() < 0.05
    sound = Sound(VALUES.astype(np.float32), 8000)
    assert resampled(sound, 8000) is sound


def test_a_file_of_chunks_alone_is_given_up(monkeypatch):
    monkeypatch.setattr("headwise.tasks.speech.sounds._MOST_CHUNKS", 20)
    many = GOOD[:12] + b"junk\0\0\0\0" * 21
    with pytest.raises(DataError, match=r"a\.wav: more than 20 chunks come before its samples; write it again"):
        parse_wave(many + GOOD[12:], "a.wav")


def test_samples_are_converted_and_filtered_some_at_a_time(monkeypatch):
    stereo = wave(np.tile(VALUES, 20), 8000, channels=2)
    whole = parse_wave(stereo, "a.wav")
    made = resampled(whole, 11025).samples
    monkeypatch.setattr("headwise.tasks.speech.sounds._AT_ONCE", 6)
    found = parse_wave(stereo, "a.wav")
    np.testing.assert_array_equal(found.samples, whole.samples)
    np.testing.assert_allclose(resampled(found, 11025).samples, made, rtol=0, atol=1e-7)
    # what is wrong is named by its place in the file
    loud = wave(np.append(np.tile(VALUES, 20), 2.0), 8000, bits=32, code=3)
    with pytest.raises(DataError, match=f"a.wav: sample {20 * len(VALUES)} is 2, and floats go from -1 to 1"):
        parse_wave(loud, "a.wav")
