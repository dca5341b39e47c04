"""Maps of blocks and rows on demand equal the same made of the whole table of weights."""

import numpy as np
import pytest
import torch

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Window
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Sinks
from headwise.cancellation import cancelled_by
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.explain import pooling
from headwise.explain.explanation import Layer
from headwise.explain.pooling import Pooled, Whole, block_for, pooled, strips
from headwise.predictors.looking import Attended
from headwise.records import record

# whose strips are made shorter
MODULE = pooling


def of_blocks(weights, allowed, block):
    """Means, maxima and the largest mean of blocks of every smaller size."""
    rows, columns = weights.shape

    def joined(join, values, size):
        down, across = np.arange(0, rows, size), np.arange(0, columns, size)
        return join.reduceat(join.reduceat(values, down, axis=0), across, axis=1)

    def means(size):
        return joined(np.add, weights, size) / joined(np.add, np.ones_like(weights), size)

    some = joined(np.logical_or, allowed, block)
    tops = [max(0.0, means(2**n).max()) for n in range(block.bit_length())]
    return np.where(some, means(block), -np.inf), np.where(some, joined(np.maximum, weights, block), -np.inf), tops


def recorded(queries, keys, heads=4, kv_heads=4, **how):
    """What a mechanism was given, and the weights of all its heads, made at once."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, *size, 8) for size in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))
    call, mechanism = Call(query, key, value, **how), Scored()
    with torch.no_grad(), record(torch.nn.ModuleDict({"layer": mechanism})) as trace:
        mechanism(call)
    whole = mechanism.weights(call)[0].detach().double().numpy()
    keep = call.keep()
    allowed = np.ones((1, queries, keys), bool) if keep is None else keep[0].expand(-1, queries, keys).numpy()
    return Attended(trace["layer"]), whole, allowed


def sinks(heads):
    normalizer = Sinks(heads)
    torch.nn.init.normal_(normalizer.logits)
    return normalizer


CASES = {
    "causal": (300, 300, {"mask": Causal()}),
    "padding": (300, 300, {"mask": Padding(torch.tensor([263]))}),
    "causal and padding": (300, 300, {"mask": Causal() & Padding(torch.tensor([263]))}),
    "window": (300, 300, {"mask": Window(40, 9)}),
    "cross": (130, 300, {"cross": True, "mask": Padding(torch.tensor([291]))}),
    "open": (300, 300, {}),
    "grouped": (300, 300, {"kv_heads": 2, "mask": Causal()}),
    "one kv head": (300, 300, {"kv_heads": 1, "mask": Causal()}),
    "sparsemax": (300, 300, {"normalizer": "sparsemax", "mask": Causal()}),
    "numbers for each head": (300, 300, {"normalizer": sinks(4), "mask": Causal()}),
    "bias": (300, 300, {"bias": torch.linspace(-3, 3, 4 * 300 * 300).sin().view(1, 4, 300, 300), "mask": Causal()}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at_once", [1 << 22, 10_000])
def test_blocks_and_rows_are_those_of_the_whole_table(name, at_once, monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", at_once)
    queries, keys, how = CASES[name]
    weights, whole, allowed = recorded(queries, keys, **how)
    for head, block in ((0, 2), (3, 16)):
        made = pooled(weights, head, block)
        means, maxima, tops = of_blocks(whole[head], allowed[head if len(allowed) > 1 else 0], block)
        np.testing.assert_allclose(made.means, means, rtol=0, atol=1e-6)
        np.testing.assert_allclose(made.maxima, maxima, rtol=0, atol=1e-6)
        np.testing.assert_allclose(made.tops, tops, rtol=0, atol=1e-6)
    layer = weights.layer([""] * queries, [""] * keys)
    np.testing.assert_allclose(layer.part([2, 0], slice(37, 41), slice(3, 90)), whole[[2, 0], 37:41, 3:90], atol=1e-6)
    np.testing.assert_allclose(layer.weights, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 5, 7, 64])
@pytest.mark.parametrize("columns", [1, 3, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sides_need_not_be_whole_blocks(rows, columns, dtype, monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 16)
    values = np.random.default_rng(0).random((2, rows, columns)).astype(dtype) - 0.5
    mask = np.random.default_rng(1).random((1, rows, columns)) > 0.7
    for block in (1, 4):
        made = pooled(Whole(values, mask), 1, block)
        assert made.means.shape == made.maxima.shape == (-(-rows // block), -(-columns // block))
        if rows:
            means, maxima, tops = of_blocks(values[1].astype(float), mask[0], block)
            np.testing.assert_allclose(made.means, means, atol=1e-6)
            np.testing.assert_allclose(made.maxima, maxima, atol=1e-6)
            np.testing.assert_allclose(made.tops, tops, atol=1e-6)


def test_a_part_of_the_rows_makes_the_same_cells(monkeypatch):
    weights, *_ = recorded(700, 700, mask=Causal())
    whole, part = pooled(weights, 1, 4), pooled(weights, 1, 4, slice(64, 700))
    np.testing.assert_array_equal(part.maxima, whole.maxima[16:])
    np.testing.assert_allclose(part.means, whole.means[16:], atol=1e-7)
    assert isinstance(part, Pooled)


def test_no_more_than_a_strip_of_one_head_is_made_at_once(monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 32 * 700)
    weights, *_ = recorded(700, 700, mask=Causal())
    asked, part = [], Attended.part
    monkeypatch.setattr(Attended, "part", lambda *given: asked.append(part(*given).shape) or part(*given))
    pooled(weights, 2, 16)
    assert len(asked) == 22
    assert set(asked[:-1]) == {(1, 32, 700)}
    assert asked[-1] == (1, 28, 700)


def test_strips_hold_whole_blocks(monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 100)
    assert list(strips(8, 30, 10, 4)) == [(8, 16), (16, 24), (24, 30)]
    assert list(strips(0, 9, 1000, 8)) == [(0, 8), (8, 9)]
    assert list(strips(0, 0, 10)) == []


@pytest.mark.parametrize(("size", "block"), [((0, 0), 1), ((512, 512), 1), ((513, 2), 2), ((2, 4097), 16)])
def test_the_block_is_the_smallest_with_which_all_of_a_map_is_seen(size, block):
    assert block_for(*size) == block


def test_what_is_no_block_is_refused(untyped):
    weights = Whole(np.ones((1, 8, 8)))
    with pytest.raises(ShapeError, match="block must be a power of two, not 3"):
        pooled(weights, 0, 3)
    with pytest.raises(ShapeError, match="begin at a multiple of the block, 4, not at 2"):
        pooled(weights, 0, 4, slice(2, 8))
    layer = Layer(weights.weights, ["a"] * 8, ["a"] * 8, "self")
    with pytest.raises(ConfigError, match="head 1 is not there"):
        layer.pooled(1)
    with pytest.raises(ConfigError, match="one head, by its number"):
        layer.pooled(None)
    for odd in ([0, 0], slice(None, None, -1)):
        with pytest.raises(ShapeError, match="slices of neighbours"):
            layer.part([0], odd)


def test_more_weights_than_memory_should_hold_are_refused_and_say_what_to_ask_for(monkeypatch):
    monkeypatch.setattr(MODULE, "MOST_WHOLE", 4 * 30 * 29)
    weights, *_ = recorded(30, 30, mask=Causal())
    layer = weights.layer(["a"] * 30, ["a"] * 30)
    with pytest.raises(Unsupported, match=r"4 x 30 x 30 weights, which would take 28,800 bytes; .*layer\.part"):
        _ = layer.weights
    assert layer.part([1], slice(29, 30)).shape == (1, 1, 30)
    assert layer.shape == (4, 30, 30)


def test_rows_and_columns_that_are_made_of_several_are_on_demand_too():
    weights, whole, allowed = recorded(20, 20, mask=Causal())
    rows = np.zeros((3, 20))
    rows[0, 4], rows[1, 6:8], rows[2, 19] = 1, 0.5, 1
    columns = np.repeat(np.eye(10), 2, axis=1)
    layer = weights.layer(["a"] * 3, ["b"] * 10, rows=rows, columns=columns)
    expected = rows @ whole @ columns.T
    assert layer.shape == (4, 3, 10)
    np.testing.assert_allclose(layer.weights, expected, atol=1e-6)
    np.testing.assert_allclose(layer.part([2], slice(1, 3), slice(0, 4)), expected[[2], 1:3, :4], atol=1e-6)
    np.testing.assert_array_equal(layer.allowed, (rows > 0) @ allowed @ (columns > 0).T)
    np.testing.assert_allclose(layer.pooled(1, 2).maxima[0, 0], expected[1, :2, :2].max(), atol=1e-6)


def test_a_record_keeps_no_more_than_it_may():
    layer = torch.nn.ModuleDict({"layer": Scored()})
    x = torch.ones(1, 2, 5, 3)
    # query, key, value and output
    with record(layer, most_bytes=4 * x.nbytes) as trace:
        layer["layer"](Call(x, x, x))
    assert len(trace["layer"].calls) == 1
    with (
        pytest.raises(Unsupported, match="would keep more than 479 bytes of queries, keys and values; give a shorter"),
        record(layer, most_bytes=4 * x.nbytes - 1),
    ):
        layer["layer"](Call(x, x, x))


def test_a_map_is_given_up_between_two_strips(monkeypatch):
    monkeypatch.setattr(MODULE, "_AT_ONCE", 16)
    polled = []

    def check():
        polled.append(None)
        if len(polled) == 3:
            raise TimeoutError

    with cancelled_by(check), pytest.raises(TimeoutError):
        pooled(Whole(np.ones((1, 16, 8))), 0, 1)
    assert len(polled) == 3
