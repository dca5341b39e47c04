import gzip

import pytest
import torch

from headwise.errors import ConfigError, DataError
from headwise.textbook import (
    Vocab,
    build_array_nmt,
    load_array,
    load_data_nmt,
    preprocess_nmt,
    read_data_nmt,
    tokenize_nmt,
)
from headwise.textbook.data import FRA_ENG

PAIRS = [
    ("Go.", "Va !", "CC-BY 2.0"),
    ("I go.", "J'y va !", "CC-BY 2.0"),
    ("I'm home.", "Je suis chez moi.", "CC-BY 2.0"),
    ("I'm home, I go.", "Je suis chez moi, va !", "CC-BY 2.0"),
]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "fra.txt"
    path.write_text("".join("\t".join(columns) + "\n" for columns in PAIRS), encoding="utf-8")
    return path


def rows(data_iter):
    """What an epoch holds, whatever its order."""
    return sorted(tuple(part[row].tolist() for part in batch) for batch in data_iter for row in range(len(batch[0])))


def words(vocab, row):
    return vocab.to_tokens(row)


SPECIAL = ["<pad>", "<bos>", "<eos>"]


def test_tokens_have_numbers_and_numbers_tokens():
    vocab = Vocab([["go", "."], ["i'm", "home", "."], ["go", "home", "."]], reserved_tokens=SPECIAL)
    assert [vocab[name] for name in ("<unk>", *SPECIAL)] == [0, 1, 2, 3]
    assert vocab.to_tokens(vocab[["go", "home", "."]]) == ["go", "home", "."]
    assert vocab.to_tokens(vocab["i'm"]) == "i'm"
    assert vocab["nowhere"] == vocab.unk == 0
    assert vocab[("go", "nowhere")] == [vocab["go"], 0]
    assert len(vocab) == 8 == len(vocab.idx_to_token) == len(vocab.token_to_idx)
    # the most frequent first, equal ones in the order of the text
    assert vocab.token_freqs == [(".", 3), ("go", 2), ("home", 2), ("i'm", 1)]
    assert vocab.idx_to_token[4:] == [".", "go", "home", "i'm"]


def test_rare_tokens_are_unknown():
    vocab = Vocab([["go", "home"], ["go"]], min_freq=2)
    assert vocab.idx_to_token == ["<unk>", "go"]


def test_a_plain_list_of_tokens_and_none():
    assert Vocab(["a b", "c", "c"]).idx_to_token == ["<unk>", "c", "a b"]
    assert Vocab().idx_to_token == ["<unk>"]


def by_the_letter(text):
    """As the page does it: a character at a time."""
    text = text.replace("\u202f", " ").replace("\xa0", " ").lower()
    out = [" " + char if i and char in ",.!?" and text[i - 1] != " " else char for i, char in enumerate(text)]
    return "".join(out)


@pytest.mark.parametrize(
    "text", ["Go.\tVa\u202f!\n", "...?!", "a\xa0, B,c . d\n.e", "", "\u00c9t\u00e9?", ",,\t,"], ids=range(6)
)
def test_marks_stand_apart(text):
    assert preprocess_nmt(text) == by_the_letter(text)


def test_lines_become_words():
    text = "go .\tva !\ni  go .\tj'y va !\tCC-BY\nno tab\n\nhome\tchez moi\n"
    source, target = tokenize_nmt(text)
    assert source == [["go", "."], ["i", "go", "."], ["home"]]
    assert target == [["va", "!"], ["j'y", "va", "!"], ["chez", "moi"]]
    assert tokenize_nmt(text, 2) == (source[:2], target[:2])
    assert tokenize_nmt(text, num_examples=1)[0] == source[:1]


def test_rows_of_numbers():
    vocab = Vocab([["go", "home", "."]], reserved_tokens=SPECIAL)
    array, valid_len = build_array_nmt([["go", "."], ["go", "home", "now", "."]], vocab, 4)
    assert array.tolist() == [[4, 6, 3, 1], [4, 5, 0, 3]]
    assert valid_len.tolist() == [3, 4]
    with pytest.raises(ConfigError, match=r"give Vocab reserved_tokens=\['<pad>', '<bos>', '<eos>'\]"):
        build_array_nmt([["go"]], Vocab(["go"]), 4)


