"""Kernels for a GPU: equal to the definition where there is one; what they refuse and translate, anywhere."""

import copy
from dataclasses import replace

import pytest
import torch
from attention_cases import Case
from devices import on_the_host, seeded

from headwise.attention import planner
from headwise.attention.call import Call
from headwise.attention.kernels import flex, plain
from headwise.attention.masks import BigBird, Causal, Edges, Global, Padding, Shifts, Table, Window
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive, Bilinear, ScaledDot, SoftCap
from headwise.errors import Unsupported
from headwise.models.convolution import Offsets

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PADDING = Padding(torch.tensor([5, 0]))
MASKS = {
    "none": None,
    "causal": Causal(),
    "window": Window(3, 2),
    "padding": PADDING,
    "both": Causal() & PADDING,
    "either": Window(1, 0) | ~PADDING,
    "table": Table(torch.rand(2, 3, 9, 7, generator=seeded(1)) < 0.5),
    "global": Global((0, 5)) | Window(1, 1),
    "shifts": Shifts((-1, 0, 2)),
    "offsets": Offsets(2, 4, 4, (0, 0), (1, 1), ((0, 0), (0, -1), (-1, 0))),
    "bigbird": BigBird(9, block=2, window=1, global_blocks=1, random=1),
}


@on_the_host("it is about the processor")
def test_on_a_cpu_it_is_refused():
    why = "kernel 'flex' cannot compute this attention exactly: FlexAttention gives wrong numbers on a CPU"
    with pytest.raises(Unsupported, match=why):
        planner.run(Case().build(torch.float32), "flex")


def test_what_flex_attention_does_not_compute():
    call = Case().build(torch.float32)
    graph = Edges(torch.tensor([[0], [1]]), 7)
    table = Relative(low=0, value_table=torch.zeros(1, 1, 3))
    for changes, why in (
        ({}, None),
        ({"score": SoftCap(ScaledDot(), 20.0)}, None),
        ({"relative": Relative(low=-1, scalar=torch.zeros(1, 3))}, None),
        ({"score": Additive(4, 4, 3)}, "the score Additive is no dot product"),
        ({"normalizer": "relu"}, "the normalizer is relu, not softmax"),
        ({"dropout": 0.1}, "weights are dropped out"),
        ({"relative": table}, "its relative positions are more than one number for each distance"),
        ({"mask": ~graph | Causal()}, "the mask holds a graph, whose pairs a compiled program cannot look up"),
        ({"mask": graph}, "the mask holds a graph, whose pairs a compiled program cannot look up"),
        ({"value": torch.zeros(2, 3, 7, 0)}, "an axis is empty"),
    ):
        assert flex.unfit(replace(call, **changes)) == why
    assert flex.unfit(Case().build(torch.float64)) == "it is in float64"


def as_flex_attention(query, key, value, *, score_mod, block_mask, scale, enable_gqa):
    """What FlexAttention documents that it computes, over whole tables."""
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.mT * scale
    index = [torch.arange(n).view([-1 if i == axis else 1 for i in range(4)]) for axis, n in enumerate(scores.shape)]
    if score_mod is not None:
        scores = score_mod(scores, *index)
    if block_mask is not None:
        keep = block_mask.mask_mod(*index).expand(scores.shape)
        blocks = block_mask.to_dense().bool().repeat_interleave(128, 2).repeat_interleave(128, 3)
        # blocks that are left out hold nothing that is allowed
        assert not (keep & ~blocks[:, :, : keep.shape[2], : keep.shape[3]]).any()
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ value


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    "score", [ScaledDot(), SoftCap(ScaledDot(), 2.0), Bilinear(4, 4)], ids=["dot", "cap", "bilinear"]
)
def test_masks_and_scores_as_flex_attention_takes_them(name, score):
    query, key, value = (torch.randn(2, heads, n, 4) for heads, n in ((3, 9), (1, 7), (1, 7)))
    scalar = Relative(low=-2, scalar=torch.randn(3, 4))
    shared = replace(scalar, scalar=torch.ones(1, 4))
    for bias, relative in ((None, None), (torch.randn(1, 3, 1, 7), scalar), (None, shared)):
        call = Call(query, key, value, score, mask=MASKS[name], bias=bias, relative=relative)
        torch.testing.assert_close(flex.attend_with(as_flex_attention, call), plain.compute(call))


def test_flex_attention_counts_positions_from_the_start_of_the_query():
    query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 300, 4)
    relative = Relative(low=-9, scalar=torch.randn(2, 12))
    call = Call(query, key, key, ScaledDot(), mask=Causal(), relative=relative, query_start=150)
    torch.testing.assert_close(flex.attend_with(as_flex_attention, call), plain.compute(call))


def test_masks_move_with_all_their_parts():
    mask = (Window(1, 1) & PADDING) | ~Table(torch.ones(2, 3, dtype=torch.bool))
    moved = mask.to(torch.device("meta"))
    assert moved.left.right.valid_lens.device.type == "meta"
    assert moved.right.mask.allowed.device.type == "meta"
    assert moved.left.left.structure().band == (1, 1)
    assert MASKS["bigbird"].to(torch.device("meta")).blocks.is_meta


@pytest.mark.parametrize(("length", "kernel"), [(1024, "fused"), (4096, "fused"), (16384, "banded")])
def test_a_short_band_is_computed_whole_where_tiles_are_fast(length, kernel):
    query = torch.zeros(1, 2, length, 16, device="meta")
    assert planner.plan(Call(query, query, query, mask=Window(64, 64))).kernel == kernel
    relu = planner.plan(Call(query, query, query, mask=Window(64, 64), normalizer="relu"))
    assert relu.kernel == "banded"


def agrees(name: str, call: Call, tolerance: float) -> None:
    """Output and gradients of the kernel on the device are those of the definition in float64 on the host."""
    tensors = [t.detach().double().requires_grad_() for t in (call.query, call.key, call.value)]
    wide = replace(call, query=tensors[0], key=tensors[1], value=tensors[2], score=copy.deepcopy(call.score).double())
    expected = plain.compute(wide)
    gradient = torch.randn_like(expected)
    wanted = [expected, *torch.autograd.grad(expected, tensors, gradient)]
    near = [t.detach().cuda().requires_grad_() for t in (call.query, call.key, call.value)]
    bias = None if call.bias is None else call.bias.cuda()
    here = replace(call, query=near[0], key=near[1], value=near[2], bias=bias, score=call.score.cuda())
    output = planner.run(here, name)
    found = [output, *torch.autograd.grad(output, near, gradient.to(output))]
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(
            one.double().cpu(), two.cpu(), rtol=0, atol=tolerance * max(1.0, float(two.detach().abs().max()))
        )


@on_a_gpu
@pytest.mark.parametrize("name", MASKS)
def test_flex_attention_is_the_definition(name):
    query, key, value = (torch.randn(2, heads, n, 16) for heads, n in ((3, 9), (1, 7), (1, 7)))
    agrees("flex", Call(query, key, value, mask=MASKS[name]), 1e-3)
