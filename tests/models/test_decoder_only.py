"""The decoder-only Transformer: causal, cached as a whole and step by step, with a memory of earlier segments."""

import pytest
import torch
from devices import seeded

from headwise.attention.masks import Window
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import greedy
from headwise.errors import ConfigError, ShapeError
from headwise.layers.inference import DecodingBlock, for_inference
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer_config import DecoderConfig

VOCAB = 19
EXACT = {"rtol": 0, "atol": 1e-12}
KINDS = [
    {"position": "sinusoidal"},
    {"position": "learned", "norm_order": "post"},
    {"position": "rotary", "num_kv_heads": 1, "activation": "swiglu", "d_model": 18},
    {"position": "alibi"},
    {"position": "transformer_xl", "num_kv_heads": 1},
    {"position": "t5", "qk_norm": True},
    {"position": "rotary:columns=2", "latent": 5, "latent_queries": 7, "value_dim": 3},
    {"position": "xpos", "d_model": 18},
    {"position": "cope:size=5"},
    {"position": "fire"},
    {"position": "none", "mechanism": "forgetting"},
    {"position": "none", "mechanism": "stick_breaking"},
    {"position": "none", "mechanism": "linear"},
    {"position": "none", "mechanism": "retention"},
    {"position": "none", "mechanism": "gated_linear"},
    {"position": "rotary", "conv": 3, "gate": "element", "head_norm": "rms", "num_kv_heads": 1},
    {"position": "none", "mechanism": "linear", "conv": 4, "gate": "head", "gate_activation": "silu"},
    {"position": "none", "mechanism": "gated_delta", "conv": 4, "gate": "element", "num_kv_heads": 1},
    {"position": "rotary", "mechanism": "rwkv6"},
    {"position": "none", "mechanism": "mlstm", "head_norm": "layer"},
    {"position": "none", "mechanism": "cosformer"},
    {"position": "rotary", "value_residual": True, "num_layers": 3, "num_kv_heads": 1},
    {"position": "none", "value_residual": True, "mechanism": "gated_delta", "conv": 3},
]
RELATIVE = ["none", "rotary", "alibi", "t5", "shaw", "transformer_xl"]


def build(*, seed=3, **options):
    """A model in float64 and `eval()` with weights large enough that every part matters."""
    torch.manual_seed(seed)
    sizes = {"d_model": 12, "d_ff": 23, "num_heads": 3, "num_layers": 2, "max_len": 31}
    model = build_decoder(DecoderConfig(**(sizes | options)), VOCAB)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embedding" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.double().eval()


def tokens(*shape, seed=5):
    return torch.randint(4, VOCAB, shape, generator=seeded(seed))


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("prompt", [0, 1, 5])
@torch.no_grad()
def test_prompt_then_steps_are_one_pass(options, twin, prompt):
    model, text = build(**options), tokens(3, 9)
    writer = for_inference(model) if twin else model
    cache = writer.start(text[:, :prompt])
    assert (cache.length, cache.sentences) == (prompt, 3)
    steps = torch.stack([writer.step(column, cache) for column in text[:, prompt:].unbind(1)], 1)
    torch.testing.assert_close(steps, model(text)[:, prompt:], **EXACT)


