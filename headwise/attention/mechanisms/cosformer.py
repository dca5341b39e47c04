"""cosFormer: linear attention whose weights fall with the cosine of the distance."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.mechanisms._masks import check_length
from headwise.attention.mechanisms._recurrence import KERNEL, Call, Keys, Recurrence, State, Terms
from headwise.errors import ConfigError


class Cosformer(Recurrence):
    """cosFormer: out_i = sum_j w_ij v_j / sum_j w_ij, w_ij = (relu(q_i) . relu(k_j)) cos(pi (i - j) / (2 max_len)).

    The cosine of a difference is a product of features, so time is linear in length; the state is 2 d x (d + 1) a head
    and the number of tokens. A query whose weights are all zero gives zero.

    Args:
        max_len: the most tokens, at least 1: the cosine is not negative up to here.
    Raises: ConfigError: max_len below 1; ShapeError: a longer sequence; else as `Recurrence`.
    Source: Qin et al. 2022, arXiv:2202.08791, eq. 10 to 14. The paper takes the present length for max_len, with which
    cached and whole differ. There are no parameters, so nothing loads.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> Cosformer(16)(Call(x, x, x)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        KERNEL,
        # positions count
        family="recurrence",
    )
    normalised = True

    def __init__(self, max_len: int):
        super().__init__()
        if max_len < 1:
            raise ConfigError(f"max_len ({max_len}) must be at least 1")
        self.max_len = max_len

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        """The features; kept is the number of tokens so far, (batch, 1, 1, 1)."""
        _, _, query_len, key_len = call.shape
        before = past[0] if past else call.query.new_zeros(call.shape[0], 1, 1, 1)
        start = 0 if past else call.query_start
        check_length(self, self.max_len, max(key_len, call.query_start + query_len))
        query, key = self._turned(call.query, before + start), self._turned(call.key, before)
        return Terms(query, key, call.value), (before + key_len,)

    def _turned(
        self, x: Float[Tensor, "batch heads length dim"], start: Float[Tensor, "batch 1 1 1"]
    ) -> Float[Tensor, "batch heads length features"]:
        places = start + torch.arange(x.shape[2], device=x.device).unsqueeze(-1)
        angles = places * (math.pi / (2 * self.max_len))
        positive = x.relu()
        return torch.cat((positive * angles.cos(), positive * angles.sin()), -1)
