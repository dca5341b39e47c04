"""`headwise tune`: a table of prices is measured, written and used; a damaged one does no harm."""

import itertools
import json

import pytest
import torch

from headwise import runtime
from headwise.attention import costs, kernels, measured, planner, tuning
from headwise.attention.tuning import Shape


@pytest.fixture
def few_shapes(monkeypatch):
    shapes = [Shape(2, 2, n, n, 8, learns=learns) for n in (4, 16, 64) for learns in (False, True)]
    monkeypatch.setattr(tuning, "grid", lambda: iter(shapes))
    return shapes


@pytest.fixture
def table(tmp_path, monkeypatch):
    """An empty place for the table of this processor."""
    path = tmp_path / "cache" / "costs.json"
    monkeypatch.setattr(measured, "tuned_file", lambda: path)
    monkeypatch.setattr(planner, "_chosen", {})
    yield path
    measured.forget()


def test_measured_prices_are_used(headwise, few_shapes, table, monkeypatch):
    settings = runtime.Settings(threads=1, keeps_memory=False, products="medium", reason="")
    monkeypatch.setattr(runtime, "apply", lambda **options: settings)
    before = torch.get_float32_matmul_precision()
    code, out, err = headwise("tune")
    torch.set_float32_matmul_precision(before)
    assert (code, err) == (0, "")
    assert f"wrote {table}" in out
    written = json.loads(table.read_text())
    assert written["torch"] == torch.__version__
    assert {"plain", "fused", "eager"} <= set(written["prices"])
    assert all(
        price >= 0 for kinds in written["prices"].values() for terms in kinds.values() for price in terms.values()
    )
    kinds = ["float32", "float32 by oneDNN", "float32 by oneDNN, with gradients", "float32, with gradients"]
    assert sorted(written["prices"]["plain"]) == kinds
    assert measured.prices()["plain"] == written["prices"]["plain"]
    assert not list(table.parent.glob("*.part"))
    assert measured.onednn_from() == (written["onednn_from"] or float("inf"))


def test_the_cheapest_by_the_table_is_chosen(table):
    call = Shape(2, 2, 16, 16, 8).build()
    for favourite in ("plain", "fused", "eager"):
        prices = {name: {costs.kind(call): {"calls": 1.0}} for name in kernels.names()}
        prices[favourite] = {costs.kind(call): {"calls": 1e-9}}
        measured.save(prices, 1e6, table)
        assert planner.plan(call).kernel == favourite


def test_a_damaged_table_is_as_none(table):
    shipped = measured.prices()
    table.parent.mkdir()
    for text in ("{", '{"prices"', "[]", '{"others": 1}', '{"prices": []}', '{"prices": {}, "onednn_from": "x"}'):
        table.write_text(text)
        measured.forget()
        assert measured.prices() == shipped


def test_the_products_by_onednn_are_those_that_were_measured(table, monkeypatch):
    for known, expected in ((True, 2e6), (False, float("inf"))):
        monkeypatch.setattr(runtime, "is_wide_amd", lambda known=known: known)
        measured.forget()
        assert measured.onednn_from() == expected
    for written in (5e5, float("inf")):
        measured.save({}, written, table)
        assert measured.onednn_from() == written
    with measured.trying(7.0):
        assert measured.onednn_from() == 7.0
    assert measured.onednn_from() == float("inf")


@pytest.mark.parametrize(("onednn_s", "expected"), [(0.5, 2.0 * 16**2 * 64), (0.95, float("inf")), (2.0, float("inf"))])
def test_onednn_is_taken_from_the_size_at_which_it_is_faster(onednn_s, expected, monkeypatch):
    """Each library takes the same time for a round of any size; they take turns."""
    monkeypatch.setattr(tuning._products, "linear_of_onednn", lambda: torch.nn.functional.linear)
    turns = itertools.cycle((1.0, onednn_s))
    monkeypatch.setattr(tuning, "_repeated", lambda run, size: next(turns))
    assert tuning.onednn_from() == expected


def test_prices_are_those_of_a_linear_law():
    """Times made of 3 us a call and 2 ns a pair give these prices back, and none is negative."""
    observed = [({"calls": 1.0, "pairs": n, "rows": 5.0}, 3e-6 + 2e-9 * n) for n in (10.0, 1e3, 1e5, 1e6)]
    prices = dict(zip(("calls", "pairs", "rows"), tuning._prices(("calls", "pairs", "rows"), observed), strict=True))
    assert prices["pairs"] == pytest.approx(2e-9, rel=1e-3)
    assert prices["calls"] + 5 * prices["rows"] == pytest.approx(3e-6, rel=1e-3)
    falling = [({"calls": 1.0, "pairs": n}, 1e-3 / n) for n in (1.0, 10.0, 100.0)]
    assert min(tuning._prices(("calls", "pairs"), falling)) == 0.0


def test_every_shape_of_the_grid_can_be_built():
    shapes = list(tuning.grid())
    assert len(shapes) > 300
    assert len({str(shape) for shape in shapes}) > 300
    for shape in shapes:
        if shape.query_len <= 40:
            call = shape.build()
            assert call.learns == shape.learns
            assert kernels.kernel("plain").refusal(call) is None


def test_other_products_have_other_prices():
    call = Shape(1, 1, 4, 4, 8).build()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        assert costs.kind(call) == "float32"
        torch.set_float32_matmul_precision("medium")
        assert costs.kind(call) == "float32 by oneDNN"
        assert costs.kind(Shape(1, 1, 4, 4, 8, dtype=torch.bfloat16).build()) == "bfloat16 by oneDNN"
        assert costs.kind(Shape(1, 1, 4, 4, 8, learns=True).build()) == "float32 by oneDNN, with gradients"
    finally:
        torch.set_float32_matmul_precision(before)