def test_arrays_in_batches():
    X, y = torch.arange(10).reshape(5, 2), torch.arange(5)
    still = [(a.tolist(), b.tolist()) for a, b in load_array((X, y), 2, is_train=False)]
    assert still == [([[0, 1], [2, 3]], [0, 1]), ([[4, 5], [6, 7]], [2, 3]), ([[8, 9]], [4])]
    shuffled = torch.cat([b for _, b in load_array([X, y], 2)])
    assert sorted(shuffled.tolist()) == [0, 1, 2, 3, 4]
    assert shuffled.tolist() != [0, 1, 2, 3, 4]


def test_the_whole_text(pairs):
    text = read_data_nmt(pairs)
    assert text.split("\n")[0] == "Go.\tVa !\tCC-BY 2.0"
    assert tokenize_nmt(preprocess_nmt(text), 1) == ([["go", "."]], [["va", "!"]])


def test_rows_are_ended_padded_and_counted(pairs):
    data_iter, src_vocab, tgt_vocab = load_data_nmt(3, 8, path=pairs)
    epoch = rows(data_iter)
    assert [len(batch[0]) for batch in data_iter] == [3, 1]
    assert len(epoch) == 4
    texts = {
        (" ".join(words(src_vocab, src)), src_len, " ".join(words(tgt_vocab, tgt)), tgt_len)
        for src, src_len, tgt, tgt_len in epoch
    }
    pad = "<pad>"
    assert texts == {
        (f"go . <eos> {pad} {pad} {pad} {pad} {pad}", 3, f"va ! <eos> {pad} {pad} {pad} {pad} {pad}", 3),
        (f"i go . <eos> {pad} {pad} {pad} {pad}", 4, f"<unk> va ! <eos> {pad} {pad} {pad} {pad}", 4),
        (f"i'm home . <eos> {pad} {pad} {pad} {pad}", 4, f"je suis chez moi <unk> <eos> {pad} {pad}", 6),
        (f"i'm home <unk> i go . <eos> {pad}", 7, "je suis chez moi <unk> va ! <eos>", 8),
    }


def test_long_sentences_lose_their_end_but_not_the_end_token(pairs):
    data_iter, src_vocab, tgt_vocab = load_data_nmt(4, 3, path=pairs)
    for src, src_len, tgt, tgt_len in rows(data_iter):
        assert (src_len, tgt_len) == (3, 3)
        assert src[2] == src_vocab["<eos>"]
        assert tgt[2] == tgt_vocab["<eos>"]


def test_examples_are_counted_from_the_first(pairs):
    assert len(rows(load_data_nmt(2, 8, 3, path=pairs)[0])) == 3
    assert len(rows(load_data_nmt(2, 8, None, path=pairs)[0])) == 4


def test_the_order_is_random_and_follows_the_seed(tmp_path):
    path = tmp_path / "many.tsv"
    path.write_text("".join(f"{n} {n}\tx x\n" for n in range(40)), encoding="utf-8")
    data_iter, _, _ = load_data_nmt(40, 4, path=path)
    first, second = (next(iter(data_iter))[0][:, 0].tolist() for _ in range(2))
    assert first != second
    torch.manual_seed(0)
    repeated = [next(iter(data_iter))[0][:, 0].tolist()]
    torch.manual_seed(0)
    assert [next(iter(data_iter))[0][:, 0].tolist()] == repeated


def test_the_file_of_the_book_comes_from_the_data_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    file = tmp_path / FRA_ENG
    file.parent.mkdir()
    file.write_bytes(gzip.compress("".join("\t".join(columns) + "\n" for columns in PAIRS).encode()))
    assert len(rows(load_data_nmt(2, 8)[0])) == 4


def test_a_missing_file_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"fra-eng.tsv.gz: .*`headwise data fetch tatoeba-en-fr`"):
        load_data_nmt(2, 8)
    with pytest.raises(DataError, match=r"path='headwise:phrasebook.en-fr.tsv'"):
        load_data_nmt(2, 8, path=tmp_path / "none.txt")


def test_there_must_be_room_for_a_word(pairs):
    with pytest.raises(ConfigError, match=r"num_steps \(1\)"):
        load_data_nmt(2, 1, path=pairs)
