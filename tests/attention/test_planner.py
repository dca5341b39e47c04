"""The planner: one ordered table, a reason for the choice and for each other kernel, and what is really computed."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from devices import on_the_host

from headwise.attention import attend, kernels, plan, planner
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Edges, Padding, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive
from headwise.errors import ConfigError, Unsupported


def tensors(query_len: int, key_len: int, *, dtype=torch.float32, grad=False, dim=32) -> list[torch.Tensor]:
    return [torch.zeros(2, 4, n, dim, dtype=dtype).requires_grad_(grad) for n in (query_len, key_len, key_len)]


@on_the_host("every device has a plan of its own")
@pytest.mark.parametrize(
    ("call", "options", "kernel"),
    [
        (tensors(5, 7), {"normalizer": "relu"}, "plain"),
        (tensors(5, 7), {"score": Additive(32, 32, 3)}, "plain"),
        (tensors(300, 300), {"score": Additive(32, 32, 3)}, "plain"),
        (tensors(300, 300), {"score": Additive(32, 32, 32)}, "strips"),
        (tensors(1024, 1024), {}, "fused"),
        (tensors(1024, 1024), {"mask": Causal()}, "fused"),
        (tensors(4096, 4096), {"mask": Window(32, 32)}, "banded"),
        (tensors(4096, 4096), {"mask": Window(32, 32) & Padding(torch.tensor([4000, 1]))}, "banded"),
        (tensors(512, 512), {"mask": Window(100, 100)}, "fused"),
        (tensors(700, 700), {"mask": Edges(torch.tensor([[5], [7]]), 700)}, "edges"),
        (tensors(8, 8), {"mask": Edges(torch.tensor([[5, 1, 2, 3, 4], [7, 0, 0, 0, 0]]), 8)}, "fused"),
        (tensors(2048, 2048), {"normalizer": "sparsemax"}, "strips"),
        (tensors(2048, 2048, grad=True), {"dropout": 0.1}, "strips"),
        (tensors(0, 7), {}, "plain"),
    ],
    ids=[
        *(
            "relu",
            "few pairs",
            "some pairs",
            "many features",
            "long",
            "causal",
            "window",
            "padded window",
            "wide window",
            "graph",
            "dense graph",
        ),
        *("sparse", "dropout", "empty"),
    ],
)
def test_the_kernel_for_each_kind_of_call(call, options, kernel):
    chosen = plan(*call, **options)
    assert chosen.kernel == kernel
    assert set(chosen.refusals) == set(kernels.KERNELS) - {kernel}
    text = str(chosen)
    assert text.startswith(f"kernel   {kernel}: {chosen.reason}")
    for name, why in chosen.refusals.items():
        assert why
        assert f"not      {name}: {why}" in text
    assert f"{chosen.flops:,} floating-point operations" in text
    assert chosen.keeps in text


@on_the_host("these are rules for a CPU")
@pytest.mark.parametrize(
    ("vectors", "through_onednn", "dtype", "grad", "tiled_from"),
    [
        ("AVX512", False, torch.float32, False, 1),
        ("AVX512", False, torch.float32, True, 1),
        ("AVX512", True, torch.float32, False, 513),
        ("AVX512", True, torch.float32, True, 513),
        ("AVX512", True, torch.float64, False, 1),
        # 11 x 11 x 32 numbers are too few for oneDNN
        ("AVX512", True, torch.float32, False, 11),
        ("AVX512", False, torch.bfloat16, False, 2),
        ("AVX512", True, torch.bfloat16, True, 513),
        ("AVX512", False, torch.bfloat16, True, 129),
        ("AVX2", False, torch.bfloat16, False, 2),
    ],
)
def test_rows_too_short_for_tiles_are_computed_by_the_definition(
    monkeypatch, vectors, through_onednn, dtype, grad, tiled_from
):
    monkeypatch.setattr(planner, "_products", lambda: (vectors, through_onednn, False))
    assert plan(*tensors(tiled_from, tiled_from, dtype=dtype, grad=grad)).kernel == "fused"
    if tiled_from not in (1, 11):
        assert plan(*tensors(tiled_from - 1, tiled_from - 1, dtype=dtype, grad=grad)).kernel == "plain"


@on_the_host("these are rules for a CPU")
def test_many_short_rows_learn_by_the_definition(monkeypatch):
    monkeypatch.setattr(planner, "_products", lambda: ("AVX512", False, False))
    for batch, length, kernel in ((1, 32, "fused"), (16, 32, "plain"), (16, 33, "fused")):
        x = torch.zeros(batch, 4, length, 8, requires_grad=True)
        assert plan(x, x, x).kernel == kernel


@on_the_host("these are rules for a CPU")
@pytest.mark.parametrize(("length", "kernel"), [(63, "fused"), (64, "plain"), (512, "plain"), (513, "fused")])
def test_half_precision_beside_onednn_needs_many_numbers_for_the_definition(monkeypatch, length, kernel):
    monkeypatch.setattr(planner, "_products", lambda: ("AVX512", True, False))
    x = torch.zeros(2, 4, length, 8, dtype=torch.bfloat16)
    assert plan(x, x, x).kernel == kernel


@on_the_host("these are rules for a CPU")
@pytest.mark.parametrize(("intel", "kernel"), [(True, "fused"), (False, "plain")])
@pytest.mark.parametrize("grad", [False, True])
def test_one_query_in_half_precision_is_tiled_on_intel_alone(monkeypatch, intel, kernel, grad):
    monkeypatch.setattr(planner, "_products", lambda: ("AVX512", False, intel))
    for dtype in (torch.bfloat16, torch.float16):
        assert plan(*tensors(1, 300, dtype=dtype, grad=grad)).kernel == kernel


@on_the_host("these are rules for a CPU")
def test_without_wide_vectors_half_precision_learns_without_tiles(monkeypatch):
    monkeypatch.setattr(planner, "_products", lambda: ("AVX2", False, False))
    call = tensors(1024, 1024, dtype=torch.bfloat16, grad=True)
    assert plan(*call).kernel == "plain"
    assert plan(*tensors(2048, 2048, dtype=torch.bfloat16, grad=True)).kernel == "strips"


@on_the_host("these are rules for a CPU")
def test_the_setting_of_float32_products_is_seen_at_each_call():
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "bf16"
        assert plan(*tensors(16, 16)).kernel == "plain"
        matmul.fp32_precision = "ieee"
        assert plan(*tensors(16, 16)).kernel == "fused"
    finally:
        matmul.fp32_precision = before


@on_the_host("these are rules for a CPU")
def test_positions_are_written_out_for_tiles_where_they_do_not_learn():
    slopes = torch.linspace(0.0, 1.0, 1023).expand(4, -1)
    relative = Relative(-511, scalar=slopes)
    call = Call(*tensors(512, 512, grad=True), relative=relative)
    assert planner.plan(call).kernel == "fused"
    assert f"mask and bias, {4 * 512 * 512 * 4:,} bytes" in planner.plan(call).keeps
    learned = replace(call, relative=Relative(-511, scalar=slopes.clone().requires_grad_()))
    assert planner.plan(learned).refusals["fused"] == "its relative positions learn"
    with torch.no_grad():
        assert planner.plan(learned).kernel == "fused"
        # 16 times the pairs: a table that is better not kept
        assert planner.plan(Call(*tensors(2048, 2048), relative=relative)).kernel == "strips"


def test_what_runs_is_what_is_planned(monkeypatch):
    for call, options in ((tensors(5, 7), {}), (tensors(64, 64, grad=True), {"dropout": 0.5})):
        module = kernels.KERNELS[plan(*call, **options).kernel]
        compute, ran = module.compute, []
        with monkeypatch.context() as patch:
            patch.setattr(module, "compute", lambda call, compute=compute, ran=ran: ran.append(1) or compute(call))
            attend(*call, **options)
        assert ran


def test_why_each_other_kernel_does_not_is_said_of_the_call():
    chosen = plan(*tensors(512, 512), normalizer="relu")
    assert chosen.refusals["fused"] == "the normalizer is relu, not softmax"
    assert "band" in plan(*tensors(512, 512)).refusals["banded"]
    asked = plan(*tensors(5, 7), kernel="plain")
    assert asked.reason == "asked for"
    assert asked.refusals["fused"] == "plain is asked for"
    assert all("its mask lies within a band" not in why for why in plan(*tensors(9, 9)).refusals.values())


def test_work_is_what_is_really_done():
    chosen = plan(*tensors(5, 7), kernel="plain")
    assert chosen.flops == 2 * 2 * 4 * 5 * 7 * (32 + 32)
    assert chosen.keeps == f"scores (2, 4, 5, 7), {2 * 4 * 5 * 7 * 4:,} bytes"
    whole = plan(*tensors(8192, 8192), kernel="fused").flops
    assert plan(*tensors(8192, 8192), mask=Causal()).flops < 0.51 * whole
    assert plan(*tensors(8192, 8192), mask=Window(32, 32)).flops < 0.03 * whole
    edges = Edges(torch.stack((torch.arange(8000), torch.arange(8000))), 8192)
    assert plan(*tensors(8192, 8192), mask=edges).flops == 2 * 2 * 4 * 8000 * (32 + 32)


@on_the_host("lengths on a device are not read")
@pytest.mark.parametrize("mask", [None, Causal()])
def test_lengths_that_fill_every_sequence_take_the_path_without_them(mask):
    x, full, ragged = torch.randn(2, 2, 5, 4), Padding(torch.tensor([5, 5])), Padding(torch.tensor([5, 4]))
    masked = full if mask is None else mask & full
    assert torch.equal(attend(x, x, x, mask=masked), attend(x, x, x, mask=mask))
    assert plan(x, x, x, mask=masked) == plan(x, x, x, mask=mask)
    assert plan(x, x, x, mask=ragged if mask is None else mask & ragged) != plan(x, x, x, mask=mask)


def test_a_plan_depends_on_the_call_alone():
    """Twice the same, whatever was planned before, and with nothing written anywhere in between."""
    call = Call(*tensors(300, 300))
    before = planner.plan(call)
    plan(*tensors(1024, 1024), normalizer="relu")
    assert planner.plan(call) == before
    assert not [
        name
        for name, value in vars(planner).items()
        if isinstance(value, dict | list | set) and name not in ("KERNELS", "__builtins__") and name[:2] != "__"
    ]


def test_attention_needs_no_home_folder_and_reads_no_file():
    code = (
        "import builtins, pathlib, torch, headwise; x = torch.ones(1, 1, 3, 4); headwise.attend(x, x, x);"
        "fail = lambda *a, **k: (_ for _ in ()).throw(AssertionError(a)); pathlib.Path.home = fail;"
        "builtins.open = fail; print(headwise.attend(x, x, x, mask=headwise.Causal()).sum().item())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": "/usr/bin"})
    assert found.stdout.strip() == "12.0", found.stderr


def test_a_kernel_that_is_asked_for_must_be_able_and_known():
    with pytest.raises(Unsupported, match="kernel 'fused' cannot compute this attention exactly"):
        plan(*tensors(5, 7), normalizer="relu", kernel="fused")
    with pytest.raises(ConfigError, match="unknown kernel 'fuzed'; did you mean 'fused'"):
        plan(*tensors(5, 7), kernel="fuzed")


def test_every_kernel_of_the_table_is_one_and_the_definition_comes_last():
    assert {rule.kernel for rule in (*planner.TABLE, *planner.EXPORTED)} <= set(kernels.KERNELS)
    assert planner.TABLE[-1].kernel == planner.EXPORTED[-1].kernel == "plain"


def test_the_compiler_takes_the_products_as_constant_as_its_own_decorator_does():
    assert vars(torch.compiler.assume_constant_result(lambda: 0)).items() <= vars(planner._products).items()
