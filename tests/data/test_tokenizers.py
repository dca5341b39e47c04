"""Tokenizers: what each kind cuts, exact round trips, offsets, special tokens that no text can make, one file."""

import hashlib
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import build
from headwise.data.text import clean
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError

KINDS = ["word", "char", "bpe", "unigram"]
TEXTS = [
    "Je suis chez moi.",
    "Il est calme, je crois.",
    "Où est-elle ? Chez moi !",
    "L'homme qui rit est chez lui.",
    "Va chez toi, il est tard...",
    "10,5 degrés à 10:30 ?",
    "İstanbul et Ærø (ou Ålesund)",
] * 3


def trained(kind, **options):
    return Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=options.pop("vocab_size", 199), **options))


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=17) | st.text("je .,'▁ \u00a0e\u0301")
SPLIT = {
    (kind, split): trained(kind, split_punctuation=bool(split), lowercase=True) for kind in KINDS for split in (0, 1)
}


@pytest.fixture(scope="module")
def tokenizers():
    return {kind: trained(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first(tokenizers, kind):
    tokenizer = tokenizers[kind]
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert [tokenizer.piece(token) for token in range(4)] == ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert tokenizer.pieces() == [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]


@pytest.mark.parametrize("spaces", ["joined", "kept"])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_makes_a_special_token(kind, split, spaces):
    # where spaces are kept, a word may be a token with the space before it
    texts = ["<eos> <pad> <bos> <unk>", " <eos> <unk>"] * 50
    config = TokenizerConfig(kind=kind, vocab_size=300, split_punctuation=split, spaces=spaces)
    tokenizer = Tokenizer.train(texts, config)
    assert [tokenizer.piece(token) for token in range(4)] == ["<pad>", "<bos>", "<eos>", "<unk>"]
    for text in [*texts, "<bos>", " <pad>", "a <eos>b"]:
        assert not {0, 1, 2}.intersection(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(" <unk> <pad>")).split() == ["<unk>", "<pad>"]
    assert tokenizer.unk_id not in tokenizer.encode(" <unk>")
    assert Tokenizer.from_bytes(tokenizer.to_bytes(), "t", config).encode(texts[0]) == tokenizer.encode(texts[0])


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_leaves_special_tokens_out(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("Je suis chez moi.")
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == "Je suis chez moi."
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([3]) == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS[:7])
def test_round_trip_of_the_training_text(tokenizers, kind, text):
    assert tokenizers[kind].decode(tokenizers[kind].encode(text)) == text


@pytest.mark.parametrize("kind", ["char", "bpe", "unigram"])
@given(words=st.lists(st.text("Jesuichzmo.,!?'-()10ÆØåİ:éÉ", min_size=1, max_size=7), max_size=5))
def test_round_trip_of_any_text_of_known_characters(tokenizers, kind, words):
    tokenizer = tokenizers[kind]
    known = {character for text in TEXTS for character in text}
    text = clean(" ".join("".join(c for c in word if c in known) for word in words))
    ids = tokenizer.encode(text)
    assert tokenizer.unk_id not in ids
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", [True, False])
@given(text=ANY_TEXT)
def test_offsets_cover_every_character(kind, split, text):
    tokenizer = SPLIT[kind, split]
    cleaned = tokenizer.clean(text)
    spans = tokenizer.offsets(text)
    assert len(spans) == len(tokenizer.encode(text)) == len(tokenizer.tokens(text))
    assert spans == sorted(spans)
    covered = {place for start, end in spans for place in range(start, end)}
    assert {place for place, character in enumerate(cleaned) if character != " "} <= covered
    assert all(0 <= start <= end <= len(cleaned) for start, end in spans)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_show_the_text_as_written(kind):
    tokenizer = trained(kind, lowercase=True)
    tokens = tokenizer.tokens("  CHEZ  Moi !")
    assert "".join(tokens).replace("▁", "") == "CHEZMoi!"
    assert tokenizer.decode(tokenizer.encode("CHEZ Moi !")) == "chez moi !"


def test_offsets_of_words():
    assert trained("word").offsets("Je  suis\u00a0là.") == [(0, 2), (3, 7), (8, 10), (10, 11)]


def test_space_marks_cover_no_text():
    tokenizer = Tokenizer.train(["ab cd"], TokenizerConfig(kind="bpe", vocab_size=9))
    assert tokenizer.tokens("ab cd") == ["▁", "a", "b", "▁", "c", "d"]
    assert tokenizer.offsets("ab cd") == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I'm home.", ["I'm", "home", "."]),
        ("va !", ["va", "!"]),
        ("L'homme dit: «non», 10.5 e.g. 3,4", ["L'homme", "dit", ":", "«", "non", "»", ",", "10.5", "e.g", ".", "3,4"]),
        ("chez-moi - oui ... 'quoted'", ["chez-moi", "-", "oui", ".", ".", ".", "'", "quoted", "'"]),
        ("a_b a,b 10:30 c:d", ["a", "_", "b", "a", ",", "b", "10:30", "c", ":", "d"]),
        ("हिन्दी, 中文。", ["हिन्दी", ",", "中文", "。"]),
    ],
)
def test_punctuation_is_split_from_words(text, tokens):
    assert trained("word").tokens(text) == tokens
    assert trained("word", split_punctuation=False).tokens(text) == text.split()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_do_not_mix_words_and_punctuation(kind):
    texts = ["home. home, home. (home) home!"] * 31
    pieces = Tokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=99)).pieces()
    mixed = [piece for piece in pieces[4:] if any(c.isalpha() for c in piece) and any(c in ".,()!" for c in piece)]
    assert not mixed
    assert "▁home" in pieces
    loose = Tokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=99, split_punctuation=False)).pieces()
    assert "▁home." in loose


