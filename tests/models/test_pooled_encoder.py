"""Poolings over a sequence and the model over them: what padding and neighbours may not change, and what is taken."""

import math

import pytest
import torch
from devices import seeded
from pydantic import ValidationError
from test_token_encoders import config_of
from torch import nn

from headwise.errors import ConfigError
from headwise.models.pooled_encoder import build_pooled_encoder
from headwise.models.pooling import LastOfSequence, MaxOverSequence, MeanOverSequence, SequencePoolingConfig
from headwise.records import record

POOLINGS = {
    "mean": {"kind": "mean"},
    "max": {"kind": "max"},
    "last": {"kind": "last"},
    "cls": {"kind": "cls"},
    "attention": {"kind": "attention", "num_heads": 2},
    "sparse": {"kind": "attention", "score": "additive", "normalizer": "sparsemax"},
    "asked by the last": {"kind": "attention", "query": "last"},
}
TEXTS = [[4, 5, 6, 7, 8], [], [9], [10, 4, 11]]


def reader(name, pooling, outputs=3, **fields):
    torch.manual_seed(1)
    config = SequencePoolingConfig(**POOLINGS[pooling])
    return build_pooled_encoder(config_of(name, **fields), config, 13, outputs, embedding_std=1.0, token_dropout=0.0)


def batch_of(texts, pad=0, extra=0):
    width = max(1, *map(len, texts)) + extra
    tokens = [[*text, *[pad] * (width - len(text))] for text in texts]
    return torch.tensor(tokens), torch.tensor(list(map(len, texts)))


def pairs():
    """Every pooling with every encoder that it goes with."""
    named = "token", "cnn", "gru", "attention"
    return [(name, pooling) for name in named for pooling in POOLINGS if pooling != "cls" or name not in named[:2]]


@pytest.mark.parametrize(("name", "pooling"), pairs())
def test_a_text_alone_is_the_text_in_a_batch_whatever_stands_in_padding(name, pooling):
    model = reader(name, pooling).double().eval()
    with torch.no_grad():
        model.embedding.weight[3] = math.nan
        together = model(*batch_of(TEXTS, pad=3, extra=2))
        assert together.shape == (4, 3)
        for row, text in enumerate(TEXTS):
            torch.testing.assert_close(together[[row]], model(*batch_of([text, text]))[:1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_no_gradient_comes_from_padding(pooling):
    model = reader("attention", pooling)
    with torch.no_grad():
        model.embedding.weight[3] = math.nan
    model(*batch_of(TEXTS, pad=3, extra=2)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), key
    assert not model.embedding.weight.grad[3].any()
    assert model.embedding.weight.grad[4].any()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_empty_text_gives_zeros_to_the_head(pooling):
    model = reader("gru", pooling).eval()
    nn.init.ones_(model.head.bias)
    said = model(*batch_of([[]]))
    # the learned token in front is a state of its own
    assert torch.equal(said, torch.ones(1, 3)) == (pooling != "cls")


def states(seed=0):
    return torch.randn(3, 5, 4, generator=seeded(seed)), torch.tensor([5, 2, 1])


def test_poolings_are_those_written_as_loops():
    x, lens = states()
    mean, largest, last = MeanOverSequence()(x, lens), MaxOverSequence()(x, lens), LastOfSequence(1)(x, lens)
    for row, length in enumerate(lens.tolist()):
        for column in range(4):
            values = [x[row, place, column].item() for place in range(length)]
            assert mean[row, column].item() == pytest.approx(sum(values) / length)
            assert largest[row, column].item() == max(values)
            assert last[row, column].item() == (values[0] if column == 3 else values[-1])


def test_shares_say_from_where_the_largest_are_taken():
    x, lens = states()
    shares = MaxOverSequence().shares(x, lens)
    for row, length in enumerate(lens.tolist()):
        places = [max(range(length), key=lambda place: x[row, place, column].item()) for column in range(4)]
        assert shares[row].tolist() == [places.count(place) / 4 for place in range(5)]
    assert not MaxOverSequence().shares(x, torch.tensor([0, 0, 0])).any()


def test_the_last_state_of_both_directions_is_what_each_reads_last():
    model = reader("lstm", "last").eval()
    tokens, lens = batch_of([[4, 5, 6]])
    with torch.no_grad():
        x, _ = model.states(tokens, lens)
        pooled = model.pooling(x, lens)
    half = x.shape[2] // 2
    assert (model.encoder.backward, model.encoder.width) == (7, 14)
    torch.testing.assert_close(pooled, torch.cat([x[:, 2, :half], x[:, 0, half:]], -1))


@pytest.mark.parametrize("pooling", ["attention", "asked by the last"])
def test_the_query_of_attention_pooling(pooling):
    model = reader("gru", pooling).eval()
    tokens, lens = batch_of(TEXTS)
    with record(model) as trace, torch.no_grad():
        model(tokens, lens)
        x, _ = model.states(tokens, lens)
    layer = trace["pooling.attention"]
    weights = layer.weights()
    assert layer.kind == "cross"
    assert weights.shape == (4, 2 if pooling == "attention" else 1, 1, 5)
    attention = model.pooling.attention
    asked = model.pooling.query.expand(4, -1) if pooling == "attention" else LastOfSequence(7)(x, lens)
    heads = weights.shape[1]
    query = attention.projection(asked).unflatten(-1, (heads, -1))
    key = attention.memory_projection(x)[..., :14].unflatten(-1, (heads, -1))
    for row, length in enumerate(lens.tolist()):
        for head in range(heads):
            scores = key[row, :length, head] @ query[row, head] / (14 // heads) ** 0.5
            torch.testing.assert_close(weights[row, head, 0, :length], scores.softmax(0))
            assert not weights[row, head, 0, length:].any()


def test_sparse_weights_leave_tokens_out():
    model = reader("gru", "sparse").eval()
    with torch.no_grad():
        model.pooling.query.mul_(30)
        model.pooling.attention.memory_projection.weight.mul_(30)
    with record(model) as trace, torch.no_grad():
        model(*batch_of(TEXTS))
    weights = trace["pooling.attention"].weights()[0, 0, 0]
    assert (weights == 0).any()
    assert weights.sum().item() == pytest.approx(1)


def test_hidden_tokens_are_those_drawn_while_training():
    model = reader("token", "mean")
    model.token_dropout = 0.5
    tokens, lens = batch_of([[4] * 400])
    seen = []
    model.encoder.register_forward_hook(lambda module, given, out: seen.append(given[0]))
    model(tokens, lens)
    model.eval()(tokens, lens)
    hidden = (seen[0] == 0).all(-1).double().mean().item()
    assert 0.4 < hidden < 0.6
    assert (seen[1] != 0).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(
        ConfigError, match=r'pooling.kind = "cls" needs a first place .* model.kind = "cnn" has not; set'
    ):
        SequencePoolingConfig(kind="cls").check(config_of("cnn"))
    with pytest.raises(ConfigError, match=r'with model.causal it sees itself alone; set pooling.kind to "last"'):
        SequencePoolingConfig(kind="cls").check(config_of("attention").model_copy(update={"causal": True}))
    SequencePoolingConfig(kind="cls").check(config_of("gru"))
    with pytest.raises(ConfigError, match=r"num_heads \(3\) must divide d_model \(14\)"):
        SequencePoolingConfig(kind="attention", num_heads=3).check(config_of("gru"))
    with pytest.raises(ValidationError, match="unknown score 'dott'"):
        SequencePoolingConfig(kind="attention", score="dott")
    with pytest.raises(ValidationError, match="unknown normalizer"):
        SequencePoolingConfig(kind="attention", normalizer="softmux")
