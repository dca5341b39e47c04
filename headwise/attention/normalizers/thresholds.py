"""The threshold of alpha-entmax without a sort: steps towards the largest weight of each row.

With gaps g_j = (alpha - 1)(max s - s_j) and x the largest weight, w_j = max(x^(alpha - 1) - g_j, 0)^(1 / (alpha - 1)).
Their sum grows with x from at most 1 at x = 1/n to at least 1 at x = 1. Up to alpha 2 it is convex in x, and nearly
straight for small gaps: Newton steps from x = 1 come down to the root without passing it, in about 5 steps. Beyond
alpha 2 its slope is infinite wherever a weight enters, so brackets are halved between the steps.
"""

import torch
from torch import Tensor

from headwise.attention.normalizers.normalizer import root

# more than were ever needed: rounding ends the steps before
_NEWTON_STEPS, _BRACKET_STEPS = 32, 128


def weigh(scores: Tensor, count: Tensor, alpha: float) -> Tensor:
    """Weights in place of scores, which are minus infinity where forbidden; zeros where `count` is 0."""
    if scores.shape[-1] == 0:
        return scores
    lowest = torch.finfo(scores.dtype).min
    # a row of minus infinities has no largest score to subtract
    scores.sub_(scores.amax(-1, keepdim=True).clamp_(min=lowest)).mul_(alpha - 1)
    spare = torch.empty_like(scores)
    least = count.clamp(min=1).reciprocal().expand(*scores.shape[:-1], 1)
    largest = (_by_newton if alpha <= 2 else _by_brackets)(scores, least, alpha, spare)
    _excess(scores, largest, alpha, spare)
    weights = _power(spare, 1 / (alpha - 1))
    # the last digits: rows sum to 1 as closely as their numbers allow
    total = weights.sum(-1, keepdim=True)
    return torch.div(weights, total.masked_fill_(count == 0, float("inf")), out=scores)


def gradient(weights: Tensor, d_weights: Tensor, alpha: float) -> Tensor:
    """The gradient of the scores in place of `d_weights`: t_j (d_j - sum t d / sum t) with t = w^(2 - alpha)."""
    slopes = _slopes(weights, alpha)
    total = slopes.sum(-1, keepdim=True)
    d_weights.mul_(slopes)
    shared = d_weights.sum(-1, keepdim=True).div_(total.masked_fill_(total == 0, 1.0))
    return d_weights.addcmul_(slopes, shared, value=-1)


def _slopes(weights: Tensor, alpha: float) -> Tensor:
    if alpha == 2.0:
        return weights.sign()
    if alpha == 1.5:
        return root(weights)
    return _zero_at_zero(weights, 2 - alpha)


def _zero_at_zero(numbers: Tensor, exponent: float) -> Tensor:
    powers = numbers**exponent
    return powers if exponent > 0 else powers.masked_fill_(numbers == 0, 0.0)


def _by_newton(gaps: Tensor, least: Tensor, alpha: float, spare: Tensor) -> Tensor:
    """The largest weight of each row, for alpha up to 2."""
    x = torch.ones_like(least)
    eps = torch.finfo(gaps.dtype).eps
    # rounding of a gap reaches the sum through the power
    tiny = 8 * eps / min(1.0, alpha - 1)
    for _ in range(_NEWTON_STEPS):
        total, slope = _sums(gaps, x, alpha, spare)
        # the root is never passed but by rounding; a row without a key has no slope and stays
        new = torch.minimum(torch.maximum(x - (total - 1) / slope, least), x)
        done = (total - 1 <= tiny) | (x - new <= 4 * eps * x)
        x = new
        if _all(done):
            break
    return x


def _by_brackets(gaps: Tensor, least: Tensor, alpha: float, spare: Tensor) -> Tensor:
    """The largest weight of each row, for alpha above 2: Newton steps and halved brackets in turns."""
    low, high = least.clone(), torch.ones_like(least)
    x = high.clone()
    eps = torch.finfo(gaps.dtype).eps
    for step in range(_BRACKET_STEPS):
        total, slope = _sums(gaps, x, alpha, spare)
        above = total > 1
        high, low = torch.where(above, x, high), torch.where(above, low, x)
        if _all(((total - 1).abs() <= 8 * eps) | (high - low <= 2 * eps * x)):
            break
        new = x - (total - 1) / slope
        inside = (new > low) & (new < high)
        x = (low + high) / 2 if step % 2 else torch.where(inside, new, (low + high) / 2)
    return x


def _all(done: Tensor) -> bool:
    # looking at values would make the host wait for a device
    return done.device.type == "cpu" and bool(done.all())


def _excess(gaps: Tensor, x: Tensor, alpha: float, spare: Tensor) -> Tensor:
    return torch.add(gaps, x ** (alpha - 1), out=spare).relu_()


def _power(numbers: Tensor, exponent: float) -> Tensor:
    if exponent == 1.0:
        return numbers
    return numbers.square_() if exponent == 2.0 else numbers.pow_(exponent)


def _sums(gaps: Tensor, x: Tensor, alpha: float, spare: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the weights at x, and its slope there."""
    excess = _excess(gaps, x, alpha, spare)
    if alpha == 2.0:
        return excess.sum(-1, keepdim=True), torch.sign(excess, out=excess).sum(-1, keepdim=True)
    if alpha == 1.5:
        slope = excess.sum(-1, keepdim=True)
        return torch.linalg.vector_norm(excess, dim=-1, keepdim=True).square_(), slope * x.rsqrt()
    powers = _zero_at_zero(excess, 1 / (alpha - 1) - 1)
    slope = powers.sum(-1, keepdim=True)
    return powers.mul_(excess).sum(-1, keepdim=True), slope * x ** (alpha - 2)
