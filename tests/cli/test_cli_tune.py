"""`headwise tune`: a table of prices is measured, written and used; a damaged one does no harm."""

import json

import pytest
import torch

from headwise import runtime
from headwise.attention import costs, kernels, planner, tuning
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
    monkeypatch.setattr(costs, "tuned_file", lambda: path)
    monkeypatch.setattr(planner, "_chosen", {})
    yield path
    costs._read.cache_clear()


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
    assert costs.prices()["plain"] == written["prices"]["plain"]
    assert not list(table.parent.glob("*.part"))


def test_the_cheapest_by_the_table_is_chosen(table):
    call = Shape(2, 2, 16, 16, 8).build()
    for favourite in ("plain", "fused", "eager"):
        prices = {name: {costs.kind(call): {"calls": 1.0}} for name in kernels.names()}
        prices[favourite] = {costs.kind(call): {"calls": 1e-9}}
        costs.save(prices, table)
        assert planner.plan(call).kernel == favourite


def test_a_damaged_table_is_as_none(table):
    shipped = costs.prices()
    table.parent.mkdir()
    for text in ("{", '{"prices"', "[]", '{"others": 1}'):
        table.write_text(text)
        costs._read.cache_clear()
        assert costs.prices() == shipped


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
        assert costs.kind(Shape(1, 1, 4, 4, 8, dtype=torch.bfloat16).build()) == "bfloat16"
        assert costs.kind(Shape(1, 1, 4, 4, 8, learns=True).build()) == "float32 by oneDNN, with gradients"
    finally:
        torch.set_float32_matmul_precision(before)
