"""Gated linear attention: a memory of keys that each new key fades, feature by feature."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import wide
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._chunks import decayed_scan
from headwise.attention.mechanisms._linear_inputs import (
    check_width,
    decayed_sums,
    inputs,
    placed,
    require_causal,
    scaled,
)
from headwise.attention.mechanisms._masks import hidden, per_head
from headwise.attention.mechanisms.mechanism import Facts, Recurrent, State
from headwise.attention.relative import Relative
from headwise.errors import ConfigError


class GatedLinear(Recurrent):
    """Gated linear attention: S_i = diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i / sqrt(d).

    The gates are a_i = sigmoid(B A k_i + b)^(1 / temperature) in (0, 1), one for each width of the key. Written
    out: out_i = sum over j <= i of (sum_c q_ic k_jc prod_(j < m <= i) a_mc) v_j / sqrt(d). A hidden key neither adds
    nor fades. Causal by definition. Time is linear in length, in chunks; decoding keeps one d x d matrix a head.
    Weights are not normalised and may be negative: a norm of each head and an output gate, which are not linear in the
    value, belong to the layer. There are no weights to drop: a model's dropout does not act here. Sums are float32 or
    wider.

    Args:
        head_dim: width of a key.
        rank: width between A and B; 16 in the paper.
        temperature: above 0; larger values bring the gates nearer to 1, for a longer memory; 16 in the paper.
    Raises:
        ConfigError: a rank below 1, a temperature not above 0.
        ShapeError: keys of another width.
        Unsupported: any mask but `Causal()`, alone or with padding of keys; a bias; relative positions.
    Source: Yang et al. 2023, arXiv:2312.06635, eq. 3 (recurrent), 4 (parallel) and section 4.4 (gates). The paper gates
    by the input of the layer; a mechanism sees queries, keys and values, so here the key does, with A and B for all
    heads. Chunks are halved until pairs are single, where the paper has one second level of chunks.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> GatedLinear(8)(x, x, x, mask=Causal()).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="S_i = diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i / sqrt(d), a = sigmoid(B A k + b)^(1/16)",
        paper="Yang et al. 2023, arXiv:2312.06635",
        family="recurrence",
        time="n d^2",
        memory="n d + d^2",
        exact="another function",
        causal=True,
        cross=False,
        recurrent=True,
        masks="Causal(), alone or with padding of keys",
        bias=False,
        relative=False,
        bidirectional=False,
    )

    def __init__(self, head_dim: int, rank: int = 16, temperature: float = 16.0):
        super().__init__()
        if rank < 1 or temperature <= 0:
            raise ConfigError(f"rank ({rank}) must be at least 1 and temperature ({temperature}) above 0")
        self.down = nn.Linear(head_dim, rank, bias=False)
        self.up = nn.Linear(rank, head_dim)
        self.temperature = temperature

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "GatedLinear":
        return cls(head_dim)

    def forward(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
        finite: bool = False,
    ) -> Float[Tensor, "batch heads query_len value_dim"]:
        with torch.autocast(query.device.type, enabled=False):
            given = inputs(
                "gated_linear",
                self.facts.masks,
                query,
                key,
                value,
                mask=mask,
                bias=bias,
                relative=relative,
                query_start=query_start,
            )
            require_causal("gated_linear", given, mask)
            heads, end = query.shape[1], query_start + query.shape[2]
            gates = placed(per_head(hidden(self.log_gates(given.key), given.keys), heads), end)
            keys, values = per_head(given.key, heads), per_head(given.value, heads)
            output = decayed_sums(scaled(given.query), keys, values, gates, query_start)
        return output.to(value.dtype)

    def resume(
        self,
        query: Float[Tensor, "batch heads new query_dim"],
        key: Float[Tensor, "batch kv_heads new key_dim"],
        value: Float[Tensor, "batch kv_heads new value_dim"],
        state: State | None,
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is S, (batch, heads, dim, dim)."""
        with torch.autocast(query.device.type, enabled=False):
            heads = query.shape[1]
            gates = per_head(self.log_gates(wide(key)), heads)
            keys, values = per_head(wide(key), heads), per_head(wide(value), heads)
            size = (*keys.shape[:2], keys.shape[-1], values.shape[-1])
            sums = keys.new_zeros(size) if state is None else state[0]
            output, sums = decayed_scan(scaled(wide(query)), keys, values, gates, sums)
        return output.to(value.dtype), (sums,)

    def log_gates(self, key: Float[Tensor, "batch heads length dim"]) -> Float[Tensor, "batch heads length dim"]:
        """log a of each key, at most 0."""
        check_width("gated_linear", self.down.in_features, key.shape[-1])
        low = F.linear(key, self.down.weight.to(key.dtype))
        return F.logsigmoid(F.linear(low, self.up.weight.to(key.dtype), self.up.bias.to(key.dtype))) / self.temperature

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
