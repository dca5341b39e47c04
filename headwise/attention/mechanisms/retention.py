"""Retention: linear attention whose memory of a key fades at a fixed rate per head."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import wide
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._chunks import decayed_scan
from headwise.attention.mechanisms._linear_inputs import decayed_sums, inputs, require_causal, scaled
from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms.mechanism import Facts, Recurrent, State
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, ShapeError


class Retention(Recurrent):
    """Retention: out_i = sum over j <= i of decay^(i - j) (q_i . k_j / sqrt(d)) v_j, with a decay for each head.

    Time is linear in length, in chunks; decoding keeps one d x d matrix a head. The distance i - j counts positions,
    those of hidden keys included. Causal by definition. Weights are not normalised and may be negative, so a layer
    wants a group norm of each head behind it; the norm and the swish gate of the paper are not linear in the value and
    belong to the layer, its rotation to a rotary position. There are no weights to drop: a model's dropout does not act
    here. Sums are float32 or wider.

    Args:
        decay: for each head, above 0 and at most 1; fixed.
    Raises:
        ConfigError: a decay outside this range.
        ShapeError: another number of heads.
        Unsupported: any mask but `Causal()`, alone or with padding of keys; a bias; relative positions.
    Source: Sun et al. 2023, arXiv:2307.08621, eq. 5 (parallel), 6 (recurrent), 7 (chunks) and 8 (decays).

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Retention.sized(head_dim=8, num_heads=3, max_len=5, dropout=0.0)(x, x, x, mask=Causal()).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="sum over j <= i of decay^(i - j) (q . k_j / sqrt(d)) v_j",
        paper="Sun et al. 2023, arXiv:2307.08621",
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

    log_decay: Float[Tensor, "heads"]

    def __init__(self, decay: Float[Tensor, "heads"]):
        super().__init__()
        if not bool(((decay > 0) & (decay <= 1)).all()):
            raise ConfigError(f"decay must be above 0 and at most 1 for each head, got {decay.tolist()}")
        self.register_buffer("log_decay", decay.log())

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Retention":
        """The decays of the paper: 1 - 2^(-5 - h) for head h."""
        return cls(1.0 - 2.0 ** (-5.0 - torch.arange(num_heads)))

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
                "retention",
                self.facts.masks,
                query,
                key,
                value,
                mask=mask,
                bias=bias,
                relative=relative,
                query_start=query_start,
            )
            require_causal("retention", given, mask)
            heads, end = query.shape[1], query_start + query.shape[2]
            key, kept = per_head(given.key, heads), per_head(given.value, heads)
            output = decayed_sums(scaled(given.query), key, kept, self._decays(given.query, end), query_start)
        return output.to(value.dtype)

    def resume(
        self,
        query: Float[Tensor, "batch heads new query_dim"],
        key: Float[Tensor, "batch kv_heads new key_dim"],
        value: Float[Tensor, "batch kv_heads new value_dim"],
        state: State | None,
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is the decayed sum of k_j v_j^T, (batch, heads, dim, dim)."""
        with torch.autocast(query.device.type, enabled=False):
            batch, heads, new, _ = query.shape
            keys, values = per_head(wide(key), heads), per_head(wide(value), heads)
            sums = keys.new_zeros(batch, heads, key.shape[-1], value.shape[-1]) if state is None else state[0]
            decays = self._decays(keys, new)
            output, sums = decayed_scan(scaled(wide(query)), keys, values, decays, sums)
        return output.to(value.dtype), (sums,)

    def extra_repr(self) -> str:
        return f"heads={self.log_decay.shape[0]}"

    def _decays(self, like: Tensor, length: int) -> Tensor:
        heads = self.log_decay.shape[0]
        if heads != like.shape[1]:
            raise ShapeError(f"retention was built with decays for {heads} heads, got {like.shape[1]}")
        return self.log_decay.to(like.dtype).view(1, -1, 1, 1).expand(1, -1, length, 1)