def test_textbook_sentences():
    texts = ["go .", "i lost .", "he's calm .", "i'm home ."]
    words = Tokenizer.train(texts, TokenizerConfig(kind="word", lowercase=True))
    assert words.encode("I'm home.") == words.encode("i'm home .")
    assert [words.decode(words.encode(text)) for text in texts] == texts


def test_decoded_spacing_follows_the_training_text():
    french = Tokenizer.train(["Va !", "Oui, toi.", "Non ?"], TokenizerConfig(kind="word"))
    english = Tokenizer.train(["Go!", "Yes, you.", "No?"], TokenizerConfig(kind="word"))
    assert french.decode(french.encode("Oui, Va!")) == "Oui, Va !"
    assert english.decode(english.encode("Yes , Go !")) == "Yes, Go!"


def test_rare_words_are_unknown():
    tokenizer = Tokenizer.train(["a a a b b c"], TokenizerConfig(kind="word", min_frequency=2))
    assert tokenizer.pieces()[4:] == ["a", "b"]
    assert tokenizer.encode("a c b") == [4, 3, 5]
    assert tokenizer.decode([4, 3, 5]) == "a <unk> b"
    unigram = Tokenizer.train(["aa aa bb"], TokenizerConfig(kind="unigram", min_frequency=2, vocab_size=11))
    assert unigram.encode("b")[-1] == 3
    assert 3 not in unigram.encode("aa")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 37])
def test_vocabulary_keeps_to_its_size(kind, size):
    texts = ["".join(chr(0x4E00 + n + k) for k in range(7)) + " ab ab" for n in range(97)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=size))
    assert tokenizer.vocab_size <= size
    assert max(tokenizer.encode(" ".join(texts))) < size


@pytest.mark.parametrize("kind", KINDS)
def test_normalisation(kind):
    nfc, none = trained(kind), trained(kind, normalize="none")
    assert nfc.encode("ou\u0300") == nfc.encode("où")
    assert none.clean("ou\u0300") == "ou\u0300"
    assert trained(kind, normalize="nfkc").encode("①") == trained(kind, normalize="nfkc").encode("1")


def test_text_that_is_no_text():
    with pytest.raises(DataError, match=r"lone surrogate U\+DC80 at character 2"):
        trained("bpe").encode("a\udc80")
    with pytest.raises(DataError, match="no text to train a tokenizer on: every line is empty"):
        Tokenizer.train(["", " \u00a0"], TokenizerConfig())


@pytest.mark.parametrize("token", [-1, 10_000])
def test_numbers_outside_the_vocabulary(tokenizers, token):
    with pytest.raises(DataError, match=rf"token {token} is not in the vocabulary of \d+ tokens"):
        tokenizers["word"].decode([token])


