"""The family of positions: what holds for every scheme, and for every scheme of a kind."""

import pytest
import torch
from relative_loops import spread

from headwise import positions
from headwise.attention import attend
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, KeyValues
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.learned import Learned
from headwise.positions.none import NoPosition
from headwise.positions.position import Position
from headwise.positions.relative_2d import Relative2d
from headwise.positions.sinusoidal import Sinusoidal

EMBEDDED = ("convolutional", "flow", "learned", "recurrent", "sinusoidal", "sinusoidal_2d")
# those that depend on distance alone, any distance
RELATIVE = ("alibi", "deberta", "shaw", "t5", "transformer_xl")
IN_ATTENTION = (*RELATIVE, "relative_2d", "rotary")
D_MODEL, HEAD_DIM, HEADS, MAX_LEN = 12, 4, 3, 36


def build(name: str) -> Position:
    return positions.build(name, D_MODEL, HEAD_DIM, HEADS, MAX_LEN)


def test_the_folder_is_the_registry():
    assert positions.names() == tuple(sorted((*EMBEDDED, *IN_ATTENTION, "none")))
    assert list(positions.catalogue()) == list(positions.names())
    assert all(positions.catalogue().values())
    with pytest.raises(ConfigError, match="unknown position 'rotery'; did you mean 'rotary'"):
        positions.build("rotery", 8, 4, 2, 5)


def test_the_facts_of_every_scheme():
    """Where it enters agrees with the hooks it overrides; a year stands in every source."""
    places = {"embeddings": EMBEDDED, "nowhere": ("none",), "queries and keys": ("rotary",)}
    places |= {"scores and values": ("shaw",), "scores": ("alibi", "deberta", "relative_2d", "t5", "transformer_xl")}
    facts = positions.facts()
    assert list(facts) == list(positions.names())
    for where, names in places.items():
        assert {name for name, known in facts.items() if known.where == where} == set(names)
    for name, known in facts.items():
        assert positions.details()[name] == [
            ("where", known.where),
            ("longer", known.extrapolates),
            ("paper", known.paper),
        ]
        assert known.extrapolates.endswith(".")
        assert known.extrapolates.count(".") == 1
        assert "arXiv:" in known.paper


@pytest.mark.parametrize("name", positions.names())
def test_every_scheme_is_built_for_a_model_and_keeps_shape_and_type(name):
    position = build(name)
    x, heads = torch.randn(2, 5, D_MODEL), torch.randn(2, HEADS, 5, HEAD_DIM)
    start = 0 if name == "convolutional" else 3
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert position.embed(x.to(dtype), start).dtype == dtype
        assert position.embed(x.to(dtype), start).shape == x.shape
        assert position.rotate(heads.to(dtype), 3).dtype == dtype
        assert position.rotate(heads.to(dtype), 3).shape == heads.shape
    assert (position.bias(heads, heads, 0) is not None) == (name in ("relative_2d", "transformer_xl"))
    assert (position.relative(heads, heads, -4, 4) is not None) == (name in RELATIVE)
    assert position.acts_in_attention() == (name in IN_ATTENTION)
    assert position.acts_on_scores() == (name in IN_ATTENTION and name != "rotary")
    # a scheme enters the embeddings or the attention, not both
    assert torch.equal(position.embed(x, 0), x) == (name not in EMBEDDED)
    assert torch.equal(position.rotate(heads, 3), heads) == (name not in ("rotary", "deberta"))


@pytest.mark.parametrize("name", [name for name in (*EMBEDDED, "none") if name != "convolutional"])
def test_a_token_later_is_the_token_at_its_place(name):
    position = build(name)
    x = torch.randn(2, 11, D_MODEL)
    with torch.no_grad():
        steps = torch.cat([position.embed(x[:, t : t + 1], t) for t in range(11)], 1)
        torch.testing.assert_close(steps, position.embed(x, 0), rtol=0, atol=1e-6)


def test_a_scheme_that_adds_to_the_scores_acts_in_attention():
    class Slope(Position):
        @classmethod
        def sized(cls, d_model, head_dim, num_heads, max_len):
            return cls()

        def bias(self, query, key, start):
            return torch.zeros(1, 1, query.shape[2], key.shape[2])

    assert Slope().acts_in_attention()
    assert not NoPosition().acts_in_attention()
    assert Slope.extrapolates == "not stated"


