"""The names, signatures and shapes of "Dive into Deep Learning" over this package: change a page's import and it runs.

from headwise import textbook as d2l
"""

from typing import Any

from headwise.textbook.attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    NWKernelRegression,
    masked_softmax,
    sequence_mask,
    transpose_output,
    transpose_qkv,
)
from headwise.textbook.data import (
    Vocab,
    build_array_nmt,
    count_corpus,
    load_array,
    load_data_nmt,
    preprocess_nmt,
    read_data_nmt,
    tokenize_nmt,
    truncate_pad,
)
from headwise.textbook.figures import (
    Animator,
    plot,
    pyplot,
    set_axes,
    set_figsize,
    show_heatmaps,
    show_list_len_pair_hist,
    use_svg_display,
)
from headwise.textbook.hub import DATA_HUB, DATA_URL, download, download_extract
from headwise.textbook.newer import missing
from headwise.textbook.seq2seq import (
    AttentionDecoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
)
from headwise.textbook.training import (
    Accumulator,
    MaskedSoftmaxCELoss,
    Timer,
    bleu,
    grad_clipping,
    predict_seq2seq,
    sgd,
    train_seq2seq,
    try_all_gpus,
    try_gpu,
)
from headwise.textbook.transformer import (
    AddNorm,
    DecoderBlock,
    EncoderBlock,
    PositionalEncoding,
    PositionWiseFFN,
    TransformerDecoder,
    TransformerEncoder,
)

__all__ = ["DATA_HUB", "DATA_URL", "Accumulator", "AddNorm", "AdditiveAttention", "Animator", "AttentionDecoder"]
__all__ += ["Decoder", "DecoderBlock", "DotProductAttention", "Encoder", "EncoderBlock", "EncoderDecoder"]
__all__ += ["MaskedSoftmaxCELoss", "MultiHeadAttention", "NWKernelRegression", "PositionWiseFFN", "PositionalEncoding"]
__all__ += ["Seq2SeqAttentionDecoder", "Seq2SeqDecoder", "Seq2SeqEncoder", "Timer", "TransformerDecoder"]
__all__ += ["TransformerEncoder", "Vocab", "bleu", "build_array_nmt", "count_corpus", "download", "download_extract"]
__all__ += ["grad_clipping", "load_array", "load_data_nmt", "masked_softmax", "plot", "predict_seq2seq"]
__all__ += ["preprocess_nmt", "read_data_nmt", "sequence_mask", "set_axes", "set_figsize", "sgd", "show_heatmaps"]
__all__ += ["show_list_len_pair_hist", "tokenize_nmt", "train_seq2seq", "transpose_output", "transpose_qkv"]
__all__ += ["truncate_pad", "try_all_gpus", "try_gpu", "use_svg_display"]


def __getattr__(name: str) -> Any:
    if name == "plt":
        return pyplot()
    raise missing(name)
