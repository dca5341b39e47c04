import copy
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.textbook import (
    EncoderDecoder,
    MaskedSoftmaxCELoss,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    TransformerDecoder,
    TransformerEncoder,
    Vocab,
    bleu,
    grad_clipping,
    predict_seq2seq,
    sgd,
    train_seq2seq,
    try_all_gpus,
    try_gpu,
)

STEPS = 5
VOCAB = Vocab([["go", "home", "now", "."]], reserved_tokens=["<pad>", "<bos>", "<eos>"])


def recurrent(dropout=0.0):
    sizes = len(VOCAB), 7, 11, 2, dropout
    return EncoderDecoder(Seq2SeqEncoder(*sizes), Seq2SeqAttentionDecoder(*sizes))


def plain(dropout=0.0):
    sizes = len(VOCAB), 7, 11, 2, dropout
    return EncoderDecoder(Seq2SeqEncoder(*sizes), Seq2SeqDecoder(*sizes))


def transformer():
    sizes = len(VOCAB), 6, 6, 6, 6, [6], 6, 11, 3, 2, 0.0
    return EncoderDecoder(TransformerEncoder(*sizes), TransformerDecoder(*sizes))


def batch():
    X, Y = torch.randint(4, len(VOCAB), (2, 3, STEPS)).unbind()
    lens, tgt_lens = torch.tensor([5, 2, 3]), torch.tensor([4, 1, 2])
    return X, lens, Y, tgt_lens


def by_the_book(net, X, lens, Y, tgt_lens):
    """The loss of a step, masked cross entropy under teacher forcing, and its gradients clipped to norm 1.

    With these seeds the recurrent net's norm is below 1, the Transformer's above.
    """
    bos = torch.full((3, 1), VOCAB["<bos>"])
    logits, _ = net(X, torch.cat([bos, Y[:, :-1]], 1), lens)
    losses = [F.cross_entropy(logits[b, t], Y[b, t]) for b in range(3) for t in range(int(tgt_lens[b]))]
    loss = torch.stack(losses).mean()
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return loss.item(), [gradient / max(1.0, norm.item()) for gradient in gradients]


@pytest.mark.parametrize("build", [recurrent, transformer])
def test_a_step_of_training_is_that_of_the_book(build, capsys):
    net, data = build().double(), batch()
    # the first weights are drawn by training; an epoch at no learning rate leaves them as they are
    twin = copy.deepcopy(net)
    for each, rate in ((twin, 0.0), (net, 0.01)):
        torch.manual_seed(5)
        train_seq2seq(each, [data], rate, 1, VOCAB, "cpu")
    loss, gradients = by_the_book(twin, *data)
    assert capsys.readouterr().out.split("\n")[1].startswith(f"loss {loss:.3f}, ")
    found = [parameter.grad for parameter in net.parameters()]
    assert_close(found, gradients, rtol=1e-4, atol=1e-9)
    # the first step of Adam: lr * g / (|g| + 1e-8)
    for before, after, gradient in zip(twin.parameters(), net.parameters(), found, strict=True):
        assert_close(after, before - 0.01 * gradient / (gradient.abs() + 1e-8))


def test_padding_of_the_target_is_not_learned():
    net, (X, lens, Y, tgt_lens) = recurrent(), batch()
    twin = copy.deepcopy(net)
    other = Y.clone()
    for row, length in enumerate(tgt_lens.tolist()):
        other[row, length:] = 0
    for each, target in ((net, Y), (twin, other)):
        torch.manual_seed(5)
        train_seq2seq(each, [(X, lens, target, tgt_lens)], 0.01, 2, VOCAB, "cpu")
    assert_close(net.state_dict(), twin.state_dict())


def test_what_training_prints(capsys):
    data = [batch(), batch()]
    train_seq2seq(recurrent(), data, 0.01, 3, VOCAB, torch.device("cpu"))
    printed = capsys.readouterr().out
    assert re.fullmatch(r"loss \d\.\d{3}, \d+\.\d tokens/sec on cpu\n", printed)


def test_training_starts_from_xavier_weights():
    net = recurrent()
    nn.init.zeros_(net.decoder.dense.weight)
    nn.init.zeros_(net.encoder.rnn.weight_hh_l1)
    train_seq2seq(net, [batch()], 0.0, 1, VOCAB, "cpu")
    for weight in (net.decoder.dense.weight, net.encoder.rnn.weight_hh_l1, net.decoder.attention.W_q.weight):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.8 * bound < weight.abs().max() <= bound
    assert net.decoder.dense.bias.eq(0).all()


