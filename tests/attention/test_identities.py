"""What is true of attention whatever computes it: symmetries, averages, shifts, padding."""

import pytest
import torch
from attention_cases import GENERAL, KERNELS, assert_near, cases, run, tolerance, without
from devices import DEVICE
from hypothesis import assume, given
from hypothesis import strategies as st

from headwise.attention import attend
from headwise.attention.masks import Mask, Padding, Table

every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_general_kernel = pytest.mark.parametrize("kernel", GENERAL)


def call_under(call, keep, **tensors):
    """The call under a table in place of its mask."""
    from dataclasses import replace

    return replace(call, mask=Table(keep), query_start=0, **tensors)


@every_kernel
@given(cases(biased=False, least=1))
def test_order_of_keys_does_not_matter(kernel, case):
    call = case.build(torch.float32)
    # among equal scores these choose by place
    assume(not case.normalizer.startswith(("hard", "top_k")))
    order = torch.randperm(case.key_len)
    keep = torch.tensor(case.keep())
    turned = call_under(call, keep[..., order], key=call.key[:, :, order], value=call.value[:, :, order])
    output = run(turned, kernel)
    if output is not None:
        assert_near(output, case.expected(call).output, tolerance(torch.float32, case.size))


@every_kernel
@given(cases(biased=False, least=1))
def test_permuted_queries_give_permuted_outputs(kernel, case):
    call = case.build(torch.float32)
    order = torch.randperm(case.query_len)
    keep = torch.tensor(case.keep())
    output = run(call_under(call, keep[:, :, order], query=call.query[:, :, order]), kernel)
    if output is not None:
        expected = case.expected(call).output[:, :, order.cpu().numpy()]
        assert_near(output, expected, tolerance(torch.float32, case.size))


@every_kernel
@given(cases(masked=False, biased=False, least=1), st.integers(1, 5), st.sampled_from([0.0, 7.0, float("nan")]))
def test_keys_appended_under_the_mask_change_nothing(kernel, case, extra, content):
    call = case.build(torch.float32)
    longer = [
        torch.cat((t, torch.full((case.batch, case.kv_heads, extra, t.shape[-1]), content)), 2)
        for t in (call.key, call.value)
    ]
    mask = Padding(torch.full((case.batch,), case.key_len))
    from dataclasses import replace

    output = run(replace(call, key=longer[0], value=longer[1], mask=mask), kernel)
    if output is not None:
        assert_near(output, case.expected(call).output, tolerance(torch.float32, case.size))


@every_general_kernel
@given(cases(biased=False, normalizer="softmax", least=1, sizes=(1.0,)), st.sampled_from([-1e4, -3.0, 1e4]))
def test_adding_a_number_to_all_scores_of_a_row_changes_nothing(kernel, case, shift):
    call = case.build(torch.float32)
    bias = shift * torch.rand(case.batch, case.heads, case.query_len, 1).expand(-1, -1, -1, case.key_len)
    output = run(without(call, bias=bias), kernel)
    # scores of 1e4 are known to 1e-3
    assert_near(output, case.expected(call).output, 4e-3 if abs(shift) > 100 else 2e-5)


@every_general_kernel
@given(cases(least=1, normalizer="softmax"))
def test_outputs_lie_between_the_values_and_are_linear_in_them(kernel, case):
    call = case.build(torch.float64)
    output = run(call, kernel)
    seen = torch.tensor(case.keep()).any(-1)
    value = call.value.repeat_interleave(call.group, 1)
    for low_or_high, sign in ((value.amin(2, keepdim=True), 1), (value.amax(2, keepdim=True), -1)):
        slack = (output - low_or_high) * sign
        assert (slack[seen] >= -1e-12).all()
    other = torch.randn_like(call.value)
    combined = run(without(call, value=call.value + 2.5 * other), kernel)
    expected = output + 2.5 * run(without(call, value=other), kernel)
    torch.testing.assert_close(combined, expected, rtol=0, atol=1e-11)


@every_general_kernel
@given(cases(biased=False, normalizer="softmax", least=1))
def test_equal_keys_give_the_mean_of_the_allowed_values(kernel, case):
    call = case.build(torch.float64)
    keep = torch.tensor(case.keep()).double()
    output = run(without(call, key=torch.ones_like(call.key)), kernel)
    mean = (keep / keep.sum(-1, keepdim=True).clamp(min=1)) @ call.value.repeat_interleave(call.group, 1)
    torch.testing.assert_close(output, mean, rtol=0, atol=1e-12)


@every_general_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_one_allowed_key_gives_its_value_exactly(kernel, dtype):
    """The value of the only allowed key comes out to the last bit: its weight is 1."""
    query, key, value = (torch.randn(2, 3, n, 4).to(dtype) for n in (5, 5, 5))
    output = attend(query, key, value, mask=Table(torch.eye(5, dtype=torch.bool)), kernel=kernel)
    # on a GPU the running sums of a kernel are scaled by powers of two that round
    torch.testing.assert_close(output, value, rtol=0 if DEVICE == "cpu" else 1e-6, atol=0)


@every_general_kernel
def test_as_one_weight_goes_to_one_its_value_dominates(kernel):
    """The token whose score is the largest leads: the output approaches its value as the score grows."""
    key = torch.eye(4, dtype=torch.float64)[None, None]
    value = torch.randn(1, 1, 4, 3, dtype=torch.float64)
    distances = [
        float((attend(size * key[:, :, 1:2], key, value, scale=1.0, kernel=kernel) - value[:, :, 1]).norm())
        for size in (1.0, 3.0, 10.0, 100.0)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-12


class Mirrored(Mask):
    """A mask of a user's own: heads take turns in looking back and looking ahead."""

    def __call__(self, batch, head, query, key):
        return torch.where(head % 2 == 0, key <= query, key >= query)


@every_general_kernel
def test_a_mask_of_a_users_own(kernel):
    query, key, value = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3))
    output = attend(query, key, value, mask=Mirrored(), kernel=kernel)
    back, ahead = torch.ones(5, 5, dtype=torch.bool).tril(), torch.ones(5, 5, dtype=torch.bool).triu()
    for head, keep in enumerate((back, ahead, back)):
        one = attend(query[:, [head]], key[:, [head]], value[:, [head]], mask=Table(keep), kernel="plain")
        torch.testing.assert_close(output[:, [head]], one, rtol=0, atol=1e-14)


@every_general_kernel
def test_without_positions_attention_cannot_tell_order(kernel):
    """In "I saw a saw" both words "saw" come out alike; a shuffled sentence gives the shuffled output."""
    words = torch.randn(3, 8, dtype=torch.float64)
    sentence = words[[0, 1, 2, 1]][None, None]
    output = attend(sentence, sentence, sentence, kernel=kernel)
    assert torch.equal(output[:, :, 1], output[:, :, 3])
    order = [2, 0, 3, 1]
    shuffled = attend(*[sentence[:, :, order]] * 3, kernel=kernel)
    torch.testing.assert_close(shuffled, output[:, :, order], rtol=0, atol=1e-14)
