"""Costs against counts by hand, exponents against series that are known, crossings, and what cannot be measured."""

import math
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwise.attention import mechanisms
from headwise.compare import costs
from headwise.compare.costs import (
    Growth,
    crossing,
    exponent,
    growth,
    one_pass,
    operations,
    parallel,
    peak_bytes,
    product_share,
    seconds,
    sizes,
)
from headwise.compare.subjects import KERNEL_SIZE, Mixer, Subject, layer, powers, subject, subjects, tokens
from headwise.errors import ConfigError, Unsupported

N, D = 48, 16
# multiplications and additions of matrix products
COUNTED = {
    "plain": 4 * N * N * D,
    "scored": 4 * N * N * D,
    "attention-layer": 4 * N * N * D + 4 * 2 * N * D * D,
    "cnn": 2 * N * KERNEL_SIZE * D * D,
    "causal-cnn": 2 * N * KERNEL_SIZE * D * D,
    "rnn": 2 * N * 2 * D * D,
    "gru": 3 * 2 * N * 2 * D * D,
    "lstm": 4 * 2 * N * 2 * D * D,
}


@pytest.mark.parametrize(("name", "count"), COUNTED.items())
def test_operations_are_those_of_the_products(name, count):
    # the first state is 0, and so is its product
    assert abs(operations(subject(name), N, D) - count) <= 4 * 2 * D * D


def test_what_counts_nothing_is_no_measurement():
    class Nothing(Mixer):
        def forward(self, x):
            return x + 1

    with pytest.raises(Unsupported, match="nothing"):
        operations(Subject("nothing", lambda length, width: Nothing(), None, None), 8, 4)


@pytest.mark.parametrize("name", ["plain", "cnn", "causal-cnn", "attention-layer", "linear", "retention"])
def test_the_count_is_that_of_pytorch_alone_where_it_counts(name):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(subject(name), N, D)(tokens(N, D))
    # the layer's attention is SDPA, which PyTorch counts as 0 on a CPU
    missing = 4 * N * N * D if name == "attention-layer" else 0
    assert counter.get_total_flops() + missing == operations(subject(name), N, D)


