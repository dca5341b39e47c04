"""The vocabulary product and its loss over real tokens only, in chunks, with the gradient made in the forward pass."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ROWS = 512


def vocabulary_loss(
    hidden: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, "vocab"] | None,
    targets: Int[Tensor, "tokens"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over tokens of the cross entropy of softmax(W h + b) against the target, in nats.

    Equal to `cross_entropy(hidden @ weight.T + bias, targets, reduction="sum", label_smoothing=...)`, but no more than
    512 rows of logits exist at a time, and their gradient is made while they do. Under bfloat16 autocast the products
    are bfloat16 and the loss is summed in float32.

    Source: label smoothing of Szegedy et al. 2016, arXiv:1512.00567, section 7: (1 - e) * one-hot + e / vocab.

    >>> vocabulary_loss(torch.zeros(1, 4), torch.zeros(6, 4), None, torch.tensor([3])).item()
    1.7917594909667969
    """
    low = (
        torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else hidden.dtype
    )
    learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast(hidden.device.type, enabled=False):
        if not learns:
            total, _ = _chunked(hidden, weight, bias, targets, label_smoothing, low, gradients=False)
            return total
        loss: Tensor = _VocabularyLoss.apply(hidden, weight, bias, targets, label_smoothing, low)
        return loss


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, label_smoothing, low):
        total, gradients = _chunked(hidden, weight, bias, targets, label_smoothing, low, gradients=True)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx, gradient):
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        d_bias = None if d_bias is None else d_bias * gradient
        return d_hidden * gradient, d_weight * gradient, d_bias, None, None, None


Gradients = tuple[Tensor, Tensor, Tensor | None]


def _chunked(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    low: torch.dtype,
    gradients: bool,
) -> tuple[Tensor, Gradients]:
    product_weight = weight.to(low)
    product_hidden = hidden.to(low)
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    # the mean logit of a row is a product with the mean row of the matrix: the smoothed part costs no pass over logits
    mean_row = weight.to(wide).mean(0)
    mean_bias = 0.0 if bias is None else bias.to(wide).mean()
    total = torch.zeros((), dtype=wide, device=hidden.device)
    d_hidden = torch.empty_like(hidden) if gradients else hidden
    d_weight = torch.zeros_like(weight, dtype=low) if gradients else weight
    d_bias = torch.zeros_like(bias, dtype=wide) if gradients and bias is not None else None
    for start in range(0, hidden.shape[0], CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        part, target = product_hidden[rows], targets[rows, None]
        logits = part @ product_weight.mT if bias is None else torch.addmm(bias.to(low), part, product_weight.mT)
        chosen = logits.gather(1, target).squeeze(1).to(wide)
        mean = hidden[rows].to(wide) @ mean_row + mean_bias
        log_sum, odds = _softmax(logits, target, chosen, gradients)
        total += (log_sum - (1.0 - smoothing) * chosen - smoothing * mean).sum()
        if odds is None:
            continue
        odds.scatter_add_(1, target, odds.new_full(target.shape, smoothing - 1.0))
        d_hidden[rows] = (odds @ product_weight).to(hidden.dtype)
        d_weight.addmm_(odds.mT, part)
        if d_bias is not None:
            d_bias += odds.sum(0, dtype=wide)
    if gradients and smoothing:
        _spread(d_hidden, d_weight, d_bias, hidden, mean_row, smoothing)
    narrow_bias = None if d_bias is None or bias is None else d_bias.to(bias.dtype)
    return total, (d_hidden, d_weight.to(weight.dtype), narrow_bias)


def _spread(
    d_hidden: Tensor, d_weight: Tensor, d_bias: Tensor | None, hidden: Tensor, mean_row: Tensor, smoothing: float
) -> None:
    """Adds the gradient of the share of the target that is spread over the vocabulary."""
    vocab = d_weight.shape[0]
    d_hidden -= (smoothing * mean_row).to(hidden.dtype)
    d_weight -= (smoothing / vocab) * hidden.to(mean_row.dtype).sum(0).to(d_weight.dtype)
    if d_bias is not None:
        d_bias -= smoothing / vocab * hidden.shape[0]


def _softmax(logits: Tensor, target: Tensor, chosen: Tensor, gradients: bool) -> tuple[Tensor, Tensor | None]:
    """(log of the sum of exponentials, probabilities): the fused softmax and one logit of each row give the sum."""
    wide = chosen.dtype
    if not gradients:
        return logits.to(wide).logsumexp(-1), None
    odds = logits.softmax(-1)
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        # the largest probability is never too small; on a CPU finding it costs more than the look below
        return logits.amax(-1).to(wide) - odds.amax(-1).to(wide).log(), odds
    share = odds.gather(1, target).squeeze(1).to(wide)
    log_sum = chosen - share.log()
    lost = (share < 1e-30).nonzero().squeeze(1)
    if len(lost):
        log_sum[lost] = logits[lost].to(wide).logsumexp(-1)
    return log_sum, odds
