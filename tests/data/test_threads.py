"""The library that trains tokenizers starts threads where they gain time, and leaves the environment alone."""

import os

import pytest

from headwise.data import threads, tokenizers
from headwise.data.tokenizers import Tokenizer, TokenizerConfig

NAME = "TOKENIZERS_PARALLELISM"


@pytest.mark.parametrize(
    ("texts", "cores", "given", "inside"),
    [
        (20_000, 2, None, None),
        (20_000, 1, None, "false"),
        (300, 2, None, "false"),
        (300, 2, "true", "true"),
    ],
)
def test_threads_are_for_many_texts_on_several_cores(monkeypatch, texts, cores, given, inside):
    monkeypatch.setattr(threads, "cores", lambda: cores)
    monkeypatch.delenv(NAME, raising=False)
    if given:
        monkeypatch.setenv(NAME, given)
    with threads.threads_for(texts):
        assert os.environ.get(NAME) == inside
    assert os.environ.get(NAME) == given


def test_a_tokenizer_of_few_texts_is_trained_by_one_thread(monkeypatch):
    asked = []
    monkeypatch.setattr(tokenizers, "threads_for", lambda texts: asked.append(texts) or threads.threads_for(texts))
    Tokenizer.train(["a b"] * 300, TokenizerConfig(kind="word"))
    assert asked == [300]