@pytest.mark.parametrize("options", KINDS)
@torch.no_grad()
def test_beams_behind_a_prompt_are_full_passes(options):
    model, generator = build(**options), seeded(9)
    held = tokens(3, 4)
    cache = model.start(held)
    for step in range(5):
        if step == 1:
            cache.expand(2)
            held = held.repeat_interleave(2, 0)
        new = torch.randint(4, VOCAB, (len(held),), generator=generator)
        held = torch.cat([held, new[:, None]], 1)
        torch.testing.assert_close(model.step(new, cache), model(held)[:, -1], **EXACT)
        if step >= 1:
            own = 2 * torch.arange(len(held) // 2)[:, None]
            index = (own + torch.randint(2, (len(held) // 2, 2), generator=generator)).flatten()
            cache.reorder(index)
            held = held[index]
        if step == 3:
            kept = torch.tensor([2, 0])
            cache.keep(kept)
            held = held.unflatten(0, (3, 2))[kept].flatten(0, 1)


def full_greedy(model, text, steps, banned):
    for _ in range(steps):
        logits = model(text)[:, -1]
        logits[:, banned] = float("-inf")
        text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)
    return text


@torch.no_grad()
def test_greedy_and_beam_search_from_prompts_that_end_differently():
    model, prompt, steps = build(position="rotary"), tokens(3, 4), 6
    rules = constraints([steps] * 3, bos_id=prompt[:, -1].tolist(), eos_id=0, banned=(0,))
    found = greedy(model, model.start(prompt[:, :-1]), rules)
    assert [row[0].tokens for row in found] == full_greedy(model, prompt, steps, 0)[:, 4:].tolist()
    best = beam_search(model, model.start(prompt[:, :-1]), rules, beam_size=3, n_best=3)
    for row, hypotheses in enumerate(best):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            whole = torch.cat([prompt[row], torch.tensor(hypothesis.tokens)])[None]
            odds = model(whole[:, :-1]).log_softmax(-1)[0, 3:]
            sure = odds.gather(1, whole[0, 4:, None]).sum().item()
            assert hypothesis.log_prob == pytest.approx(sure, abs=1e-10)


@pytest.mark.parametrize("options", KINDS)
def test_no_position_sees_later_tokens_and_every_parameter_learns(options):
    model, text = build(**options), tokens(2, 7)
    other = text.clone()
    other[:, 4] = (other[:, 4] - 3) % 15 + 4
    with torch.no_grad():
        one, two = model(text), model(other)
    assert torch.equal(one[:, :4], two[:, :4])
    assert not torch.equal(one[:, 4:], two[:, 4:])
    model.train()
    (model(text) * torch.randn(2, 7, VOCAB, generator=seeded(2)).double()).sum().backward()
    silent = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not silent
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


@pytest.mark.parametrize("position", RELATIVE)
@torch.no_grad()
def test_segments_of_one_layer_are_the_whole(position):
    model, text = build(position=position, num_layers=1, memory_len=9), tokens(2, 9)
    segments = model.segments()
    parts = [model(part, segments) for part in text.split(3, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(text), **EXACT)


@torch.no_grad()
def test_segments_of_many_layers_are_one_pass_through_a_window():
    model, text = build(position="rotary", num_layers=3, memory_len=4), tokens(2, 11)
    segments = model.segments()
    parts = torch.cat([model(part, segments) for part in text.split(1, dim=1)], 1)
    x = model.decoder.embedding(text)
    for block in model.decoder.blocks:
        x = block(x, None, mask=Window(4, 0), memory_mask=None)
    torch.testing.assert_close(parts, model.output(model.decoder.norm(x)), **EXACT)


@torch.no_grad()
def test_segments_of_a_wider_type_go_before_new_ones():
    model, text = build(position="rotary", num_layers=1, memory_len=9), tokens(2, 6)
    segments = model.segments()
    model(text[:, :3], segments)
    rounded = model.float()
    found, expected = (
        rounded(text[:, 3:], part) for part in (segments, rounded.segments([segments[0].inputs.float()]))
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_segments_that_fit_no_model_are_refused_by_name(untyped):
    model, text = build(position="rotary", memory_len=9), tokens(2, 6)
    segments = model.segments()
    model(text, segments)
    with pytest.raises(ShapeError, match=r"\(2, 6, 12\), the new segment \(1, length, 12\)"):
        model(text[:1], segments)
    with pytest.raises(ShapeError, match="2 layers, got inputs of 1"):
        model.segments([segments[0].inputs])
    for given in ([], segments[:1], [*segments, segments[0]]):
        with pytest.raises(ShapeError, match=f"the model has 2 layers, got the segments of {len(given)}: one for each"):
            model.hidden(text, given)


def test_nothing_flows_back_into_an_earlier_segment():
    model, text = build(position="rotary", memory_len=3).train(), tokens(2, 6)
    segments = model.segments()
    model(text[:, :3], segments)
    assert all(not kept.inputs.requires_grad and kept.inputs.shape == (2, 3, 12) for kept in segments)
    model(text[:, 3:], segments).sum().backward()
    assert build().segments() is None


def test_the_twin_runs_bare_blocks_and_a_prompt_comes_before_beams():
    model, text = build(position="rotary"), tokens(2, 3)
    assert all(isinstance(block, DecodingBlock) for block in for_inference(model).decoder.blocks)
    with torch.no_grad():
        cache = model.start(text)
        cache.expand(2)
        with pytest.raises(AssertionError, match="come before there are beams"):
            model.decoder.extend(text, cache)
        # a prompt may come in pieces
        pieces = model.start(text[:, :1])
        model.decoder.extend(text[:, 1:], pieces)
        torch.testing.assert_close(model.step(text[:, 0], pieces), model(torch.cat([text, text[:, :1]], 1))[:, -1])


def test_builds_on_the_meta_device_and_ties_its_output():
    with torch.device("meta"):
        model = build_decoder(DecoderConfig(d_model=12, num_heads=3, num_layers=1), VOCAB)
    assert model.output.weight.is_meta
    tied, free = build(), build(tie_output=False)
    assert tied.output.weight is tied.decoder.embedding.weight
    assert free.output.weight is not free.decoder.embedding.weight
    assert not any("cross" in name for name in tied.state_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "linformer"}, "mechanism 'linformer' cannot hide later tokens.*set mechanism to one that can"),
        (
            {"memory_len": 5},
            "memory_len needs .*'sinusoidal' numbers the tokens.*rotary",
        ),
        (
            {"memory_len": 5, "position": "none", "mechanism": "linear"},
            "mechanism 'linear' cannot read keys of earlier",
        ),
        ({"num_heads": 5}, r"num_heads \(5\)"),
    ],
)
def test_what_cannot_be_built(options, message):
    with pytest.raises(ConfigError, match=message):
        build(**options)
