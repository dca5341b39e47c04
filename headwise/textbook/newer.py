"""Names of the newer web edition of the book, and their replacements here."""

_TRAINING = "a loop of your own, or train_seq2seq(net, train_iter, lr, num_epochs, tgt_vocab, device) for translation"
_NMT = "train_iter, src_vocab, tgt_vocab = load_data_nmt(batch_size, num_steps)"
_MODULE = "torch.nn.Module for the model, and " + _TRAINING
_FIRST = "its edition infers sizes from the first batch; here they are stated: "

INSTEAD = {
    "Classifier": _MODULE,
    "DataModule": "load_array((X, Y), batch_size) for tensors; " + _NMT + " for sentence pairs",
    "GRU": "torch.nn.GRU(num_inputs, num_hiddens, num_layers)",
    "HyperParameters": "assignments in __init__, such as self.lr = lr",
    "LSTM": "torch.nn.LSTM(num_inputs, num_hiddens, num_layers)",
    "MTFraEng": _NMT,
    "Module": _MODULE,
    "ProgressBoard": "Animator(xlabel=..., ylabel=...), with add(x, y) for each point",
    "RNN": "torch.nn.RNN(num_inputs, num_hiddens)",
    "SGD": "torch.optim.SGD(net.parameters(), lr)",
    "Seq2Seq": "EncoderDecoder(encoder, decoder), then train_seq2seq and predict_seq2seq",
    "Trainer": _TRAINING,
    "TransformerDecoderBlock": "DecoderBlock: " + _FIRST + "see docs/textbook.md",
    "TransformerEncoderBlock": "EncoderBlock: " + _FIRST + "see docs/textbook.md",
    "add_to_class": "a subclass, or setattr(Class, 'name', function)",
    "check_len": "assert len(a) == n",
    "check_shape": "assert a.shape == shape",
    "init_cnn": "torch.nn.init.xavier_uniform_(layer.weight)",
    "init_seq2seq": "nothing: train_seq2seq starts from Xavier weights",
    "to": "tensor.to(device)",
}


def missing(name: str) -> AttributeError:
    """The error for an unknown name, with the replacement of a name of the newer edition."""
    where = "headwise.textbook has the pages on translation and attention of the Chinese second edition"
    if name in INSTEAD:
        return AttributeError(f"{name} is of the newer edition; use {INSTEAD[name]}")
    return AttributeError(f"{where}, and no '{name}'; docs/textbook.md lists its names")
