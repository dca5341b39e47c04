"""Cleaning is one linear function that changes nothing the second time; scripts and hidden characters."""

import contextlib
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.text import clean, hidden, script, script_counts
from headwise.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=29)


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2009", "\t", "\u3000", "\u2028", "\x85", " \u00a0 "])
def test_white_space_is_one_plain_space(space):
    assert clean(f"{space}Va{space}!{space}") == "Va !"


def test_zero_width_characters_stay():
    assert clean("a\u200bb \u200e") == "a\u200bb \u200e"


def test_space_mark_becomes_underscore():
    assert clean("a▁b") == "a_b"


def test_composed_and_decomposed_are_the_same_text():
    assert clean("cafe\u0301") == clean("café") == "café"
    assert clean("cafe\u0301", "none") == "cafe\u0301"
    assert clean("ﬁn ²", "nfkc") == "fin 2"
    assert clean("ﬁn ²", "nfc") == "ﬁn ²"


@given(TEXT, st.sampled_from(["none", "nfc", "nfkc"]))
def test_cleaning_twice_changes_nothing(text, normalize):
    once = clean(text, normalize)
    assert clean(once, normalize) == once
    assert once == once.strip()
    assert "  " not in once


@given(TEXT)
def test_cleaned_text_is_normalised(text):
    assert unicodedata.is_normalized("NFC", clean(text))


def test_lone_surrogate():
    with pytest.raises(DataError, match=r"lone surrogate U\+D800 at character 3 is no character"):
        clean("ab\ud800")


def test_long_run_of_combining_marks():
    assert clean("e" + "\u0301\u0316" * 128)
    with pytest.raises(DataError, match="more than 256 combining marks in a row, up to character 258"):
        clean("e" + "\u0316\u0301" * 5_000)


@pytest.mark.parametrize(
    "text",
    [
        " " * 100_000 + "x",
        "\u00a0a" * 50_000,
        "e\u0301" * 50_000,
        "\u0301" * 100_000,
        "\u0316\u0301" * 50_000,
        "a" * 99_999 + "\ud800",
        "ﷺ" * 33_000,
        "\u1100\u1161" * 50_000,
        "İ" * 100_000,
        "👨‍👩‍👧‍👦" * 14_000,
    ],
)
@pytest.mark.parametrize("normalize", ["nfc", "nfkc"])
def test_adversarial_texts_take_linear_time(text, normalize):
    # squared, 100,000 characters take minutes
    start = time.process_time()
    with contextlib.suppress(DataError):
        clean(text, normalize)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("character", "name"),
    [
        *[(letter, "Latin") for letter in "aÉＡº"],
        *[("я", "Cyrillic"), ("中", "Han"), ("〆", "Han"), ("あ", "Hiragana"), ("ｱ", "Katakana")],
        *[("ω", "Greek"), ("µ", "Greek"), ("한", "Hangul"), ("ש", "Hebrew")],
        *[(other, None) for other in "1 !\u0301👍"],
    ],
)
def test_script(character, name):
    assert script(character) == name


def test_script_counts_most_frequent_first():
    counts = script_counts({"a": 2, "b": 1, "я": 5, "!": 99})
    assert list(counts.items()) == [("Cyrillic", 5), ("Latin", 3)]


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\u200b", "U+200B ZERO WIDTH SPACE"),
        ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("\ufeff", "U+FEFF ZERO WIDTH"),
        ("\x1b", "U+001B control or unassigned character"),
    ],
)
def test_hidden(character, name):
    assert hidden(character).startswith(name)
    assert hidden("é") is None
    assert hidden(" ") is None
