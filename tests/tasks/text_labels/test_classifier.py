"""Classifier and regressor: texts in, classes and numbers out, as text and JSON; scores; what they look at."""

import json
import math

import pytest
import torch
from torch import nn

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError, Unsupported
from headwise.models.pooled_encoder import build_pooled_encoder
from headwise.models.pooling import SequencePoolingConfig
from headwise.models.token_encoders import AloneConfig, AttentionConfig, BidirectionalConfig
from headwise.predictors.classes import class_scores
from headwise.predictors.numbers import Scale
from headwise.predictors.predictor import Predictor
from headwise.records import record
from headwise.tasks.text.labelled import Labelled, LabelledConfig
from headwise.tasks.text_labels.classify import Classifier
from headwise.tasks.text_labels.regress import Regressor

CLASSES = {"bad": 2, "fine": 3, "good": 3}
ENCODERS = {
    "token": AloneConfig(d_model=6, d_ff=7),
    "gru": BidirectionalConfig(d_model=6, hidden_dim=3),
    "attention": AttentionConfig(d_model=6, d_ff=7, num_heads=2, encoder_layers=2),
}


def read_by(kind="token", pooling="mean", outputs=3, max_len=20, **data):
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(["a b c d e"], TokenizerConfig(kind="word"))
    config = SequencePoolingConfig(kind=pooling)
    model = build_pooled_encoder(
        ENCODERS[kind], config, tokenizer.vocab_size, outputs, embedding_std=1.0, token_dropout=0.0
    )
    return model.eval(), tokenizer, LabelledConfig(train="unread", max_len=max_len, **data)


def classifier(*given, data=None, **how):
    return Classifier(*read_by(*given, **how, **(data or {})), CLASSES)


def always(made, *logits):
    """The classifier with a model that says one thing."""
    nn.init.zeros_(made.model.head.weight)
    made.model.head.bias.data[:] = torch.tensor(logits)
    return made


def test_every_text_has_a_class_in_the_order_given():
    made = classifier("gru", "max")
    assert isinstance(made, Predictor)
    texts = ["a b", "", "zz", "e d c b a"]
    found = made.classify(texts)
    for text, verdict in zip(texts, found, strict=True):
        assert verdict.probabilities == pytest.approx(made.classify(text)[0].probabilities, abs=1e-6)
        assert set(verdict.probabilities) == set(CLASSES)
        assert list(verdict.probabilities.values()) == sorted(verdict.probabilities.values(), reverse=True)
        assert sum(verdict.probabilities.values()) == pytest.approx(1)
        assert verdict.probability == verdict.probabilities[verdict.label] == max(verdict.probabilities.values())
    assert made.predict([]) == []


def test_many_texts_are_read_in_several_batches():
    made = classifier("gru", max_len=500)
    texts = ["a b c " * (place % 97 + 1) for place in range(60)]
    assert made.predict(texts)[41].probabilities == pytest.approx(made.predict([texts[41]])[0].probabilities, abs=1e-6)


def test_what_is_written_can_be_read(tmp_path):
    made = always(classifier(data={"label_key": "stars"}), 0.0, 0.0, math.log(2.0))
    item = made.parse("  déjà \u00a0vu")
    (verdict,) = made.predict([item])
    assert made.write(item, verdict, "text") == ["good\t0.5000"]
    (line,) = made.write(item, verdict, "json")
    assert "déjà vu" in line
    told = json.loads(line)
    assert told.pop("probabilities") == pytest.approx({"good": 0.5, "bad": 0.25, "fine": 0.25})
    assert told == {"text": "déjà vu", "stars": "good"}
    (tmp_path / "out.jsonl").write_text(line)
    assert list(made.read(tmp_path / "out.jsonl")) == ["déjà vu"]


def test_long_texts_are_cut_with_a_warning():
    made = classifier("gru", "last", max_len=3)
    with pytest.warns(UserWarning, match="1 of 2 texts have more than 3 tokens; only their beginnings are read"):
        long, short = made.predict(["a b c d e", "a b c"])
    assert long.probabilities == pytest.approx(short.probabilities, abs=1e-6)


def test_scores_are_those_counted_by_hand():
    labels = ["good", "bad", "good", "odd"]
    examples = [Labelled(f"a{place}", label, place) for place, label in enumerate(labels)]
    scores = always(classifier(), 0.0, 0.0, math.log(2.0)).evaluate(examples)
    assert scores["accuracy"] == 0.5
    # good: 2 right of 4 said and 2 gold; bad and odd: 0
    assert scores["macro_f1"] == pytest.approx(2 / 3 / 3)
    # the class that training lacks has no probability
    assert scores["loss"] == pytest.approx((2 * math.log(2) + math.log(4)) / 3)
    # of those scored, good is the most frequent, whatever training has
    (baseline,) = classifier().baselines(examples)
    assert (baseline.name, baseline.scores, baseline.count) == (
        "majority",
        {"accuracy": 0.5, "macro_f1": pytest.approx(2 / 3 / 3)},
        4,
    )
    assert scores["confused"] == "bad as good (1), odd as good (1)"
    assert scores["per_class"].startswith("good precision 0.500 recall 1.000 F1 0.667 (2), bad precision 0.000 recall")
    with pytest.raises(DataError, match="there is nothing to score"):
        classifier().evaluate([])


