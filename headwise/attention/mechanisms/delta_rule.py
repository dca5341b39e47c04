"""The delta rule: a memory in which a key's new value replaces what was stored under it."""

from headwise.attention.mechanisms._gates import gates_of, unit
from headwise.attention.mechanisms._recurrence import Call, Keys, Recurrence, State, Terms, per_head


class DeltaRule(Recurrence):
    """DeltaNet: S_i = (I - b_i k_i k_i^T) S_(i-1) + b_i k_i v_i^T, out_i = q_i S_i / sqrt(d), with |q| = |k| = 1.

    The share b_i = sigmoid(W x_i) of what is stored under k_i is replaced by v_i.

    Args:
        negative: b in (0, 2), so that a transition can have negative eigenvalues (Grazzi et al. 2024,
            arXiv:2411.12537).
    Raises: as `Recurrence`.
    Source: Schlag et al. 2021, arXiv:2102.11174, eq. 24; Yang et al. 2024, arXiv:2406.06484, section 3.2 (WY form).
    Equal to `naive.delta_rule_recurrence` of fla with q and k normalised before; the weights of its layer load as
    q_proj, k_proj, v_proj -> projection, b_proj -> gates.maps.0, with `conv = 4` and `head_norm = "rms"`.

    >>> import torch
    >>> from headwise.attention.masks import Causal
    >>> x, delta = torch.ones(2, 3, 5, 8), DeltaRule()
    >>> delta(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 1)))[0, 0, :, 0].mul(1000).round().tolist()
    [177.0, 265.0, 309.0, 331.0, 343.0]
    """

    gate_width = 1

    def __init__(self, negative: bool = False):
        super().__init__()
        self.negative = negative

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        (write,) = gates_of(call, 1)
        read = per_head(unit(call.key), call.shape[1])
        query = unit(call.query) * max(1, call.query.shape[-1]) ** -0.5
        share = write.sigmoid() * (2.0 if self.negative else 1.0)
        return Terms(query, read * share, call.value, read=read), ()
