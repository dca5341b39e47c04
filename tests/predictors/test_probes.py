"""Heads muted in turn, weights that are replaced, heads that find relations: on models whose answer is known."""

import numpy as np
import pytest
import torch
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.data.dependencies import Parsed
from headwise.errors import DataError, ShapeError, Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.layers.attention import MultiHeadAttention
from headwise.predictors.ablating import muted_in_turn, reweighted
from headwise.predictors.looking import Pass
from headwise.predictors.predictor import Predictor
from headwise.predictors.relations import finders, relation_scores
from headwise.records import Mute, edit


class Pooled(nn.Module):
    """Two outputs: the mean of the values with the weights of one query, and minus it; the value is the input."""

    def __init__(self, heads=1):
        super().__init__()
        self.attention = MultiHeadAttention(heads, heads, Scored())
        with torch.no_grad():
            for module in (self.attention.projection, self.attention.output):
                module.weight.zero_()
                module.bias.zero_()
            self.attention.projection.weight[-heads:] = torch.eye(heads)
            self.attention.output.weight.copy_(torch.eye(heads))

    def forward(self, x):
        return self.attention(x)[:, 0]


def test_replaced_weights_give_their_mean_of_the_values():
    model = Pooled()
    x = torch.tensor([[[1.0], [2.0], [6.0]]])
    # all scores are 0: uniform weights
    assert torch.equal(model(x), torch.tensor([[3.0]]))

    class OneQuery(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = MultiHeadAttention(1, 1, Scored(), memory_dim=1)
            with torch.no_grad():
                for parameter in self.pool.parameters():
                    parameter.zero_()
                self.pool.memory_projection.weight[1:] = 1.0
                self.pool.output.weight.fill_(1.0)

        def forward(self, x):
            return self.pool(x[:, :1], x)[:, 0]

    rows = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    outputs = reweighted(Pass(OneQuery(), (x,)), "pool*", rows)
    torch.testing.assert_close(outputs, torch.tensor([[3.0], [6.0], [1.5]]))
    with pytest.raises(ShapeError, match="one input"):
        reweighted(Pass(OneQuery(), (x.expand(2, -1, -1),)), "pool*", rows)


def test_the_head_that_matters_goes_last():
    # three heads, each writes its own column; the score reads the second alone
    model, x = Pooled(3), torch.tensor([[[1.0, 5.0, 2.0], [3.0, 7.0, 4.0]]])

    def score(edits):
        with edit(model, *edits), torch.no_grad():
            return -abs(float(model(x)[0, 1]) - 6.0)

    rows = list(muted_in_turn(score, [("attention", head) for head in range(3)]))
    assert (rows[0].layer, rows[0].score) == (None, 0.0)
    assert {row.head for row in rows[1:3]} == {0, 2}
    assert [row.score for row in rows[1:]] == [0.0, 0.0, -6.0]
    assert rows[3].head == 1


def test_heads_that_stand_in_for_each_other_look_needless_only_one_by_one():
    def score(edits):
        gone = {edit.heads for edit in edits}
        return 0.0 if gone >= {0, 1} else 1.0

    heads = [("a", 0), ("a", 1), ("a", 2)]
    assert [score([Mute(*head)]) for head in heads] == [1.0, 1.0, 1.0]
    assert [row.score for row in muted_in_turn(score, heads)] == [1.0, 1.0, 1.0, 0.0]


def test_no_heads_are_muted_of_none():
    assert [row.score for row in muted_in_turn(lambda edits: 2.0, [])] == [2.0]


class Reader(Predictor):
    """Explains sentences by the weights that it was given for each."""

    def __init__(self, tables):
        self.tables = tables

    def parse(self, text):
        return text

    def predict(self, items, options=None):
        return []

    def explain(self, text, target=None):
        words = text.split()
        weights = np.array(self.tables[text], dtype=float)
        return Explanation(text, "", {"layer": Layer(weights, words, words, "self")})


def sentence(words, heads, relations):
    return Parsed(tuple(words.split()), tuple(heads), tuple(relations), 1)


# the dog slept: det -> dog, nsubj -> slept, root
THE_DOG = sentence("the dog slept", [1, 2, -1], ["det", "nsubj", "root"])
# dog the slept: both now at other distances
DOG_THE = sentence("dog the slept", [2, 0, -1], ["nsubj", "det", "root"])
# head 0 finds every head of both, head 1 looks at the word behind
TABLES = {
    "the dog slept": [[[9, 1, 0], [0, 9, 1], [1, 0, 9]], np.eye(3, k=1)],
    "dog the slept": [[[9, 0, 1], [1, 9, 0], [1, 0, 9]], np.eye(3, k=1)],
}


def test_a_head_that_finds_a_relation_is_named_beside_the_best_distance():
    scores = relation_scores(Reader(TABLES), [THE_DOG, DOG_THE], [THE_DOG, DOG_THE, DOG_THE], fewest=1)
    by_name = {score.relation: score for score in scores}
    assert set(by_name) == {"det", "nsubj"}
    det = by_name["det"]
    assert (det.layer, det.head, det.direction, det.count, det.accuracy) == ("layer", 0, "to", 3, 1.0)
    # the distance +1 is as frequent as -1 where it is chosen, and is met first
    assert (det.offset, det.baseline) == (1, pytest.approx(1 / 3))


def test_a_word_is_never_its_own_head_and_both_directions_count():
    guesses = finders(Reader(TABLES).explain("the dog slept"), 3)
    assert guesses["layer", 0, "to"].tolist() == [1, 2, 0]
    # who attends most to each word
    assert guesses["layer", 0, "from"].tolist() == [2, 0, 1]


def test_subwords_count_as_their_word_and_special_tokens_as_none():
    labels = ["un", "do", "it", "<eos>"]
    weights = np.array([[[0, 0, 0.2, 0.8], [0, 0, 0.3, 0.7], [0.3, 0.3, 0, 0.4], [0, 0, 0, 1.0]]])
    layers = {"layer": Layer(weights, labels, labels, "self")}
    explanation = Explanation("undo it", "", layers, tokens=[Tokens(labels, [0, 0, 1, -1], [3])])
    assert finders(explanation, 2)["layer", 0, "to"].tolist() == [1, 0]


def test_what_cannot_be_scored_is_an_error():
    with pytest.raises(DataError, match="no relation has 5 words"):
        relation_scores(Reader(TABLES), [THE_DOG], [THE_DOG], fewest=5)
    with pytest.raises(Unsupported, match="each word"):
        finders(Reader(TABLES).explain("the dog slept"), 2)