@pytest.mark.parametrize("kind", KINDS)
def test_batch_equals_one_by_one(tokenizers, kind):
    texts = [*TEXTS, "", "inconnu ?"]
    assert tokenizers[kind].encode_batch(iter(texts)) == [tokenizers[kind].encode(text) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(tmp_path, tokenizers, kind):
    tokenizer, path = tokenizers[kind], tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.config == tokenizer.config
    assert loaded.pieces() == tokenizer.pieces()
    assert loaded.digest() == tokenizer.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.to_bytes() == path.read_bytes()
    text = "Où est « Œdipe », chez moi ?"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("kind", KINDS)
def test_training_depends_on_the_text_alone(kind):
    assert trained(kind).digest() == trained(kind).digest()
    assert trained(kind).digest() != trained(kind, lowercase=True).digest()


@pytest.mark.slow
def test_training_is_the_same_in_every_process():
    program = (
        "import random; from headwise.data.tokenizers import *\n"
        "r = random.Random(3); words = [''.join(r.choices('abcdefgh', k=r.randint(1, 9))) for _ in range(997)]\n"
        "texts = [' '.join(r.choices(words, k=11)) for _ in range(499)]\n"
        "for kind in ('word', 'char', 'bpe', 'unigram'):\n"
        "    print(Tokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=307)).digest())\n"
    )
    command = [sys.executable, "-c", program]
    outputs = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(3)}
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 4


def altered(**changes):
    document = json.loads(trained("word").to_bytes())
    for path, value in changes.items():
        node = document
        *parents, last = path.split("__")
        for parent in parents:
            node = node[parent]
        node[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "JSONDecodeError"),
        (b"[1]", "TypeError"),
        (b"{}", "KeyError: 'format'"),
        (b"[" * 100_000, "RecursionError"),
        (b"\xff\xff", "UnicodeDecodeError"),
        (altered(version=2), "format 'headwise-tokenizer' version 2 is not known"),
        (altered(format="other"), "format 'other' version 1 is not known"),
        (altered(config__kind="worf"), "ValidationError"),
        (altered(spacing__quotes=3), "ValidationError"),
        (altered(tokenizer={}), "KeyError: 'model'"),
        (altered(tokenizer__model__unk_token="<unk>"), "its model.unk_token is not what"),
        (altered(tokenizer__model__unk_token=" <pad>"), "its model.unk_token is not what its configuration makes"),
        (altered(tokenizer__padding={"strategy": "BatchLongest"}), "its padding is not what its configuration makes"),
        (altered(tokenizer__truncation={"max_length": 1}), "its truncation is not what its configuration makes"),
        (altered(tokenizer__normalizer={"type": "Lowercase"}), "its normalizer is not what its configuration makes"),
        (altered(tokenizer__pre_tokenizer=None), "its pre_tokenizer is not what its configuration makes"),
        (altered(config__lowercase=True), "its normalizer is not what its configuration makes"),
        (altered(tokenizer__model__vocab={" <unk>": 3}), "tokens 0 to 3 are not pad, bos, eos, unk"),
        (
            altered(tokenizer__model__vocab={" <pad>": 0, " <bos>": 1, " <eos>": 2, " <unk>": 3, "a": 9}),
            "the token numbers have gaps",
        ),
        (
            altered(
                tokenizer__added_tokens=[
                    {"id": 2, "content": " <eos>", "single_word": False, "lstrip": False, "rstrip": False}
                    | {"normalized": False, "special": True}
                ]
            ),
            "it has added tokens",
        ),
    ],
)
def test_files_that_are_no_tokenizer(tmp_path, data, message):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=rf"tokenizer\.json: not a tokenizer file of this package: .*{message}"
    ) as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)


@given(st.data())
def test_damaged_files_raise_nothing_but_data_errors(data):
    content = bytearray(SPLIT["bpe", True].to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        tokenizer = Tokenizer.from_bytes(bytes(content), "damaged")
    except DataError:
        return
    assert len(tokenizer.tokens("Je suis là")) == len(tokenizer.encode("Je suis là"))


def test_missing_and_oversized_files(tmp_path):
    with pytest.raises(DataError, match="none: cannot be read: No such file"):
        Tokenizer.load(tmp_path / "none")
    with (tmp_path / "big").open("wb") as stream:
        stream.truncate((1 << 28) + 1)
    with pytest.raises(DataError, match="big: larger than 268,435,456 bytes: not a tokenizer file"):
        Tokenizer.load(tmp_path / "big")


def test_config():
    with pytest.raises(ConfigError, match=r"unknown key 'vocab'; did you mean 'vocab_size'\?"):
        build(TokenizerConfig, {"vocab": 3}, "recipe.toml")
    with pytest.raises(ConfigError, match="vocab_size: must be 8 or more"):
        build(TokenizerConfig, {"vocab_size": 7}, "recipe.toml")
    assert all(field.description for field in TokenizerConfig.model_fields.values())
