"""The Transformer: what may depend on what, padding, neighbours, ties, sizes, names, errors of its configuration."""

import copy

import pytest
import torch
from devices import not_simulated, on_the_host
from pydantic import ValidationError
from torch.nn import functional as F

from headwise.config import build as validated
from headwise.errors import ConfigError, DataError, ShapeError
from headwise.layers.loss import vocabulary_loss
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.records import record

LENS = torch.tensor([7, 3, 5])
KINDS = [
    {"norm_order": norm, "position": position, "num_kv_heads": kv_heads, "activation": activation, "d_model": 18}
    for norm, position, kv_heads, activation in (
        ("pre", "sinusoidal", None, "relu"),
        ("post", "rotary", 1, "gelu"),
        ("pre", "learned", None, "swiglu"),
        ("post", "none", 3, "relu"),
    )
]
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("options", KINDS)
def test_batch_is_its_sentences_one_by_one(build, tokens, options):
    model, src, tgt = build(**options), tokens(3, 7), tokens(3, 5, seed=6)
    whole = model(src, LENS, tgt)
    for row, length in enumerate(LENS.tolist()):
        alone = model(src[row : row + 1, :length], LENS[row : row + 1], tgt[row : row + 1])
        torch.testing.assert_close(alone, whole[row : row + 1], **EXACT)
    # any order, and longer neighbours
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(src[order], LENS[order], tgt[order]), whole[order], **EXACT)
    longer = F.pad(src, (0, 11), value=4)
    torch.testing.assert_close(model(longer, LENS, tgt), whole, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", KINDS)
def test_neighbours_and_padding_never_matter(build, tokens, options, dtype):
    model, src, tgt = build(dtype=dtype, **options), tokens(3, 7), tokens(3, 5, seed=6)
    whole = model(src, LENS, tgt)
    # the other sentences, to the bit
    others, replies = tokens(3, 7, seed=8), tokens(3, 5, seed=9)
    others[1], replies[1] = src[1], tgt[1]
    assert torch.equal(model(others, LENS, replies)[1], whole[1])
    # what stands in the padding, to the bit
    dirty = src.clone()
    for row, length in enumerate(LENS.tolist()):
        dirty[row, length:] = 16
    assert torch.equal(model(dirty, LENS, tgt), whole)


@pytest.mark.parametrize("options", KINDS)
def test_gradients_do_not_come_from_padding(build, tokens, options):
    model, src, tgt = build(**options), tokens(3, 7), tokens(3, 5, seed=6)
    gradients = []
    for filler in (0, 16):
        source = src.masked_fill(torch.arange(7) >= LENS[:, None], filler)
        model.zero_grad()
        model(source, LENS, tgt).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, two in zip(*gradients, strict=True):
        assert torch.equal(one, two)
    assert not model.encoder.embedding.weight.grad[16].any() or (src == 16).any()


@pytest.mark.parametrize("options", KINDS)
def test_the_vector_of_padding_reaches_nothing(build, tokens, options):
    """Not even one of NaN: 0 x NaN is NaN in the gradients of what meets it."""
    model, src, tgt = build(**options), tokens(3, 7), tokens(3, 5, seed=6)
    source = src.masked_fill(torch.arange(7) >= LENS[:, None], 0)
    results = []
    for content in (0.0, float("nan")):
        model.zero_grad()
        with torch.no_grad():
            model.encoder.embedding.weight[0] = content
        output = model(source, LENS, tgt)
        output.square().sum().backward()
        results.append([output, *(parameter.grad.clone() for parameter in model.parameters())])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("options", KINDS)
def test_no_output_depends_on_later_tokens(build, tokens, options):
    model, src, tgt = build(**options), tokens(1, 7), tokens(1, 5, seed=6)
    lens = torch.tensor([7])
    memory = model.encoder(src, lens)
    whole = model.decoder(tgt, memory, lens)
    for place in range(5):
        changed = tgt.clone()
        changed[0, place:] = (changed[0, place:] - 3) % 13 + 4
        logits = model.decoder(changed, memory, lens)
        assert torch.equal(logits[:, :place], whole[:, :place])
        assert not torch.equal(logits[:, place], whole[:, place])


@pytest.mark.parametrize("options", KINDS)
def test_jacobian_is_zero_above_the_diagonal(build, tokens, options, monkeypatch):
    model, tgt = build(**options), tokens(1, 5, seed=6)
    lens = torch.tensor([7])
    memory = model.encoder(tokens(1, 7), lens)
    embedded = model.decoder.embedding(tgt).detach()

    def hidden(x):
        monkeypatch.setattr(model.decoder.embedding, "forward", lambda tokens, start=0: x)
        return model.decoder.hidden(tgt, memory, lens)[0].sum(-1) + model.decoder.hidden(tgt, memory, lens)[0, :, 0]

    jacobian = torch.autograd.functional.jacobian(hidden, embedded)[:, 0].abs().sum(-1)
    assert torch.equal(jacobian.triu(1), torch.zeros(5, 5, dtype=torch.float64))
    assert (jacobian.tril()[torch.ones(5, 5, dtype=torch.bool).tril()] > 0).all()


def test_without_positions_the_source_is_a_set(build, tokens):
    src, tgt, lens = tokens(1, 7), tokens(1, 5, seed=6), torch.tensor([7])
    order = torch.tensor([3, 6, 0, 5, 1, 4, 2])
    for position, blind in (("none", True), ("sinusoidal", False), ("rotary", False), ("learned", False)):
        model = build(position=position, d_model=18)
        same = torch.allclose(model(src[:, order], lens, tgt), model(src, lens, tgt), rtol=1e-10, atol=1e-10)
        assert same == blind


def test_loss_of_a_batch_is_the_sum_over_its_tokens(build, tokens):
    model, src, tgt = build(joint=True), tokens(3, 7), tokens(3, 6, seed=6)
    tgt_lens = torch.tensor([5, 2, 4])

    def loss(rows):
        src_len, tgt_len = int(LENS[rows].max()), int(tgt_lens[rows].max())
        memory = model.encoder(src[rows, :src_len], LENS[rows])
        hidden = model.decoder.hidden(tgt[rows, :tgt_len], memory, LENS[rows])
        real = torch.arange(tgt_len) < tgt_lens[rows, None]
        output = model.decoder.output
        return vocabulary_loss(hidden[real], output.weight, None, tgt[rows, 1 : tgt_len + 1][real], 0.1)

    whole = loss([0, 1, 2])
    gradient = torch.autograd.grad(whole, list(model.parameters()))
    singles = [loss([row]) for row in range(3)]
    torch.testing.assert_close(sum(singles), whole, **EXACT)
    # gradients of parts add up to the gradient of the whole
    for parts in ([[0], [1], [2]], [[0, 2], [1]], [[2, 1], [0]]):
        model.zero_grad()
        for rows in parts:
            loss(rows).backward()
        for parameter, expected in zip(model.parameters(), gradient, strict=True):
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-10, atol=1e-11)


