import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.textbook import AddNorm, DecoderBlock, EncoderBlock, PositionalEncoding, PositionWiseFFN

BATCH, STEPS, SOURCE, WIDTH, INNER, HEADS = 2, 5, 7, 6, 11, 3


def formula(rows, width):
    table = torch.empty(rows, width, dtype=torch.float64)
    for i in range(rows):
        for j in range(width // 2):
            angle = i / 10000 ** (2 * j / width)
            table[i, 2 * j], table[i, 2 * j + 1] = math.sin(angle), math.cos(angle)
    return table


def test_positions_are_added_by_the_formula():
    encoding = PositionalEncoding(6, 0.0)
    X = torch.randn(2, 13, 6, dtype=torch.float64)
    assert_close(encoding(X), X + formula(13, 6), rtol=0, atol=1e-12)
    assert_close(encoding(X.float()), (X + formula(13, 6)).float())
    assert_close(encoding(X, start=4), X + formula(17, 6)[4:], rtol=0, atol=1e-12)


def test_P_has_max_len_rows():
    assert PositionalEncoding(32, 0.0).P.shape == (1, 1000, 32)
    assert_close(PositionalEncoding(6, 0.0, max_len=7).P, formula(7, 6).float()[None])


def test_sequences_may_be_longer_than_max_len():
    # in the book this is an error of broadcasting
    encoding = PositionalEncoding(4, 0.0, max_len=3)
    assert_close(encoding(torch.zeros(1, 2000, 4))[0], formula(2000, 4).float(), rtol=0, atol=1e-6)


def test_P_follows_its_module_and_is_no_weight():
    encoding = PositionalEncoding(4, 0.0)
    assert encoding.state_dict() == {}
    assert encoding.double().P.dtype == torch.float64
    assert encoding.to("meta").P.device.type == "meta"


def test_an_odd_width_is_refused():
    with pytest.raises(ConfigError, match=r"d_model.* 7;"):
        PositionalEncoding(7, 0.0)


def test_positions_are_dropped_while_training():
    encoding = PositionalEncoding(4, 0.5)
    X = torch.full((1, 500, 4), 3.0)
    assert 0.4 < encoding(X).eq(0).float().mean() < 0.6
    assert encoding.eval()(X).ne(0).all()


def test_the_network_is_the_same_at_every_position():
    ffn = PositionWiseFFN(4, 5, 8).double()
    X = torch.randn(2, 3, 4, dtype=torch.float64)
    found = ffn(X)
    assert found.shape == (2, 3, 8)
    first, second = ffn.dense1, ffn.dense2
    for b in range(2):
        for i in range(3):
            inner = (first.weight @ X[b, i] + first.bias).clamp(min=0)
            assert_close(found[b, i], second.weight @ inner + second.bias)


@pytest.mark.parametrize("shape", [[3, 4], (4,), 4])
def test_add_norm_normalises_the_sum(shape):
    add_norm = AddNorm(shape, 0.0)
    X, Y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    axes = (1, 2) if shape == [3, 4] else (2,)
    total = X + Y
    mean = total.mean(axes, keepdim=True)
    variance = ((total - mean) ** 2).mean(axes, keepdim=True)
    assert_close(add_norm(X, Y), (total - mean) / (variance + 1e-5).sqrt())


def test_add_norm_drops_the_branch_only():
    add_norm = AddNorm(4, 0.5)
    assert_close(add_norm(torch.randn(2, 3, 4), torch.zeros(2, 3, 4)).mean(-1), torch.zeros(2, 3))
    X = torch.zeros(400, 4)
    dropped = add_norm(X, torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(400, 4))
    assert len(dropped.unique(dim=0)) > 5
    assert len(add_norm.eval()(X, torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(400, 4)).unique(dim=0)) == 1


def copied(multi_head, twin):
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([multi_head.W_q.weight, multi_head.W_k.weight, multi_head.W_v.weight]))
        twin.out_proj.weight.copy_(multi_head.W_o.weight)
        twin.in_proj_bias.zero_()
        twin.out_proj.bias.zero_()


def shared(block, twin):
    """Gives the block's position-wise network to PyTorch's layer."""
    twin.linear1.load_state_dict(block.ffn.dense1.state_dict())
    twin.linear2.load_state_dict(block.ffn.dense2.state_dict())


def sizes(norm_shape=WIDTH):
    return WIDTH, WIDTH, WIDTH, WIDTH, norm_shape, WIDTH, INNER, HEADS, 0.0


def test_an_encoder_block_equals_the_layer_of_pytorch():
    block = EncoderBlock(*sizes()).double()
    twin = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, batch_first=True).double()
    copied(block.attention, twin.self_attn)
    shared(block, twin)
    X = torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64, requires_grad=True)
    lens = torch.tensor([5, 2])
    expected = twin(X, src_key_padding_mask=torch.arange(STEPS) >= lens[:, None])
    found = block(X, lens)
    assert_close(found, expected)
    weight = torch.randn_like(found)
    assert_close(torch.autograd.grad((found * weight).sum(), X), torch.autograd.grad((expected * weight).sum(), X))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_decoder_block_equals_the_layer_of_pytorch(training):
    # the book's block is causal in train() alone
    block = DecoderBlock(*sizes(), 0).double().train(training)
    twin = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, dropout=0.0, batch_first=True).double()
    copied(block.attention1, twin.self_attn)
    copied(block.attention2, twin.multihead_attn)
    shared(block, twin)
    X = torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64)
    memory = torch.randn(BATCH, SOURCE, WIDTH, dtype=torch.float64)
    lens = torch.tensor([7, 3])
    expected = twin(
        X,
        memory,
        tgt_mask=torch.ones(STEPS, STEPS).triu(1).bool(),
        memory_key_padding_mask=torch.arange(SOURCE) >= lens[:, None],
    )
    assert_close(block(X, (memory, lens, [None]))[0], expected)


def test_a_decoder_block_goes_on_from_its_state():
    block = DecoderBlock(*sizes(), 1).double()
    X = torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64)
    memory = torch.randn(BATCH, SOURCE, WIDTH, dtype=torch.float64)
    start = [memory, torch.tensor([7, 3]), [None, None, None]]
    whole, after = block(X, start)
    assert [part is None for part in after[2]] == [True, False, True]
    # the state that was given is as it was
    assert start[2] == [None, None, None]
    first, state = block(X[:, :2], start)
    second, state = block(X[:, 2:], state)
    assert_close(torch.cat([first, second], 1), whole)
    assert_close(state[2][1], after[2][1])


def test_blocks_take_a_norm_over_steps_too():
    block = EncoderBlock(*sizes([STEPS, WIDTH]))
    out = block(torch.randn(BATCH, STEPS, WIDTH), None)
    assert_close(out.mean((1, 2)), torch.zeros(BATCH), rtol=0, atol=1e-6)
