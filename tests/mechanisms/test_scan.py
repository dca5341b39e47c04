"""The one recurrence: chunks are steps are a loop, for every transition, length and strength of decay."""

import pytest
import torch
from devices import seeded

from headwise.attention.mechanisms import _scan
from headwise.attention.mechanisms._scan import Terms, scan, step

WIDTH, VALUES = 5, 3
# what a transition has: width of the decays, whether it reads, whether it erases elsewhere than at the key
TRANSITIONS = {
    "sum": (0, False, False),
    "scalar": (1, False, False),
    "diagonal": (WIDTH, False, False),
    "delta": (0, True, False),
    "scalar delta": (1, True, False),
    "diagonal delta": (WIDTH, True, False),
    "two vectors": (0, True, True),
    "scalar two vectors": (1, True, True),
    "diagonal two vectors": (WIDTH, True, True),
}
LENGTHS = (0, 1, 2, 3, 8, 9, 64, 67, 130)


def made(name, length, *, strength=0.1, dtype=torch.float64, batch=2, heads=2, seed=0):
    """The terms of a transition, with gates from open to `strength` times a normal number."""
    gates, reads, erases = TRANSITIONS[name]
    generator = seeded(seed)

    def draw(width, size=1.0):
        return torch.randn(batch, heads, length, width, generator=generator, dtype=torch.float64) * size

    query, key, value, read = draw(WIDTH), draw(WIDTH), draw(VALUES), draw(WIDTH)
    # reads of length 1 and an erasure that cannot grow
    key, read = (x / x.norm(dim=-1, keepdim=True) for x in (key, read))
    decay = -draw(gates, strength).abs() if gates else None
    terms = Terms(query, key, value, decay, read if erases else key if reads else None, read * 0.5 if erases else None)
    return Terms(*(None if x is None else x.to(dtype).requires_grad_() for x in terms))


def loop(terms, sums):
    """The formula of the module, one token at a time."""
    outputs = []
    sums = terms.query.new_zeros(2, 2, WIDTH, VALUES) if sums is None else sums
    eye = torch.eye(WIDTH, dtype=terms.query.dtype)
    for i in range(terms.query.shape[2]):
        query, key, value = (x[:, :, i].unsqueeze(-1) for x in terms[:3])
        if terms.log_decay is not None:
            sums = terms.log_decay[:, :, i].exp().unsqueeze(-1) * sums
        if terms.read is not None:
            erase = key if terms.erase is None else terms.erase[:, :, i].unsqueeze(-1)
            sums = (eye - erase @ terms.read[:, :, i].unsqueeze(-1).mT) @ sums
        sums = sums + key @ value.mT
        outputs.append((query.mT @ sums).squeeze(-2))
    output = torch.stack(outputs, 2) if outputs else terms.value[:, :, :0]
    return output, sums


def check(actual, expected, tolerance):
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(actual / scale, expected / scale, rtol=0, atol=tolerance)


def compare(terms, sums, floor=float("-inf"), tolerance=1e-12):
    inputs = [x for x in (*terms, sums) if x is not None]
    results = []
    for output, last in (scan(terms, sums, floor), loop(terms, sums)):
        seeded_sum = sum((x * torch.randn(x.shape, generator=seeded(7), dtype=x.dtype)).sum() for x in (output, last))
        results.append(
            (output, last, *torch.autograd.grad(seeded_sum, inputs, allow_unused=True, materialize_grads=True))
        )
    for actual, expected in zip(*results, strict=True):
        check(actual, expected, tolerance)


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("past", [False, True])
def test_chunks_are_a_loop_with_gradients(name, length, past):
    sums = torch.randn(2, 2, WIDTH, VALUES, generator=seeded(3), dtype=torch.float64).requires_grad_() if past else None
    if length or past:
        compare(made(name, length), sums)


@pytest.mark.parametrize("name", [name for name, parts in TRANSITIONS.items() if parts[0]])
@pytest.mark.parametrize("strength", [1e-4, 1.0, 9.0])
def test_strong_and_weak_decays_side_by_side(name, strength):
    """Float32 loses no digits of a weak gate behind a strong one."""
    terms = made(name, 130, strength=strength)
    compare(terms, None)
    compare(Terms(*(None if x is None else x.detach().float().requires_grad_() for x in terms)), None, tolerance=2e-6)


def test_a_shut_gate_overflows_nothing():
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-12)):
        for name in ("scalar", "diagonal", "diagonal delta", "diagonal two vectors"):
            terms = made(name, 67, dtype=dtype)
            with torch.no_grad():
                terms.log_decay[:, :, ::3] = -1e4
                terms.log_decay[:, :, 1::3, :1] = 0.0
            compare(terms, None, tolerance=tolerance)


@pytest.mark.parametrize("name", ["diagonal", "diagonal delta", "diagonal two vectors"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_bound_on_the_decays_changes_no_number(name, dtype, monkeypatch):
    terms = made(name, 130, dtype=dtype)
    with torch.no_grad():
        terms.log_decay.clamp_(min=-1.25)
        terms.log_decay[:, :, ::2] = -1.25
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    compare(terms, None, -1.25, tolerance)
    monkeypatch.setattr(_scan, "HalvedPairs", None)
    scan(terms, None, -1.25)
    with pytest.raises(TypeError):
        scan(terms, None, -1.26)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_step_is_a_chunk_of_one(name):
    sums = torch.randn(2, 2, WIDTH, VALUES, generator=seeded(3), dtype=torch.float64)
    terms = made(name, 1)
    for actual, expected in zip(step(terms, sums), loop(terms, sums), strict=True):
        check(actual, expected, 1e-14)


@pytest.mark.parametrize("name", TRANSITIONS)
@torch.no_grad()
def test_doubling_is_the_loop_over_chunks(name, monkeypatch):
    """What a traced program computes, which does not know the number of chunks."""
    terms = made(name, 64 * 5)
    expected = scan(terms, None)
    monkeypatch.setattr(_scan, "_carried", _scan._doubled)
    for actual, other in zip(scan(terms, None), expected, strict=True):
        check(actual, other, 1e-13)


@pytest.mark.slow
def test_second_derivatives_of_a_delta_rule():
    terms = made("diagonal two vectors", 5, batch=1, heads=1)
    assert torch.autograd.gradgradcheck(lambda *x: scan(Terms(*x), None)[0], tuple(x for x in terms if x is not None))


@pytest.mark.parametrize("name", ["diagonal", "diagonal delta"])
def test_huge_keys_behind_shut_gates_overflow_nothing(name):
    terms = made(name, 9, dtype=torch.float32)
    with torch.no_grad():
        terms.log_decay.fill_(-1e4)
        terms.key.mul_(1e15 if name == "diagonal" else 1.0)
    output, last = scan(terms, None)
    gradients = torch.autograd.grad(output.sum() + last.sum(), [x for x in terms if x is not None])
    assert all(torch.isfinite(x).all() for x in (output, last, *gradients))
