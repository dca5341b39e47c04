"""The tagger: sentences in, tags out, as text and JSON; its scores on a small treebank."""

import json
import math

import pytest
import torch
from torch import nn

from headwise.data.tokenizers import TokenizerConfig
from headwise.errors import ConfigError, DataError, QuotingWarning, Unsupported
from headwise.models.token_encoders import AttentionConfig, WindowConfig
from headwise.predictors.classes import count_scores, counted
from headwise.predictors.predictor import Predictor
from headwise.records import record
from headwise.tasks.tagging import tagger as tagger_module
from headwise.tasks.tagging.model import LinearChain, PoolingConfig, build_token_tagger
from headwise.tasks.tagging.tagger import Chosen, Tagger, most_frequent
from headwise.tasks.text.tagged import Tagged, TaggedConfig
from headwise.tasks.text.words import SpellingConfig, WordTokenizer, collate_words, encode_words

TAGS = ["DET", "NOUN", "VERB"]
TRAIN = [
    Tagged(("a", "saw"), ("DET", "NOUN"), 1),
    Tagged(("dogs", "saw"), ("NOUN", "VERB"), 2),
    Tagged(("the", "saw"), ("DET", "NOUN"), 3),
    Tagged(("the", "cats"), ("DET", "NOUN"), 4),
]


@pytest.fixture
def tagger():
    torch.manual_seed(0)
    tokenizer = WordTokenizer.train(["saw", "the", "dog", "cat"], TokenizerConfig(kind="char"), SpellingConfig())
    config = WindowConfig(d_model=10, d_ff=7)
    model = build_token_tagger(config, PoolingConfig(), tokenizer.vocab_size, len(TAGS)).eval()
    data = TaggedConfig(train="unread", tags_key="pos")
    return Tagger(model, tokenizer, TAGS, most_frequent(TRAIN), data)


def always(tagger, tag):
    """The tagger with a model that says one thing."""
    nn.init.zeros_(tagger.model.head.weight)
    nn.init.zeros_(tagger.model.head.bias)
    tagger.model.head.bias.data[TAGS.index(tag)] = 1.0
    return tagger


def test_every_word_has_a_tag_in_the_order_given(tagger):
    assert isinstance(tagger, Predictor)
    texts = ["the dogs saw a cat", "", "a", " \u00a0", "dogs  saw\u00a0zz"]
    found = tagger.tag(texts)
    assert list(map(len, found)) == [5, 0, 1, 0, 3]
    assert found == [tagger.tag([text])[0] for text in texts]
    assert {tag for tags in found for tag in tags} <= set(TAGS)
    assert tagger.predict([]) == []
    assert tagger.predict([tagger.parse("")]) == [Chosen([], [])]


def test_many_sentences_are_tagged_in_several_batches(tagger):
    texts = ["a saw the dogs " * (place % 97 + 1) for place in range(60)]
    assert tagger.tag(texts)[41] == tagger.tag([texts[41]])[0]


def test_what_is_written(tagger):
    item = tagger.parse("déjà  vu/x")
    assert item.words == ("déjà", "vu/x")
    assert tagger.write(item, Chosen(["DET", "NOUN"], [0.5, 0.75]), "text") == ["déjà/DET vu/x/NOUN"]
    (line,) = tagger.write(item, Chosen(["DET", "NOUN"], [0.5, 0.75]), "json")
    assert "déjà" in line
    assert json.loads(line) == {
        "words": ["déjà", "vu/x"],
        "pos": ["DET", "NOUN"],
        "probabilities": [0.5, 0.75],
    }


def test_what_is_written_can_be_read(tagger, tmp_path):
    items = [tagger.parse("a saw"), tagger.parse("dogs")]
    lines = [tagger.write(item, tags, "json")[0] for item, tags in zip(items, tagger.predict(items), strict=True)]
    (tmp_path / "out.jsonl").write_text("\n".join(lines))
    found = list(tagger.read(tmp_path / "out.jsonl"))
    assert [item.words for item in found] == [("a", "saw"), ("dogs",)]
    assert [list(item.tags) for item in found] == tagger.tag(items)
    (tmp_path / "in.txt").write_text("a saw\n\ndogs\n")
    assert [item.words for item in tagger.read(tmp_path / "in.txt")] == [("a", "saw"), (), ("dogs",)]


