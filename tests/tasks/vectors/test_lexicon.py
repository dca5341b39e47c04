"""Neighbours, analogies, vectors and scores of a handful of words whose vectors are set by hand."""

import json
import math

import numpy as np
import pytest
import torch

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.tasks.text.vectors import load_vectors
from headwise.tasks.vectors.contexts import ContextConfig
from headwise.tasks.vectors.lexicon import Lexicon, Looking, WordVectors
from headwise.tasks.vectors.word_tests import Question, WordLabel, WordPair, probe

# gender, royalty, food
VECTORS = {
    "king": (1, 3, 0),
    "queen": (-1, 3, 0),
    "man": (1, 0, 0),
    "woman": (-2, 0, 0),
    "bread": (0, 0, 1),
    "cheese": (0.1, 0, 1),
    "-": (0, -1, 0),
}


@pytest.fixture
def lexicon():
    words = list(VECTORS)
    text = "".join(f"{word}\n" * (20 - place) for place, word in enumerate(words))
    tokenizer = Tokenizer.train(text.splitlines(), TokenizerConfig(kind="word", lowercase=True))
    model = WordVectors(tokenizer.vocab_size, 3)
    torch.manual_seed(0)
    with torch.no_grad():
        for place, word in enumerate(tokenizer.pieces()[4:], 4):
            model.words.weight[place] = torch.tensor(VECTORS[word])
        torch.nn.init.normal_(model.contexts.weight)
    counts = np.array([0, 0, 0, 0, *range(20, 20 - len(words), -1)])
    return Lexicon(model.eval(), tokenizer, counts, ContextConfig(subsample=0.0), "skip-gram")


def nearest(lexicon, text, options=None):
    return lexicon.predict([lexicon.parse(text)], options)[0]


def test_neighbours_are_by_cosine(lexicon):
    found = nearest(lexicon, " King").neighbours
    assert list(found)[:2] == ["queen", "man"]
    assert found["queen"] == pytest.approx(8 / 10)
    assert found["man"] == pytest.approx(1 / math.sqrt(10))
    assert found["woman"] == pytest.approx(-1 / math.sqrt(10))
    assert "king" not in found
    # equal cosines: the more frequent word first
    assert list(nearest(lexicon, "bread").neighbours) == ["cheese", "king", "queen", "man", "woman", "-"]
    assert len(nearest(lexicon, "king", Looking(2)).neighbours) == 2


def test_words_are_added_and_subtracted_at_unit_length(lexicon):
    found = nearest(lexicon, "king - man + woman")
    k, m, w = ([x / math.hypot(*VECTORS[word]) for x in VECTORS[word]] for word in ("king", "man", "woman"))
    assert found.vector == pytest.approx([a - b + c for a, b, c in zip(k, m, w, strict=True)])
    assert next(iter(found.neighbours)) == "queen"
    assert {"king", "man", "woman"}.isdisjoint(found.neighbours)
    assert nearest(lexicon, "bread king").neighbours == nearest(lexicon, "bread + king").neighbours
    assert nearest(lexicon, "-").vector == (0.0, -1.0, 0.0)
    assert nearest(lexicon, "- - -").neighbours  # a lone sign is a word
    with pytest.raises(ConfigError, match=r"'king -': a word is missing behind -"):
        lexicon.parse("king -")
    with pytest.raises(ConfigError, match=r"no word: give one, or several with \+ and - between them"):
        lexicon.parse(" ")


def test_unknown_words_are_named(lexicon):
    found = nearest(lexicon, "king - zebra + yak")
    assert (found.neighbours, found.vector, found.unknown) == ({}, None, ("zebra", "yak"))
    item = lexicon.parse("king - zebra + yak")
    assert lexicon.write(item, found, "text") == ["king - zebra + yak\tunknown: zebra, yak"]
    assert json.loads(lexicon.write(item, found, "json")[0])["unknown"] == ["zebra", "yak"]
    assert str(lexicon.unknown([item])).startswith("2 of 3 words were never seen in training")
    assert lexicon.write(item, found, "text", Looking(vectors=True)) == []
    with pytest.raises(ConfigError, match="no vector for: zebra, yak"):
        lexicon.explain(item)


