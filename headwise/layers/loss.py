"""The vocabulary product and its loss over real tokens only, in chunks, with the gradient made in the forward pass."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.checkpointing import can_checkpoint, checkpointed, tensors_of, with_tensors_of_now
from headwise.attention.precision import autocast_dtype, uncast, wide

CHUNK_ROWS = 512


def output_loss(
    output: nn.Module,
    hidden: Float[Tensor, "tokens width"],
    targets: Int[Tensor, "tokens"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over tokens of the cross entropy of softmax(output(hidden)) against the target, in nats.

    An `nn.Linear` itself hands its weight and bias to `vocabulary_loss`; since its logits never exist as a whole, its
    own hooks do not run. Any other module (an adapter around the layer, a subclass, a parametrised, quantised or
    sharded layer) is called, 512 rows at a time under checkpointing, at two to three times the cost.

    >>> output_loss(nn.Sequential(nn.Linear(4, 6)), torch.zeros(3, 4), torch.tensor([3, 0, 5])).shape
    torch.Size([])
    """
    if type(output) is nn.Linear:
        return vocabulary_loss(hidden, output.weight, output.bias, targets, label_smoothing)
    called = with_tensors_of_now(output)

    def loss(rows: Tensor, target: Tensor) -> Tensor:
        logits = called(rows)
        return F.cross_entropy(wide(logits), target, reduction="sum", label_smoothing=label_smoothing)

    repeats = torch.is_grad_enabled() and can_checkpoint((hidden, *tensors_of(output).values()))
    chunks = zip(hidden.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
    losses = [checkpointed(loss, *chunk) if repeats else loss(*chunk) for chunk in chunks]
    return torch.stack(losses).sum()


def real_rows(
    hidden: Float[Tensor, "batch length width"],
    targets: Int[Tensor, "batch length"],
    lens: Int[Tensor, "batch"],
    num_tokens: int,
) -> tuple[Float[Tensor, "tokens width"], Int[Tensor, "tokens"]]:
    """States and targets of the real positions only: padding costs no vocabulary product.

    Args:
        num_tokens: how many positions are real.
    """
    rows, flat_targets = hidden.flatten(0, 1), targets.flatten()
    if num_tokens == flat_targets.numel():
        return rows, flat_targets
    real = torch.arange(targets.shape[1], device=lens.device) < lens[:, None]
    places = real.flatten().nonzero().squeeze(1)
    return rows.index_select(0, places), flat_targets.index_select(0, places)


def vocabulary_loss(
    hidden: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, "vocab"] | None,
    targets: Int[Tensor, "tokens"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over tokens of the cross entropy of softmax(W h + b) against the target, in nats.

    Equal to `cross_entropy(hidden @ weight.T + bias, targets, reduction="sum", label_smoothing=...)`, but no more than
    512 rows of logits exist at a time, and their gradient is made while they do. Under autocast the products are of
    its type and the loss is summed in float32. Compiled, and for a second derivative, there are no chunks.

    `python -m benchmarks.machine` sets it beside `cross_entropy`, `python -m benchmarks.gradients` beside checkpointed
    chunks, which are as small.

    Source: label smoothing of Szegedy et al. 2016, arXiv:1512.00567, section 7: (1 - e) * one-hot + e / vocab.

    >>> vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), None, torch.tensor([3])).item()
    1.7917594909667969
    """
    low = autocast_dtype(hidden.device) or hidden.dtype
    with uncast(hidden):
        if not torch.is_grad_enabled():
            return _chunked(hidden, weight, bias, targets, label_smoothing, low, gradients=False)[0]
        return _VocabularyLoss.apply(hidden, weight, bias, targets, label_smoothing, low)[0]


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(hidden, weight, bias, targets, smoothing, low):
        return _chunked(hidden, weight, bias, targets, smoothing, low, gradients=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.smoothing, ctx.low = inputs[4:]
        grads = output[1:]
        ctx.mark_non_differentiable(*(gradient for gradient in grads if gradient is not None))
        ctx.save_for_backward(*inputs[:4], *grads)

    @staticmethod
    def backward(ctx, gradient, *_):
        saved = ctx.saved_tensors
        hidden, weight, bias, targets = saved[:4]
        twice = torch.is_grad_enabled()
        grads = _differentiable(hidden, weight, bias, targets, ctx.smoothing, ctx.low) if twice else saved[4:]
        return *(None if grad is None else grad * gradient for grad in grads), None, None, None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        rows = [
            [arg if dim is None else arg.select(dim, number) for arg, dim in zip(inputs, in_dims, strict=True)]
            for number in range(info.batch_size)
        ]
        outputs = zip(*(_VocabularyLoss.apply(*row) for row in rows), strict=True)
        stacked = tuple(None if output[0] is None else torch.stack(output) for output in outputs)
        return stacked, tuple(None if output is None else 0 for output in stacked)


Made = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]


def _chunked(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    low: torch.dtype,
    gradients: bool,
) -> Made:
    """(loss, gradients of hidden, weight and bias); without `gradients` they are None."""
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    low_weight, low_bias = weight.to(low), None if bias is None else bias.to(low)
    # the sum of mean logits is a product of sums: the smoothed part costs no pass over logits
    mean_row, hidden_sum = weight.to(exact).mean(0), hidden.sum(0, dtype=exact)
    mean_bias = 0.0 if bias is None else bias.to(exact).mean()
    total = -smoothing * (hidden_sum @ mean_row + hidden.shape[0] * mean_bias)
    d_hidden, d_weight = [], torch.zeros_like(low_weight, dtype=exact)
    d_bias = torch.zeros_like(low_weight[:, 0], dtype=exact)
    for rows, target in _chunks(hidden.to(low), targets):
        numbers = torch.arange(target.shape[0], device=target.device)
        logits = F.linear(rows, low_weight, low_bias)
        odds = logits.softmax(-1)
        # unlike an index, it refuses numbers below 0
        target_logits = logits.gather(1, target.unsqueeze(1)).squeeze(1).to(exact)
        total = total + (_log_sum(logits, odds, exact) - (1.0 - smoothing) * target_logits).sum()
        if not gradients:
            continue
        # setting is free where adding (`scatter_add_`) copies the whole block of a half-precision type
        odds[numbers, target] = odds[numbers, target] - (1.0 - smoothing)
        d_hidden.append((odds @ low_weight).to(hidden.dtype))
        # products are rounded, their sum over chunks is not
        d_weight = d_weight.addmm_(odds.mT, rows) if low == exact else d_weight.add_(odds.mT @ rows)
        if bias is not None:
            d_bias += odds.sum(0, dtype=exact)
    if not gradients:
        return total, None, None, None
    # the gradient of the share of the target that is spread over the vocabulary
    share = smoothing / weight.shape[0]
    d_weight = (d_weight - share * hidden_sum).to(weight.dtype)
    spread = None if bias is None else (d_bias - share * hidden.shape[0]).to(bias.dtype)
    return total, torch.cat(d_hidden) - (smoothing * mean_row).to(hidden.dtype), d_weight, spread


def _chunks(rows: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    if torch.compiler.is_compiling():
        # a program for any number of rows cannot count chunks
        return [(rows, targets)]
    return list(zip(rows.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True))


def _log_sum(logits: Tensor, odds: Tensor, exact: torch.dtype) -> Tensor:
    """log of the sum of exponentials of each row, from its largest logit and that one's share, a fused softmax."""
    return _largest(logits).to(exact) - _largest(odds).to(exact).log()


def _largest(values: Tensor) -> Tensor:
    """The largest value of each row."""
    if values.element_size() != 2 or values.device.type != "cpu":
        return values.amax(-1)
    # half precision in order is 16-bit integers in order, below zero in reverse; `amax` of integers is fast
    bits = values.view(torch.int16)
    top = bits.amax(-1)
    return torch.where(top < 0, bits.amin(-1), top).view(values.dtype)


def _differentiable(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, low: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The gradients of `_chunked` by the plain formula, which autograd can differentiate again."""
    rows, low_weight = hidden.to(low), weight.to(low)
    odds = F.linear(rows, low_weight, None if bias is None else bias.to(low)).softmax(-1)
    one_hot = torch.arange(weight.shape[0], device=targets.device) == targets[:, None]
    error = odds - smoothing / weight.shape[0] - (1.0 - smoothing) * one_hot.to(low)
    d_bias = None if bias is None else error.sum(0).to(bias.dtype)
    return (error @ low_weight).to(hidden.dtype), (error.mT @ rows).to(weight.dtype), d_bias
