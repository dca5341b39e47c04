"""Attention under the transforms of PyTorch: every kernel, score, normalizer and mask is right, or refused by name.

What is refused is in `REFUSED`, which docs/transforms.md shows. Mechanisms, positions and layers have tables of their
own beside their tests.
"""

import copy
import math
import pickle
from dataclasses import replace

import documented
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

from headwise.attention import attend, kernels, masks, normalizers, planner, scores
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Documents, Edges, Padding, Prefix, Table, Window
from headwise.attention.zeros import zeroed
from headwise.errors import Unsupported

pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented"),
    # the compiler's own
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

KERNELS = [name for name in list(kernels.KERNELS) if name != "flex"]
LENS = torch.tensor([7, 4])
INDEX = torch.arange(7)
GRAPH = Edges(torch.stack((INDEX, (3 * INDEX) % 7)), 7)

BIG_BIRD = masks.BigBird(64, block=4, window=1, global_blocks=1, random=1)

MASKS = {
    "causal": lambda lens: Causal(),
    "padding": lambda lens: Padding(lens),
    "both": lambda lens: Padding(lens) & Causal(),
    "either": lambda lens: Padding(lens) | Window(1, 1),
    # `~` of an object cannot be traced inside a compiled function, its class can
    "not": lambda lens: masks.Not(Window(1, 1)),
    "prefix": lambda lens: Prefix(lens),
    "window": lambda lens: Window(2, 1),
    "dilated": lambda lens: masks.Dilated(1, 1, 2),
    "strided": lambda lens: masks.Strided(3),
    "blocks": lambda lens: masks.Blocks(3),
    "groups": lambda lens: masks.Groups(INDEX.to(lens.device) % 3),
    "grid_windows": lambda lens: masks.GridWindows(3, 2, 1),
    "rows": lambda lens: masks.Rows(3),
    "columns": lambda lens: masks.Columns(3),
    "lattice": lambda lens: masks.Lattice(3, 2),
    "global": lambda lens: masks.Global((0, 5)),
    "bigbird": lambda lens: BIG_BIRD,
    "shifts": lambda lens: masks.Shifts((-1, 0)),
    "documents": lambda lens: Documents((INDEX.to(lens.device) < lens[:, None]).long()),
    "edges": lambda lens: GRAPH,
    "table": lambda lens: Table(torch.ones(7, 7, dtype=torch.bool).tril()),
}
FITTING = {"banded": "window", "edges": "edges", "groups": "blocks"}
SCORES = {name: name for name in scores.SCORES if name != "concat"}
SCORES["a function"] = lambda query, key: -(query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(-1)
NORMALIZERS = {name: name for name in (*normalizers.NORMALIZERS, "entmax:1.3", "top_k:3", "scalable:0.43")}
NORMALIZERS["a function"] = lambda scores, keep: scores.sigmoid()
NORMALIZERS["sinks"] = normalizers.Sinks(2)

# (kind, name, transform): why
REFUSED: dict[tuple[str, str, str], str] = {
    ("kernel", name, "export"): "the program is exported, and its lengths may vary; fused and plain serve any"
    for name in ("strips", "banded", "edges", "groups")
}
# tried in test_derivatives.py
REFUSED |= {("kernel", name, "create_graph"): "no second derivatives" for name in ("fused", "banded", "groups")}


class Attention(nn.Module):
    """One attention as a module: its mask is made inside from lengths."""

    def __init__(self, kernel="auto", score="scaled_dot", normalizer="softmax", mask="padding"):
        super().__init__()
        score, normalizer = SCORES[score], NORMALIZERS[normalizer]
        self.score = scores.build(score, 6, 6, 5, 2) if isinstance(score, str) else score
        self.normalizer = normalizers.build(copy.deepcopy(normalizer))
        self.kernel, self.mask = kernel, mask

    def forward(self, query, key, value, lens):
        call = Call(query, key, value, self.score, self.normalizer, MASKS[self.mask](lens))
        return planner.run(call, self.kernel)


def cases():
    for kernel in KERNELS:
        yield ("kernel", kernel), {"kernel": kernel, "mask": FITTING.get(kernel, "padding")}
    for score in SCORES:
        yield ("score", score), {"score": score}
    for normalizer in NORMALIZERS:
        yield ("normalizer", normalizer), {"normalizer": normalizer}
    for mask in MASKS:
        yield ("mask", mask), {"mask": mask}


CASES = dict(cases())
every_case = pytest.mark.parametrize("kind", CASES, ids="-".join)


def built(kind):
    torch.manual_seed(0)
    return Attention(**CASES[kind]), *(torch.randn(2, 2, 7, 6) for _ in range(3))


def learned(run, kind, module, query, key, value):
    """Output and gradients of inputs and parameters."""
    inputs = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    output = run(*inputs)
    parameters = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(output.square().sum(), [*inputs, *parameters], allow_unused=True)
    return [output, *(tensor for tensor in found if tensor is not None)]


def same(kind, transform, run, module, *tensors):
    """The transformed module gives what it gives, or is refused as the table says."""
    why = REFUSED.get((*kind, transform))
    if why is not None:
        with pytest.raises(Unsupported, match=why):
            learned(run, kind, module, *tensors)
        return
    expected = learned(lambda *inputs: module(*inputs, LENS), kind, module, *tensors)
    for one, two in zip(learned(run, kind, module, *tensors), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


class Several(nn.Module):
    """Several attentions of the same tensors, which a compiler traces as one program."""

    def __init__(self, modules):
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, query, key, value, lens):
        return torch.stack([part(query, key, value, lens) for part in self.parts])


FAMILIES = ("kernel", "score", "normalizer", "mask")
every_family = pytest.mark.parametrize("family", FAMILIES)


def family_of(family, transform):
    """Those that are not refused, as one module, and tensors for it."""
    kinds = [kind for kind in CASES if kind[0] == family and (*kind, transform) not in REFUSED]
    return Several([built(kind)[0] for kind in kinds]), *built(kinds[0])[1:]


@pytest.mark.slow
@every_family
def test_compiled_without_a_graph_break(family):
    module, *tensors = family_of(family, "compile")
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    same((family, ""), "compile", lambda *inputs: compiled(*inputs, LENS), module, *tensors)


@pytest.mark.slow
@every_family
def test_exported_with_any_batch_and_length(family):
    module, *tensors = family_of(family, "export")
    fixed = [part for part in module.parts if part.mask in ("edges", "table", "documents")]
    module.parts = nn.ModuleList(part for part in module.parts if part not in fixed)
    batch, length = Dim("batch", min=2, max=64), Dim("length", min=4, max=64)
    shapes = tuple({0: batch, 2: length} for _ in tensors)
    with torch.no_grad():
        program = torch.export.export(module, (*tensors, LENS), dynamic_shapes=(*shapes, {0: batch})).module()
        inputs, lens = [torch.randn(3, 2, 11, 6) for _ in tensors], torch.tensor([11, 3, 0])
        torch.testing.assert_close(program(*inputs, lens), module(*inputs, lens), rtol=1e-4, atol=1e-5)
        if fixed:
            # masks that were made for one length, with any batch
            module = Several(fixed)
            shapes = tuple({0: batch} for _ in (*tensors, LENS))
            program = torch.export.export(module, (*tensors, LENS), dynamic_shapes=shapes).module()
            inputs, lens = [torch.randn(3, 2, 7, 6) for _ in tensors], torch.tensor([7, 3, 0])
            torch.testing.assert_close(program(*inputs, lens), module(*inputs, lens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for *kind, transform in REFUSED if transform == "export"], ids="-".join)
def test_what_cannot_be_exported_is_refused_by_name(kind):
    module, *tensors = built(tuple(kind))
    with pytest.raises(Exception, match=REFUSED[(*kind, "export")]):
        torch.export.export(module, (*tensors, LENS))


@pytest.mark.parametrize("kind", [kind for kind in CASES if [*built(kind)[0].parameters()]], ids="-".join)
def test_with_other_parameters_given_for_the_call(kind):
    module, *tensors = built(kind)
    other = {name: torch.randn_like(p).requires_grad_() for name, p in module.named_parameters()}
    results = []
    for own in (False, True):
        twin = Attention(**CASES[kind])
        if own:
            twin.load_state_dict({name: p.detach() for name, p in other.items()})
            output, parameters = twin(*tensors, LENS), list(twin.parameters())
        else:
            output, parameters = torch.func.functional_call(module, other, (*tensors, LENS)), list(other.values())
        results.append([output, *torch.autograd.grad(output.square().sum(), parameters)])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@every_case
def test_mapped_over_the_batch(kind):
    module, *tensors = built(kind)

    def one(query, key, value, lens):
        return module(query[None], key[None], value[None], lens[None])[0]

    same(kind, "vmap", lambda *inputs: torch.vmap(one)(*inputs, LENS), module, *tensors)


@every_case
def test_differentiated_by_functions(kind):
    module, query, key, value = built(kind)
    gradient = torch.func.grad(lambda query: module(query, key, value, LENS).square().sum())(query)
    expected = learned(lambda *inputs: module(*inputs, LENS), kind, module, query, key, value)[1]
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


@every_case
def test_computed_again_for_the_gradient(kind):
    module, *tensors = built(kind)
    run = lambda *inputs: checkpoint(module, *inputs, LENS, use_reentrant=False)  # noqa: E731
    same(kind, "checkpoint", run, module, *tensors)


@every_case
def test_with_saved_tensors_packed(kind):
    module, *tensors = built(kind)

    def moved(*inputs):
        with torch.autograd.graph.save_on_cpu():
            return module(*inputs, LENS)

    same(kind, "hooks", moved, module, *tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_case
def test_under_autocast(kind, dtype):
    """Inputs keep their type, and scores are as exact as without."""
    module, *tensors = built(kind)

    def cast(*inputs):
        with torch.autocast("cpu", dtype):
            return module(*inputs, LENS)

    same(kind, "autocast", cast, module, *tensors)


@every_case
def test_without_numbers(kind):
    """On the meta device there are shapes only."""
    module, *tensors = built(kind)
    meta = [tensor.to("meta") for tensor in tensors]
    output = module.to("meta")(*meta, LENS.to("meta"))
    assert output.is_meta
    assert output.shape == (2, 2, 7, 6)


# the compiler's own
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        *(("kernel", name) for name in KERNELS),
        *(("normalizer", name) for name in ("relu", "sparsemax", "entmax:1.3")),
        ("score", "gatv2"),
        ("mask", "both"),
    ],
    ids="-".join,
)
def test_compiled_by_inductor(kind):
    torch.compiler.reset()
    module, *tensors = built(kind)
    compiled = torch.compile(module, fullgraph=True)
    same(kind, "compile", lambda *inputs: compiled(*inputs, LENS), module, *tensors)