def test_words_alike_are_told_apart_by_position_alone():
    """In "I saw a saw" both words "saw" give the same output without positions, and differ with them."""
    words = torch.randn(3, 8)
    sentence = words[[0, 1, 2, 1]][None]
    for position, same in ((NoPosition(), True), (Sinusoidal(8), False), (Learned(5, 8), False)):
        x = position.embed(sentence, 0).unsqueeze(1)
        output = attend(x, x, x)[0, 0]
        assert torch.equal(output[1], output[3]) == same


@pytest.mark.parametrize("name", positions.names())
def test_order_matters_with_every_scheme_but_none(name):
    """Two sentences of the same words: only positions tell "the cat sat on the mat" from "the mat sat on the cat"."""
    position = spread(build(name))
    layer = layer_with(position)
    sentence = torch.randn(1, 6, D_MODEL, dtype=torch.float64)
    other = sentence[:, [0, 5, 2, 3, 4, 1]]
    one, two = (layer(position.embed(x, 0)).sum(1) for x in (sentence, other))
    assert torch.allclose(one, two, rtol=0, atol=1e-9) == (name == "none")


@pytest.mark.parametrize("position", [Sinusoidal(8), Learned(16, 8)], ids=["sinusoidal", "learned"])
def test_positions_of_the_tokens_and_not_of_their_places_in_the_row(position):
    """A sentence padded on the left gives what it gives alone, when its tokens are embedded from their own start."""
    sentence = torch.randn(1, 5, 8)
    embedded = position.embed(sentence, 0)[:, None]
    alone = attend(embedded, embedded, embedded)
    junk = torch.full((1, 1, 3, 8), 9.0)
    right, left = torch.cat((embedded, junk), 2), torch.cat((junk, embedded), 2)
    output = attend(right, right, right, mask=Padding(torch.tensor([5])))
    torch.testing.assert_close(output[:, :, :5], alone, rtol=0, atol=1e-5)
    output = attend(left, left, left, mask=Table((torch.arange(8) >= 3).expand(8, 8)))
    torch.testing.assert_close(output[:, :, 3:], alone, rtol=0, atol=1e-5)


# schemes inside attention layers


def layer_with(position: Position, kv_heads: int | None = None) -> MultiHeadAttention:
    acting = position if position.acts_in_attention() else None
    return MultiHeadAttention(D_MODEL, HEADS, Scored(), num_kv_heads=kv_heads, position=acting).double()


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("shift", [1, 100])
def test_shifting_all_positions_changes_nothing(name, shift):
    """What tokens add to each other's scores is the same wherever in a longer sequence they stand."""
    position = spread(build(name))
    query, key = torch.randn(2, 2, HEADS, 5, HEAD_DIM, dtype=torch.float64).unbind()
    junk = torch.randn(2, HEADS, shift, HEAD_DIM, dtype=torch.float64)

    def added(query, key):
        length = query.shape[2]
        relative, bias = position.relative(query, key, 1 - length, length - 1), position.bias(query, key, 0)
        return relative.bias(0, length, length) + (0 if bias is None else bias)

    shifted = added(torch.cat((junk, query), 2), torch.cat((junk, key), 2))[:, :, shift:, shift:]
    torch.testing.assert_close(shifted, added(query, key).expand_as(shifted), rtol=0, atol=1e-12)


def test_shifting_an_image_by_rows_changes_nothing():
    small, large = Relative2d(HEADS, height=2, width=3), Relative2d(HEADS, height=5, width=3)
    with torch.no_grad():
        # the steps that both grids know lie in the middle of the larger table
        small.table.copy_(large.table[15:30])
    patches = torch.zeros(1, HEADS, 15, HEAD_DIM)
    whole = large.bias(patches, patches, 0)
    for first in (0, 3, 9):
        part = whole[:, :, first : first + 6, first : first + 6]
        assert torch.equal(part, small.bias(patches[:, :, :6], patches[:, :, :6], 0))


