"""Derivatives beyond gradients: what each kernel computes, what it leaves to the definition, what it refuses."""

from dataclasses import dataclass, replace

import pytest
import torch
from devices import seeded
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from headwise.attention import attend
from headwise.attention.call import Call
from headwise.attention.kernels import KERNELS
from headwise.attention.masks import Blocks, Causal, Edges, Mask, Window
from headwise.attention.mechanisms.random_synthesizer import RandomSynthesizer
from headwise.attention.scores import Bilinear, ScaledDot, Score
from headwise.errors import Unsupported

LENGTH = 7


@dataclass(frozen=True)
class Run:
    """A kernel on a call that it takes."""

    kernel: str
    mask: Mask | None = None
    score: Score | None = None

    def __call__(self, x, kernel=None):
        score = ScaledDot() if self.score is None else self.score
        output = attend(x, 0.7 * x, x.sin(), score=score, mask=self.mask, kernel=kernel or self.kernel)
        return output.square().sum()


RING = Edges(torch.stack((torch.arange(LENGTH), torch.arange(LENGTH).roll(1))), LENGTH).with_self_loops()
RUNS = [
    Run("auto"),
    Run("plain", Causal()),
    Run("fused", Causal()),
    Run("strips", Causal()),
    Run("banded", Window(2, 1)),
    Run("groups", Blocks(2)),
    Run("edges", RING),
    Run("edges", RING, Bilinear(3, 3).double()),
]
every_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.kernel} {type(run.score).__name__}")


def numbers(seed=0):
    return torch.randn(1, 2, LENGTH, 3, dtype=torch.float64, generator=seeded(seed))


@every_run
def test_gradients_of_gradients_by_transforms(run):
    """Of every kernel: SDPA has none, so the definition stands in for it."""
    x = numbers()
    norm = lambda kernel: lambda x: torch.func.grad(lambda y: run(y, kernel))(x).square().sum()  # noqa: E731
    found, expected = (torch.func.grad(norm(kernel))(x) for kernel in (None, "plain"))
    torch.testing.assert_close(found, expected)


# PyTorch compiles its own rules by it
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@every_run
def test_forward_mode(run):
    x, direction = numbers(), numbers(1)
    expected = (torch.func.grad(lambda y: run(y, "plain"))(x) * direction).sum()
    torch.testing.assert_close(torch.func.jvp(run, (x,), (direction,))[1], expected)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(run(forward_ad.make_dual(x, direction))).tangent
    torch.testing.assert_close(tangent, expected)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_forward_mode_of_a_graph_reads_no_isolated_node():
    alone = Edges(torch.tensor([[0], [1]]), LENGTH)
    x, direction = numbers(), numbers(1)
    x[:, :, 2:] = torch.nan
    assert torch.func.jvp(Run("edges", alone), (x,), (direction,))[1].isfinite()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@every_run
def test_forward_mode_over_gradients(run):
    """As `torch.func.hessian` has it."""
    x, direction = numbers(), numbers(1)
    found, expected = (
        torch.func.jvp(torch.func.grad(lambda y, kernel=kernel: run(y, kernel)), (x,), (direction,))[1]
        for kernel in (None, "plain")
    )
    torch.testing.assert_close(found, expected)


@every_run
def test_gradients_of_gradients_by_a_graph(run):
    """PyTorch says too late that there are none; the backward pass that makes the graph says so by name."""
    results = []
    for kernel in (run.kernel, "plain"):
        x = numbers().requires_grad_()
        loss = run(x, kernel)
        if kernel in ("auto", "fused", "banded", "groups"):
            with pytest.raises(
                Unsupported, match=r"have no second derivatives \(create_graph=True\): pass kernel='plain'"
            ):
                torch.autograd.grad(loss, x, create_graph=True)
            return
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        results.append(torch.autograd.grad(gradient.square().sum(), x)[0])
    torch.testing.assert_close(*results)


def test_a_bias_that_learns_outside_of_a_transform():
    """Inside it does not require a gradient, but SDPA has to make one."""
    x, weight = numbers(), torch.nn.Parameter(torch.randn(1, 2, LENGTH, LENGTH, dtype=torch.float64))
    found = torch.func.grad(lambda y: attend(y, y, y, bias=weight * 1).sum())(x)
    torch.testing.assert_close(
        found, torch.func.grad(lambda y: attend(y, y, y, bias=weight * 1, kernel="plain").sum())(x)
    )
    module = RandomSynthesizer(2, LENGTH).double()
    assert torch.func.grad(lambda y: module(Call(y, y, y)).square().sum())(x).isfinite().all()


@pytest.mark.parametrize("kernel", ["strips", "edges"])
def test_a_checkpoint_around_a_kernel_lets_go_of_its_inputs(kernel):
    """What a kernel computes again is made again by the checkpoint around it; nothing large stays until then."""
    mask, score = (RING, Bilinear(3, 3).double()) if kernel == "edges" else (Causal(), "dot")
    alive = []

    def part(x):
        query = x * 2.0
        alive.append(torch.multiprocessing.reductions.StorageWeakRef(query.untyped_storage()))
        return attend(query, x, x, mask=mask, score=score, kernel=kernel)

    x = numbers().requires_grad_()
    output = checkpoint(part, x, use_reentrant=False)
    assert alive[0].expired()
    found = torch.autograd.grad(output.sum(), x)
    torch.testing.assert_close(found, torch.autograd.grad(attend(2.0 * x, x, x, mask=mask, score=score).sum(), x))


def test_every_kernel_is_tried():
    # on a CPU flex is refused, or checked by its own tests
    assert {run.kernel for run in RUNS} == {*KERNELS, "auto"} - {"flex"}
    assert replace(RUNS[0], kernel="plain") == Run("plain")