def test_one_attention_of_any_length_in_one_program():
    """A program compiled with dynamic sizes serves a second length."""

    def run(x):
        return attend(x, x, x, mask=Causal())

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 9, 33):
        x = torch.randn(2, 3, length, 4)
        torch.testing.assert_close(compiled(x), run(x))


def test_what_is_hidden_is_zero_in_a_compiled_program_too():
    x, keep = torch.tensor([[math.nan, 1.0], [2.0, math.inf]], requires_grad=True), torch.tensor([[False], [True]])
    compiled = torch.compile(lambda x, keep: zeroed(x, keep), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, keep), zeroed(x, keep))
    (gradient,) = torch.autograd.grad(compiled(x, keep), x, torch.full_like(x, math.nan))
    assert not gradient[0].any()


def test_a_mask_shared_by_layers_compiles_and_pickles_small():
    mask = Padding(LENS).shared()
    x = torch.randn(2, 2, 7, 6)
    attend(x, x, x, mask=mask)
    assert len(pickle.dumps(mask)) < 2000
    call = Call(x, x, x, mask=mask)
    assert call.keep() is replace(call).keep()


def test_what_is_refused_is_documented():
    kinds = ("kernel", "score", "normalizer", "mask")
    assert {(kind, *row) for kind in kinds for row in documented.refused(kind)} == set(REFUSED)


def test_a_mask_is_made_within_a_compiled_program():
    def masked(x, lens):
        return attend(x, x, x, mask=Causal() & Padding(lens))

    x, program = torch.randn(2, 2, 4, 4), torch.compile(masked, backend="eager", fullgraph=True)
    for lens in (torch.tensor([4, 4]), torch.tensor([4, 0])):
        torch.testing.assert_close(program(x, lens), masked(x, lens))
