"""What a plan says of memory is what the operators of the forward pass allocate, within a factor of 2."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.attention import kernels, planner
from headwise.attention.call import Call
from headwise.attention.masks import Blocks, Causal, Documents, Edges, Mask, Padding, Table, Window
from headwise.attention.scores import Additive, QKNorm, ScaledDot, SoftCap

BATCH, HEADS, DIM = 2, 4, 16


class Height(TorchDispatchMode):
    """Adds up the memory that is alive after each operator."""

    def __init__(self, known):
        super().__init__()
        self.known = {tensor.untyped_storage()._cdata for tensor in known}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not tensor.is_meta:
                storage = tensor.untyped_storage()
                if storage._cdata not in self.known:
                    self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {key: kept for key, kept in self.alive.items() if not kept[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return result


def masks(length):
    index = torch.randint(0, length, (2, 4 * length), generator=torch.Generator().manual_seed(0))
    lens = torch.tensor([length, length // 2])
    return {
        "none": None,
        "causal": Causal(),
        "lengths": Padding(lens),
        "documents": Documents((torch.arange(length) // 50).expand(BATCH, length)),
        "table": Table(torch.rand(BATCH, 1, length, length) > 0.5),
        "window": Window(16, 16),
        "window, lengths": Window(16, 16) & Padding(lens),
        "graph": Edges(index, length),
        "blocks": Blocks(32),
    }


CASES = [
    *(("plain", mask, "softmax") for mask in ("none", "lengths", "table")),
    ("plain", "documents", "sparsemax"),
    *(("fused", mask, "softmax") for mask in ("none", "causal", "lengths", "documents", "table")),
    ("strips", "none", "softmax"),
    ("strips", "documents", "sparsemax"),
    *(("banded", mask, "softmax") for mask in ("window", "window, lengths")),
    ("banded", "window", "sparsemax"),
    ("edges", "graph", "softmax"),
    ("groups", "blocks", "softmax"),
]
SCORED = [(kernel, mask, "softmax") for kernel in ("plain", "strips") for mask in ("none", "documents")]


def agrees(call, kernel):
    # what is made once, such as a layout, is made
    planner.run(call, kernel)
    with Height(call.tensors) as height:
        planner.run(call, kernel)
    needed = height.peak + sum(t.numel() * t.element_size() for t in (call.query, call.key, call.value))
    stated = planner.plan(call, kernel).bytes
    assert needed / 2 <= stated <= 2 * needed, (kernel, stated, needed)


@pytest.mark.parametrize(("length", "learns"), [(96, True), (160, False)])
def test_a_plan_tells_the_height_of_memory(length, learns):
    made = masks(length)
    tensors = [torch.randn(BATCH, HEADS, length, DIM, requires_grad=learns) for _ in range(3)]
    for kernel, mask, normalizer in CASES:
        agrees(Call(*tensors, normalizer=normalizer, mask=made[mask]), kernel)
    for kernel, mask, _ in SCORED:
        agrees(Call(*tensors, Additive(DIM, DIM, 16), mask=made[mask]), kernel)
    agrees(Call(*tensors, bias=torch.randn(1, HEADS, length, length)), "fused")
    half = [tensor.detach().bfloat16() for tensor in tensors]
    for kernel in ("plain", "fused"):
        agrees(Call(*half, mask=made["documents"]), kernel)
    for kernel in ("plain", "strips"):
        for normalizer in ("softmax", "top_k:8"):
            agrees(Call(*tensors, SoftCap(ScaledDot(), 50.0), normalizer), kernel)
            agrees(Call(*tensors, normalizer=normalizer), kernel)
    assert {kernel for kernel, *_ in (*CASES, *SCORED)} == {*kernels.KERNELS} - {"flex"}


@pytest.mark.parametrize("score", ["scaled_dot", SoftCap(ScaledDot(), 50.0), QKNorm(DIM)])
@pytest.mark.parametrize("learns", [True, False])
def test_a_step_of_grouped_heads_is_mostly_copies_of_its_keys(score, learns):
    query = torch.randn(BATCH, 8, 1, DIM, dtype=torch.bfloat16, requires_grad=learns)
    key = torch.randn(BATCH, 2, 1500, DIM, dtype=torch.bfloat16, requires_grad=learns)
    for mask in (None, Padding(torch.tensor([1500, 700]))):
        for kernel in ("plain", "strips"):
            agrees(Call(query, key, key, score, mask=mask), kernel)


def test_unequal_widths_are_widened():
    query, key = (torch.randn(BATCH, HEADS, length, 8, dtype=torch.float64) for length in (512, 2048))
    agrees(Call(query, key, torch.cat(4 * [key], -1)), "fused")


def test_blocks_of_a_band_are_counted_with_what_their_score_makes():
    tensors = [torch.randn(BATCH, HEADS, 512, DIM, requires_grad=True) for _ in range(3)]
    for score in (Additive(DIM, DIM, 8), QKNorm(DIM), SoftCap(ScaledDot(), 50.0)):
        agrees(Call(*tensors, score, "sigmoid", Window(100, 0)), "banded")


def test_a_bent_product_keeps_tables_and_no_features():
    x = torch.empty(1, 4, 256, 128, requires_grad=True)
    plan = planner.plan(Call(x, x, x, SoftCap(ScaledDot(), 50.0)))
    assert plan.kernel == "plain"


class ReadsValues(Mask):
    """A predicate that cannot be asked for its shape without numbers."""

    def __call__(self, batch, head, query, key):
        return key <= query if bool((query >= 0).all()) else key > query


def test_the_table_that_a_mask_needs_is_counted_without_making_it():
    """356 MiB were measured where a plan said 262,144 bytes."""
    x = torch.empty(4, 1, 4096, 4)
    shared = Documents(torch.zeros(4, 4096, dtype=torch.long)).shared()
    plan = planner.plan(Call(x, x, x, mask=shared), "fused")
    assert 356 << 20 <= plan.bytes <= 2 * 356 << 20
    assert plan.keeps.endswith(f"and the table of mask and bias, {4 * 4096 * 4096 * 4:,} bytes")
    assert not shared._latest[0]._cache
    assert Call(x, x, x, mask=Padding(torch.tensor([3, 2, 1, 0]))).tabled() == 4 * 4096
    assert Call(x, x, x, mask=Causal()).tabled() == 4096 * 4096
    assert Call(x[:, :, :7], x[:, :, :7], x[:, :, :7], mask=ReadsValues()).tabled() == 4 * 7 * 7
    assert Call(x, x, x).tabled() == 0
