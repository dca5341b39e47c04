"""Training, translating and scoring as in the book, for any net with the interface of `EncoderDecoder`; counters."""

import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.masks import Padding
from headwise.errors import ConfigError
from headwise.metrics import textbook_bleu
from headwise.models.initializers import SCHEMES, initialize
from headwise.textbook.attention import sequence_mask
from headwise.textbook.data import Vocab, build_array_nmt, words
from headwise.textbook.seq2seq import EncoderDecoder

Device = torch.device | str


def train_seq2seq(
    net: EncoderDecoder,
    data_iter: Iterable[Sequence[Tensor]],
    lr: float,
    num_epochs: int,
    tgt_vocab: Vocab,
    device: Device,
) -> None:
    """Trains with teacher forcing from Xavier weights: Adam, gradients clipped to norm 1; prints loss and speed.

    The loss is the mean cross entropy of a real target token in the last epoch, in nats; the book prints that divided
    by the number of steps.

    Args:
        data_iter: batches as `load_data_nmt` gives them.
        num_epochs: passes over the data, 1 or more.
    Source: Dive into Deep Learning, section 9.7 of the Chinese second edition.
    """
    if num_epochs < 1:
        raise ConfigError(f"num_epochs ({num_epochs}) must be at least 1")
    _start(net)
    net.to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(num_epochs):
        timer = Timer()
        loss, tokens = 0.0, 0
        for batch in data_iter:
            batch_loss, batch_tokens = _step(net, [part.to(device) for part in batch], optimizer, tgt_vocab["<bos>"])
            loss, tokens = loss + batch_loss, tokens + batch_tokens
        speed = tokens / max(timer.stop(), 1e-9)
    sys.stdout.write(f"loss {loss / tokens:.3f}, {speed:.1f} tokens/sec on {device}\n")


def predict_seq2seq(
    net: EncoderDecoder,
    src_sentence: str,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    device: Device,
    save_attention_weights: bool = False,
) -> tuple[str, list[Any]]:
    """Translates a sentence greedily; the net is left in `eval()`.

    Args:
        num_steps: the source is padded to so many tokens or cut to them; the translation has no more.
        save_attention_weights: return what `net.decoder.attention_weights` is after each token, the end among them.
    Source: Dive into Deep Learning, section 9.7 of the Chinese second edition.
    """
    net.eval()
    enc_X, enc_valid_lens = (part.to(device) for part in build_array_nmt([words(src_sentence)], src_vocab, num_steps))
    output: list[int] = []
    attention_weights: list[Any] = []
    with torch.no_grad():
        state = net.decoder.init_state(net.encoder(enc_X, enc_valid_lens), enc_valid_lens)
        dec_X = enc_X.new_full((1, 1), tgt_vocab["<bos>"])
        for _ in range(num_steps):
            logits, state = net.decoder(dec_X, state)
            dec_X = logits.argmax(dim=2)
            if save_attention_weights:
                attention_weights.append(net.decoder.attention_weights)
            if dec_X.item() == tgt_vocab["<eos>"]:
                break
            output.append(int(dec_X.item()))
    return " ".join(tgt_vocab.to_tokens(output)), attention_weights


def bleu(pred_seq: str, label_seq: str, k: int) -> float:
    """BLEU of one sentence in the form of the book, from 0 to 1: `headwise.metrics.textbook_bleu`.

    Sentences shorter than k words are scored, where the book divides by zero. For results to compare with others', use
    `headwise.metrics.bleu`.

    >>> round(bleu("il est riche .", "il est calme .", k=2), 3)
    0.658
    """
    return textbook_bleu(pred_seq, label_seq, k)


