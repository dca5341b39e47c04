"""Gated linear attention: a memory of keys that each new key fades, feature by feature."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._recurrence import FADING, Call, Keys, Recurrence, State, Terms
from headwise.attention.scores.score import times
from headwise.errors import ConfigError


class GatedLinear(Recurrence):
    """Gated linear attention: S_i = diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i / sqrt(d).

    The gates are a_i = sigmoid(B A k_i + b)^(1 / temperature) in (0, 1), one for each width of the key. Written
    out: out_i = sum over j <= i of (sum_c q_ic k_jc prod_(j < m <= i) a_mc) v_j / sqrt(d). A norm of each head and an
    output gate, which are not linear in the value, belong to the layer.

    Args:
        head_dim: width of a key.
        rank: width between A and B; 16 in the paper.
        temperature: above 0; larger values bring the gates nearer to 1, for a longer memory; 16 in the paper.
    Raises: ConfigError: a rank below 1, a temperature not above 0; else as `Recurrence`.
    Source: Yang et al. 2023, arXiv:2312.06635, eq. 3 (recurrent), 4 (parallel) and section 4.4 (gates). The paper gates
    by the input of the layer; a mechanism sees queries, keys and values, so here the key does, with A and B for all
    heads. Chunks are halved down to single tokens, where the paper has one second level of chunks.

    >>> import torch
    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> GatedLinear(8)(Call(x, x, x, mask=Causal())).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        FADING, formula="S_i = diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i / sqrt(d), a = sigmoid(B A k + b)^(1/16)"
    )

    def __init__(self, head_dim: int, rank: int = 16, temperature: float = 16.0):
        super().__init__()
        if rank < 1 or temperature <= 0:
            raise ConfigError(f"rank ({rank}) must be at least 1 and temperature ({temperature}) above 0")
        self.head_dim = head_dim
        self.down = nn.Linear(head_dim, rank, bias=False)
        self.up = nn.Linear(rank, head_dim)
        self.temperature = temperature

    def log_gates(self, key: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length dim"]:
        """log a of each key, at most 0."""
        return F.logsigmoid(times(self.up, times(self.down, key))) / self.temperature

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        query = call.query * max(1, call.query.shape[-1]) ** -0.5
        return Terms(query, call.key, call.value, self.log_gates(call.key)), ()
