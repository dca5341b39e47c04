import copy
import math

import pytest
import torch
from textbook_inputs import BATCH, KEY_SIZE, KEYS, LENS, QUERIES, QUERY_SIZE, gradients, inputs, length_of
from torch import nn
from torch.testing import assert_close

from headwise.errors import ShapeError, Unsupported
from headwise.textbook import AdditiveAttention, DotProductAttention, masked_softmax, sequence_mask


def attended_by_loops(score, queries, keys, values, lens):
    """softmax of the scores of the first keys, by the formula, pair by pair."""
    rows = []
    for b in range(queries.shape[0]):
        for q in range(queries.shape[1]):
            exponents = [score(queries[b, q], keys[b, k]).exp() for k in range(length_of(lens, b, q))]
            total = sum(exponents)
            row = values.new_zeros(values.shape[-1])
            for k, exponent in enumerate(exponents):
                row = row + exponent / total * values[b, k]
            rows.append(row)
    return torch.stack(rows).reshape(*queries.shape[:2], -1)


def test_sequence_mask_fills_what_is_not_real():
    X = torch.arange(1.0, 7.0).reshape(2, 3)
    assert sequence_mask(X, torch.tensor([1, 2])).tolist() == [[1, 0, 0], [4, 5, 0]]
    assert sequence_mask(X, torch.tensor([0, 3]), value=-1).tolist() == [[-1, -1, -1], [4, 5, 6]]


def test_sequence_mask_fills_whole_steps():
    X = torch.ones(2, 3, 4)
    expected = [[[1] * 4, [-1] * 4, [-1] * 4], [[1] * 4, [1] * 4, [-1] * 4]]
    assert sequence_mask(X, torch.tensor([1, 2]), value=-1).tolist() == expected


def test_sequence_mask_takes_whole_numbers():
    assert sequence_mask(torch.tensor([[4, 5]]), torch.tensor([1])).tolist() == [[4, 0]]


def test_sequence_mask_leaves_its_input():
    # the book writes into the caller's scores
    X = torch.randn(2, 3)
    before = X.clone()
    sequence_mask(X, torch.tensor([1, 2]), value=-7)
    assert_close(X, before, rtol=0, atol=0)


def test_sequence_mask_needs_a_length_for_each_sequence(untyped):
    with pytest.raises(ShapeError, match=r"valid_lens \(3,\).*\(2\)"):
        sequence_mask(torch.ones(2, 3), torch.tensor([1, 2, 3]))


def test_masked_softmax_with_a_length_for_each_sequence():
    weights = masked_softmax(torch.zeros(2, 2, 4), torch.tensor([2, 3]))
    third = 1 / 3
    assert_close(weights, torch.tensor([[[0.5, 0.5, 0, 0]] * 2, [[third, third, third, 0]] * 2]))


def test_masked_softmax_with_a_length_for_each_query():
    weights = masked_softmax(torch.zeros(2, 2, 4), torch.tensor([[1, 3], [2, 4]]))
    third = 1 / 3
    rows = [[[1, 0, 0, 0], [third, third, third, 0]], [[0.5, 0.5, 0, 0], [0.25] * 4]]
    assert_close(weights, torch.tensor(rows))


def test_masked_softmax_without_lengths_is_a_softmax():
    X = torch.randn(2, 3, 5)
    assert_close(masked_softmax(X, None), X.softmax(-1))


@pytest.mark.parametrize("lens", LENS[1:], ids=["all", "empty", "queries"])
def test_masked_softmax_by_loops(lens):
    X = torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float64, requires_grad=True)
    rows = []
    for b in range(BATCH):
        for q in range(QUERIES):
            n = length_of(lens, b, q)
            rows.append(torch.cat([X[b, q, :n].softmax(0), X.new_zeros(KEYS - n)]))
    expected = torch.stack(rows).reshape(X.shape)
    found = masked_softmax(X, lens)
    assert_close(found, expected)
    assert_close(gradients(found, [X]), gradients(expected, [X]))


def test_a_row_without_keys_is_zero_and_has_no_gradient():
    # with -1e6 it would be uniform over the padding
    X = torch.randn(2, 3, 4, requires_grad=True)
    weights = masked_softmax(X, torch.tensor([0, 4]))
    assert weights[0].eq(0).all()
    weights.square().sum().backward()
    assert X.grad[0].eq(0).all()
    assert X.grad[1].ne(0).any()


