"""Masks within groups of positions and the kernel that sorts by them, against the written-out table and Swin."""

import pytest
import torch
from transformers import SwinConfig
from transformers.models.swin.modeling_swin import SwinLayer

from headwise.attention import kernels, planner
from headwise.attention.call import Call
from headwise.attention.masks import (
    Blocks,
    Causal,
    Columns,
    Global,
    GridWindows,
    Groups,
    Lattice,
    Mask,
    Padding,
    Rows,
    Shared,
    Table,
)
from headwise.errors import ConfigError, ShapeError
from headwise.layers.attention import MultiHeadAttention

IDS = torch.tensor([4, 0, 4, 2, 2, 0, 4, 7, 2, 0, 0, 4, 9, 4, 4])
# of 15 positions, a grid of 3 x 5
MASKS: dict[str, tuple[Mask, object]] = {
    "groups": (Groups(IDS), lambda i, j: IDS[i] == IDS[j]),
    "blocks": (Blocks(4), lambda i, j: i // 4 == j // 4),
    "windows": (GridWindows(5, 2), lambda i, j: (i // 5 // 2, i % 5 // 2) == (j // 5 // 2, j % 5 // 2)),
    "shifted": (
        GridWindows(5, 2, 1),
        lambda i, j: ((i // 5 + 1) // 2, (i % 5 + 1) // 2) == ((j // 5 + 1) // 2, (j % 5 + 1) // 2),
    ),
    "rows": (Rows(5), lambda i, j: i // 5 == j // 5),
    "columns": (Columns(5), lambda i, j: i % 5 == j % 5),
    "lattice": (Lattice(5, 2), lambda i, j: (i // 5 - j // 5) % 2 == 0 and (i % 5 - j % 5) % 2 == 0),
    "and padding": (Columns(5) & Padding(torch.tensor([11, 0])), None),
    "and causal": (Causal() & Blocks(4), None),
}
named = pytest.mark.parametrize("name", MASKS)


def inputs(query_len=15, kv_heads=3, dtype=torch.float64):
    shapes = (3, query_len, 4), (kv_heads, 15, 4), (kv_heads, 15, 5)
    return [torch.randn(2, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("name", [name for name, (_, allows) in MASKS.items() if allows])
def test_the_definition_pair_by_pair(name):
    mask, allows = MASKS[name]
    expected = torch.tensor([[bool(allows(i, j)) for j in range(15)] for i in range(15)])
    assert torch.equal(mask.dense(1, 1, 15, 15)[0, 0], expected)


@named
@pytest.mark.parametrize(("start", "query_len"), [(0, 15), (4, 7), (14, 1)])
@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
def test_the_kernel_equals_the_table(name, start, query_len, kv_heads, normalizer):
    """Outputs and gradients, with a bias, queries that are fewer than keys, and groups without a query."""
    mask, tensors = MASKS[name][0], inputs(query_len, kv_heads)
    bias = torch.randn(1, 3, query_len, 15, dtype=torch.float64, requires_grad=True)
    table = Table(mask.dense(2, 3, query_len, 15, query_start=start).expand(2, 3, query_len, 15))
    gradient, results = torch.randn(2, 3, query_len, 5, dtype=torch.float64), []
    for each, first, kernel in ((mask, start, "groups"), (table, 0, "plain")):
        call = Call(*tensors, normalizer=normalizer, mask=each, bias=bias, query_start=first)
        output = planner.run(call, kernel)
        results.append((output, *torch.autograd.grad(output, [*tensors, bias], gradient)))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_other_types(dtype):
    tensors = inputs(dtype=dtype)
    output = planner.run(Call(*tensors, mask=MASKS["shifted"][0]), "groups")
    expected = planner.run(Call(*(x.double() for x in tensors), mask=MASKS["shifted"][0]), "plain")
    assert output.dtype == dtype
    bound = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(output.double(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("shift", [0, 3])
def test_windows_equal_those_of_swin(shift):
    """transformers' SwinLayer with the same weights: its roll, its mask, its bias by steps within a window."""
    height, width, size, heads, d_model = 14, 21, 7, 3, 12
    config = SwinConfig(window_size=size, num_heads=[heads], attn_implementation="sdpa")
    swin = SwinLayer(config, d_model, (height, width), heads, shift_size=shift).double().train(False)
    for parameter in swin.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    swin.mlp.register_forward_hook(lambda *_: torch.zeros(()).double())
    x = torch.randn(2, height * width, d_model, dtype=torch.float64)
    with torch.no_grad():
        expected = swin(x, (height, width), always_partition=True)[0] - x
        layer, other = MultiHeadAttention(d_model, heads).double(), swin.attention
        projections = other.q_proj, other.k_proj, other.v_proj
        layer.projection.weight.copy_(torch.cat([linear.weight for linear in projections]))
        layer.projection.bias.copy_(torch.cat([linear.bias for linear in projections]))
        query, key, value = layer._project(swin.layernorm_before(x))[:3]
        row, column = torch.arange(height * width) // width, torch.arange(height * width) % width
        down, right = (axis[:, None] - axis for axis in (row, column))
        index = (
            (down.clamp(1 - size, size - 1) + size - 1) * (2 * size - 1) + right.clamp(1 - size, size - 1) + size - 1
        )
        bias = other.relative_position_bias.relative_position_bias_table[index].permute(2, 0, 1)[None]
        call = Call(query, key, value, mask=GridWindows(width, size, shift), bias=bias)
        assert planner.plan(call).kernel == "groups"
        output = other.o_proj(planner.run(call).transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_the_planner_picks_it_where_it_spares_pairs():
    x = torch.randn(1, 2, 64, 4)
    picked = {
        name: planner.plan(Call(x, x, x, mask=mask)).kernel
        for name, mask in {
            "windows": GridWindows(8, 4),
            "shared": Shared(Columns(8)),
            "with padding": Rows(8) & Padding(torch.tensor([60])),
            "one group": Blocks(64),
            "either": Rows(8) | Columns(8),
            "beside": Rows(8) | Global(1),
        }.items()
    }
    assert {name for name, kernel in picked.items() if kernel == "groups"} == {"windows", "shared", "with padding"}
    plan = planner.plan(Call(x, x, x, mask=GridWindows(8, 4)))
    assert plan.keeps == "4 groups of up to 16 queries and 16 keys, sorted"
    assert plan.flops == 2 * 2 * 4 * 16 * 16 * (4 + 4)


def test_what_it_refuses():
    x = torch.randn(1, 2, 15, 4)
    refusal = kernels.KERNELS["groups"].refusal
    assert refusal(Call(x, x, x, mask=Causal())) == "the mask has no groups of positions"
    assert "is a function" in refusal(Call(x, x, x, mask=Rows(5), normalizer=lambda scores, keep: scores))
    assert refusal(Call(x[:, :, :0], x, x, mask=Rows(5))) == "an axis is empty"


@pytest.mark.usefixtures("untyped")
def test_masks_that_cannot_be():
    with pytest.raises(ShapeError, match="Groups: 15 ids, but positions up to 15"):
        Groups(IDS).dense(1, 1, 16, 16)
    with pytest.raises(ShapeError, match=r"Groups needs a whole id for each position, got \(2, 2\) torch.int64"):
        Groups(torch.zeros(2, 2, dtype=torch.int64))
    with pytest.raises(ConfigError, match=r"GridWindows: shift \(4\) must be below size \(4\)"):
        GridWindows(8, 4, 4)
    assert Rows(5).reason(0, 0, 4, 5) == "query 4 is in group 0, key 5 in group 1"
