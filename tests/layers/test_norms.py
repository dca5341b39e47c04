"""Norms by name: golden numbers, batch norm over real tokens alone, and blocks without norm, residual or network."""

import pytest
import torch
from devices import DEVICE, seeded
from torch import nn

from headwise import record
from headwise.config import build
from headwise.errors import ConfigError
from headwise.layers.blocks import Residual
from headwise.layers.norms import TokenBatchNorm, build_norm, normed
from headwise.models.token_encoders import AttentionConfig
from headwise.models.transformer_config import DecoderConfig, TransformerConfig

LENS = [5, 0, 3]
# height in centimetres, weight in kilograms
PEOPLE = torch.tensor([[[160.0, 50.0], [170.0, 65.0], [180.0, 80.0]]])


def numbers(*shape, seed=4):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def real(x, lens):
    return torch.cat([row[:length] for row, length in zip(x, lens, strict=True)])


def test_golden_numbers():
    x = torch.arange(18.0).reshape(1, 3, 6)
    # by hand: six features in steps of 1 have variance 35/12, three tokens in steps of 6 have 24
    features = torch.tensor([-1.46385, -0.87831, -0.29277, 0.29277, 0.87831, 1.46385])
    tokens = torch.tensor([-1.22474, 0.0, 1.22474])
    torch.testing.assert_close(build_norm("layer", 6)(x), features.expand(1, 3, 6), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        normed(build_norm("batch", 6), x, None), tokens[:, None].expand(1, 3, 6), rtol=0, atol=1e-4
    )
    # the root of the mean of 0, 1, 4, 9, 16, 25
    torch.testing.assert_close(build_norm("rms", 6)(x)[0, 0], torch.arange(6.0) / (55 / 6) ** 0.5)
    assert build_norm("none", 6)(x) is x


def test_batch_norm_keeps_the_order_of_people_and_layer_norm_that_within_one():
    taller = normed(build_norm("batch", 2), PEOPLE, None)[0]
    torch.testing.assert_close(taller, torch.tensor([[-1.22474] * 2, [0.0] * 2, [1.22474] * 2]), rtol=0, atol=1e-4)
    # of any one person the height is the larger number: all became the same
    torch.testing.assert_close(build_norm("layer", 2)(PEOPLE)[0], torch.tensor([[1.0, -1.0]] * 3), rtol=0, atol=1e-4)


def test_batch_norm_is_that_of_the_real_tokens_alone():
    norm, theirs = TokenBatchNorm(7).double(), nn.BatchNorm1d(7).double()
    x = numbers(3, 5, 7).requires_grad_()
    packed = real(x.detach(), LENS).requires_grad_()
    for training in (True, True, False):
        norm.train(training), theirs.train(training)
        with torch.no_grad():
            x[1], x[2, 3:] = torch.nan, torch.inf
        found, expected = norm(x, torch.tensor(LENS)), theirs(packed)
        torch.testing.assert_close(real(found, LENS), expected)
        assert found.isfinite().all()
        x.grad = packed.grad = None
        real(found, LENS).square().cumsum(0).sum().backward()
        expected.square().cumsum(0).sum().backward()
        torch.testing.assert_close(real(x.grad, LENS), packed.grad)
        assert not x.grad[1].any()
        assert not x.grad[2, 3:].any()
    torch.testing.assert_close(norm.mean, theirs.running_mean)
    torch.testing.assert_close(norm.variance, theirs.running_var)


def test_a_batch_without_tokens_or_with_one():
    norm = TokenBatchNorm(2)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    for shape, lens in (((2, 3, 2), [0, 0]), ((2, 0, 2), [0, 0]), ((0, 3, 2), [])):
        assert norm(torch.ones(shape), torch.tensor(lens, dtype=torch.long)).isfinite().all()
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    # a token alone is the mean
    assert not norm(torch.full((1, 1, 2), 3.0), torch.tensor([9])).any()
    torch.testing.assert_close(norm.mean, torch.full((2,), 0.3))


