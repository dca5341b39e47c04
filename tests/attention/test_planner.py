"""The planner: the cheapest kernel that is exact, and a reason for each other one."""

import sys
from pathlib import Path

import pytest
import torch
from attention_cases import Case

from headwise import positions
from headwise.attention import attend, kernels, mechanisms, plan, planner
from headwise.attention.masks import Edges, Window
from headwise.attention.scores import Additive
from headwise.errors import ConfigError


def tensors(query_len: int, key_len: int, *, dtype=torch.float32, grad=False, dim=32) -> list[torch.Tensor]:
    return [torch.zeros(2, 4, n, dim, dtype=dtype).requires_grad_(grad) for n in (query_len, key_len, key_len)]


@pytest.mark.parametrize(
    ("call", "options", "fitting"),
    [
        (tensors(5, 7), {"normalizer": "relu"}, {"plain", "rows"}),
        (tensors(5, 7), {"score": Additive(32, 32, 3)}, {"plain", "additive", "rows"}),
        (tensors(1024, 1024), {}, {"fused", "rows"}),
        (tensors(25, 25, grad=True), {"dropout": 0.1}, {"eager", "fused", "plain"}),
        (tensors(25, 25, dtype=torch.bfloat16, grad=True), {}, {"eager", "plain"}),
        (tensors(512, 512, dtype=torch.float16), {}, {"fused", "rows"}),
        (tensors(4096, 4096), {"mask": Window(32, 32)}, {"banded", "rows"}),
        (tensors(700, 700), {"mask": Edges(torch.tensor([[5], [7]]), 700)}, {"edges"}),
        (tensors(1024, 1024), {"normalizer": "sparsemax"}, {"rows"}),
        (tensors(0, 7), {}, {"plain", "rows"}),
    ],
    ids=["relu", "additive", "long", "dropout", "bfloat16", "half", "window", "graph", "sparse", "empty"],
)
def test_the_kernel_for_each_kind_of_call(call, options, fitting):
    """By the prices that are shipped; where several are about as fast, any of them."""
    chosen = plan(*call, **options)
    kernel = chosen.kernel
    assert kernel in fitting
    assert set(chosen.refusals) == set(kernels.names()) - {kernel}
    text = str(chosen)
    assert text.startswith(f"kernel   {kernel}: the fastest that is exact, estimated ")
    for name, why in chosen.refusals.items():
        assert why
        assert f"not      {name}: {why}" in text
    assert f"{chosen.flops:,} floating-point operations" in text
    assert chosen.materialises in text


def test_what_runs_is_what_is_planned(monkeypatch):
    for call, options in ((tensors(5, 7), {}), (tensors(64, 64, grad=True), {"dropout": 0.5})):
        name = plan(*call, **options).kernel
        ran = []
        module = kernels.kernel(name)
        compute = module.compute
        with monkeypatch.context() as patch:
            patch.setattr(module, "compute", lambda call, compute=compute, ran=ran: ran.append(1) or compute(call))
            patch.setattr(planner, "_chosen", {})
            attend(*call, **options)
        assert ran


def test_why_each_other_kernel_does_not():
    chosen = plan(*tensors(512, 512), normalizer="relu")
    assert {chosen.refusals[name] for name in ("eager", "fused")} == {"its normalizer is softmax, not relu"}
    chosen = plan(*tensors(512, 512))
    assert "exact, but estimated" in chosen.refusals["plain"]
    assert "times as slow" in chosen.refusals["plain"]
    chosen = plan(*tensors(5, 7), kernel="plain")
    assert chosen.reason.startswith("asked for, estimated ")
    assert chosen.reason.endswith(" forward")
    assert plan(*tensors(5, 7, grad=True)).reason.endswith(" with gradients")


def test_work_is_counted():
    chosen = plan(*tensors(5, 7), kernel="plain")
    assert chosen.flops == 2 * 2 * 4 * 5 * 7 * (32 + 32)
    assert chosen.materialises == f"scores (2, 4, 5, 7), {2 * 4 * 5 * 7 * 4:,} bytes"
    fused = plan(*tensors(5, 7), kernel="fused")
    assert fused.materialises == f"the output and one number a row ({2 * 4 * 5 * 4} bytes)"
    # query, key, value and output once, and the scores written and read where they are kept
    assert fused.bytes == 4 * 2 * 4 * 32 * (5 + 7 + 7 + 5)
    assert chosen.bytes - fused.bytes == 2 * 2 * 4 * 5 * 7 * 4