@not_simulated("a module that moves there gets new parameters, which are no longer tied")
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("tie_embeddings", [True, False])
@pytest.mark.parametrize("tie_output", [True, False])
def test_ties(build, joint, tie_embeddings, tie_output):
    built = build(joint=joint, tie_embeddings=tie_embeddings, tie_output=tie_output)
    for model in (built, copy.deepcopy(built)):
        source, target, output = (
            model.encoder.embedding.weight,
            model.decoder.embedding.weight,
            model.decoder.output.weight,
        )
        assert (source is target) == (joint and tie_embeddings)
        assert (target is output) == tie_output
    assert built.decoder.output.weight is not model.decoder.output.weight
    tables = 3 - (joint and tie_embeddings) - tie_output
    weights = {id(p): p for p in built.parameters() if p.shape[0] in (17, 19) and p.shape[-1] == 12}
    assert len(weights) == tables


@not_simulated("a module that moves there gets new parameters, which are no longer tied")
def test_tied_embedding_learns_from_both_sides(build, tokens):
    model, src, tgt = build(joint=True), tokens(3, 7), tokens(3, 5, seed=6)
    apart = build(joint=True, tie_embeddings=False, tie_output=False)
    apart.load_state_dict(model.state_dict())
    for each in (model, apart):
        each(src, LENS, tgt).square().sum().backward()
    parts = (apart.encoder.embedding.weight, apart.decoder.embedding.weight, apart.decoder.output.weight)
    torch.testing.assert_close(model.encoder.embedding.weight.grad, sum(part.grad for part in parts), **EXACT)


def test_default_sizes_are_the_base_model():
    config = TransformerConfig()
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.num_heads, config.d_ff, config.dropout) == (512, 8, 2048, 0.1)
    with torch.device("meta"):
        model = build_transformer(config, 1000, 1000, joint=True)
    count = sum(parameter.numel() for parameter in model.parameters())
    attention, norm = 4 * 512 * 512 + 4 * 512, 2 * 512
    feed_forward = 2 * 512 * 2048 + 2048 + 512
    assert (
        count
        == 1000 * 512
        + 6 * (attention + feed_forward + 2 * norm)
        + 6 * (2 * attention + feed_forward + 3 * norm)
        + 2 * norm
    )


def test_attention_layers_have_their_names(build, tokens):
    model = build()
    with record(model) as trace:
        memory = model.encoder(tokens(3, 7), LENS)
        logits = model.decoder(tokens(3, 5, seed=6), memory, LENS)
    assert trace.names() == [
        "encoder.blocks.0.self_attention",
        "encoder.blocks.1.self_attention",
        "decoder.blocks.0.self_attention",
        "decoder.blocks.0.cross_attention",
        "decoder.blocks.1.self_attention",
        "decoder.blocks.1.cross_attention",
    ]
    # every decoder block reads the one memory of the last encoder block
    assert memory.states.shape == (3, 7, 12)
    assert [trace[name].weights().shape for name in trace.names()] == [
        (3, 3, 7, 7), (3, 3, 7, 7), (3, 3, 5, 5), (3, 3, 5, 7), (3, 3, 5, 5), (3, 3, 5, 7)
    ]  # fmt: skip
    assert logits.shape == (3, 5, 19)
    torch.testing.assert_close(logits.softmax(-1).sum(-1), torch.ones(3, 5, dtype=torch.float64), **EXACT)