@pytest.mark.parametrize("name", ["scored", "lstm"])
def test_what_pytorch_counts_as_0_is_counted_all_the_same(name):
    """If one of these is no longer 0, PyTorch has learned to count it: then the mapping can go."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(subject(name), N, D)(tokens(N, D))
    assert counter.get_total_flops() == 0
    assert operations(subject(name), N, D) > 0


def test_the_same_work_is_measured_at_every_length():
    found = parallel(subject("rnn"), [4, 8, 16, 32], 8, (1, 2), rounds=1)
    assert found.batches == (8, 4, 2, 1)
    quadratic = parallel(subject("plain"), [4, 8, 16, 32], 8, (1, 2), rounds=1)
    assert quadratic.batches == (64, 16, 4, 1)
    assert found.gain(1) == [1.0] * 4
    assert all(value > 0 for value in quadratic.gain(2))
    assert torch.get_num_threads() >= 1


@pytest.mark.parametrize("name", subjects())
def test_every_subject_keeps_the_shape_and_is_drawn_from_its_seed(name):
    x = tokens(64, 8)
    with torch.no_grad():
        first, again, other = (layer(subject(name), 64, 8, seed=seed)(x) for seed in (0, 0, 1))
    assert first.shape == x.shape
    assert torch.equal(first, again)
    # those that begin as a copy, or as plain attention, draw nothing
    drawn = {"cnn", "causal-cnn", "rnn", "gru", "lstm", "attention-layer", "linformer", "performer"}
    assert torch.equal(first, other) <= (name not in drawn)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_a_recurrent_layer_is_its_cell_step_by_step(name):
    x = tokens(9, 8)
    torch.testing.assert_close(layer(subject(name), 9, 8)(x), layer(subject(name), 9, 8, unrolled=True)(x))


@pytest.mark.slow
def test_every_mechanism_states_powers_that_its_operations_have():
    for name in mechanisms.names():
        stated = subject(name).length
        # moba computes the chosen blocks alone from this length on, before it all pairs
        at = sizes(1024, 4096, 5) if name == "moba" else [128, 181, 256, 362, 512]
        (counted,) = growth(subject(name), "length", at, 16, quantities=("operations",))
        assert counted.theory == stated
        # nystrom has a part that does not grow with the length, native_sparse chooses from 4,096 tokens on
        other = name in ("nystrom", "native_sparse")
        assert other or abs(counted.exponent.value - stated) < 0.15, name


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("n^2 d", (2, 1)),
        ("n d^2", (1, 2)),
        ("n (b + s) d for blocks of b", (1, 1)),
        ("n^2 (d + h) for h heads", (2, 1)),
        ("n m d + m^3 for m landmarks", (1, 1)),
        ("n log n", (1, 0)),
        ("not stated", (None, None)),
        ("", (None, None)),
    ],
)
def test_powers_are_read_from_what_is_stated(time, expected):
    assert powers(time) == expected


def test_an_exponent_with_its_interval():
    at = [16, 32, 64, 128, 256]
    exact = exponent(at, [3 * n**1.5 for n in at])
    assert exact.value == pytest.approx(1.5)
    assert exact.low == pytest.approx(1.5)
    noisy = exponent(at, [n**2 * factor for n, factor in zip(at, (1, 1.3, 0.8, 1.2, 0.9), strict=True)])
    assert noisy.low < noisy.value < noisy.high
    constant = exponent(at, [5] * 5)
    assert (constant.value, constant.low, constant.high) == (0, 0, 0)
    # against scipy's own formula, written out
    x, y = (
        torch.tensor(at).double().log(),
        torch.tensor([n**2 * f for n, f in zip(at, (1, 1.3, 0.8, 1.2, 0.9), strict=True)]).log(),
    )
    x_mean, y_mean = x.mean(), y.mean()
    slope = ((x - x_mean) * (y - y_mean)).sum() / (x - x_mean).square().sum()
    rest = y - y_mean - slope * (x - x_mean)
    error = math.sqrt(rest.square().sum() / 3 / (x - x_mean).square().sum())
    assert noisy.value == pytest.approx(float(slope), abs=1e-6)
    assert noisy.high - noisy.low == pytest.approx(2 * 3.182446 * error, rel=1e-4)


@pytest.mark.parametrize("values", [[1, 2, 3], [1, 2, 0, 4], [1, 2, -1, 4]])
def test_an_exponent_needs_sizes_and_values_above_0(values):
    with pytest.raises(ConfigError):
        exponent(list(range(1, len(values) + 1)), values)


@pytest.mark.parametrize(("first", "last", "count"), [(0, 10, 5), (10, 10, 5), (10, 5, 5), (1, 100, 3), (1, 4, 9)])
def test_sizes_that_are_not_there_are_refused(first, last, count):
    with pytest.raises(ConfigError):
        sizes(first, last, count)


@pytest.mark.parametrize(("name", "backward"), [("plain", False), ("plain", True), ("scored", False), ("scored", True)])
def test_products_alone_are_all_of_the_products_of_a_pass(name, backward):
    run = one_pass(subject(name), N, D, backward=backward)
    with costs._Products() as products:
        run()
    called = [call.func.overloadpacket.__name__ for call in products.calls]
    fused = "_scaled_dot_product_flash_attention_for_cpu"
    if name == "scored":
        assert called == [fused, f"{fused}_backward"][: 1 + backward]
    else:
        # two matrices, and the gradients of both factors of each
        assert called == ["bmm"] * (6 if backward else 2)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "cnn", "linear", "attention-layer"])
def test_a_share_of_products_is_one_of_the_pass(name):
    assert 0 <= product_share(one_pass(subject(name), 32, 32, backward=False), 1) <= 1


def test_the_share_is_of_the_time_of_the_products_less_that_of_calling_them(monkeypatch):
    def measured(passes, rounds):
        for run in passes:
            run()
        # the pass, its products, and as many of two numbers
        return [2.0, 1.5, 0.25]

    monkeypatch.setattr(costs, "seconds", measured)
    assert product_share(one_pass(subject("plain"), N, D, backward=False)) == (1.5 - 0.25) / 2


def test_what_multiplies_no_matrices_has_no_share_of_products():
    assert product_share(lambda: None, 1) == 0
    assert product_share(lambda: torch.ones(3) + 1, 1) == 0


def test_sizes_at_which_products_are_less_than_half_are_not_fitted():
    values, shares = (9.0, 2.0, 4.0, 8.0, 16.0, 90.0), (0.1, 0.5, 0.6, 0.8, 1.0, 0.49)
    measured = Growth("a", "length", "seconds", (1, 2, 4, 8, 16, 32), values, 1.0, shares)
    assert measured.fitted == (2, 4, 8, 16)
    assert measured.exponent.value == pytest.approx(1)
    with pytest.raises(ConfigError, match="4 sizes or more, got 1"):
        _ = Growth("a", "length", "seconds", (1, 2, 4, 8), values[:4], 1.0, (0.1, 0.2, 0.3, 0.9)).exponent
    # counts have none
    assert Growth("a", "length", "operations", (1, 2, 4, 8), values[:4], 1.0).fitted == (1, 2, 4, 8)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc of Linux")
def test_memory_is_measured_alike_after_time_was():
    length = 1024
    seconds([one_pass(subject("plain"), length, 16, backward=False)], 1)
    kept = peak_bytes(one_pass(subject("plain"), length, 16, backward=False))
    assert 1 <= kept / (4 * length * length) < 4


def of(values, at=(1, 2, 4, 8)):
    return Growth("one", "length", "seconds", at, tuple(map(float, values)), None)


def test_a_crossing_lies_between_the_sizes_or_nowhere():
    assert crossing(of([1, 4, 16, 64]), of([3, 6, 12, 24])) == pytest.approx(3)
    assert crossing(of([1, 1, 1, 1]), of([2, 2, 2, 2])) is None
    assert crossing(of([3, 6, 12, 24]), of([1, 4, 16, 64])) is None
    with pytest.raises(ConfigError):
        crossing(of([1, 1, 1, 1]), of([1, 1, 1, 1], at=(1, 2, 4, 9)))


def test_time_is_the_least_of_the_rounds():
    # a clock that goes on by what each pass says it took
    now, takes = [0.0], iter([1.0] * 100)
    spent = {"a": 0.5, "b": 0.25}

    def run(name):
        def once():
            now[0] += spent[name] * next(takes)

        return once

    takes = iter([1.0] * 4 + [3.0, 3.0, 1.0, 1.0, 2.0, 2.0])
    assert seconds([run("a"), run("b")], 3, clock=lambda: now[0]) == [0.5, 0.25]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc of Linux")
def test_memory_is_that_of_the_scores_where_they_are_kept():
    length = 1024
    plain = one_pass(subject("plain"), length, 16, backward=False)
    # freed memory is kept while passes are timed, and would hide what a pass takes
    seconds([plain], 1)
    kept = peak_bytes(plain)
    assert 1 <= kept / (4 * length * length) < 4
    assert peak_bytes(one_pass(subject("scored"), length, 16, backward=False)) < kept / 2


def test_threads_are_as_they_were():
    before = torch.get_num_threads()
    growth(subject("cnn"), "width", [4, 8, 16, 32], 8, quantities=("operations", "seconds"), backward=True, rounds=1)
    assert torch.get_num_threads() == before


def test_an_unknown_subject_is_named():
    with pytest.raises(ConfigError, match="scord"):
        subject("scord")
