"""What a model says and how an edit changes it: classes, tags of a chain, numbers; each against a loop."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from headwise.errors import Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.predictors.ablating import Example, ablated, examples, heads_of
from headwise.predictors.looking import Pass
from headwise.predictors.outputs import Outputs, difference, outputs_of
from headwise.predictors.predictor import Predictor
from headwise.records import Mute, edit


class Small(nn.Module):
    """An attention layer with a head of so many outputs, for places or for the whole."""

    def __init__(self, outputs, whole=False):
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.head, self.whole = MultiHeadAttention(6, 3), nn.Linear(6, outputs), whole

    def forward(self, x):
        found = self.head(self.layer(x))
        return found.mean(1) if self.whole else found


class Saying(Predictor):
    """A predictor that is looked at, and never asked."""

    def __init__(self, model, **more):
        self.model = model
        vars(self).update(more)

    def parse(self, text):
        return text

    read = predict = write = evaluate = parse


def seen_of(model, length=5):
    return Pass(model, (torch.randn(1, length, 6, generator=torch.Generator().manual_seed(5)),))


def test_classes_are_told_with_their_names_and_the_likeliest_counts():
    model = Small(2, whole=True)
    predictor, seen = Saying(model, classes={"bad": 3, "good": 4}), seen_of(model)
    before = outputs_of(predictor, seen)
    logs = seen.run().log_softmax(-1).double().numpy()
    np.testing.assert_allclose(before.values, logs, atol=1e-6)
    best = int(logs[0].argmax())
    assert before.chosen == [best]
    with edit(model, Mute("layer", [0])):
        muted = seen.run().log_softmax(-1).double().numpy()
    found = difference(before, outputs_of(predictor, seen, [Mute("layer", [0])]))
    divergence = sum(np.exp(p) * (p - q) for p, q in zip(logs[0], muted[0], strict=True))
    assert found.effect == {
        "divergence": pytest.approx(divergence, abs=1e-6),
        "log_prob": pytest.approx(muted[0, best] - logs[0, best], abs=1e-6),
    }
    (place,) = found.places(["the text"])
    assert (place["place"], place["chosen"]) == ("the text", ["bad", "good"][best])
    assert [name for name, _ in place["likeliest_before"]] == [["bad", "good"][n] for n in np.argsort(-logs[0])]


def test_tags_of_a_chain_are_told_by_their_marginals():
    class Chain:
        def probabilities(self, scores, lens):
            assert lens.tolist() == [5]
            # a chain may leave a tag no chance at all
            return torch.tensor([1.0, 0.0, 0.0]).expand(1, 5, 3)

    model = Small(3)
    model.tagging = Chain()
    found = outputs_of(Saying(model, tags=["A", "B", "C"]), seen_of(model))
    assert found.chosen == [0] * 5
    effect = difference(found, found).effect
    assert effect == {"divergence": 0.0, "log_prob": 0.0}
    assert found.values.min() == -700


def test_numbers_are_told_as_numbers():
    model = Small(1, whole=True)
    seen = seen_of(model)
    before = outputs_of(Saying(model), seen)
    found = difference(before, outputs_of(Saying(model), seen, [Mute("layer", [0, 1])]))
    with edit(model, Mute("layer", [0, 1])):
        change = abs(float(seen.run()) - float(before.values[0, 0]))
    assert change > 0
    assert found.effect == {"change": pytest.approx(change)}
    (place,) = found.places()
    assert abs(place["after"] - place["before"]) == pytest.approx(change)


def test_what_is_no_table_is_refused():
    class Odd(Small):
        def forward(self, x):
            return {"logits": super().forward(x)}

    model = Odd(2)
    with pytest.raises(Unsupported, match="no table of choices"):
        outputs_of(Saying(model, classes={"a": 1, "b": 1}), seen_of(model))


def test_a_head_that_does_nothing_is_needless_and_effects_are_means():
    model = Small(2, whole=True)
    with torch.no_grad():
        # the second head's output reaches nothing
        model.layer.output.weight[:, 2:4] = 0
    predictor = Saying(model, classes={"a": 1, "b": 1})
    given = [Example(seen, outputs_of(predictor, seen)) for seen in (seen_of(model), seen_of(model, 7))]
    assert heads_of(given[0]) == {"layer": 3}
    found = list(ablated(predictor, given, "layer", 3))
    assert [(one.layer, one.head) for one in found] == [("layer", 0), ("layer", 1), ("layer", 2)]
    assert found[1].effect == {"divergence": 0.0, "log_prob": 0.0}
    each = [
        difference(one.outputs, outputs_of(predictor, one.seen, [Mute("layer", 2)])).effect["log_prob"] for one in given
    ]
    assert found[2].effect["log_prob"] == pytest.approx(sum(each) / 2)
    assert found[2].effect["log_prob"] != 0


def test_a_model_without_attention_has_no_heads():
    class Silent(Saying):
        def explain(self, item, target=None):
            return None

    with pytest.raises(Unsupported, match="no heads to mute"):
        examples(Silent(None), ["a"])


def test_a_choice_without_a_name_is_its_number():
    found = Outputs(np.log([[0.25, 0.75]]), [1], ["only"])
    assert (found.name(0), found.name(1)) == ("only", "1")


def test_classifiers_of_pictures_and_sounds_have_names_too():
    model = Small(2, whole=True)
    for kept in ({"classes": ["bad", "good"]}, {"outputs": ["bad", "good"]}):
        found = outputs_of(Saying(model, known=SimpleNamespace(**kept)), seen_of(model))
        assert found.chosen is not None
        assert [found.name(choice) for choice in (0, 1)] == ["bad", "good"]
