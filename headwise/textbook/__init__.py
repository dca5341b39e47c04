"""The names, signatures and shapes of "Dive into Deep Learning" over this package: change a page's import and it runs.

from headwise import textbook as d2l
"""

from headwise.textbook.attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    masked_softmax,
    sequence_mask,
    transpose_output,
    transpose_qkv,
)
from headwise.textbook.data import Vocab, load_data_nmt
from headwise.textbook.figures import plot, show_heatmaps
from headwise.textbook.layers import AddNorm, DecoderBlock, EncoderBlock, PositionalEncoding, PositionWiseFFN
from headwise.textbook.recurrent import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from headwise.textbook.seq2seq import AttentionDecoder, Decoder, Encoder, EncoderDecoder
from headwise.textbook.training import bleu, predict_seq2seq, train_seq2seq, try_gpu
from headwise.textbook.transformer import TransformerDecoder, TransformerEncoder

__all__ = [
    "AddNorm",
    "AdditiveAttention",
    "AttentionDecoder",
    "Decoder",
    "DecoderBlock",
    "DotProductAttention",
    "Encoder",
    "EncoderBlock",
    "EncoderDecoder",
    "MultiHeadAttention",
    "PositionWiseFFN",
    "PositionalEncoding",
    "Seq2SeqAttentionDecoder",
    "Seq2SeqEncoder",
    "TransformerDecoder",
    "TransformerEncoder",
    "Vocab",
    "bleu",
    "load_data_nmt",
    "masked_softmax",
    "plot",
    "predict_seq2seq",
    "sequence_mask",
    "show_heatmaps",
    "train_seq2seq",
    "transpose_output",
    "transpose_qkv",
    "try_gpu",
]
