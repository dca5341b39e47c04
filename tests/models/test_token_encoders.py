"""Encoders of tokens and the tagger over them: what padding and neighbours may not change, and what context gives."""

import math

import pytest
import torch
from devices import on_the_host, seeded
from torch.nn import functional as F

from headwise.config import Config, build
from headwise.errors import ConfigError
from headwise.models.summary import summary
from headwise.models.token_encoders import (
    AloneConfig,
    AttentionConfig,
    BidirectionalConfig,
    ConvolutionConfig,
    EncoderConfig,
    WindowConfig,
)
from headwise.tasks.tagging.model import POOLINGS as WORD_POOLINGS
from headwise.tasks.tagging.model import PoolingConfig, build_token_tagger


class Holder(Config):
    model: EncoderConfig


MODELS = {
    "token": {"kind": "token", "d_ff": 13},
    "window": {"kind": "window", "d_ff": 13, "radius": 2},
    "cnn": {"kind": "cnn", "num_layers": 2, "radius": 1},
    "gru": {"kind": "rnn", "hidden_dim": 7, "num_layers": 2},
    "lstm": {"kind": "rnn", "cell": "lstm", "hidden_dim": 7},
    "tanh": {"kind": "rnn", "cell": "rnn", "hidden_dim": 7},
    "attention": {"kind": "attention", "d_ff": 13, "num_heads": 2, "encoder_layers": 2},
    "learned": {"kind": "attention", "d_ff": 13, "num_heads": 2, "encoder_layers": 1, "position": "learned"},
    "relative": {
        "kind": "attention",
        "d_ff": 13,
        "num_heads": 2,
        "encoder_layers": 1,
        "position": "t5",
        "norm_order": "post",
    },
}
MODELS["batch norm"] = MODELS["relative"] | {"norm": "batch", "norm_order": "pre"}
MODELS["cnn batch norm"] = MODELS["cnn"] | {"norm": "batch"}
MODELS["bare"] = MODELS["learned"] | {"norm": "none", "residual": False, "d_ff": 0}
MODELS["shaw"] = MODELS["learned"] | {"position": "shaw"}
MODELS["causal"] = MODELS["attention"] | {"causal": True}
MODELS["causal alone"] = MODELS["learned"] | {"causal": True, "mechanism": "retention", "position": "none"}
# reads piece by piece, so places beyond a piece are not those of the whole
SEGMENTED = MODELS["shaw"] | {"segment": 4}
POOLINGS = [(kind, place) for kind in ("mean", "first") for place in ("before", "after")]


def config_of(name, **fields):
    return build(
        Holder, {"model": {"d_model": 10, "dropout": 0.0} | (MODELS | {"segment": SEGMENTED})[name] | fields}, "recipe"
    ).model


def tagger(name, kind="mean", place="after", vocab=23, tags=5, **fields):
    torch.manual_seed(1)
    return build_token_tagger(config_of(name, **fields), PoolingConfig(kind=kind, place=place), vocab, tags)


# tokens of three sentences, and how many of them each word has
SENTENCES = [([4, 5, 6, 7, 8, 9, 10], [2, 1, 3, 1]), ([11], [1]), ([12, 13, 4], [1, 2])]


def batch_of(sentences, pad=0, extra=0):
    longest = max(len(tokens) for tokens, _ in sentences) + extra
    words = max(len(pieces) for _, pieces in sentences) + extra
    tokens = [[*tokens, *[pad] * (longest - len(tokens))] for tokens, _ in sentences]
    return torch.tensor(tokens), torch.tensor([[*pieces, *[0] * (words - len(pieces))] for _, pieces in sentences])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("kind", "place"), POOLINGS)
