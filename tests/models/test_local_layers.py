"""Local layers among global ones, norms on both sides of a sublayer, bounded logits: what the models compute."""

import pytest
import torch

from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import constraints
from headwise.errors import ConfigError
from headwise.layers.embeddings import VocabularyOutput
from headwise.layers.inference import for_inference
from headwise.layers.loss import output_loss
from headwise.layers.norms import OffsetRMSNorm, norm_parts
from headwise.models.decoder_only import build_decoder
from headwise.models.pooling import SequencePoolingConfig, norm_above
from headwise.models.token_encoders import AttentionConfig
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import DecoderConfig, TransformerConfig
from headwise.records import record

SIZES = {"d_model": 12, "d_ff": 14, "num_heads": 3, "dropout": 0.0}
LOCAL = {"local_mask": "window:left=2,right=0", "local_layers": "lg"}
GEMMA = {"norm": "rms_1p", "norm_order": "sandwich", "output_cap": 2.0, "activation": "geglu_tanh", "qk_norm": True}
GEMMA |= {"score": "soft_cap:score=(dot:scale=0.3),cap=2.0", "position": "rotary", "local_position": "rotary:base=50"}


def decoder(**keys):
    torch.manual_seed(0)
    model = build_decoder(DecoderConfig(**{**SIZES, "num_layers": 3, **LOCAL, **keys}), 11)
    return model.train(False)


def test_local_layers_see_a_window_and_global_ones_all():
    model = decoder()
    with record(model) as trace:
        model(torch.arange(7)[None])
    for layer, reach in enumerate((2, 6, 2)):
        weights = trace[f"decoder.blocks.{layer}.self_attention"].weights()[0, 0]
        rows, columns = torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij")
        seen = (columns <= rows) & (columns >= rows - reach)
        assert ((weights > 0) == seen).all()


@pytest.mark.parametrize(
    "keys", [{}, {"position": "t5"}, {"local_position": "alibi"}, GEMMA, {"mechanism": "differential"}]
)
def test_a_search_computes_what_one_pass_computes(keys):
    model = decoder(**keys)
    rules = constraints([9, 9], bos_id=1, eos_id=2)
    for searched in (model, for_inference(model)):
        cache = searched.start(torch.tensor([[1, 5, 7], [1, 3, 3]])[:, :0])
        results = beam_search(searched, cache, rules, beam_size=3)
        for best in (hypotheses[0] for hypotheses in results):
            tokens = torch.tensor([[1, *best.tokens, *([2] if best.finished else [])]])
            log_probs = model(tokens[:, :-1]).log_softmax(-1)[0].detach()
            total = log_probs.gather(1, tokens[0, 1:, None]).sum()
            assert float(total) == pytest.approx(best.log_prob, abs=1e-4)


def test_an_encoder_has_local_layers_too():
    config = AttentionConfig(**SIZES, encoder_layers=2, local_mask="window:left=1,right=1", local_layers="gl")
    encoder = config.encoder().train(False)
    x, lens = torch.randn(2, 5, 12), torch.tensor([5, 3])
    with record(encoder) as trace:
        states = encoder(x, lens)
    weights = [trace[f"encoder.blocks.{layer}.self_attention"].weights() for layer in range(2)]
    assert (weights[0][0] > 0).all()
    assert (weights[1][0, 0] > 0).int().sum(-1).tolist() == [2, 3, 3, 3, 2]
    torch.testing.assert_close(encoder(x[1:, :3], lens[1:]), states[1:, :3])
    (together,) = for_inference(encoder.encoder).read_all([(x, lens)])
    torch.testing.assert_close(together.states[1, :3], states[1, :3])


