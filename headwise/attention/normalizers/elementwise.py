"""Normalizers that look at one score and the number of keys: rows need not sum to 1."""

import math

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores, allowed
from headwise.attention.zeros import hide
from headwise.errors import ConfigError


class ReLU(Normalizer):
    """max(s_j, 0) / n with n allowed keys; rows need not sum to 1 (Wortsman et al. 2023, arXiv:2309.08586, sec. 3).

    >>> import torch
    >>> ReLU()(torch.tensor([[[[2.0, -1.0]]]]), None).tolist()
    [[[[1.0, 0.0]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return hide(scores, keep, 0.0).relu() / allowed(scores, keep)


class ReLU2(Normalizer):
    """max(s_j, 0)^2 / n with n allowed keys; rows need not sum to 1.

    Source: Hua et al. 2022, arXiv:2202.10447 (squared ReLU in the gated attention unit); Wortsman et al. 2023,
    arXiv:2309.08586, sec. 3 (divided by the length). n counts allowed keys here, not all.

    >>> import torch
    >>> ReLU2()(torch.tensor([[[[2.0, -1.0]]]]), None).tolist()
    [[[[2.0, 0.0]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return hide(scores, keep, 0.0).relu().square() / allowed(scores, keep)


class Sigmoid(Normalizer):
    """1 / (1 + exp(-bias - s_j)), with bias -ln n for n allowed keys unless given; rows need not sum to 1.

    As published n is one length for all rows, `sigmoid:length=512`: a row then does not change when keys are added, and
    gradients do not flow through a count. By allowed keys, the weights of a short row are not small.

    Args:
        bias: added to every score; -ln n if None, which lets the weights of equal scores sum to about 1.
        length: n, in place of the allowed keys of each row.
    Raises: ConfigError: a bias that is not finite, a length below 1, or both.
    Source: Ramapuram et al. 2024, arXiv:2409.04431, section 3 (bias -ln n); without `length` n counts allowed keys.

    >>> import torch
    >>> Sigmoid()(torch.zeros(1, 1, 1, 3), None).tolist()
    [[[[0.25, 0.25, 0.25]]]]
    """

    def __init__(self, bias: float | None = None, length: int | None = None):
        super().__init__()
        if length is not None and (length < 1 or bias is not None):
            raise ConfigError(
                f"normalizer 'sigmoid' takes a length of 1 or more ({length}) or a bias ({bias}), not both"
            )
        if bias is not None and not math.isfinite(bias):
            raise ConfigError(f"bias ({bias}) of normalizer 'sigmoid' must be finite; without one it is -ln n")
        self.bias = bias if length is None else -math.log(length)

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        bias = -allowed(scores, keep).log() if self.bias is None else self.bias
        return (hide(scores, keep, float("-inf")) + bias).sigmoid()

    @property
    def name(self) -> str:
        return "sigmoid" if self.bias is None else f"sigmoid:{self.bias}"


class Identity(Normalizer):
    """s_j, the score itself: a weighted sum whose size says how much was found.

    Source: Zhou et al. 2018, arXiv:1706.06978, sec. 4.3: interests are summed by their intensity, without softmax.

    >>> import torch
    >>> Identity()(torch.tensor([[[[2.0, -1.0]]]]), torch.tensor([[[[True, False]]]])).tolist()
    [[[[2.0, 0.0]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return hide(scores, keep, 0.0)


class Tempered(Normalizer):
    """normalizer(s / temperature): below 1 rows are sharper, above 1 more even.

    Args:
        temperature: at least 1e-6.

    >>> import torch
    >>> from headwise.attention.normalizers import softmax
    >>> Tempered(softmax, 0.5)(torch.tensor([[[[0.0, 1.0]]]]), None).round(decimals=4).tolist()
    [[[[0.11919999867677689, 0.8808000087738037]]]]
    """

    def __init__(self, normalizer: Normalizer, temperature: float):
        super().__init__()
        # scores that are divided by less leave the range of float32
        if not 1e-6 <= temperature < float("inf"):
            raise ConfigError(f"temperature ({temperature}) must be at least 1e-6, and finite")
        self.normalizer, self.temperature = normalizer, temperature

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return self.normalizer(scores / self.temperature, keep)

    @property
    def name(self) -> str:
        return f"{self.normalizer.name} at temperature {self.temperature:g}"

    def per_head(self) -> bool:
        return self.normalizer.per_head()

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
