"""Tagged sentences from CoNLL-U and JSON lines, their errors by line, and words as subwords."""

import gzip

import numpy as np
import pytest
import torch

from headwise.config import build
from headwise.data.bad_lines import strict
from headwise.data.batches import NO_TAG
from headwise.data.tokenizers import TokenizerConfig
from headwise.errors import ConfigError, DataError, ShapeError
from headwise.tasks.text.tagged import Tagged, TaggedConfig, read_words, scan_tagged
from headwise.tasks.text.words import SpellingConfig, WordTokenizer, collate_words, encode_words, spelling_of


def read_tagged(path, config):
    return list(strict(scan_tagged(path, config)))


def row(number, form, upos="NOUN", xpos="NN", feats="_", deprel="root"):
    return f"{number}\t{form}\t{form}\t{upos}\t{xpos}\t{feats}\t0\t{deprel}\t_\t_"


SAMPLE = "\n".join(
    [
        "# sent_id = 1",
        "# text = I don't saw",
        row(1, "I", "PRON", "PRP", "Case=Nom", "nsubj"),
        row("2-3", "don't", "_", "_"),
        row(2, "do", "AUX", "VBP", deprel="aux"),
        row(3, "n't", "PART", "RB", deprel="advmod"),
        row("3.1", "ghost", "VERB", "VB"),
        row(4, "saw", "VERB", "VB"),
        "",
        "",
        "# text = Ja",
        row(1, "Ja", "INTJ", "UH"),
    ]
)


@pytest.fixture
def write(tmp_path):
    def written(text, name="data.conllu"):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


def config(**fields):
    return build(TaggedConfig, {"train": "unread"} | fields, "recipe")


@pytest.mark.parametrize("name", ["data.conllu", "data.conllu.gz", "data.CONLL", "without-ending"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_words_of_conllu(write, name, end):
    found = read_tagged(write(SAMPLE + end, name), config())
    assert found == [
        Tagged(("I", "do", "n't", "saw"), ("PRON", "AUX", "PART", "VERB"), 3),
        Tagged(("Ja",), ("INTJ",), 12),
    ]
    assert found[0].text == "I do n't saw"


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        ("xpos", ("PRP", "VBP", "RB", "VB")),
        ("feats", ("Case=Nom", "_", "_", "_")),
        ("deprel", ("nsubj", "aux", "advmod", "root")),
    ],
)
def test_the_column_of_the_tags_is_chosen(write, column, tags):
    assert read_tagged(write(SAMPLE), config(column=column))[0].tags == tags


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tI\tI", r"data.conllu:1: 3 columns, CoNLL-U has 10$"),
        ("1 I I PRON", r"data.conllu:1: 1 column, CoNLL-U has 10; columns are separated by tabs, not by spaces"),
        (row(1, "I") + "\tmore", "data.conllu:1: 11 columns, CoNLL-U has 10"),
        (row("x", "I"), "data.conllu:1: 'x' is no word number; the first column is a number, 1-2 or 1.1"),
        (row("1-", "I"), "data.conllu:1: '1-' is no word number"),
        (row(1, "I") + "\n" + row(3, "saw"), "data.conllu:2: word 3 where word 2 is due; .* a blank line after each"),
        (row(1, "I") + "\n\n" + row(1, "I", "_"), "data.conllu:3: no upos; .* set column to one of xpos, feats, depre"),
        (row(1, "\u00a0"), "data.conllu:1: a word is empty; write the word or remove it"),
        (row(1, "a" + "\u0301" * 300), "data.conllu:1: more than 256 combining marks in a row"),
        ("# c\n" + row("1-2", "don't") + "\n\n", "data.conllu:2: the sentence is empty; give it words or remove it"),
        (row(1, "x" * 200), "data.conllu:1: the line is longer than 100 bytes"),
    ],
)
def test_errors_of_conllu_name_the_line(write, text, message):
    with pytest.raises(DataError, match=message):
        read_tagged(write(text), config(max_line_bytes=100 if "x" * 200 in text else 9999))