def test_both_sides_have_local_layers():
    keys = {"encoder_layers": 2, "decoder_layers": 2, "local_mask": "window:left=1,right=1"}
    model = build_transformer(TransformerConfig(**SIZES, **keys), 11, 11, joint=True).train(False)
    with record(model) as trace:
        model(torch.ones(1, 5, dtype=torch.long), torch.tensor([5]), torch.ones(1, 5, dtype=torch.long))
    seen = trace["decoder.blocks.1.self_attention"].weights()[0, 0] > 0
    assert seen.int().sum(-1).tolist() == [1, 2, 2, 2, 2]
    assert (trace["decoder.blocks.1.cross_attention"].weights() > 0).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"local_layers": "lg"}, "belong to local_mask"),
        ({"local_position": "rotary"}, "belong to local_mask"),
        ({"local_mask": "window:1,0", "local_layers": "x"}, "local_layers"),
        ({"local_mask": "window:1,0", "mechanism": "linear"}, "leave local_mask out"),
        ({"local_mask": "window:1,0", "local_position": "sinusoidal"}, "changes embeddings"),
        ({"local_mask": "window:1,0", "memory_len": 4, "position": "rotary"}, "local_mask or memory_len"),
        ({"local_mask": "window:1,0", "conv": 4}, "leave conv out"),
        ({"output_cap": 0.0}, "output_cap"),
    ],
)
def test_what_does_not_go_together_is_refused(keys, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        DecoderConfig(**SIZES, num_layers=2, **keys)


def test_a_norm_whose_gain_is_stored_less_one_is_an_rms_norm():
    norm, usual = OffsetRMSNorm(5), torch.nn.RMSNorm(5, eps=1e-6)
    torch.nn.init.normal_(norm.weight)
    usual.weight.data = 1 + norm.weight.data
    parts = torch.randn(3, 2, 5)
    torch.testing.assert_close(norm(parts), usual(parts))
    total = parts.sum(1)
    torch.testing.assert_close(norm_parts(norm, total, parts).sum(1), norm(total))


def test_the_loss_of_bounded_logits_is_their_cross_entropy():
    torch.manual_seed(0)
    output, hidden = VocabularyOutput(5, 7, bias=True, scale=0.5, cap=1.5), 9 * torch.randn(600, 5)
    targets = torch.randint(7, (600,))
    logits = output(hidden)
    assert logits.abs().max() <= 1.5
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(output_loss(output, hidden, targets), expected)


def test_the_first_norm_and_biases_of_norms_may_be_left_out():
    torch.manual_seed(0)
    config = AttentionConfig(**SIZES, encoder_layers=2, first_norm=False, norm_bias=False, position="none")
    encoder = config.encoder().train(False)
    names = [name for name in encoder.state_dict() if "residual" in name or name.endswith("norm.bias")]
    assert [name for name in names if "blocks.0.attention" in name or name.endswith(".bias")] == []
    x, lens = torch.randn(1, 3, 12), torch.tensor([3])
    block = encoder.encoder.blocks[0]
    heads = x + block.self_attention(x)
    torch.testing.assert_close(block(x, None), heads + block.feed_forward(block.feed_forward_residual.before(heads)))
    torch.testing.assert_close(for_inference(encoder)(x, lens), encoder(x, lens))


@pytest.mark.parametrize(
    ("keys", "message"),
    [({"norm": "rms", "norm_bias": False}, "has no bias"), ({"norm_order": "post", "first_norm": False}, "has none")],
)
def test_a_norm_that_is_not_there_is_not_left_out(keys, message):
    with pytest.raises(ConfigError, match=message):
        AttentionConfig(**SIZES, **keys)


def test_a_pooling_has_a_norm_behind_its_layer():
    pooling = SequencePoolingConfig(kind="first", transform="gelu", transform_bias=False, transform_norm=True)
    x = torch.randn(2, 3, 5)
    layer = pooling.pooling(5, 0)
    dense, norm = layer.transform.dense, layer.transform.norm
    assert dense.bias is None
    expected = norm(torch.nn.functional.gelu(dense(x[:, 0])))
    torch.testing.assert_close(layer(x, torch.tensor([3, 1])), expected)
    assert isinstance(norm_above(AttentionConfig(norm="rms"))(5), torch.nn.RMSNorm)
    assert isinstance(norm_above(AttentionConfig(norm="batch"))(5), torch.nn.LayerNorm)
