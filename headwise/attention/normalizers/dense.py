"""Softmax and its variants: normalizers that give every allowed key a weight."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores, allowed
from headwise.attention.zeros import hide
from headwise.errors import ConfigError, ShapeError


class Softmax(Normalizer):
    """exp(s_j) / sum over allowed k of exp(s_k) (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).

    >>> keep = torch.tensor([[[[True, True, False, False]]]])
    >>> Softmax()(torch.zeros(1, 1, 1, 4), keep).tolist()
    [[[[0.5, 0.5, 0.0, 0.0]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return softmax_of(scores, keep)


def softmax_of(scores: Scores, keep: Keep | None) -> Scores:
    """`Softmax` as a function."""
    if keep is None:
        return scores.softmax(-1)
    some = keep.any(-1, keepdim=True).to(scores.dtype)
    # minus infinity; in a row without a key 0, since one of minus infinities is NaN
    low = (1 - some).log()
    return hide(scores, keep, low).softmax(-1) * some


class Softmax1(Normalizer):
    """exp(s_j) / (1 + sum over allowed k of exp(s_k)): softmax beside a key of score 0 and value 0.

    A query that finds nothing can leave its weights near 0; they sum to less than 1.
    Source: Miller 2023, "Attention is off by one", where it is named softmax1 (its third formula).

    >>> Softmax1()(torch.zeros(1, 1, 1, 3), None).tolist()
    [[[[0.25, 0.25, 0.25]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        return _softmax_beside(scores, keep, scores.new_zeros(1, 1))


class Sinks(Normalizer):
    """exp(s_j) / (exp(c) + sum over allowed k of exp(s_k)) with a learned c for each head: attention sinks.

    Without one, heads that find nothing put their weight on the first tokens (Xiao et al. 2023, arXiv:2309.17453);
    here it goes to a key without a value. The numbers start at 0, which is `Softmax1`.

    Args:
        num_heads: heads of the query.
    Source: OpenAI 2025, arXiv:2508.10925 (gpt-oss): its `sinks`, which attention functions know as `s_aux`, are
    `logits` here.

    >>> Sinks(num_heads=2)(torch.zeros(1, 2, 1, 3), None).tolist()
    [[[[0.25, 0.25, 0.25]], [[0.25, 0.25, 0.25]]]]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_heads))

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        if scores.shape[1] != len(self.logits):
            raise ShapeError(f"Sinks was built for {len(self.logits)} heads, got {scores.shape[1]}")
        return _softmax_beside(scores, keep, self.logits[:, None].to(scores.dtype))

    def per_head(self) -> bool:
        return True


def _softmax_beside(scores: Scores, keep: Keep | None, logit: Float[Tensor, "#heads 1"]) -> Scores:
    """Softmax over the scores and one more, whose weight is left out; it keeps rows without a key finite."""
    more = logit.unsqueeze(-1).expand(*scores.shape[:-1], 1)
    return torch.cat((hide(scores, keep, float("-inf")), more), -1).softmax(-1)[..., :-1]


class Scalable(Normalizer):
    """softmax(scale ln(n) s) with n allowed keys: a temperature that keeps rows as sharp when they grow longer.

    Args:
        scale: factor of ln n, above 0; Nakanishi learns it for each head, a typical value is 0.43.
    Raises: ConfigError: a scale that is not above 0.
    Source: Nakanishi 2025, arXiv:2501.19399, eq. 2, n^(scale s_j) / sum n^(scale s_k), with one fixed scale;
    Chiang and Cholak 2022, arXiv:2202.12172, with scale 1.

    >>> Scalable(1.0)(torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]]), None).mul(7).tolist()  # 4 : 1 : 1 : 1
    [[[[4.0, 1.0, 1.0, 1.0]]]]
    """

    def __init__(self, scale: float):
        super().__init__()
        if not 0.0 < scale < float("inf"):
            raise ConfigError(f"scale ({scale}) of normalizer 'scalable' must lie above 0, such as scalable:0.43")
        self.scale = scale

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        # a single key has weight 1 at any temperature; ln 1 = 0 would multiply a hidden infinity
        return softmax_of(scores * (self.scale * allowed(scores, keep).clamp(min=2).log()), keep)

    @property
    def name(self) -> str:
        return f"scalable:{self.scale}"