def test_scores_are_those_counted_by_hand(tagger):
    examples = [
        Tagged(("the", "saw"), ("DET", "NOUN"), 1),
        Tagged(("a", "zebra", "saw"), ("DET", "NOUN", "VERB"), 2),
        Tagged(("lions",), ("X",), 3),
    ]
    scores = always(tagger, "NOUN").evaluate(examples)
    assert scores["accuracy"] == pytest.approx(2 / 6)
    # the, saw, a, saw were seen: one is a noun; zebra and lions were not: one is
    assert (scores["accuracy_seen"], scores["accuracy_unseen"]) == (0.25, 0.5)
    assert scores["unseen"] == pytest.approx(2 / 6)
    # the, saw, a and zebra are right; words that occur once are nouns more often than not
    (baseline,) = tagger.baselines(examples)
    assert (baseline.scores["accuracy"], baseline.count) == (pytest.approx(4 / 6), 6)
    # NOUN: 2 right of 6 predicted and 2 gold; the three others 0
    assert scores["macro_f1"] == pytest.approx(0.5 / 4)
    assert scores["per_tag"] == "DET 0.0000 (2), NOUN 0.5000 (2), VERB 0.0000 (1), X 0.0000 (1)"


def test_shares_of_nothing_are_nan(tagger):
    scores = always(tagger, "DET").evaluate([Tagged(("the", "a"), ("DET", "DET"), 1)])
    assert (scores["accuracy"], scores["macro_f1"], scores["unseen"]) == (1.0, 1.0, 0.0)
    assert math.isnan(scores["accuracy_unseen"])


def test_what_cannot_be_scored(tagger):
    with pytest.raises(DataError, match="there is nothing to score"):
        tagger.evaluate([])
    with pytest.raises(DataError, match="the sentence of line 7 has no tags to compare with; tag all of its words"):
        tagger.evaluate([Tagged(("a",), ("DET",), 6), Tagged(("a",), None, 7)])
    with pytest.raises(ConfigError, match="no option --beam"):
        tagger.options({"beam_size": 3})


def test_one_text_is_one_sentence(tagger):
    assert tagger.tag("the dogs") == tagger.tag(["the dogs"])
    assert tagger.tag(["the dogs", tagger.parse("a")]) == tagger.tag(["the dogs", "a"])


def test_words_that_training_lacks_are_counted(tagger):
    found = tagger.unknown([tagger.parse("a zebra saw a zebra"), tagger.parse("the yak")])
    assert (found.count, found.total, found.examples) == (3, 7, ("zebra", "yak"))
    assert str(found) == "3 of 7 words were never seen in training, or too rarely to be learned: zebra, yak"
    assert math.isnan(tagger.unknown([]).share)


def attending(place):
    """A tagger of letters with attention, and one that reads tokens or words."""
    torch.manual_seed(0)
    tokenizer = WordTokenizer.train(["saw", "the", "dog", "cat"], TokenizerConfig(kind="char"), SpellingConfig())
    config = AttentionConfig(d_model=8, d_ff=11, num_heads=2, encoder_layers=2)
    model = build_token_tagger(config, PoolingConfig(place=place), tokenizer.vocab_size, len(TAGS)).eval()
    return Tagger(model, tokenizer, TAGS, most_frequent(TRAIN), TaggedConfig(train="unread"))


@pytest.mark.parametrize("place", ["before", "after"])
def test_what_each_word_attends_to_is_seen(place):
    made = attending(place)
    found = made.explain("the dog saw a cat")
    assert found.output == made.write(made.parse("the dog saw a cat"), made.predict("the dog saw a cat")[0], "text")[0]
    assert list(found.layers) == [f"encoder.encoder.blocks.{number}.self_attention" for number in range(2)]
    for layer in found.layers.values():
        assert (layer.keys, layer.kind, layer.causal) == (["the", "dog", "saw", "a", "cat"], "self", False)
        assert layer.queries == found.output.split()
        assert layer.weights.shape == (2, 5, 5)
    assert found.row_error < 1e-6


def test_weights_of_letters_are_those_of_their_words():
    made = attending("after")
    rows = encode_words([("a", "dog")], made.tokenizer)
    batch = collate_words(rows, [0])
    with record(made.model) as trace:
        made.model(batch.tokens, batch.pieces)
    letters = next(iter(trace)).weights()[0, 1]
    layer = next(iter(made.explain("a dog").layers.values()))
    assert layer.weights[1, 0, 1] == pytest.approx(letters[0, 1:].sum().item())
    assert layer.weights[1, 1, 0] == pytest.approx(letters[1:, 0].mean().item())


