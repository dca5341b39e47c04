import pytest
import torch
from textbook_inputs import BATCH, KEY_SIZE, KEYS, LENS, QUERIES, QUERY_SIZE, VALUE_SIZE, gradients, inputs
from torch import nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.textbook import MultiHeadAttention, transpose_output, transpose_qkv


def test_heads_of_the_worked_example():
    X = torch.arange(24).reshape(1, 4, 6)
    H = transpose_qkv(X, 2)
    assert H.shape == (2, 4, 3)
    assert H[0].tolist() == [[0, 1, 2], [6, 7, 8], [12, 13, 14], [18, 19, 20]]
    assert (H[0, 1].tolist(), H[1, 1].tolist()) == ([6, 7, 8], [9, 10, 11])


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_joining_heads_undoes_splitting_them(heads):
    X = torch.randn(5, 7, 6)
    assert transpose_output(transpose_qkv(X, heads), heads).equal(X)
    assert transpose_output(transpose_qkv(X[:0], heads), heads).shape == (0, 7, 6)


def torch_twin(attention, num_hiddens, num_heads):
    """`torch.nn.MultiheadAttention` with the same weights."""
    twin = nn.MultiheadAttention(num_hiddens, num_heads, bias=False, kdim=KEY_SIZE, vdim=VALUE_SIZE, batch_first=True)
    twin = twin.double()
    with torch.no_grad():
        twin.q_proj_weight.copy_(attention.W_q.weight)
        twin.k_proj_weight.copy_(attention.W_k.weight)
        twin.v_proj_weight.copy_(attention.W_v.weight)
        twin.out_proj.weight.copy_(attention.W_o.weight)
    return twin


@pytest.mark.parametrize("lens", [LENS[1], torch.tensor([[1, 3, 5], [2, 2, 4]])], ids=["sequences", "queries"])
def test_multi_head_attention_equals_that_of_pytorch(lens):
    attention = MultiHeadAttention(KEY_SIZE, 6, VALUE_SIZE, 6, 3, 0.0).double()
    tensors = inputs(query_size=6)
    twin = torch_twin(attention, 6, 3)
    # there True means: ignore
    hidden = torch.arange(KEYS) >= (lens[:, None, None] if lens.ndim == 1 else lens[:, :, None])
    hidden = hidden.expand(BATCH, QUERIES, KEYS).repeat_interleave(3, 0)
    expected, weights = twin(*tensors, attn_mask=hidden, average_attn_weights=False)
    found = attention(*tensors, lens)
    assert_close(found, expected)
    assert_close(gradients(found, tensors), gradients(expected, tensors))
    assert_close(attention.attention.attention_weights, weights.flatten(0, 1).detach())


def test_multi_head_attention_without_keys_is_zero():
    attention = MultiHeadAttention(KEY_SIZE, QUERY_SIZE, VALUE_SIZE, 6, 3, 0.0).double()
    tensors = inputs()
    out = attention(*tensors, torch.tensor([0, 3]))
    assert out[0].eq(0).all()
    assert all(gradient[0].eq(0).all() for gradient in gradients(out, tensors))


def test_multi_head_attention_has_biases_when_asked():
    names = {name for name, _ in MultiHeadAttention(2, 3, 5, 6, 3, 0.0, bias=True).named_parameters()}
    assert names == {f"{layer}.{part}" for layer in ("W_q", "W_k", "W_v", "W_o") for part in ("weight", "bias")}


def test_heads_divide_the_width():
    with pytest.raises(ConfigError, match=r"num_heads \(4\) .*d_model \(6\).*2, 3, 6"):
        MultiHeadAttention(2, 3, 5, 6, 4, 0.0)
    with pytest.raises(ConfigError, match=r"num_heads \(5\)"):
        transpose_qkv(torch.ones(1, 2, 6), 5)