def test_a_sentence_alone_is_the_sentence_in_a_batch(name, kind, place):
    model = tagger(name, kind, place).double().eval()
    together = model(*batch_of(SENTENCES, pad=3, extra=2))
    assert together.shape == (3, 6, 5)
    for row, sentence in enumerate(SENTENCES):
        alone = model(*batch_of([sentence]))[0]
        torch.testing.assert_close(together[row, : len(sentence[1])], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_nan_in_padding_reaches_neither_output_nor_gradient(name):
    for place in ("before", "after"):
        model = tagger(name, place=place)
        with torch.no_grad():
            model.embedding.weight[3] = math.nan
        logits = model(*batch_of(SENTENCES, pad=3))
        assert logits.isfinite().all()
        logits.sum().backward()
        for key, parameter in model.named_parameters():
            gradient = parameter.grad[torch.arange(23) != 3] if key == "embedding.weight" else parameter.grad
            assert gradient.isfinite().all(), key


@pytest.mark.parametrize("fields", [{}, {"reversible": True}, {"position": "t5"}, {"mechanism": "linear"}])
def test_a_causal_encoder_says_of_a_place_what_it_said_before_there_were_more(fields):
    torch.manual_seed(1)
    encoder, free = (
        config_of("attention", causal=causal, **fields).encoder().double().eval() for causal in (True, False)
    )
    free.load_state_dict(encoder.state_dict())
    x, lens = torch.randn(3, 7, 10).double(), torch.tensor([7, 1, 4])
    whole = encoder(x, lens)
    for count in (1, 3, 4):
        part = encoder(x[:, :count], lens.clamp(max=count))
        torch.testing.assert_close(part[0], whole[0, :count], rtol=0, atol=1e-12)
        torch.testing.assert_close(part[2], whole[2, :count], rtol=0, atol=1e-12)
    # the last place sees all, as without the mask, in the first of the layers alone
    assert not torch.allclose(free(x, lens)[0, 0], whole[0, 0])
    torch.testing.assert_close(free(x, lens)[1, :1], whole[1, :1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"causal": True, "segment": 3}, "causal .*: leave out segment"),
        ({"causal": True, "convolution_heads": True}, "leave out segment and convolution_heads"),
        ({"causal": True, "mechanism": "sinkhorn"}, "'sinkhorn' cannot hide later tokens from an encoder; these can: "),
        ({"mechanism": "retention"}, "'retention' cannot let an encoder see later tokens; these can: "),
    ],
)
def test_what_a_causal_encoder_cannot_be_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        config_of("attention", **fields)


@pytest.mark.parametrize("name", MODELS)
def test_no_encoder_has_fewer_tensors_than_its_configuration_says(name):
    config = config_of(name)
    assert 4 <= config.fewest_tensors() <= len(list(config.encoder().parameters()))


@pytest.mark.parametrize("name", [*MODELS, "segment"])
def test_nothing_is_said_of_nothing(name):
    for kind, place in POOLINGS:
        model = tagger(name, kind, place)
        for batch, length, words in ((2, 0, 0), (0, 3, 2), (0, 0, 0), (2, 3, 0), (2, 0, 3)):
            tokens, pieces = torch.ones(batch, length, dtype=torch.long), torch.zeros(batch, words, dtype=torch.long)
            logits = model(tokens, pieces)
            assert logits.shape == (batch, words, 5)
            logits.sum().backward()
        for batch, length in ((2, 0), (0, 3)):
            said = model.encoder(torch.zeros(batch, length, 10), torch.zeros(batch, dtype=torch.long))
            assert said.shape == (batch, length, model.encoder.width)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter(name):
    model = tagger(name)
    F.cross_entropy(model(*batch_of(SENTENCES)).flatten(0, 1)[[0, 1, 3, 4]], torch.tensor([0, 1, 2, 3])).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", MODELS)
def test_dropout_acts_in_training_alone(name):
    model = tagger(name, dropout=0.5)
    inputs = batch_of(SENTENCES)
    assert not torch.equal(model.train()(*inputs), model(*inputs))
    assert torch.equal(model.eval()(*inputs), model(*inputs))


@pytest.mark.parametrize("name", MODELS)
def test_builds_on_the_meta_device(name):
    with torch.device("meta"):
        model = build_token_tagger(config_of(name), PoolingConfig(), 23, 5)
    real = tagger(name)
    assert {key: value.shape for key, value in model.state_dict().items()} == {
        key: value.shape for key, value in real.state_dict().items()
    }
    assert all(parameter.is_meta for parameter in model.parameters())


# how far a place sees on either side
@pytest.mark.parametrize(("name", "reach"), [("token", 0), ("window", 2), ("cnn", 2), ("gru", 9), ("attention", 9)])
def test_how_far_an_encoder_sees(name, reach):
    model = tagger(name).double().eval()
    tokens, pieces = torch.arange(4, 15)[None], torch.ones(1, 11, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 5] = 20
    moved = (model(tokens, pieces) - model(changed, pieces)).abs().amax(-1)[0] > 1e-12
    assert [abs(place - 5) <= reach for place in range(11)] == moved.tolist()


