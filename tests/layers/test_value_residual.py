"""Values of the first layer mixed into those of the others: by hand, cached, traced, refused where they cannot be."""

import pytest
import torch
from devices import seeded

from headwise.attention import attend
from headwise.attention.masks import Causal
from headwise.caches import AttentionStep
from headwise.errors import ConfigError
from headwise.explain.layer_trace import layer_trace
from headwise.layers.around import Around, FirstValues
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.latent import Latent
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import DecoderConfig, TransformerConfig


def layers():
    torch.manual_seed(0)
    stack = [MultiHeadAttention(12, 3, around=Around(values=role)).double() for role in ("give", "take", "take")]
    for layer in stack[1:]:
        torch.nn.init.normal_(layer.value_mix)
    return stack


def test_by_hand_with_gradients():
    """Zhou et al. 2024: v_l' = a v_l + b v_1, of values before any mixing."""
    stack, x = layers(), torch.randn(2, 5, 12, generator=seeded(1), dtype=torch.float64, requires_grad=True)
    shared, expected, first_value = FirstValues(), x, None
    actual = x
    for layer in stack:
        actual = layer(actual, mask=Causal(), first=shared)
        rows = layer.projection(expected).unflatten(-1, (9, 4)).transpose(1, 2)
        query, key, value = rows.split(3, 1)
        if first_value is None:
            first_value = value
        else:
            value = layer.value_mix[0] * value + layer.value_mix[1] * first_value
        expected = layer.output(attend(query, key, value, mask=Causal()).transpose(1, 2).flatten(2))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    parameters = [x, *(parameter for layer in stack for parameter in layer.parameters())]
    weight = torch.randn(actual.shape, dtype=torch.float64)
    gradients = [torch.autograd.grad((output * weight).sum(), parameters) for output in (actual, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_cached_is_whole():
    stack, x = layers(), torch.randn(2, 5, 12, generator=seeded(1), dtype=torch.float64)
    shared, whole, steps = FirstValues(), x, []
    for layer in stack:
        whole = layer(whole, mask=Causal(), first=shared)
    caches = [layer.new_cache() for layer in stack]
    for t in range(5):
        token, shared = x[:, t : t + 1], FirstValues()
        for layer, cache in zip(stack, caches, strict=True):
            token = layer(token, mask=Causal(), cache=AttentionStep(cache, t), first=shared)
        steps.append(token)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


def test_the_trace_of_a_layer_that_takes_values_is_its_output():
    stack, x, shared = layers(), torch.randn(1, 5, 12).double(), FirstValues()
    stack[0](x, mask=Causal(), first=shared)
    trace = layer_trace(stack[1], lambda: stack[1](x, mask=Causal(), first=shared), head=1)
    steps = {step.name: step.values for step in trace.steps}
    assert trace.difference < 1e-12
    torch.testing.assert_close(torch.from_numpy(steps["weights"] @ steps["value"]), torch.from_numpy(steps["output"]))


def test_a_model_with_an_encoder_mixes_in_both_stacks():
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 3, "decoder_layers": 2, "dropout": 0.0}
    model = build_transformer(TransformerConfig(value_residual=True, **sizes), 7, 7, joint=True)
    mixes = [name for name, _ in model.named_parameters() if name.endswith("value_mix")]
    assert len(mixes) == 3
    src, lens, tgt = torch.tensor([[3, 4, 5], [6, 3, 0]]), torch.tensor([3, 2]), torch.tensor([[1, 3, 4], [1, 6, 5]])
    loss = model(src, lens, tgt).square().sum()
    assert all(gradient.any() for gradient in torch.autograd.grad(loss, [model.get_parameter(name) for name in mixes]))
    first = model.encoder.blocks[0].self_attention
    assert first.value_mix is None
    padded, alone = model.encoder(src, lens).states, model.encoder(src[1:, :2], lens[1:]).states
    torch.testing.assert_close(padded[1:, :2], alone)


def test_what_cannot_share(untyped):
    with pytest.raises(ConfigError, match="a layer that gives or takes values stands in a stack"):
        MultiHeadAttention(8, 2, around=Around(values="give"))(torch.ones(1, 3, 8))
    with pytest.raises(ConfigError, match="values are 'own', or a layer gives or takes them: 'give', 'take', not 'x'"):
        Around(values="x")
    with pytest.raises(ConfigError, match="leave out value_residual"):
        MultiHeadAttention(8, 2, latent=Latent(4), around=Around(values="take"))
    with pytest.raises(ConfigError, match="leave reversible or value_residual out"):
        TransformerConfig(value_residual=True, reversible=True)
    assert build_decoder(DecoderConfig(d_model=8, d_ff=8, num_heads=2, num_layers=1, value_residual=True), 9)
