"""Every mechanism and position inside the Transformer: it learns, and step by step with beams is all at once."""

import pytest
import torch
from pydantic import ValidationError
from test_cached_steps import LENS, walk

from headwise import positions
from headwise.attention import mechanisms
from headwise.attention.mechanisms import mechanism_type
from headwise.errors import ConfigError
from headwise.records import record

READERS = [name for name in mechanisms.names() if mechanism_type(name).facts.bidirectional]
WRITERS = [
    name
    for name in mechanisms.names()
    if mechanism_type(name).facts.causal and mechanism_type(name).facts.cache != "none"
]


@pytest.mark.parametrize("name", mechanisms.names())
def test_every_mechanism_learns_inside_the_model(build, tokens, name):
    reader, writer = (name if name in kind else "scored" for kind in (READERS, WRITERS))
    model = build(mechanism=reader, decoder_mechanism=writer, encoder_layers=1, decoder_layers=1).train()
    logits = model(tokens(3, 7), LENS, tokens(3, 5, vocab=19))
    assert logits.shape == (3, 5, 19)
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("beams", "shared"), [(1, 0), (3, 1)])
@torch.no_grad()
def test_cached_is_full_with_every_causal_mechanism(build, tokens, name, beams, shared):
    model = build(decoder_mechanism=name, d_model=18, encoder_layers=1)
    walk(model, model.encoder(tokens(3, 7), LENS), beams, 6, {1: [2, 0], 4: [1]}, shared)


@pytest.mark.parametrize("name", [name for name in positions.names() if positions.position_type(name).steps])
@pytest.mark.parametrize(("beams", "shared"), [(1, 0), (3, 0), (2, 3)])
@torch.no_grad()
def test_cached_is_full_with_every_position(build, tokens, name, beams, shared):
    # a length that is a square, for those that see a grid
    model = build(position=name, d_model=24, encoder_layers=1, max_len=100)
    walk(model, model.encoder(tokens(3, 7), LENS), beams, 6, {1: [2, 0], 4: [1]}, shared)


@pytest.mark.parametrize("mechanism", ["scored", "differential", "talking_heads"])
@pytest.mark.parametrize("position", ["t5", "shaw", "rotary"])
@torch.no_grad()
def test_mechanisms_and_positions_combine(build, tokens, mechanism, position):
    model = build(mechanism=mechanism, position=position, d_model=24, num_kv_heads=1)
    walk(model, model.encoder(tokens(3, 7), LENS), 2, 4, {}, 1)


def test_what_cannot_read_or_write_is_named(build):
    with pytest.raises(ConfigError, match=r"'linformer' .*decoder"):
        build(mechanism="linformer")
    with pytest.raises(ConfigError, match=r"'reformer' .*decoder"):
        build(decoder_mechanism="reformer")
    with pytest.raises(ConfigError, match=r"'retention' .*encoder.*: based, .*dense"):
        build(mechanism="retention")
    with pytest.raises(ConfigError, match=r"position 'convolutional' .*decoder"):
        build(position="convolutional")
    with pytest.raises(ConfigError, match=r"'scored'.*'linear'"):
        build(mechanism="linear", normalizer="relu")
    with pytest.raises(ValidationError, match="unknown mechanism 'linaer'"):
        build(mechanism="linaer")
    with pytest.raises(ValidationError, match="unknown normalizer 'sparsmax'"):
        build(normalizer="sparsmax")
    with pytest.raises(ValidationError, match="unknown score 'adative'"):
        build(score="adative")
    with pytest.raises(ConfigError, match=r"mechanism 'linear' .*position 't5'"):
        build(decoder_mechanism="linear", position="t5")


def test_a_reversible_encoder_learns_and_is_recorded_once(build, tokens):
    model = build(reversible=True, encoder_layers=3).train()
    names = [name for name, _ in model.named_parameters()]
    with record(model, "encoder.*") as trace:
        model(tokens(3, 7), LENS, tokens(3, 5, vocab=19)).square().sum().backward()
    assert len(trace.names()) == 3
    assert all(len(layer.calls) == 1 for layer in trace)
    assert all(parameter.grad.any() for name, parameter in model.named_parameters() if "weight" in name)
    assert sum("couplings" in name for name in names) == 3 * 12
    with pytest.raises(ConfigError, match=r"reversible .*pre-norm"):
        build(reversible=True, norm_order="post")
