"""Rotary positions with ids for each token: of one axis, of a grid, and in sections."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from headwise.attention.masks import Causal, Padding
from headwise.caches import AttentionStep
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.alibi import Alibi
from headwise.positions.rotary import Rotary
from headwise.positions.rotary_2d import Rotary2d
from headwise.positions.rotary_sections import RotarySections
from headwise.positions.xpos import Xpos

BATCH, HEADS, LENGTH = 2, 3, 6


def drawn(width: int) -> torch.Tensor:
    return torch.randn(BATCH, HEADS, LENGTH, width, dtype=torch.float64)


def drawn_ids(axes: int) -> torch.Tensor:
    return torch.randint(0, 90, (BATCH, axes, LENGTH))


def by_loop(heads, ids, turns, layout):
    """Every pair of columns by its own angle: `turns(ids of a token)` has one for each."""
    result, half = heads.clone(), heads.shape[-1] // 2
    for b in range(BATCH):
        for i in range(LENGTH):
            for j, angle in enumerate(turns(ids[b, :, i].tolist())):
                first, second = (2 * j, 2 * j + 1) if layout == "interleaved" else (j, j + half)
                x, y = heads[b, :, i, first], heads[b, :, i, second]
                result[b, :, i, first] = x * math.cos(angle) - y * math.sin(angle)
                result[b, :, i, second] = y * math.cos(angle) + x * math.sin(angle)
    return result


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_the_definitions_column_by_column(layout):
    def along(axes, base_width, pairs):
        return lambda ids: [ids[axes[j]] * 10000 ** (-2 * pairs[j] / base_width) for j in range(len(axes))]

    for position, turns in (
        (Rotary(8, layout=layout), along([0, 0, 0, 0], 8, range(4))),
        (Rotary2d(8, width=4, layout=layout), along([0, 0, 1, 1], 4, [0, 1, 0, 1])),
        (RotarySections(12, sections=(2, 3, 1), layout=layout), along([0, 0, 1, 1, 1, 2], 12, range(6))),
        (RotarySections(12, order="interleaved", layout=layout), along([0, 1, 2, 0, 1, 2], 12, range(6))),
    ):
        heads, ids = drawn(position.head_dim), drawn_ids(position.axes)
        expected = by_loop(heads, ids, turns, layout)
        torch.testing.assert_close(position.rotate(heads, ids), expected, rtol=0, atol=1e-10)
        torch.testing.assert_close(position.rotate_keys(heads, ids), expected, rtol=0, atol=1e-10)
        # ids of the whole batch
        torch.testing.assert_close(position.rotate(heads, ids[:1])[0], expected[0], rtol=0, atol=1e-10)


def test_a_grid_counts_its_rows_and_columns():
    heads, position = drawn(8), Rotary2d(8, width=4)
    ids = torch.tensor([[[0, 0, 1, 1, 1, 1], [2, 3, 0, 1, 2, 3]]])
    torch.testing.assert_close(position.rotate(heads, 2), position.rotate(heads, ids))


def test_scores_of_a_grid_depend_on_steps_alone():
    query, key, position = drawn(8), drawn(8), Rotary2d(8, width=4)
    ids = drawn_ids(2)
    moved = ids + torch.tensor([5, 11])[:, None]
    scores = [position.rotate(query, at) @ position.rotate(key, at).mT for at in (ids, moved)]
    torch.testing.assert_close(*scores, rtol=0, atol=1e-10)


def test_text_in_sections_is_plain_rotary():
    heads = drawn(8)
    for order in ("chunks", "interleaved"):
        found = RotarySections(8, order=order).rotate(heads, 3)
        torch.testing.assert_close(found, Rotary(8, layout="half").rotate(heads, 3), rtol=0, atol=1e-12)


def recomposed(kind, angles, sections=None):
    """cos and sin as a model of transformers puts them together from the angles of each axis."""
    if not hasattr(kind, "recomposition_frequencies"):
        pytest.skip("this transformers has no function of its own for it")
    model = SimpleNamespace(mrope_section=sections)
    return [kind.recomposition_frequencies(model, part) for part in (angles.cos(), angles.sin())]


@pytest.mark.parametrize("order", ["chunks", "interleaved"])
def test_as_qwen_vl_turns_text(order):
    query, key, ids = drawn(16), drawn(16), drawn_ids(3)
    angles = ids.transpose(0, 1)[..., None] * 10000.0 ** -(torch.arange(0, 16, 2).double() / 16)
    kind = qwen2_vl.Qwen2VLRotaryEmbedding if order == "chunks" else Qwen3VLTextRotaryEmbedding
    expected = qwen2_vl.apply_rotary_pos_emb(query, key, *recomposed(kind, angles, [4, 2, 2]))
    position = RotarySections(16, sections=(4, 2, 2), order=order)
    found = position.rotate(query, ids), position.rotate_keys(key, ids)
    torch.testing.assert_close(found, tuple(expected), rtol=0, atol=1e-10)


def test_as_qwen2_vl_turns_images():
    query, ids = drawn(16)[:1], drawn_ids(2)[:1]
    angles = ids[0].T[..., None] * 10000.0 ** -(torch.arange(0, 8, 2).double() / 8)
    cos, sin = recomposed(qwen2_vl.Qwen2VLVisionRotaryEmbedding, angles)
    expected = qwen2_vl.apply_rotary_pos_emb(query, query, cos[None], sin[None])[0]
    found = Rotary2d(16, width=9, layout="half").rotate(query, ids)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", [Rotary, lambda width: Rotary2d(width, width=3), RotarySections, Xpos])
def test_a_layer_places_tokens_by_their_ids(make):
    """Permuted tokens with their ids are the tokens in order; step by step with a cache is all at once."""
    layer = MultiHeadAttention(16, 2, position=make(8)).double()
    x, ids, order = torch.randn(2, LENGTH, 16).double(), drawn_ids(layer.position.axes), torch.randperm(LENGTH)
    whole = layer(x, ids=ids)
    torch.testing.assert_close(layer(x[:, order], ids=ids[:, :, order]), whole[:, order], rtol=0, atol=1e-10)
    alone = torch.cat([layer(x[b : b + 1, :4], ids=ids[b : b + 1, :, :4]) for b in range(2)])
    padded = layer(x, mask=Padding(torch.tensor([4, 4])), ids=ids)
    torch.testing.assert_close(padded[:, :4], alone, rtol=0, atol=1e-10)
    causal, memory, steps = layer(x, mask=Causal(), ids=ids), layer.new_cache(), []
    for t in range(LENGTH):
        step = AttentionStep(memory, position=t)
        steps.append(layer(x[:, t : t + 1], mask=Causal(), cache=step, ids=ids[:, :, t : t + 1]))
    torch.testing.assert_close(torch.cat(steps, 1), causal, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("untyped")
def test_ids_that_a_layer_cannot_take():
    x, ids = torch.randn(2, LENGTH, 16), drawn_ids(1)
    layer = MultiHeadAttention(16, 2, position=Rotary(8))
    for other, name in (
        (MultiHeadAttention(16, 2), "without positions"),
        (MultiHeadAttention(16, 2, position=Alibi(2)), "Alibi"),
    ):
        with pytest.raises(Unsupported, match=f"a layer .*{name}.* takes no ids of tokens"):
            other(x, ids=ids)
    with pytest.raises(Unsupported, match="not of a memory, beams or segments"):
        layer(x, x, ids=ids)
    with pytest.raises(ShapeError, match=r"ids \(2, 1, 5\) do not fit \(batch, axes, length\) = \(2, 1, 6\)"):
        layer(x, ids=ids[:, :, :5])


@pytest.mark.usefixtures("untyped")
def test_what_they_cannot_be():
    with pytest.raises(ConfigError, match="rotary_2d positions need a head_dim that 4 divides, got 6"):
        Rotary2d(6, width=2)
    with pytest.raises(ConfigError, match="rotary_2d positions need a grid at least 1 patch wide, got 0"):
        Rotary2d(8, width=0)
    for sections in ((4, 4), (1, 1, 1), (5, -1, 0)):
        with pytest.raises(ConfigError, match="must be 3 numbers of pairs that sum to head_dim / 2"):
            RotarySections(8, sections=sections)
    with pytest.raises(ConfigError, match="order of rotary_sections positions must be 'chunks' or 'interleaved'"):
        RotarySections(8, order="turns")