def test_not_utf8_is_an_error_by_line(tmp_path):
    (tmp_path / "data.conllu").write_bytes(row(1, "a").encode() + b"\n\n" + row(1, "\xe9").encode("latin-1"))
    with pytest.raises(DataError, match=r"data.conllu:3: byte \d+ \(0xe9\) is not UTF-8: perhaps Latin-1"):
        read_tagged(tmp_path / "data.conllu", config())


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz", "unnamed"])
def test_words_of_json_lines(write, name):
    text = '{"words": ["I", "saw\\u00a0it"], "tags": ["PRON", "VERB"]}\n\n{"words": ["Ja"], "tags": ["INTJ"], "n": 3}\n'
    assert read_tagged(write(text, name), config()) == [
        Tagged(("I", "saw it"), ("PRON", "VERB"), 1),
        Tagged(("Ja",), ("INTJ",), 3),
    ]


def test_the_keys_of_json_lines_are_chosen(write):
    path = write('{"tokens": ["I"], "ner": ["O"]}\n', "data.jsonl")
    assert read_tagged(path, config(words_key="tokens", tags_key="ner")) == [Tagged(("I",), ("O",), 1)]
    with pytest.raises(DataError, match=r"data.jsonl:1: missing field 'words': unknown field 'words'; known: ner, to"):
        read_tagged(path, config())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"words": ["a", "b"], "tags": ["X"]}', "2 words but 1 tags; give every word one tag"),
        ('{"words": [], "tags": []}', "the sentence is empty; give it words or remove the line"),
        ('{"words": "a b", "tags": []}', "the field 'words' must be an array of texts, got text"),
        ('{"words": ["a", 3], "tags": []}', "the field 'words' must be an array of texts, but entry 2 is a number"),
        ('{"words": ["a"], "tags": [""]}', "tag 1 is empty; give every word a tag"),
        ('{"words": [" "], "tags": ["X"]}', "a word is empty; write the word or remove it"),
        ('{"words": ["\\u0000"], "tags": ["X"]}', "the field 'words' contains the NUL character"),
        ('{"words": ["\\ud800"], "tags": ["X"]}', r"lone surrogate U\+D800"),
        ('{"words": ["a"], "tags": ["\\uDC80"]}', r"lone surrogate U\+DC80"),
        ('{"words": ["a"]}', "missing field 'tags'"),
        ('{"words"', "not valid JSON"),
        ("[1]", "expected a JSON object, got an array"),
    ],
)
def test_errors_of_json_lines_name_the_line(write, text, message):
    with pytest.raises(DataError, match=f"data.jsonl:2: {message}"):
        read_tagged(write(f'{{"words": ["a"], "tags": ["X"]}}\n{text}\n', "data.jsonl"), config())


def test_plain_text_has_no_tags_to_train_on(write):
    path = write("I saw\n", "data.text")
    with pytest.raises(DataError, match="neither CoNLL-U nor JSON lines, so there are no tags in it"):
        read_tagged(path, config())
    with pytest.raises(DataError, match=r"data.text:1: 1 column, CoNLL-U has 10"):
        read_tagged(path, config(format="conllu"))
    with pytest.raises(ConfigError, match=r"data|format"):
        config(format="tsv")


COLUMNS = "-DOCSTART- -X- O O\n\nU.N. NNP I-NP I-ORG\n# NN I-NP O\n\n-DOCSTART- -X- O O\nParis  NNP I-NP I-LOC\n"


