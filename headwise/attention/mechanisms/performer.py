"""Performer: softmax attention estimated with positive random features."""

import math
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.mechanisms._recurrence import KERNEL, Call, Keys, Recurrence, State, Terms
from headwise.attention.precision import wide
from headwise.errors import ConfigError


class Performer(Recurrence):
    """FAVOR+: linear attention with E[phi(q) . phi(k)] = exp(q . k / sqrt(d)), which is softmax attention on average.

    phi(x) = exp(W x' - |x'|^2 / 2) / sqrt(features) with x' = x / d^(1/4) and random W, orthogonal in blocks of d rows.
    The error falls as 1 / sqrt(features) and grows with exp(|q'| |k'|): a good estimate of flat attention, a bad one of
    sharp attention.

    Args:
        head_dim: width of a query.
        features: how many; of the order of d ln d whatever the length (theorem 4).
        generator: source of W; the global one if None. W is saved with the model.
    Raises: ConfigError: no features; else as `Recurrence`.
    Source: Choromanski et al. 2021, arXiv:2009.14794, eq. 5, lemma 1, section 2.4. Features of a query are divided by
    the largest of its own and those of keys by the largest of the first key, which cancels; the authors' code takes the
    largest of all keys, later ones included, and adds 1e-6 to each. An exponent stops short of overflow, which changes
    the estimate where a later key has an exponent that is 32 above the first one's (in float32).

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Performer(8, 16)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        KERNEL,
        formula="sum_j (phi(q) . phi(k_j)) v_j / sum_j phi(q) . phi(k_j), phi(x) = exp(W x - |x|^2 / 2)",
        time="n m d for m features",
        memory="n m + m d",
        exact="for many features",
    )
    normalised = True

    projection: Float[Tensor, "features head_dim"]

    def __init__(self, head_dim: int, features: int, generator: torch.Generator | None = None):
        super().__init__()
        if features < 1:
            raise ConfigError(f"features ({features}) must be at least 1; d ln d is usual")
        self.head_dim, self.features = head_dim, features
        self.register_buffer("projection", torch.empty(features, head_dim))
        self.redraw(generator)

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Performer":
        """With d ln d features."""
        return cls(head_dim, max(1, round(head_dim * math.log(head_dim))))

    @torch.no_grad()
    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draws W anew, in place: each block of d rows orthogonal, each row as long as one of independent normals."""
        features, head_dim = self.projection.shape
        draw = partial(torch.randn, generator=generator, dtype=torch.float64, device=generator and generator.device)
        turned, upper = torch.linalg.qr(draw(-(-features // head_dim), head_dim, head_dim))
        # without these signs the directions would not be uniform
        blocks = (turned * upper.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)).mT
        lengths = draw(features, head_dim).norm(dim=1, keepdim=True)
        self.projection.copy_(blocks.flatten(0, 1)[:features] * lengths)

    def log_features(
        self, x: Float[Tensor, "batch heads length head_dim"]
    ) -> Float[Tensor, "batch heads length features"]:
        """log phi(x), in float32 or wider."""
        x = wide(x) * x.shape[-1] ** -0.25
        half_square = x.square().sum(-1, keepdim=True) / 2
        return x @ self.projection.to(x.dtype).mT - half_square - math.log(self.projection.shape[0]) / 2

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        """The features of queries and keys, and the largest exponent of the first key, (batch, kv_heads, 1, 1)."""
        query_logs, key_logs = self.log_features(call.query), self.log_features(call.key)
        # every query sees the first key, and a factor common to all keys cancels
        offset = past[0] if past else F.pad(key_logs.detach()[:, :, :1], (0, 0, 0, 1))[:, :, :1].amax(-1, keepdim=True)
        # larger ones, divided by the smallest total that counts, would overflow in the gradient
        highest = -2.0 * math.log(torch.finfo(key_logs.dtype).eps)
        queries = (query_logs - query_logs.detach().amax(-1, keepdim=True)).exp()
        return Terms(queries, (key_logs - offset).clamp(max=highest).exp(), call.value), (offset,)