def test_many_classes_are_told_in_part():
    names = [f"c{place:02}" for place in range(43)]
    assert class_scores(names, names).each.endswith("c39 precision 1.000 recall 1.000 F1 1.000 (1), and 3 more")
    assert class_scores(names, names)[::2] == (1.0, "")


def test_a_number_is_told_on_the_scale_of_the_data():
    made = Regressor(*read_by(outputs=1), Scale(100.0, 20.0))
    always(made, 0.5)
    assert made.predict(["a", ""]) == made.predict("a") * 2 == [110.0, 110.0]
    assert made.write("a", 110.0, "text") == ["110"]
    assert json.loads(made.write("a", 110.0, "json")[0]) == {"text": "a", "label": 110.0}
    examples = [Labelled("a", 100.0, 1), Labelled("b", 140.0, 2)]
    assert made.evaluate(examples) == pytest.approx({"mae": 20.0, "rmse": math.sqrt(500), "r2": 1 - 1000 / 800})
    (baseline,) = made.baselines(examples)
    assert baseline.scores == pytest.approx({"mae": 20.0, "rmse": 800**0.5, "r2": 1 - 1600 / 800})
    assert math.isnan(made.evaluate([Labelled("a", 100.1, 1), Labelled("b", 100.1, 2)])["r2"])
    with pytest.raises(DataError, match="there is nothing to score"):
        made.evaluate([])


def test_words_that_training_lacks_are_counted():
    assert str(classifier().unknown(["a zz", "b"])).startswith("1 of 3 words was never seen in training")
    with pytest.raises(ConfigError, match="no option --beam"):
        classifier().options({"beam_size": 3})


def regressor(*how):
    return Regressor(*read_by(*how, outputs=1), Scale(0.0, 1.0))


@pytest.mark.parametrize("made", [classifier, regressor])
def test_attention_pooling_shows_its_weights(made):
    predictor = made("attention", "attention")
    found = predictor.explain("a c e")
    assert found.source == "a c e"
    assert found.shown() == ["pooling.attention"]
    pooled = found.layers["pooling.attention"]
    assert (pooled.queries, pooled.keys, pooled.kind) == ([found.output], ["a", "c", "e"], "pooled")
    model, ids = predictor.model, predictor.tokenizer.encode("a c e")
    with record(model) as trace, torch.no_grad():
        model(torch.tensor([ids]), torch.tensor([3]))
    for name, layer in found.layers.items():
        assert torch.equal(torch.tensor(layer.weights), trace[name].weights()[0].double())
    assert list(found.layers)[:2] == [f"encoder.encoder.blocks.{place}.self_attention" for place in range(2)]
    assert found.row_error < 1e-6


def test_a_learned_token_in_front_stands_in_the_map():
    found = classifier("attention", "cls").explain("a c")
    assert {tuple(layer.keys) for layer in found.layers.values()} == {("<cls>", "a", "c")}
    assert next(iter(found.layers.values())).weights.shape == (2, 3, 3)


@pytest.mark.parametrize("kind", ["token", "attention"])
def test_the_maximum_shows_from_where_it_takes(kind):
    made = classifier(kind, "max")
    found = made.explain("a c e")
    model, ids = made.model, torch.tensor([made.tokenizer.encode("a c e")])
    with torch.no_grad():
        places = model.states(ids, torch.tensor([3]))[0][0].argmax(0).tolist()
    assert found.layers["pooling"].weights[0, 0].tolist() == pytest.approx([places.count(n) / 6 for n in range(3)])
    assert found.shown() == ["pooling"]
    assert len(found.layers) == (1 if kind == "token" else 3)


def test_what_cannot_be_looked_at_is_said():
    with pytest.raises(Unsupported, match=r"no attention to look at; .* pooling.kind=attention"):
        classifier("gru", "mean").explain("a")
    with pytest.raises(ConfigError, match="the answer for a text cannot be given here; leave the target out"):
        classifier("attention").explain("a", "good")
    with pytest.raises(ConfigError, match="the text is empty; there is nothing to look at"):
        classifier("attention").explain(" ")


def test_a_picture_of_one_row_is_drawn(tmp_path):
    found = classifier("gru", "attention").explain("a c e")
    page = found.page()
    # no second map of the only head
    assert len(page.axes) == 1
    assert (page.axes[0].get_ylabel(), page.axes[0].get_xlabel()) == ("answer", "token (attends to)")
    assert found.save(tmp_path / "a.png").stat().st_size > 1000