@pytest.mark.parametrize("name", ["data.conll", "data.bio", "data.iob.gz", "unnamed"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_words_in_columns(write, name, end):
    found = read_tagged(write(COLUMNS.replace("\n", end), name), config())
    assert found == [Tagged(("U.N.", "#"), ("I-ORG", "O"), 3), Tagged(("Paris",), ("I-LOC",), 7)]


@pytest.mark.parametrize(
    ("text", "fields", "found"),
    [
        (COLUMNS, {"tag_column": 1}, ["NNP", "NN", "NNP"]),
        (COLUMNS, {"word_column": 2, "tag_column": -4}, ["U.N.", "#", "Paris"]),
        ("New York\tB-LOC\nis\tO\n", {}, ["B-LOC", "O"]),
        ("a\tX\n \t \nb\tY", {}, ["X", "Y"]),
    ],
)
def test_the_columns_are_chosen(write, text, fields, found):
    sentences = read_tagged(write(text, "data.conll"), config(**fields))
    assert [tag for sentence in sentences for tag in sentence.tags] == found


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (
            "a B-X\nb c O\n",
            {},
            "data.bio:2: 3 columns, but line 1 has 2; give every word the same columns, and put a bl",
        ),
        ("a X\n\nb\n", {}, "data.bio:3: 1 column, but line 1 has 2"),
        ("a\tX\nb c\n\td\te\n", {}, "data.bio:3: 3 columns, but line 1 has 2"),
        ("-DOCSTART- O\na\n", {}, "data.bio:2: 1 column; a word needs a tag beside it, after a space or a tab"),
        ("a X\n", {"tag_column": 2}, "data.bio:1: 2 columns, so there is no tag_column 2; set tag_column from 0 to 1"),
        ("a X\n", {"word_column": -3}, "data.bio:1: 2 columns, so there is no word_column -3"),
        (
            "a X\n",
            {"tag_column": 0},
            "data.bio:1: word_column 0 and tag_column 0 are the same of 2 columns; change one",
        ),
        ("a\tX\nb\t\n", {}, "data.bio:2: the tag is empty; give every word a tag"),
        ("a\tX\n\tX\n", {}, "data.bio:2: a word is empty; write the word or remove it"),
        ("a X\n\u00a0 X\n", {}, "data.bio:2: a word is empty"),
        ("a X\n" + "x" * 200 + " X\n", {}, "data.bio:2: the line is longer than 100 bytes"),
        ("a X\nb\0 X\n", {}, "data.bio:2: .*NUL"),
    ],
)
def test_errors_of_columns_name_the_line(write, text, fields, message):
    with pytest.raises(DataError, match=message):
        read_tagged(write(text, "data.bio"), config(max_line_bytes=100, **fields))


def test_a_column_of_words_alone_can_be_tagged(write):
    found = list(read_words(write("a\nb\n\nc\n", "data.bio"), config(word_column=3)))
    assert found == [Tagged(("a", "b"), None, 1), Tagged(("c",), None, 4)]


def test_spans_become_tags(write):
    lines = ['{"words": ["Ann", "Lee", "left"], "spans": [[0, 2, "PER"]]}', '{"words": ["so"], "spans": []}']
    lines.append('{"words": ["in", "Rome"], "spans": [{"start": 1, "end": 2, "label": "LOC", "score": 1}]}')
    path = write("\n".join(lines), "data.jsonl")
    found = [item.tags for item in read_tagged(path, config(spans_key="spans"))]
    assert found == [("B-PER", "I-PER", "O"), ("O",), ("O", "B-LOC")]
    untagged = write('{"words": ["so"]}', "more.jsonl")
    assert [item.tags for item in read_words(untagged, config(spans_key="spans"))] == [None]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ('[[0, 3, "X"]]', "the span 0 to 3 is not among the 2 words; a span begins before it ends"),
        ('[[1, 1, "X"]]', "the span 1 to 1 is not among the 2 words"),
        ('[[-1, 1, "X"]]', "the span -1 to 1 is not among"),
        ('[[0, 2, "X"], [1, 2, "Y"]]', "two spans have word 1, counted from 0; a word can be in one span only"),
        ("[[0, 1]]", r"span 1 of the field 'spans' must be \[start, end, label\]: two whole numbers and a text"),
        ('[[0, true, "X"]]', "span 1 of the field 'spans' must be"),
        ('[[0, 1, ""]]', "span 1 of the field 'spans' must be"),
        ('[[0, 1, "X"], 3]', "span 2 of the field 'spans' must be"),
        ("{}", "the field 'spans' must be an array of spans, got an object"),
        ('[[0, 1, "a\\u0000"]]', "the field 'spans' contains the NUL character"),
    ],
)
def test_spans_that_cannot_be_are_refused(write, spans, message):
    with pytest.raises(DataError, match=f"data.jsonl:1: {message}"):
        read_tagged(write(f'{{"words": ["a", "b"], "spans": {spans}}}', "data.jsonl"), config(spans_key="spans"))


def test_what_is_to_be_tagged_needs_no_tags(write):
    untagged = SAMPLE.replace("VERB", "_")
    assert [item.tags for item in read_words(write(untagged), config())] == [None, ("INTJ",)]
    lines = read_words(write('{"words": ["I"]}\n{"words": ["I"], "tags": ["X"]}\n', "a.jsonl"), config())
    assert [item.tags for item in lines] == [None, ("X",)]
    with pytest.raises(DataError, match="1 words but 2 tags"):
        list(read_words(write('{"words": ["I"], "tags": ["X", "Y"]}\n', "a.jsonl"), config()))