def test_how_answers_are_written(lexicon):
    item, found = lexicon.parse("king"), nearest(lexicon, "king", Looking(2))
    assert lexicon.write(item, found, "text") == ["king\tqueen 0.80, man 0.32"]
    assert lexicon.write(item, found, "text", Looking(2)) == ["queen\t0.8000", "man\t0.3162"]
    assert json.loads(lexicon.write(item, found, "json")[0])["neighbours"]["queen"] == pytest.approx(0.8)
    assert lexicon.options({}) is None
    with pytest.raises(ConfigError, match="no option --top-k"):
        lexicon.options({"top_k": 3})
    with pytest.raises(ConfigError, match="leave the target out"):
        lexicon.explain("king", "queen")


def test_written_vectors_are_read_back_to_the_bit(lexicon, tmp_path):
    with torch.no_grad():
        lexicon.model.words.weight[4:].normal_().mul_(torch.logspace(-30, 30, 7)[:, None])
    options = lexicon.options({"vectors": True})
    items = lexicon.everything(Looking(None, True))
    lines = [lexicon.write(item, found, "text", options)[0] for item, found in
             zip(items, lexicon.predict(items, options), strict=True)]  # fmt: skip
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    matrix, coverage = load_vectors(tmp_path / "vectors.txt", lexicon.tokenizer, generator=torch.Generator())
    assert torch.equal(matrix[4:], lexicon.model.words.weight[4:])
    assert coverage.covered == coverage.types == 7
    told = json.loads(lexicon.write(items[0], lexicon.predict(items[:1], options)[0], "json", options)[0])
    assert np.float32(told["vector"]).tolist() == matrix[4].tolist()


def test_similarities_and_analogies(lexicon):
    pairs = [WordPair("King", "queen", 9.0, 1), WordPair("king", "bread", 1.0, 2)]
    pairs += [WordPair("bread", "cheese", 10.0, 3), WordPair("man", "bread", 1.0, 4), WordPair("man", "yak", 5.0, 5)]
    # cosines 0.8, 0, 0.995, 0 against 9, 1, 10, 1: the same ranks
    assert lexicon.evaluate(pairs) == {"spearman": pytest.approx(1.0), "known": 4.0, "given": 5.0}
    questions = [
        Question("man", "king", "woman", "queen", "royal", 1),
        Question("king", "bread", "queen", "man", "food", 2),
        Question("yak", "a", "b", "c", "food", 3),
    ]
    found = lexicon.evaluate(questions)
    assert (found["accuracy"], found["known"], found["given"]) == (0.5, 2.0, 3.0)
    assert found["sections"] == "royal 1.000 of 1, food 0.000 of 1"
    with pytest.raises(DataError, match="none of the pairs of words has all its words in the vocabulary"):
        lexicon.evaluate(pairs[-1:])


def test_labels_of_forms_of_one_word_are_counted_together(lexicon):
    labels = [WordLabel("King", "A", 1, 3), WordLabel("king", "B", 2, 2), WordLabel("yak", "A", 3)]
    with pytest.raises(DataError, match="1 words with a vector and a label are too few for a probe; give 20 or more"):
        lexicon.evaluate(labels)


def drawn(words=200, dim=6):
    torch.manual_seed(1)
    vectors = torch.randn(words, dim)
    return vectors, ["plural" if vector[3] > 0 else "singular" for vector in vectors]


def test_a_probe_finds_the_dimension_that_carries_a_label_and_no_random_one():
    vectors, labels = drawn()
    found = probe(vectors, labels)
    assert found.accuracy > 0.9
    assert found.dimensions[0][0] == 3
    # the share of variance between the two halves of a normal variable is 2 / pi
    assert found.dimensions[0][1] == pytest.approx(2 / math.pi, abs=0.08)
    assert found.control < 0.7
    assert 0.4 < found.majority < 0.7
    assert found.words == (160, 40)
    scores = found.scores()
    assert scores["selectivity"] == pytest.approx(found.accuracy - found.control)
    assert scores["top_6_accuracy"] == pytest.approx(found.accuracy)
    assert probe(vectors, labels) == found
    assert probe(vectors * 1000 + 5, labels).accuracy == pytest.approx(found.accuracy)
    with pytest.raises(DataError, match="have one label; give words with several"):
        probe(vectors, ["plural"] * 200)


def test_the_share_between_labels_is_that_of_a_loop():
    from headwise.tasks.vectors.word_tests import _between

    x = np.array([[-3.0, -0.5], [-1.0, 0.5], [1.0, -0.5], [3.0, 0.5]])
    # first column: group means -2 and 2: 4 of a variance of 5; second: none
    assert _between(x, np.array(["a", "a", "b", "b"])).tolist() == pytest.approx([0.8, 0.0])
