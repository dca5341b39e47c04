"""Modules as the pages of the book print them: names, order and sizes of their parts."""

import pytest

from headwise import textbook as d2l

# copied from the outputs of the pages on multi-head attention and on self-attention (100 wide, 5 heads, dropout 0.5)
MULTI_HEAD = """\
MultiHeadAttention(
  (attention): DotProductAttention(
    (dropout): Dropout(p=0.5, inplace=False)
  )
  (W_q): Linear(in_features=100, out_features=100, bias=False)
  (W_k): Linear(in_features=100, out_features=100, bias=False)
  (W_v): Linear(in_features=100, out_features=100, bias=False)
  (W_o): Linear(in_features=100, out_features=100, bias=False)
)"""
# by the order of the assignments in the classes that other pages write out
ADDITIVE = """\
AdditiveAttention(
  (W_k): Linear(in_features=2, out_features=8, bias=False)
  (W_q): Linear(in_features=20, out_features=8, bias=False)
  (w_v): Linear(in_features=8, out_features=1, bias=False)
  (dropout): Dropout(p=0.1, inplace=False)
)"""
DECODER = """\
Seq2SeqAttentionDecoder(
  (attention): AdditiveAttention(
    (W_k): Linear(in_features=16, out_features=16, bias=False)
    (W_q): Linear(in_features=16, out_features=16, bias=False)
    (w_v): Linear(in_features=16, out_features=1, bias=False)
    (dropout): Dropout(p=0.0, inplace=False)
  )
  (embedding): Embedding(10, 8)
  (rnn): GRU(24, 16, num_layers=2)
  (dense): Linear(in_features=16, out_features=10, bias=True)
)"""
ENCODER = """\
Seq2SeqEncoder(
  (embedding): Embedding(10, 8)
  (rnn): GRU(8, 16, num_layers=2)
)"""
FFN = """\
PositionWiseFFN(
  (dense1): Linear(in_features=4, out_features=4, bias=True)
  (relu): ReLU()
  (dense2): Linear(in_features=4, out_features=8, bias=True)
)"""


@pytest.mark.parametrize(
    ("module", "printed"),
    [
        (d2l.MultiHeadAttention(100, 100, 100, 100, 5, 0.5), MULTI_HEAD),
        (d2l.AdditiveAttention(key_size=2, query_size=20, num_hiddens=8, dropout=0.1), ADDITIVE),
        (d2l.Seq2SeqAttentionDecoder(vocab_size=10, embed_size=8, num_hiddens=16, num_layers=2), DECODER),
        (d2l.Seq2SeqEncoder(vocab_size=10, embed_size=8, num_hiddens=16, num_layers=2), ENCODER),
        (d2l.PositionWiseFFN(4, 4, 8), FFN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_module_prints_as_in_the_book(module, printed):
    assert repr(module) == printed
    assert repr(module.eval()) == printed


def test_the_parts_of_a_block_stand_in_the_order_of_the_book():
    block = d2l.EncoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5)
    assert [name for name, _ in block.named_children()] == ["attention", "addnorm1", "ffn", "addnorm2"]
    decoder = d2l.DecoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5, 0)
    names = ["attention1", "addnorm1", "attention2", "addnorm2", "ffn", "addnorm3"]
    assert [name for name, _ in decoder.named_children()] == names
    assert [name for name, _ in block.addnorm1.named_children()] == ["dropout", "ln"]
