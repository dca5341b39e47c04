"""Word vectors: both headers, plain and gzip, exact and other-case words, coverage, faults by line, frozen or tuned."""

import gzip

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError
from headwise.tasks.text.vectors import load_vectors

WORDS = Tokenizer.train(["the the the Paris paris cat dog"], TokenizerConfig(kind="word"))
GLOVE = "the 1 2 3\nparis 4 5.5 -6e-1\nunused 7 8 9\ncat .5 +1. 0\n"


def write(tmp_path, text, name="vectors.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(path, tokenizer=WORDS, seed=3, **options):
    return load_vectors(path, tokenizer, generator=torch.Generator().manual_seed(seed), **options)


def row(matrix, word):
    return matrix[WORDS.encode(word)[0]].tolist()


@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
@pytest.mark.parametrize("packed", [True, False])
def test_rows_are_the_vectors(tmp_path, header, end, packed):
    text = (header + GLOVE).replace("\n", end).encode()
    matrix, coverage = load(write(tmp_path, gzip.compress(text) if packed else text))
    assert matrix.shape == (WORDS.vocab_size, 3)
    assert matrix.dtype == torch.float32
    assert row(matrix, "the") == [1, 2, 3]
    assert row(matrix, "paris") == pytest.approx([4, 5.5, -0.6])
    assert row(matrix, "cat") == [0.5, 1, 0]
    assert (coverage.types, coverage.covered, coverage.folded, coverage.dim) == (5, 4, 1, 3)


def test_words_in_another_case(tmp_path):
    matrix, coverage = load(write(tmp_path, GLOVE))
    assert row(matrix, "Paris") == row(matrix, "paris")
    assert coverage.missing == ("dog",)
    exact, coverage = load(write(tmp_path, GLOVE + "Paris 0 0 1\n"))
    assert row(exact, "Paris") == [0, 0, 1]
    assert row(exact, "paris") == row(matrix, "paris")
    assert coverage.folded == 0


def test_first_of_repeated_words_counts(tmp_path):
    matrix, _ = load(write(tmp_path, GLOVE + "the 9 9 9\n"))
    assert row(matrix, "the") == [1, 2, 3]


def test_missing_rows_are_drawn_with_the_same_deviation(tmp_path):
    generator = torch.Generator().manual_seed(5)
    texts = [f"w{n}" for n in range(997)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="word"))
    vectors = 0.3 * torch.randn(97, 53, generator=generator) + 0.1
    lines = [f"w{n} " + " ".join(f"{value:.6f}" for value in vectors[n].tolist()) for n in range(97)]
    matrix, coverage = load(write(tmp_path, "\n".join(lines)), tokenizer)
    assert coverage.covered == 97
    known = {tokenizer.encode(f"w{n}")[0] for n in range(97)}
    drawn = matrix[[token for token in range(1, tokenizer.vocab_size) if token not in known]]
    assert float(drawn.std()) == pytest.approx(float(vectors.std()), rel=0.02)
    assert float(drawn.mean()) == pytest.approx(float(vectors.mean()), abs=0.01)
    assert not matrix[tokenizer.pad_id].any()


def test_generator_decides_the_drawn_rows(tmp_path):
    path = write(tmp_path, GLOVE)
    torch.testing.assert_close(load(path, seed=1)[0], load(path, seed=1)[0], rtol=0, atol=0)
    assert not torch.equal(load(path, seed=1)[0], load(path, seed=2)[0])


def test_coverage_is_told(tmp_path):
    _, coverage = load(write(tmp_path, GLOVE))
    assert str(coverage).splitlines() == [
        "vectors of 3 numbers for 4 of 5 types (80.0 %), 1 of them only in another case",
        "without vector: dog",
    ]


def test_pieces_take_the_vectors_of_whole_words(tmp_path):
    texts = ["the cat the cat"] * 31
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="bpe", vocab_size=61))
    matrix, _ = load(write(tmp_path, GLOVE), tokenizer)
    assert matrix[tokenizer.encode("the")[0]].tolist() == [1, 2, 3]