def test_a_call_of_a_kind_seen_before_is_not_planned_again(monkeypatch):
    planned = []
    original = planner.plan
    monkeypatch.setattr(planner, "plan", lambda call, kernel="auto": planned.append(call) or original(call, kernel))
    monkeypatch.setattr(planner, "_chosen", {})
    for seed in range(5):
        planner.run(Case(seed=seed).build(torch.float32))
    assert len(planned) == 1
    planner.run(Case(key_len=11).build(torch.float32))
    planner.run(Case().build(torch.float64))
    planner.run(Case().build(torch.float32, dropout=0.5))
    planner.run(Case().build(torch.float32, grad=True))
    planner.run(Case(normalizer="relu").build(torch.float32))
    assert len(planned) == 6


def test_choices_do_not_pile_up_for_ever(monkeypatch):
    chosen = dict.fromkeys(range(4097))
    monkeypatch.setattr(planner, "_chosen", chosen)
    planner.run(Case().build(torch.float32))
    assert len(chosen) == 1


KERNEL = '''"""A kernel that a user wrote."""
from headwise.attention.kernels import plain
refusal = plain.refusal
compute = plain.compute
def terms(call):
    return {}
'''
MECHANISM = '''"""A mechanism that a user wrote."""
from headwise.attention.mechanisms.mechanism import Mechanism
class Mine(Mechanism):
    """The mean of the values."""
    def forward(self, query, key, value, *, mask=None, bias=None, relative=None, query_start=0, finite=False):
        return value.mean(2, keepdim=True).expand(-1, -1, query.shape[2], -1)
'''
POSITION = '''"""A position that a user wrote."""
from headwise.positions.position import Position
class Mine(Position):
    """A step for each place."""
    @classmethod
    def sized(cls, d_model, head_dim, num_heads, max_len):
        return cls()
'''


@pytest.fixture
def dropped(tmp_path: Path, monkeypatch):
    """Puts a file `mine.py` of this text into the folder of a registry."""
    registries = []

    def drop(package, text: str) -> None:
        (tmp_path / "mine.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        registries.append(package)
        forget()

    def forget() -> None:
        kernels.names.cache_clear()
        kernels.kernel.cache_clear()
        planner._chosen.clear()

    yield drop
    monkeypatch.undo()
    forget()
    for package in registries:
        sys.modules.pop(f"{package.__name__}.mine", None)
        vars(package).pop("mine", None)


def test_a_kernel_is_one_file(dropped):
    dropped(kernels, KERNEL)
    assert "mine" in kernels.names()
    assert kernels.catalogue()["mine"] == "A kernel that a user wrote."
    call = tensors(5, 7)
    assert plan(*call).kernel == "mine"
    assert attend(*call).shape == (2, 4, 5, 32)
    assert "mine" in plan(*call, kernel="plain").refusals


def test_a_mechanism_is_one_file(dropped):
    dropped(mechanisms, MECHANISM)
    assert "mine" in mechanisms.names()
    assert mechanisms.catalogue()["mine"] == "The mean of the values."
    assert mechanisms.mechanism_type("mine").__name__ == "Mine"


def test_a_position_is_one_file(dropped):
    dropped(positions, POSITION)
    assert "mine" in positions.names()
    assert positions.catalogue()["mine"] == "A step for each place."
    assert type(positions.build("mine", 8, 4, 2, 16)).__name__ == "Mine"


def test_the_catalogues():
    general = {"additive", "banded", "decode", "eager", "edges", "fused", "plain", "rows"}
    assert set(kernels.names()) == general | {"flash", "flex", "triton_additive"}
    assert list(kernels.catalogue()) == list(kernels.names())
    assert all(kernels.catalogue().values())
    assert list(mechanisms.catalogue()) == list(mechanisms.names())
    assert len(mechanisms.names()) == 14
    with pytest.raises(ConfigError, match="unknown mechanism 'scord'; did you mean 'scored'"):
        mechanisms.mechanism_type("scord")