def test_window_is_its_formula():
    model = tagger("window").double().eval()
    x, lens = torch.randn(2, 5, 10, dtype=torch.float64), torch.tensor([5, 3])
    found = model.encoder(x, lens)
    zero = x.new_zeros(10)
    for row, length in enumerate(lens.tolist()):
        for place in range(length):
            near = [x[row, at] if 0 <= at < length else zero for at in range(place - 2, place + 3)]
            y = model.encoder.join(torch.cat(near))
            y = y + model.encoder.alone.feed_forward(model.encoder.alone.residual.before(y))
            torch.testing.assert_close(found[row, place], y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["mean", "first"])
def test_pooling_is_its_definition(kind):
    x = torch.randn(3, 8, 3, dtype=torch.float64)
    pieces = batch_of(SENTENCES)[1]
    found = WORD_POOLINGS[kind]()(x, pieces)
    for row, (_, counts) in enumerate(SENTENCES):
        start = 0
        for word, count in enumerate(counts):
            own = x[row, start : start + count]
            torch.testing.assert_close(found[row, word], own.mean(0) if kind == "mean" else own[0])
            start += count
        assert (found[row, len(counts) :] == 0).all()


def test_an_unknown_encoder_or_key_has_the_nearest_one():
    with pytest.raises(ConfigError, match=r"unknown model.kind 'windows'"):
        build(Holder, {"model": {"kind": "windows"}}, "recipe")
    with pytest.raises(ConfigError, match=r"decoder_layers"):
        build(Holder, {"model": {"kind": "attention", "decoder_layers": 2}}, "recipe")
    with pytest.raises(ConfigError, match=r"num_heads \(3\) must divide d_model \(10\)"):
        config_of("attention", num_heads=3)


# the tag of every token is what stands before it, which no token knows alone
def context(count, seed):
    generator = seeded(seed)
    tokens = torch.randint(4, 6, (count, 5), generator=generator)
    before = tokens.roll(1, 1)
    before[:, 0] = 4
    return tokens, torch.ones_like(tokens), before - 4


@pytest.mark.parametrize(
    ("name", "learns"), [("token", False), ("window", True), ("cnn", True), ("gru", True), ("shaw", True)]
)
def test_context_decides(name, learns):
    model = tagger(name, vocab=6, tags=2, d_model=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    tokens, pieces, tags = context(48, 1)
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens, pieces).flatten(0, 1), tags.flatten()).backward()
        optimizer.step()
    tokens, pieces, tags = context(50, 2)
    right = (model.eval()(tokens, pieces).argmax(-1) == tags).double().mean().item()
    assert right > 0.95 if learns else right < 0.7


@pytest.mark.parametrize(
    ("config", "places"),
    [
        (AloneConfig(d_model=24), 1),
        (WindowConfig(d_model=24, radius=5), 11),
        *((ConvolutionConfig(d_model=24, num_layers=m, radius=1), 1 + 2 * m) for m in (1, 2, 5)),
        (ConvolutionConfig(d_model=24, num_layers=3, radius=2), 13),
    ],
)
def test_the_context_that_is_told_is_the_one_that_is_seen(config, places):
    model = build_token_tagger(config, PoolingConfig(), 7, 3)
    assert f"encoder: each place sees {places} place" in summary(model)
    encoder, x = model.encoder.eval().double(), torch.randn(1, 31, 24, dtype=torch.double, requires_grad=True)
    encoder(x, torch.tensor([31]))[0, 15, 0].backward()
    assert x.grad[0].any(-1).nonzero().flatten().tolist() == list(range(15 - places // 2, 16 + places // 2))


def test_what_sees_all_tells_no_context():
    assert "sees" not in summary(build_token_tagger(AttentionConfig(d_model=8), PoolingConfig(), 7, 3))


def test_recurrent_layers_read_what_autocast_halved():
    encoder = BidirectionalConfig(d_model=6, hidden_dim=5, num_layers=2).encoder().eval()
    x, lens = torch.randn(2, 3, 6), torch.tensor([3, 1])
    with torch.autocast("cpu", torch.bfloat16):
        found = encoder(x.bfloat16(), lens)
    torch.testing.assert_close(found, encoder(x.bfloat16().float(), lens))


@on_the_host("there PyTorch warns that it joins weights of bfloat16 at every call")
@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
def test_recurrent_layers_of_half_precision_read_half_precision(cell):
    encoder = BidirectionalConfig(cell=cell, d_model=6, hidden_dim=5, num_layers=2).encoder().eval()
    x, lens = torch.randn(2, 3, 6), torch.tensor([3, 1])
    expected = encoder(x, lens)
    found = encoder.bfloat16()(x.bfloat16(), lens)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.02)