class MaskedSoftmaxCELoss(nn.CrossEntropyLoss):
    """Cross entropy of each sequence, its padding counted as 0: a mean over all steps, real or not, as in the book.

    Source: Dive into Deep Learning, section 9.7 of the Chinese second edition.

    >>> loss = MaskedSoftmaxCELoss()
    >>> label, valid_len = torch.ones((3, 4), dtype=torch.long), torch.tensor([4, 2, 0])
    >>> [round(value, 4) for value in loss(torch.ones(3, 4, 10), label, valid_len).tolist()]
    [2.3026, 1.1513, 0.0]
    """

    def forward(  # type: ignore[override]
        self,
        pred: Float[Tensor, "batch steps vocab"],
        label: Int[Tensor, "batch steps"],
        valid_len: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch"]:
        losses = F.cross_entropy(pred.transpose(1, 2), label, reduction="none")
        return sequence_mask(losses, valid_len).mean(1)


def grad_clipping(net: Any, theta: float) -> None:
    """Scales the gradients of a net down to a norm of `theta`, all parameters together, if it is larger.

    Args:
        net: a module, or an object whose `params` are tensors.
    """
    parameters = net.parameters() if isinstance(net, nn.Module) else net.params
    nn.utils.clip_grad_norm_([parameter for parameter in parameters if parameter.requires_grad], theta)


def sgd(params: Iterable[Tensor], lr: float, batch_size: int) -> None:
    """A step of stochastic gradient descent on gradients summed over a batch; they are zero afterwards."""
    with torch.no_grad():
        for param in params:
            if param.grad is not None:
                param -= lr * param.grad / batch_size
                param.grad.zero_()


def try_all_gpus() -> list[torch.device]:
    """All CUDA devices, or the CPU where there is none."""
    return [try_gpu(i) for i in range(max(1, torch.cuda.device_count()))]


def try_gpu(i: int = 0) -> torch.device:
    """The i-th CUDA device, or the CPU where there is none."""
    return torch.device("cuda", i) if torch.cuda.device_count() > i else torch.device("cpu")


def as_number(value: Any) -> float:
    """A number, or that of a tensor with one element, its graph left aside.

    >>> as_number(2)
    2.0
    """
    return float(value.item() if hasattr(value, "item") else value)


class Timer:
    """A stop watch that starts at construction and collects the seconds of each `stop`.

    >>> timer = Timer()
    >>> timer.stop() >= 0, len(timer.times)
    (True, 1)
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.start()

    def start(self) -> None:
        """Begins a new measurement."""
        self._since = time.perf_counter()

    def stop(self) -> float:
        """Ends the measurement and returns its seconds."""
        self.times.append(time.perf_counter() - self._since)
        return self.times[-1]

    def avg(self) -> float:
        """The mean of all measurements, in seconds."""
        return sum(self.times) / len(self.times)

    def sum(self) -> float:
        """All measurements together, in seconds."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """The sums of the first, the first two, ... measurements, in seconds."""
        return list(itertools.accumulate(self.times))


class Accumulator:
    """Sums over n variables.

    >>> metric = Accumulator(2)
    >>> metric.add(3.0, 2)
    >>> metric.add(1.0, 2)
    >>> metric[0] / metric[1]
    1.0
    """

    def __init__(self, n: int):
        self.data = [0.0] * n

    def add(self, *args: Any) -> None:
        """Adds a number, or a tensor with one element, to each sum."""
        self.data = [total + as_number(value) for total, value in zip(self.data, args, strict=True)]

    def reset(self) -> None:
        """Sets all sums to zero."""
        self.data = [0.0] * len(self.data)

    def __getitem__(self, idx: int) -> float:
        return self.data[idx]


def _start(net: nn.Module) -> None:
    """Xavier weights in linear and recurrent layers."""
    initialize(net, "xavier")
    recurrent = [module for module in net.modules() if isinstance(module, nn.RNNBase)]
    for name, parameter in (named for module in recurrent for named in module.named_parameters()):
        if name.startswith("weight_"):
            SCHEMES["xavier"](parameter.detach())


def _step(
    net: EncoderDecoder, batch: Sequence[Tensor], optimizer: torch.optim.Optimizer, bos: int
) -> tuple[float, int]:
    """One step of the optimizer: the sum of the losses of the real target tokens, and their number."""
    X, X_valid_len, Y, Y_valid_len = batch
    begin = Y.new_full((Y.shape[0], 1), bos)
    logits, _ = net(X, torch.cat([begin, Y[:, :-1]], dim=1), X_valid_len)
    real = Padding(Y_valid_len).dense(Y.shape[0], 1, 1, Y.shape[1], device=Y.device)[:, 0, 0]
    loss = F.cross_entropy(logits[real], Y[real])
    optimizer.zero_grad()
    loss.backward()
    grad_clipping(net, 1.0)
    optimizer.step()
    tokens = int(Y_valid_len.sum())
    return loss.item() * tokens, tokens
