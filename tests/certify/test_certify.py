"""The certificate finds what is wrong: for every invariant there is a fault that only makes it fail, and is shown."""

import pytest
import torch
from wrong import WRONG, Correct

from headwise.attention import kernels
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Softmax
from headwise.certify import Subject, certify, invariants
from headwise.certify.numbers import apart, not_finite, unequal


def subject_of(kind):
    return Subject(
        kind.__name__, lambda heads, dropout: kind.sized(head_dim=4, num_heads=heads, max_len=96, dropout=dropout)
    )


def found(subject, *ids):
    return {verdict.id: verdict for verdict in certify(subject, only=ids, quick=True)}


@pytest.mark.parametrize("id", [one.id for one in invariants(subject_of(Correct))])
def test_what_is_right_passes(id):
    verdict = found(subject_of(Correct), id)[id]
    assert verdict.state != "fails", f"{verdict.reason} | {verdict.example}"


def test_little_is_left_out_of_what_is_right():
    subject = subject_of(Correct)
    left_out = {one.id: one.applies(subject) for one in invariants(subject)}
    assert {id: why for id, why in left_out.items() if why is not None} == {
        "A18": "it has no recurrent form",
        "A20": "it has one way to compute",
        "strips": "it has no normalizer of its own",
    }


@pytest.mark.parametrize(("kind", "ids"), WRONG.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_wrong_fails(kind, ids):
    for id, verdict in found(subject_of(kind), *ids).items():
        assert verdict.state == "fails", id
        assert verdict.reason
        assert verdict.example.startswith("batch ")


def test_every_invariant_can_fail():
    shown = {id for ids in WRONG.values() for id in ids}
    assert {one.id for one in invariants(subject_of(Correct))} - shown == {"A20", "strips"}


def test_a_kernel_that_is_off_is_found(monkeypatch):
    module = kernels.kernel("fused")
    right = module.compute
    monkeypatch.setattr(module, "compute", lambda call: right(call) * 1.001)
    verdict = found(subject_of(Scored), "A20")["A20"]
    assert verdict.state == "fails"
    assert verdict.reason.startswith("output of kernel fused against plain differs by ")


@pytest.mark.parametrize("step", ["strip", "strip_gradient"])
def test_a_form_for_rows_that_is_off_is_found(step):
    class Off(Softmax):
        def strip(self, scores, count):
            return super().strip(scores, count) * (1.001 if step == "strip" else 1.0)

        def strip_gradient(self, weights, d_weights, count):
            return super().strip_gradient(weights, d_weights, count) * (1.001 if step == "strip_gradient" else 1.0)

    subject = Subject("off", lambda heads, dropout: Scored(normalizer=Off()))
    verdict = found(subject, "strips")["strips"]
    assert verdict.state == "fails"
    assert verdict.reason.startswith(f"{step} differs by ")


def test_the_first_example_is_the_smallest():
    wrong = {kind.__name__: kind for kind in WRONG}
    verdict = found(subject_of(wrong["RepeatNotInterleave"]), "A16")["A16"]
    # with one key head, or as many as queries, repeating and interleaving are the same
    assert "heads 4 (key and value 2)" in verdict.example
    verdict = found(subject_of(wrong["NoScale"]), "A1")["A1"]
    # one key alone has weight 1 whatever the scale
    assert verdict.example == ("batch 1, heads 1, query_len 2, key_len 3, head_dim 4, mask none, float64, eval, seed 0")
    assert verdict.cases == 1
    verdict = found(subject_of(wrong["CausalOffByOne"]), "A12")["A12"]
    assert verdict.example.startswith("batch 1, heads 1, query_len 3, key_len 3, head_dim 4, mask Causal(), float64")


def test_a_function_is_tried_as_far_as_it_goes():
    def attention(query, key, value):
        key, value = (tensor.repeat_interleave(query.shape[1] // key.shape[1], 1) for tensor in (key, value))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    verdicts = {v.id: v for v in certify(Subject("mine", lambda heads, dropout: attention), quick=True)}
    assert verdicts["A1"].state == "holds"
    assert verdicts["A12"].reason == "it takes no mask"
    assert verdicts["A8"].reason == "it takes no bias on scores"
    assert verdicts["layer"].reason == "it is no headwise Mechanism, which layers are made of"
    assert verdicts["state"].reason == "it is a function, which has no state"
    assert verdicts["A17"].reason == "it takes no query_start"
    assert not [v for v in verdicts.values() if v.state == "fails" and v.id not in ("A23",)]


def test_an_error_is_a_failure_with_its_words():
    def attention(query, key, value):
        if query.shape[2] > 2:
            raise ValueError("too long\nfor me")
        return value[:, :, : query.shape[2]]

    verdict = found(Subject("mine", lambda heads, dropout: attention), "A10")["A10"]
    assert (verdict.state, verdict.reason) == ("fails", "raised ValueError: too long for me")


def test_differences_in_words():
    one, two = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.5]])
    nan = torch.tensor([[1.0, float("nan")]])
    assert apart("x", one, one, 0.0) is None
    assert apart("x", one, two, 0.3) is None
    assert apart("x", one, two, 0.1) == "x differs by 0.5 at (0, 1): 2, expected 2.5 (allowed 0.25)"
    assert apart("x", one, two[0], 1.0) == "x has shape (1, 2), expected (2,)"
    assert unequal("x", nan, nan) is None
    assert unequal("x", nan, one) == "x differs by inf at (0, 1): nan, expected 2 (allowed 0)"
    assert not_finite("x", one) is None
    assert not_finite("x", nan) == "x is nan at (0, 1)"
    assert apart("x", torch.empty(0), torch.empty(0), 0.0) is None