def test_what_cannot_be_looked_at_is_said(tagger):
    with pytest.raises(Unsupported, match=r"no attention to look at; train one that has: .* model.kind=attention"):
        tagger.explain("a")
    with pytest.raises(ConfigError, match="the tags of a sentence cannot be given here; leave the target out"):
        tagger.explain("a", "DET")
    with pytest.raises(ConfigError, match="the sentence is empty; there is nothing to look at"):
        tagger.explain(" ")


def test_the_most_frequent_tag_of_each_word():
    assert most_frequent(TRAIN) == {
        "a": "DET", "saw": "NOUN", "dogs": "NOUN", "the": "DET", "cats": "NOUN", "": "NOUN",
    }  # fmt: skip
    assert most_frequent([]) == {}
    assert most_frequent([TRAIN[0], TRAIN[0]])[""] == "DET"


def test_counts_of_batches_add_up_and_leave_padding_out():
    said, gold = torch.tensor([[0, 1, 2], [1, 1, 0]]), torch.tensor([[0, 2, -1], [1, 3, 4]])
    counts = counted(said, gold, 3)
    assert counts == {
        "predicted_0": 2, "predicted_1": 3, "predicted_2": 0, "predicted_3": 0,
        "gold_0": 1, "gold_1": 1, "gold_2": 1, "gold_3": 2,
        "right_0": 1, "right_1": 1, "right_2": 0, "right_3": 0,
    }  # fmt: skip
    parts = [counted(said[[row]], gold[[row]], 3) for row in range(2)]
    assert {name: parts[0][name] + parts[1][name] for name in counts} == counts
    scores = count_scores(counts, 3)
    assert scores["accuracy"] == pytest.approx(2 / 5)
    # F1 of the four classes that occur: 2/3, 2/4, 0, and 0 for the tags that training lacks
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 4) / 4)


def test_endless_sentences_are_tagged_in_parts(tagger):
    words = ["a", "b"] * (3 * tagger.data.max_len)
    with pytest.warns(QuotingWarning, match=r"has .* words; sentences of more than .* are tagged in parts"):
        (tags,) = tagger.tag([" ".join(words)])
    assert len(tags) == len(words)
    limit = 4 * tagger.data.max_len
    (head,), (tail,) = tagger.tag([" ".join(words[:limit])]), tagger.tag([" ".join(words[limit:])])
    assert tags == head + tail


def test_endless_words_are_read_by_their_beginning_and_many_long_ones_in_parts(tagger, monkeypatch):
    lengths, encode = [], tagger_module.encode_words

    def encoded(*given):
        rows = encode(*given)
        lengths.extend(rows.tokens.lengths.tolist())
        return rows

    monkeypatch.setattr(tagger_module, "encode_words", encoded)
    most = 32 * tagger.data.max_len
    with pytest.warns(QuotingWarning, match=f"or of {most:,} characters, are tagged in parts"):
        found = tagger.tag(["a" * 10 * most, " ".join(["ab" * (most // 6)] * 7)])
    assert [len(tags) for tags in found] == [1, 7]
    # the long word, and parts of 3, 3 and 1 words
    assert len(lengths) == 1 + 3
    assert max(lengths) <= most


@pytest.mark.parametrize("attention", [False, True])
def test_what_transitions_changed_is_shown(tagger, attention, tmp_path):
    if attention:
        tagger = attending("after")
    tagger.model.tagging = LinearChain(3, None)
    with torch.no_grad():
        tagger.model.tagging.between[1, 2] = 9.0
        tagger.model.tagging.last[2] = 9.0
    found = tagger.explain("the saw")
    assert found.output == "the/NOUN saw/VERB"
    header, *rows = found.note.splitlines()[1:]
    assert header.split("  ")[0] == "word"
    assert [row.split()[0] for row in rows] == ["the", "saw"]
    assert "VERB +9.00" in rows[0]
    assert "NOUN +9.00" in rows[1]
    layer = found.layers["tagging"]
    assert (layer.keys, layer.kind, layer.queries) == (TAGS, "tags", ["the/NOUN", "saw/VERB"])
    chosen = tagger.predict(["the saw"])[0]
    assert chosen.probabilities == pytest.approx(layer.weights[0][[0, 1], [1, 2]].tolist())
    assert found.shown() == ([name for name in found.layers if name != "tagging"] if attention else ["tagging"])
    assert found.row_error < 1e-6
    assert found.save(tmp_path / "tags.svg", "tagging").stat().st_size