@pytest.mark.parametrize("name", ["none", "rotary", *RELATIVE])
@pytest.mark.parametrize("causal", [True, False])
def test_padding_on_the_left_or_on_the_right_or_none(name, causal):
    """A layer whose scheme knows distances only gives a sentence the same output wherever in its row it stands."""
    layer = layer_with(spread(build(name)))
    sentence = torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    alone = layer(sentence, mask=Causal() if causal else None)
    for left, right in ((0, 4), (4, 0), (3, 1)):
        real = torch.zeros(9, dtype=torch.bool)
        real[left : left + 5] = True
        mask = Padding(torch.tensor([5])) if left == 0 else Table(real.expand(9, 9))
        padded = torch.nn.functional.pad(sentence, (0, 0, left, right), value=3.0)
        output = layer(padded, mask=mask & Causal() if causal else mask)
        torch.testing.assert_close(output[:, left : left + 5], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", IN_ATTENTION)
@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("chunks", [[1] * 13, [5, 1, 7]])
def test_step_by_step_with_a_cache_is_all_at_once(name, kv_heads, chunks):
    layer = layer_with(spread(build(name)), kv_heads)
    x = torch.randn(2, 13, D_MODEL, dtype=torch.float64)
    memory, outputs, start = KeyValues(), [], 0
    with torch.no_grad():
        for size in chunks:
            outputs.append(layer(x[:, start : start + size], mask=Causal(), cache=AttentionStep(memory, start)))
            start += size
    torch.testing.assert_close(torch.cat(outputs, 1), layer(x, mask=Causal()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATIVE)
def test_hypotheses_side_by_side_share_their_positions(name):
    """Two hypotheses that parted after 3 tokens: keys 3 and 4 stand at position 3, keys 5 and 6 at position 4."""
    position = spread(build(name))
    at = torch.tensor([0, 1, 2, 3, 3, 4, 4])
    keys = torch.randn(1, HEADS, 7, HEAD_DIM, dtype=torch.float64)
    query = torch.randn(1, HEADS, 2, HEAD_DIM, dtype=torch.float64)
    relative = position.relative(query, keys, -5, 2).placed(at.expand(2, 7) - 4)
    for beam in (0, 1):
        own = [0, 1, 2, 3 + beam, 5 + beam]
        alone = position.relative(query[:, :, beam : beam + 1], keys[:, :, own], -4, 0)
        expected = alone.bias(0, 1, 5, 4)[:, :, 0]
        found = relative.bias(0, 2, 7)[:, :, beam, own]
        torch.testing.assert_close(found, expected.expand_as(found), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_which_schemes_keys_in_any_order_may_have(name):
    """What is added to a score moves with its key, or the scheme says that keys have to stand in order."""
    position = spread(build(name))
    query, key = torch.randn(2, 1, HEADS, 7, HEAD_DIM, dtype=torch.float64).unbind()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    one, two = position.bias(query, key, 0), position.bias(query, key[:, :, order], 0)
    moves = one is None or torch.equal(one[..., order], two)
    assert position.side_by_side() == moves == (name != "relative_2d")


@pytest.mark.parametrize("name", positions.names())
def test_every_parameter_gets_a_gradient(name):
    position = build(name)
    layer = layer_with(position).float()
    x = torch.randn(2, 9, D_MODEL)
    (layer(position.embed(x, 0)) * torch.randn(2, 9, D_MODEL)).sum().backward()
    for parameter_name, parameter in position.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_keeps_its_tables_in_single(name, dtype):
    position = spread(build(name)).to(dtype)
    query = torch.randn(1, HEADS, 9, HEAD_DIM, dtype=dtype)
    relative = position.relative(query, query, -8, 8)
    if name != "t5":
        assert {tensor.dtype for tensor in relative.tensors} == {torch.float32}
    found = relative.bias(0, 9, 9)
    exact = position.double().relative(query.double(), query.double(), -8, 8).bias(0, 9, 9)
    # parameters are half precision in both, so all that differs is float32 rounding
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", positions.names())
def test_the_state_goes_to_a_twin(name):
    one, two = build(name), build(name)
    two.load_state_dict(one.state_dict())
    layers = layer_with(one), layer_with(two)
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(1, 7, D_MODEL, dtype=torch.float64)
    with torch.no_grad():
        outputs = [layer(position.embed(x, 0)) for layer, position in zip(layers, (one, two), strict=True)]
    assert torch.equal(*outputs)


def test_rotations_know_near_from_far_before_anything_is_learned():
    """The product of a vector with itself, turned for a place further away, is smaller (Su et al. 2021, 3.3)."""
    ones = torch.ones(1, 64, dtype=torch.float64)
    rotary = positions.build("rotary", 64, 64, 1, 1)
    products = [float(rotary.rotate(ones, 0) @ rotary.rotate(ones, far).mT) for far in (0, 5, 50, 1000)]
    assert products == sorted(products, reverse=True)
    assert products[0] == pytest.approx(64)
