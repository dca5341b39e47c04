"""Plain text as tokens: exact for every kind of token, cut at line ends, and mapped from a file where it is long."""

import os

import numpy as np
import pytest

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError, MachineError
from headwise.tasks.text import plain
from headwise.tasks.text.plain import TextConfig, begin_id, encode, portions, text_of, train_tokenizer, unknown_count

LINES = ["First  line, with two spaces.", "", "\tA tab; don't!", "café — naïve_word", " (last) line"] * 12
WHOLE = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "text.txt").write_text(WHOLE, encoding="utf-8")
    return str(tmp_path / "text.txt")


def tokenizer_of(kind, **options):
    lines = [f"{line}\n" for line in LINES]
    return Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=90, spaces="kept", **options))


@pytest.mark.parametrize("kind", ["char", "bpe", "unigram", "word"])
@pytest.mark.parametrize("split", [True, False])
def test_every_kind_of_token_gives_the_text_back(kind, split):
    tokenizer = tokenizer_of(kind, split_punctuation=split)
    assert tokenizer.decode(tokenizer.encode(WHOLE)) == WHOLE
    text = text_of((f"{line}\n" for line in LINES), tokenizer)
    # line by line is all at once
    assert text.tokens.tolist() == [begin_id(tokenizer), *tokenizer.encode(WHOLE)]
    assert tokenizer.decode([begin_id(tokenizer)]) == "\n"
    assert text.chars == len(WHOLE)
    assert unknown_count(text, tokenizer) == 0
    again = Tokenizer.from_bytes(tokenizer.to_bytes(), "again")
    assert again.decode(again.encode(WHOLE)) == WHOLE
    spans = tokenizer.offsets(WHOLE)
    assert "".join(WHOLE[start:end] for start, end in spans).split() == WHOLE.split()


def test_unknown_characters_are_counted_and_a_text_may_have_no_line_ends():
    tokenizer = tokenizer_of("char")
    assert unknown_count(text_of(["F€\n"], tokenizer), tokenizer) == 1
    letters = Tokenizer.train(["ab"], TokenizerConfig(kind="char", spaces="kept"))
    assert begin_id(letters) == letters.bos_id


def test_the_held_out_parts_are_the_last_lines(path):
    parts = portions(TextConfig(train=path, valid_fraction=0.25, test_fraction=0.2))
    assert list(parts) == ["train", "valid", "test"]
    assert "".join(line for part in parts.values() for line in part.lines()) == WHOLE
    for part, share in zip(parts.values(), (0.55, 0.25, 0.2), strict=True):
        assert part.chars == sum(map(len, part.lines())) == pytest.approx(share * len(WHOLE), abs=30)
    own = portions(TextConfig(train=path, valid=path, test_fraction=0.0))
    assert [part.chars for part in own.values()] == [len(WHOLE), len(WHOLE), 0]


def test_what_cannot_be_cut(path, tmp_path):
    (tmp_path / "one.txt").write_text("one line only", encoding="utf-8")
    with pytest.raises(DataError, match=r"one.txt: too few lines to hold out a part; give valid and test files, or"):
        portions(TextConfig(train=str(tmp_path / "one.txt")))
    with pytest.raises(DataError, match=r"leave nothing of"):
        portions(TextConfig(train=path, valid_fraction=0.5, test_fraction=0.5))
    with pytest.raises(DataError, match=r"too few lines to hold out a part"):
        portions(TextConfig(train=path, valid_fraction=0.001, test_fraction=0.001))
    (tmp_path / "none.txt").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"none.txt: no text to train on"):
        portions(TextConfig(train=str(tmp_path / "none.txt")))


def test_a_long_text_is_written_once_and_mapped(path, tmp_path, monkeypatch):
    part = portions(TextConfig(train=path))["train"]
    tokenizer = train_tokenizer(part, TokenizerConfig(kind="char", spaces="kept"))
    short = encode(part, tokenizer)
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(plain, "IN_MEMORY_CHARS", 10)
    monkeypatch.setattr(plain, "_CHUNK_CHARS", 50)
    long = encode(part, tokenizer)
    assert isinstance(long.tokens, np.memmap)
    assert long.tokens.dtype == short.tokens.dtype == np.uint16
    assert (long.tokens.tolist(), long.chars) == (short.tokens.tolist(), short.chars)
    (file,) = os.listdir(tmp_path / "cache" / "tokens")
    assert file.endswith(".uint16")
    monkeypatch.setattr(plain, "_write", None)
    assert encode(part, tokenizer).tokens.tolist() == short.tokens.tolist()


def test_a_token_file_that_cannot_be_written_leaves_nothing(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(plain, "IN_MEMORY_CHARS", 10)
    part = portions(TextConfig(train=path))["train"]
    tokenizer = tokenizer_of("char")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MachineError, match=r"No space left on device; set HEADWISE_DATA to a folder"):
        encode(part, tokenizer)
    assert os.listdir(tmp_path / "cache" / "tokens") == []


def test_a_tokenizer_of_a_long_text_learns_from_its_beginning(path, monkeypatch):
    monkeypatch.setattr(plain, "TRAINED_CHARS", 30)
    part = portions(TextConfig(train=path))["train"]
    tokenizer = train_tokenizer(part, TokenizerConfig(kind="char", spaces="kept"))
    assert "é" not in tokenizer.pieces()
    assert "F" in tokenizer.pieces()
