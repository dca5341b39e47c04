"""What an explanation knows of its tokens: the word that each is a part of, and which stand for no text."""

from types import SimpleNamespace

import pytest
import torch

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.predictors import looking
from headwise.predictors.looking import BOS, EOS, tokens_of, written_tokens

TEXTS = ["the cats sleep .", "no cat sleeps ."] * 5


def tokenizer(kind, **options):
    return Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=24, **options))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("spaces", ["joined", "kept"])
def test_tokens_of_a_word_have_its_number(kind, spaces):
    made = tokenizer(kind, spaces=spaces)
    ids = [*made.encode("the nocats sleep ."), made.eos_id]
    found = tokens_of(made, ids, [made.shown(token) for token in ids])
    parts = ["" for _ in range(4)]
    for label, word in zip(found.labels, found.words, strict=True):
        # a character that is a space is a part of no word; of pieces it is one of the word behind it
        assert (word < 0) == (label == "<eos>" or (kind == "char" and label in (" ", "▁")))
        if word >= 0:
            parts[word] += label.strip(" ▁")
    assert parts == ["the", "nocats", "sleep", "."]
    assert max(found.words.count(word) for word in range(4)) > 1
    assert list(found.special) == [len(ids) - 1]


def test_a_word_is_no_part_of_another():
    made = tokenizer("word")
    ids = made.encode("the cats .")
    assert tokens_of(made, ids, ["the", "cats", "."]).words == [0, 1, 2]


def test_other_numbers_may_be_special_too():
    made = tokenizer("bpe")
    ids = [made.bos_id, *made.encode("cat"), 4]
    found = tokens_of(made, ids, list(map(str, ids)), 4)
    assert {0, len(ids) - 1} <= set(found.special)
    assert found.words[0] == found.words[-1] == -1


def test_what_is_written_has_an_end_or_a_begin():
    made = tokenizer("bpe")
    ids = made.encode("the cats")
    ended, begun = written_tokens(made, ids)
    assert (ended.labels[-1], ended.special) == (EOS, [len(ids)])
    assert (begun.labels[0], begun.special) == (BOS, [0])
    assert ended.words[:-1] == begun.words[1:]


@pytest.mark.usefixtures("untyped")
def test_calls_with_a_mask_for_each_head_and_for_all_are_allowed_together():
    def called(keep):
        return SimpleNamespace(call=SimpleNamespace(keep=lambda: keep, shape=(1, 2, 1, 3)))

    one, each = torch.tensor([[[[True, False, True]]]]), torch.tensor([[[[True, True, False]], [[False, True, True]]]])
    found = looking.allowed(SimpleNamespace(calls=[called(one), called(each)]))
    assert found.tolist() == [[[True, False, True], [True, True, False]], [[True, False, True], [False, True, True]]]
