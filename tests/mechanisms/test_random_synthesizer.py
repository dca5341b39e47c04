"""Random synthesizer: static mixing by definition, masks, what is read and learned, step by step."""

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run, shown

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Table
from headwise.attention.mechanisms.random_synthesizer import RandomSynthesizer
from headwise.attention.relative import Relative
from headwise.errors import ShapeError


def synthesizer(**options):
    return RandomSynthesizer(**{"num_heads": 4, "max_len": 11, **options}).double()


def test_the_definition():
    _, _, value = inputs = [t.detach() for t in checks.tensors(5, 7)]
    mechanism = synthesizer()
    bias, keep = torch.randn(1, 4, 5, 7).double(), torch.rand(3, 4, 5, 7) < 0.6
    keep[1, 3, 4] = False
    output, scores = run(mechanism, *inputs, mask=Table(keep), bias=bias), mechanism.scores.detach()
    for n, h, i in ((0, 0, 0), (2, 2, 1), (1, 3, 4)):
        expected, total = torch.zeros(5).double(), 0.0
        for j in range(7):
            if keep[n, h, i, j]:
                power = float((scores[h, i, j] + bias[0, h, i, j]).exp())
                total += power
                expected += power * value[n, h // 2, j]
        checks.near(output[n, h, i], expected / max(total, 1e-300))
    assert not output[1, 3, 4].any()


def test_weights_do_not_depend_on_the_input():
    one = checks.tensors(5, 7)
    two = [torch.rand_like(tensor) for tensor in one]
    mechanism = synthesizer()
    assert torch.equal(shown(mechanism, *one[:2]), shown(mechanism, *two[:2]))
    junk = [torch.full_like(tensor, checks.NAN) for tensor in one[:2]]
    assert torch.equal(run(mechanism, *junk, one[2]), run(mechanism, *one))


def test_learned_or_fixed():
    learned, fixed = synthesizer(), synthesizer(learned=False)
    assert [name for name, _ in learned.named_parameters()] == ["scores"]
    assert not list(fixed.parameters())
    assert list(fixed.state_dict()) == ["scores"]
    fixed.load_state_dict(learned.state_dict())
    inputs = checks.tensors(5, 7)
    checks.near(run(fixed, *inputs), run(learned, *inputs))
    run(learned, *inputs).square().sum().backward()
    assert learned.scores.grad[:, :5, :7].all()
    assert not learned.scores.grad[:, 5:].any()
    assert not learned.scores.grad[:, :, 7:].any()


def test_gradients():
    mechanism = RandomSynthesizer(2, 5).double()
    query, key, value = checks.tensors(3, 4, batch=2, heads=2, kv_heads=1, dim=2, value_dim=2)

    def function(value, scores):
        return torch.func.functional_call(mechanism, {"scores": scores}, Call(query, key, value, mask=Causal()))

    assert torch.autograd.gradcheck(function, (value, mechanism.scores), fast_mode=True)


def test_it_keeps_the_contract():
    mechanism, inputs = synthesizer(), checks.tensors(5, 7)
    keep = torch.rand(3, 4, 5, 7) < 0.6
    relative = Relative(low=-2, scalar=torch.randn(4, 5).double())
    options = {"mask": Table(keep), "bias": torch.randn(1, 4, 1, 7).double(), "relative": relative}
    assert not checks.weights_are_the_function(mechanism, inputs, **options)[~keep].any()
    high = synthesizer()
    with torch.no_grad():
        # scores this large would be wrong by ones in bfloat16
        high.scores.add_(300)
    checks.half_precision(high, 5, 7)
    checks.padding_is_absence(mechanism, 7, [7, 3, 1])
    checks.cached_steps_are_all_at_once(mechanism, Causal())
    checks.empty_sequences(mechanism)
    checks.dropout_acts_while_training(synthesizer(dropout=0.5))


def test_what_it_says():
    assert "num_heads=4, max_len=11, dropout=0.0" in repr(synthesizer())
    assert RandomSynthesizer.sized(head_dim=8, num_heads=4, max_len=300, dropout=0.1).scores.shape == (4, 300, 300)
    message = r"RandomSynthesizer was built for max_len \(11\) positions, got 12; shorten the input"
    for options in ({"key_len": 12}, {"key_len": 7, "query_start": 7}):
        with pytest.raises(ShapeError, match=message):
            run(synthesizer(), *checks.tensors(5, options.pop("key_len")), **options)
    with pytest.raises(ShapeError, match="RandomSynthesizer was built for heads 3, got 4"):
        run(synthesizer(num_heads=3), *checks.tensors(5, 7))