def test_statistics_stay_float32_under_autocast():
    norm, x = TokenBatchNorm(2), torch.full((1, 1000, 2), 300.0)
    x[0, ::2] += 1
    with torch.autocast(DEVICE, torch.bfloat16):
        found = norm(x, torch.tensor([1000]))
    torch.testing.assert_close(found[0, :2, 0], torch.tensor([1.0, -1.0]), rtol=0, atol=1e-3)
    assert norm(x.bfloat16(), torch.tensor([1000])).dtype == torch.bfloat16


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", ["none", "layer", "batch", "rms"])
@pytest.mark.parametrize("parts", [{}, {"residual": False}, {"d_ff": 0}, {"residual": False, "d_ff": 0, "segment": 2}])
def test_a_stack_is_its_formula_and_padding_changes_nothing(order, norm, parts):
    torch.manual_seed(1)
    sizes = {"d_model": 6, "d_ff": 5, "num_heads": 2, "encoder_layers": 2, "dropout": 0.0, "position": "none"}
    config = AttentionConfig(**sizes | {"norm": norm, "norm_order": order} | parts)
    encoder = config.encoder().double().train()
    assert 4 <= config.fewest_tensors() <= len(list(encoder.parameters()))
    x = numbers(3, 5, 6)
    for lens in ([5, 1, 3], [2, 2, 4]):
        found = encoder(x, torch.tensor(lens))
        # what stands in padding counts in no statistics
        other = encoder(x + 9 * (torch.arange(5) >= torch.tensor(lens)[:, None])[..., None], torch.tensor(lens))
        torch.testing.assert_close(real(found, lens), real(other, lens), rtol=0, atol=1e-12)
    encoder.eval()
    alone = [encoder(row[None, :length], torch.tensor([length]))[0] for row, length in zip(x, lens, strict=True)]
    torch.testing.assert_close(real(encoder(x, torch.tensor(lens)), lens), torch.cat(alone), rtol=0, atol=1e-12)
    if not config.segment:
        torch.testing.assert_close(alone[2], _by_hand(encoder.encoder, config, x[2, :4]), rtol=0, atol=1e-12)


def test_each_segment_counts_its_own_tokens():
    sizes = {"d_model": 6, "d_ff": 5, "num_heads": 2, "encoder_layers": 1, "dropout": 0.0, "position": "none"}
    encoder, x = AttentionConfig(**sizes, norm="batch", segment=2).encoder().double().train(), numbers(2, 4, 6)
    encoder(x, torch.tensor([4, 1]))
    first, second = torch.stack([x[0, 0], x[0, 1], x[1, 0]]).mean(0), x[0, 2:].mean(0)
    running = encoder.encoder.blocks[0].attention_residual.before.mean
    torch.testing.assert_close(running, 0.9 * 0.1 * first + 0.1 * second)


def _by_hand(stack, config, x):
    def norm(module, x):
        return normed(module, x[None], None)[0]

    for block in stack.blocks:
        sublayers = [(block.attention_residual, lambda x, b=block: b.self_attention(x[None])[0])]
        if config.d_ff:
            sublayers.append((block.feed_forward_residual, block.feed_forward))
        for residual, sublayer in sublayers:
            y = sublayer(norm(residual.before, x) if config.norm_order == "pre" else x)
            y = x + y if config.residual else y
            x = norm(residual.after, y) if config.norm_order == "post" else y
    return norm(stack.norm, x) if config.norm_order == "pre" else x


def test_without_a_residual_dropout_still_acts_on_the_branch():
    residual = Residual(nn.Identity(), nn.Identity(), 0.5, skip=False).train()
    x, branch = torch.ones(1, 11, 33), torch.full((1, 11, 33), 2.0)
    assert set(residual(x, branch).unique().tolist()) == {0.0, 4.0}
    assert torch.equal(residual.eval()(x, branch), branch)
    assert repr(residual).startswith("Residual(\n  dropout=0.5, skip=False")


def test_batch_norm_is_refused_where_tokens_are_written():
    for kind in (TransformerConfig, DecoderConfig):
        with pytest.raises(ConfigError, match=r"norm 'batch' cannot be in a decoder: .* use 'layer', 'rms' or 'none'"):
            build(kind, {"norm": "batch"}, "recipe")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"norm": "batch"}, "a batch norm would count a batch twice; set norm=layer"),
        ({"residual": False}, "reversible layers are residual couplings; set residual=true"),
        ({"d_ff": 0}, "couplings of attention and feed-forward; set d_ff to 1 or more"),
        ({"norm_order": "post"}, "cannot be undone; set norm_order=pre"),
    ],
)
def test_reversible_stacks_say_what_they_cannot_have(values, message):
    with pytest.raises(ConfigError, match=message):
        AttentionConfig(**{"d_model": 6, "d_ff": 5, "num_heads": 2, "reversible": True} | values).encoder()


def test_an_unknown_norm_and_one_that_names_its_place():
    with pytest.raises(ConfigError, match="unknown norm 'bach'; did you mean 'batch'"):
        build_norm("bach", 3)
    with pytest.raises(ConfigError, match="recipe: norm = 'post' is written norm_order = 'post'"):
        build(TransformerConfig, {"norm": "post"}, "recipe")


def test_static_weights_do_not_change_with_the_input_and_those_of_attention_do():
    for mechanism, moves in (("random_synthesizer", False), ("scored", True)):
        torch.manual_seed(1)
        config = AttentionConfig(d_model=6, num_heads=2, encoder_layers=1, max_len=5, mechanism=mechanism, dropout=0.0)
        encoder, weights = config.encoder().eval(), []
        for seed in (2, 3):
            with record(encoder) as watched:
                output = encoder(numbers(1, 5, 6, seed=seed).float(), torch.tensor([5]))
            weights.append((watched["encoder.blocks.0.self_attention"].weights(), output))
        assert torch.equal(weights[0][0], weights[1][0]) != moves
        assert not torch.equal(weights[0][1], weights[1][1])