def test_words_with_a_space_inside(tmp_path):
    matrix, coverage = load(write(tmp_path, "the 1 2 3\n. . . 4 5 6\ncat 7 8 9\n"))
    assert coverage.covered == 2
    assert row(matrix, "cat") == [7, 8, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2 3\ncat 1 2\n", r"vectors\.txt:2: 2 numbers after the word, expected 3"),
        ("the\n", r"vectors\.txt:1: 0 numbers after the word, expected at least 1"),
        ("2 3\nthe 1 2\n", r"vectors\.txt:2: 2 numbers after the word, expected 3"),
        ("the 1 2 x\n", r"vectors\.txt:1: 'x' is not a number"),
        ("the 1 2 nan\n", r"vectors\.txt:1: 'nan' is not a number"),
        ("the 1 2 1_000\n", r"vectors\.txt:1: '1_000' is not a number"),
        ("the 1 2 ١٢\n", r"vectors\.txt:1: '١٢' is not a number"),
        ("the 1 2 1e5e\n", r"vectors\.txt:1: could not convert string to float: '1e5e'"),
        ("the 1  3\n", r"vectors\.txt:1: could not convert string to float: ''"),
        ("the 1 2 1e39\n", r"vectors\.txt:1: a number is too large for single precision"),
        ("the 1 2 1e999\n", r"vectors\.txt:1: a number is too large for single precision"),
        ("3 3\nthe 1 2 3\n", r"vectors\.txt: the first line promises 3 vectors, the file has 1: is it cut off\?"),
        ("", r"vectors\.txt: no vectors in it"),
        ("3 3\n", r"vectors\.txt: no vectors in it"),
        ("le 1 2 3\n", r"vectors\.txt: no vector for any of the 9 tokens; is it the right language\?"),
        (b"3 2\nthe \xcd\xcc\x8c\x3f", r"vectors\.txt:2: byte 8 \(0xcd\) is not UTF-8"),
        ("the 1 2 3\n" + "x" + "\u0316\u0301" * 300 + " 1 2 3\n", r"vectors\.txt:2: more than 256 combining marks"),
    ],
)
def test_faults(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path, text))


def test_long_lines(tmp_path):
    with pytest.raises(DataError, match=":1: the line is longer than 5 bytes"):
        load(write(tmp_path, GLOVE), max_line_bytes=5)


@given(st.binary(max_size=47) | st.text("the cat 0123.e-\n", max_size=47).map(str.encode))
def test_arbitrary_bytes_raise_nothing_but_data_errors(tmp_path_factory, data):
    try:
        matrix, _ = load(write(tmp_path_factory.mktemp("vectors"), data))
    except DataError:
        return
    assert matrix.isfinite().all()


@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_rows_do_not_move_and_tuned_rows_do(tmp_path, freeze):
    matrix, _ = load(write(tmp_path, GLOVE))
    layer = nn.Embedding.from_pretrained(matrix.clone(), freeze=freeze)
    head = nn.Linear(3, 2)
    optimizer = torch.optim.SGD([p for p in [*layer.parameters(), *head.parameters()] if p.requires_grad], lr=0.1)
    head(layer(torch.tensor(WORDS.encode("the cat")))).square().sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight, matrix) == freeze


@pytest.mark.parametrize(("text", "found", "folded"), [("PARIS 1 2 3\n", 2, 2), ("dog 1 2 3\n", 1, 0)])
def test_vectors_of_one_kind_are_enough(tmp_path, text, found, folded):
    _, coverage = load(write(tmp_path, text))
    assert (coverage.covered, coverage.folded) == (found, folded)


def test_few_of_the_missing_words_are_named(tmp_path):
    words = [f"w{n:02}" for n in range(23)]
    tokenizer = Tokenizer.train([" ".join(words)], TokenizerConfig(kind="word"))
    _, coverage = load(write(tmp_path, "w00 1 2\n"), tokenizer)
    assert coverage.missing == tuple(words[1:11])