def test_training_needs_an_epoch():
    with pytest.raises(ConfigError, match=r"num_epochs \(0\) must be at least 1"):
        train_seq2seq(recurrent(), [batch()], 0.01, 0, VOCAB, "cpu")


def learned(net):
    """The net after it has learned that "go ." means "home now ."."""
    source, target = VOCAB[["go", "."]], VOCAB[["home", "now", "."]]
    end, pad = VOCAB["<eos>"], VOCAB["<pad>"]
    X, Y = torch.tensor([[*source, end, pad, pad]]), torch.tensor([[*target, end, pad]])
    train_seq2seq(net, [(X, torch.tensor([3]), Y, torch.tensor([4]))], 0.03, 40, VOCAB, "cpu")
    return net


def test_a_net_without_attention_learns_too():
    assert predict_seq2seq(learned(plain()), "go .", VOCAB, VOCAB, STEPS, "cpu")[0] == "home now ."


@pytest.mark.parametrize("build", [recurrent, transformer])
def test_a_translation_ends_with_its_end_token(build):
    net = learned(build())
    text, weights = predict_seq2seq(net, "go .", VOCAB, VOCAB, STEPS, "cpu", True)
    assert text == "home now ."
    # the end has weights too
    assert len(weights) == 4
    assert not net.training
    # capitals, and punctuation that touches its word, are read as in training
    assert predict_seq2seq(net, "Go.", VOCAB, VOCAB, STEPS, "cpu") == ("home now .", [])


def test_a_translation_has_no_more_tokens_than_steps():
    net = recurrent()
    nn.init.zeros_(net.decoder.dense.weight)
    nn.init.zeros_(net.decoder.dense.bias)
    net.decoder.dense.bias.data[VOCAB["now"]] = 1.0
    text, weights = predict_seq2seq(net, "go home now . . . .", VOCAB, VOCAB, 3, "cpu", True)
    assert text == "now now now"
    assert [step[0].shape for step in weights] == [(1, 1, 3)] * 3


def test_bleu_of_the_book():
    # worked out by hand in the notes: exp(min(0, 1 - label / prediction)) * p_1^(1/2) * p_2^(1/4)
    assert bleu("il est calme .", "il est calme .", k=2) == 1.0
    assert round(bleu("il est riche .", "il est calme .", k=2), 3) == 0.658
    assert round(bleu("je suis .", "je suis chez moi .", k=2), 4) == 0.4317
    # the book divides by zero
    assert bleu("va", "va", k=4) == 1.0
    assert bleu("", "va", k=2) == 0.0


def test_the_device_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert try_gpu() == torch.device("cuda", 0)
    assert try_gpu(1) == torch.device("cuda", 1)
    assert try_gpu(2) == torch.device("cpu")
    assert try_all_gpus() == [torch.device("cuda", 0), torch.device("cuda", 1)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert try_all_gpus() == [torch.device("cpu")]


def test_the_masked_loss_is_a_mean_over_all_steps():
    pred, label = torch.randn(3, 4, 7, requires_grad=True), torch.randint(7, (3, 4))
    loss = MaskedSoftmaxCELoss()(pred, label, torch.tensor([4, 1, 0]))
    expected = [
        sum(F.cross_entropy(pred[b, t], label[b, t]).item() for t in range(steps)) / 4
        for b, steps in enumerate([4, 1, 0])
    ]
    assert_close(loss.detach(), torch.tensor(expected))
    # padding learns nothing
    loss.sum().backward()
    assert pred.grad[1, 1:].eq(0).all()
    assert pred.grad[1, 0].ne(0).all()


class Scratch:
    """A net written from scratch: its parameters are tensors in a list."""

    def __init__(self, *gradients):
        self.params = [torch.zeros(len(one), requires_grad=True) for one in gradients]
        for param, gradient in zip(self.params, gradients, strict=True):
            param.grad = torch.tensor(gradient)


def test_gradients_are_clipped_together():
    net = Scratch([3.0], [0.0, 4.0])
    grad_clipping(net, 10.0)
    assert [param.grad.tolist() for param in net.params] == [[3.0], [0.0, 4.0]]
    grad_clipping(net, 1.0)
    assert_close([param.grad for param in net.params], [torch.tensor([0.6]), torch.tensor([0.0, 0.8])])


def test_a_step_of_sgd():
    net = Scratch([3.0], [0.0, 4.0])
    sgd(net.params, lr=0.5, batch_size=2)
    assert [param.tolist() for param in net.params] == [[-0.75], [0.0, -1.0]]
    assert all(param.grad.eq(0).all() for param in net.params)