def test_float32_is_close_to_float64(build, tokens):
    src, tgt = tokens(3, 7), tokens(3, 5, seed=6)
    wide, narrow = build(spread=1.0), build(spread=1.0, dtype=torch.float32)
    torch.testing.assert_close(narrow(src, LENS, tgt).double(), wide(src, LENS, tgt), rtol=0, atol=2e-5)


def test_same_seed_same_model():
    config = TransformerConfig(d_model=12, d_ff=23, num_heads=3, encoder_layers=1, decoder_layers=1)
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(build_transformer(config, 17, 17, joint=True).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["decoder.output.weight"], states[2]["decoder.output.weight"])


def test_state_survives_a_round_trip(build, tokens):
    model, other = build(seed=3), build(seed=4)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(tokens(3, 7), LENS, tokens(3, 5)), other(tokens(3, 7), LENS, tokens(3, 5)))


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_in_training_alone(build, tokens, option):
    zero = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = build(**(zero | {option: 0.5}))
    call = (tokens(3, 7), LENS, tokens(3, 5))
    assert torch.equal(model(*call), model(*call))
    model.train()
    assert not torch.equal(model(*call), model(*call))
    quiet = build(**zero).train()
    assert torch.equal(quiet(*call), quiet(*call))


def test_unset_dropouts_follow_the_one_set():
    config = TransformerConfig(d_model=12, d_ff=23, num_heads=3, dropout=0.3, attention_dropout=0.2)
    model = build_transformer(config, 17, 17, joint=True)
    block = model.decoder.blocks[0]
    assert model.encoder.embedding.dropout.dropout == 0.3
    assert block.self_attention.mechanism.dropout == block.cross_attention.mechanism.dropout == 0.2
    assert block.feed_forward.dropout.dropout == block.self_residual.dropout == 0.3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_heads": 6, "d_model": 64}, r"num_heads \(6\) must divide d_model \(64\); nearest that do: 2, 4, 8"),
        ({"num_kv_heads": 3}, r"num_kv_heads \(3\) must divide num_heads \(8\); these do: 1, 2, 4, 8"),
        ({"num_head": 4}, r"recipe: unknown key 'num_head'; did you mean 'num_heads'\?"),
        ({"dropout": 1.0}, "recipe: dropout: must be below 1, not 1.0"),
        ({"norm": "middle"}, "recipe: unknown norm 'middle'; known: batch, layer, none, rms"),
        ({"d_model": 0}, "recipe: d_model: must be 1 or more, not 0"),
    ],
)
def test_wrong_configurations(values, message):
    with pytest.raises(ConfigError, match=message):
        validated(TransformerConfig, values, "recipe")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"position": "sinusoid"}, r"unknown position 'sinusoid'; did you mean 'sinusoidal'\?"),
        ({"score": "scaled_dots"}, r"unknown score 'scaled_dots'; did you mean 'scaled_dot'\?"),
        ({"normalizer": "softmin"}, r"unknown normalizer 'softmin'; did you mean 'softmax'\?"),
        ({"d_model": 33, "num_heads": 3}, "sinusoidal positions need an even d_model, got 33; use 32 or 34"),
        ({"d_model": 33, "num_heads": 3, "position": "rotary"}, "rotary positions need an even head_dim, got 11"),
    ],
)
def test_wrong_parts(values, message):
    with pytest.raises((ConfigError, ValidationError), match=message):
        build_transformer(TransformerConfig(encoder_layers=1, decoder_layers=1, **values), 17, 17, joint=True)


def test_joint_vocabulary_has_one_size():
    config = TransformerConfig(d_model=12, d_ff=23, num_heads=3)
    with pytest.raises(ConfigError, match="17 and 19"):
        build_transformer(config, 17, 19, joint=True)


def test_configuration_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        TransformerConfig().d_model = 3


@on_the_host("a GPU ends the process")
def test_inputs_out_of_range(build, tokens):
    with pytest.raises(DataError, match="token 17 at row 0, position 0"):
        build()(torch.full((1, 3), 17), torch.tensor([3]), tokens(1, 5))
    with pytest.raises(ShapeError, match="position 97 "):
        build(position="learned")(tokens(1, 98), torch.tensor([98]), tokens(1, 5))


def test_sentence_without_tokens(build, tokens):
    model = build()
    logits = model(tokens(2, 3), torch.tensor([3, 0]), tokens(2, 5))
    assert logits.isfinite().all()
    logits.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
