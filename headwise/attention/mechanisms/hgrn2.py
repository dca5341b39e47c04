"""HGRN-2: a gated memory whose keys are what its gates forget."""

import math

import torch
from torch.nn import functional as F

from headwise.attention.mechanisms._recurrence import Call, Keys, Recurrence, State, Terms
from headwise.errors import ConfigError


class Hgrn2(Recurrence):
    """HGRN-2: S_i = diag(f_i) S_(i-1) + (1 - f_i) v_i^T, out_i = silu(q_i) S_i with f_i = l + (1 - l) sigmoid(k_i).

    A layer's keys are thus its forget gates.

    Args:
        lower: l, the least share that is kept, from 0 to below 1.
    Raises: ConfigError: `lower` outside this range; else as `Recurrence`.
    Source: Qin et al. 2024, arXiv:2404.07904, section 3.2. The paper learns l as a cumulative softmax over layers, 0 in
    the first one; here it is a number. fla scales by 1 / sqrt(d), which its norm cancels; its layer loads as q_proj,
    f_proj, i_proj -> queries, keys, values, with `head_norm = "rms"` in place of one norm over all heads.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.zeros(1, 1, 3, 2)
    >>> Hgrn2()(Call(x + 100.0, x, x + 1.0, mask=Causal()))[0, 0, :, 0].tolist()
    [100.0, 150.0, 175.0]
    """

    def __init__(self, lower: float = 0.0):
        super().__init__()
        if not 0 <= lower < 1:
            raise ConfigError(f"lower ({lower}) must be from 0 to below 1")
        self.lower = lower

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        log_decay = F.logsigmoid(call.key)
        if self.lower:
            log_decay = torch.logaddexp(log_decay + math.log1p(-self.lower), log_decay.new_tensor(math.log(self.lower)))
        # 1 - f, which rounds to nothing where f is nearly 1
        added = (1 - self.lower) * (-call.key).sigmoid()
        return Terms(F.silu(call.query), added, call.value, log_decay), ()