def test_masked_softmax_leaves_its_input():
    X = torch.randn(2, 3, 4)
    before = X.clone()
    masked_softmax(X, torch.tensor([1, 2]))
    assert_close(X, before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masked_softmax_in_every_precision(dtype):
    # -1e6 is minus infinity in half precision
    X = torch.full((1, 2, 3), -30000.0, dtype=dtype)
    weights = masked_softmax(X, torch.tensor([2]))
    assert weights.dtype == dtype
    assert weights.tolist() == [[[0.5, 0.5, 0.0]] * 2]


def test_what_is_hidden_may_be_nan():
    X = torch.zeros(1, 1, 3)
    X[..., 2] = math.nan
    assert masked_softmax(X, torch.tensor([2])).tolist() == [[[0.5, 0.5, 0.0]]]


def test_lengths_are_whole_numbers(untyped):
    with pytest.raises(ShapeError, match=r"Padding needs whole lengths"):
        masked_softmax(torch.zeros(2, 2, 4), torch.tensor([1.0, 2.0]))


def additive_score(attention):
    W_q, W_k, w_v = attention.W_q.weight, attention.W_k.weight, attention.w_v.weight
    return lambda q, k: w_v[0] @ torch.tanh(W_q @ q + W_k @ k)


@pytest.mark.parametrize("lens", LENS, ids=["none", "all", "empty", "queries"])
def test_additive_attention_by_loops(lens):
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.0).double()
    tensors = inputs()
    expected = attended_by_loops(additive_score(attention), *tensors, lens)
    found = attention(*tensors, lens)
    assert_close(found, expected)
    everything = [*tensors, *attention.parameters()]
    assert_close(gradients(found, everything), gradients(expected, everything))


@pytest.mark.parametrize("lens", LENS, ids=["none", "all", "empty", "queries"])
def test_dot_product_attention_by_loops(lens):
    attention = DotProductAttention(0.0)
    tensors = inputs(key_size=QUERY_SIZE)
    expected = attended_by_loops(lambda q, k: q @ k / math.sqrt(QUERY_SIZE), *tensors, lens)
    found = attention(*tensors, lens)
    assert_close(found, expected)
    assert_close(gradients(found, tensors), gradients(expected, tensors))


def test_additive_layers_have_the_names_of_the_book():
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.1)
    shapes = {name: tuple(tensor.shape) for name, tensor in attention.state_dict().items()}
    assert shapes == {"W_k.weight": (17, KEY_SIZE), "W_q.weight": (17, QUERY_SIZE), "w_v.weight": (1, 17)}


def test_a_layer_that_is_replaced_is_used():
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.0).double()
    tensors = inputs()
    before = attention(*tensors)
    attention.W_q = nn.Linear(QUERY_SIZE, 17, bias=False, dtype=torch.float64)
    after = attention(*tensors)
    assert not torch.equal(before, after)
    assert_close(after, attended_by_loops(additive_score(attention), *tensors, None))


def test_a_copy_has_weights_of_its_own():
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.0).double()
    twin = copy.deepcopy(attention)
    nn.init.zeros_(twin.w_v.weight)
    tensors = inputs()
    assert_close(attention(*tensors), attended_by_loops(additive_score(attention), *tensors, None))
    assert_close(twin(*tensors), tensors[2].mean(1, keepdim=True).expand(-1, QUERIES, -1))


@pytest.mark.parametrize(
    "attention", [AdditiveAttention(QUERY_SIZE, QUERY_SIZE, 17, 0.5), DotProductAttention(0.5)], ids=["additive", "dot"]
)
def test_weights_are_dropped_while_training_only(attention):
    queries, keys, _ = inputs(key_size=QUERY_SIZE, dtype=torch.float32)
    values = torch.eye(KEYS).expand(BATCH, KEYS, KEYS)
    attention.eval()
    exact = attention(queries, keys, values)
    assert_close(attention(queries, keys, values), exact)
    attention.train()
    dropped = torch.stack([attention(queries, keys, values) for _ in range(300)])
    assert 0.4 < dropped.eq(0).float().mean() < 0.6
    # inverted dropout keeps the mean
    assert_close(dropped.mean(0), exact, rtol=0, atol=0.15)
    assert_close(attention.attention_weights, exact)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_attention_weights_are_those_that_were_used(dtype):
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.0).to(dtype)
    queries, keys, values = inputs(dtype=dtype)
    out = attention(queries, keys, values, torch.tensor([[1, 0, 5], [2, 2, 4]]))
    weights = attention.attention_weights
    assert weights.shape == (BATCH, QUERIES, KEYS)
    assert weights[0, 1].eq(0).all()
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {}
    assert_close(weights.to(dtype) @ values.detach(), out.detach(), **tolerance)


def test_no_weights_and_no_graph_are_kept():
    attention = AdditiveAttention(KEY_SIZE, QUERY_SIZE, 17, 0.0).double()
    attention(*inputs(), torch.tensor([5, 2]))
    kept = [tensor for tensor in attention._last if tensor is not None]
    assert [tuple(tensor.shape) for tensor in kept] == [(BATCH, QUERIES, QUERY_SIZE), (BATCH, KEYS, KEY_SIZE), (BATCH,)]
    assert not any(tensor.requires_grad for tensor in kept)
    assert not attention.attention_weights.requires_grad


def test_there_are_no_weights_before_a_call():
    with pytest.raises(Unsupported, match="attention_weights"):
        DotProductAttention(0.0).attention_weights  # noqa: B018