@pytest.mark.parametrize("name", ["a.txt", "a.text", "a"])
def test_lines_of_words_between_spaces(write, name):
    found = list(read_words(write("I  saw\u00a0it\n\na\n", name), config()))
    assert found == [Tagged(("I", "saw", "it"), None, 1), Tagged((), None, 2), Tagged(("a",), None, 3)]


def test_reading_is_lazy(write):
    lines = read_words(write(row(1, "I") + "\n\n\n" + row(1, "b") + "\n\nwrong\n"), config())
    assert [next(lines).words, next(lines).words] == [("I",), ("b",)]
    with pytest.raises(DataError, match=r"data.conllu:6"):
        next(lines)


@pytest.fixture(scope="module")
def letters():
    return WordTokenizer.train(["abc", "de"], TokenizerConfig(kind="char"), SpellingConfig())


def test_every_word_keeps_its_tokens(letters):
    sentences = [("abc", "d"), (), ("e", "abc", "zz", "de")]
    rows = encode_words(sentences, letters, [(0, 1), (), (2, 0, 1, 5)])
    for place, words in enumerate(sentences):
        tokens, pieces = rows.tokens[place].tolist(), rows.pieces[place].tolist()
        ends = np.cumsum(pieces)
        found = [tokens[end - count : end] for end, count in zip(ends, pieces, strict=True)]
        assert found == letters.encode(words)
    assert rows.lengths().tolist() == [[4, 2], [0, 0], [8, 4]]
    assert [list(tags) for tags in rows.tags] == [[0, 1], [], [2, 0, 1, 5]]


def test_a_word_without_tokens_is_unknown(letters):
    rows = encode_words([("a", "\u200b", "")], letters)
    assert rows.pieces[0].tolist() == [1, 1, 1]
    assert rows.tokens[0].tolist() == [4, 3, 3]


def test_spelling_stands_behind_the_pieces():
    words = ["saw", "Saws", "was", "saw"]
    both = WordTokenizer.train(words, TokenizerConfig(kind="char"), SpellingConfig(longest=2, min_frequency=1))
    plain = WordTokenizer.train(words, TokenizerConfig(kind="char"), SpellingConfig())
    assert both.pieces.to_bytes() == plain.pieces.to_bytes()
    assert both.vocab_size == both.pieces.vocab_size + both.spelling.vocab_size
    for word, found, pieces in zip(words, both.encode(words), plain.encode(words), strict=True):
        assert found[: len(pieces)] == pieces
        spelled = [both.spelling.piece(number - both.pieces.vocab_size) for number in found[len(pieces) :]]
        assert spelled == spelling_of(word, 2).split()
    # of a word never seen the ending is known
    last = [both.spelling.piece(number - both.pieces.vocab_size) for number in both.encode(["laws"])[0][4:]]
    assert last == ["<unk>", "<unk>", "s$", "ws$", "<unk>", "=x"]


@pytest.mark.parametrize(
    ("word", "spelled"),
    [
        ("I", "^i ^i ^i i$ i$ i$ ^i$ =X"),
        ("Ünï-12ab", "^ü ^ün ^ünï b$ ab$ 2ab$ ^ünï-12ab$ =Xx-0x"),
        ("10 000", "^1 ^10 ^10_ 0$ 00$ 000$ ^10_000$ =0"),
        ("...", "^. ^.. ^... .$ ..$ ...$ ^...$ =."),
    ],
)
def test_how_a_word_is_spelled(word, spelled):
    assert spelling_of(word, 3) == spelled


def test_a_batch_is_padded_and_counted(letters):
    rows = encode_words([("abc", "d"), ("e",), ("a", "b", "c")], letters, [(0, 1), (2,), (NO_TAG, 3, 4)])
    batch = collate_words(rows, [1, 0])
    assert batch.tokens.tolist() == [[8, 0, 0, 0], [4, 5, 6, 7]]
    assert batch.pieces.tolist() == [[1, 0], [3, 1]]
    assert batch.tags.tolist() == [[2, NO_TAG], [0, 1]]
    assert (batch.indices, batch.num_tokens) == ([1, 0], 3)
    assert collate_words(rows, [2]).num_tokens == 2
    assert batch.to("cpu").tokens.dtype == torch.int64
    with pytest.raises(ShapeError, match="at least one example"):
        collate_words(rows, [])
    with pytest.raises(ShapeError, match="words and tags of a sentence differ in number"):
        encode_words([("a", "b")], letters, [(0,)])
