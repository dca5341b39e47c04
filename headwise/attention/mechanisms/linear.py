"""Linear attention: a product of features in place of exp(q . k), summed once over the keys."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.call import wide
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._chunks import scan
from headwise.attention.mechanisms._linear_features import Elu, FeatureMap, Hedgehog, Rectified
from headwise.attention.mechanisms._linear_inputs import divided, inputs, kernelised, with_count
from headwise.attention.mechanisms.mechanism import Facts, Recurrent, State
from headwise.attention.relative import Relative

__all__ = ["Elu", "FeatureMap", "Hedgehog", "Linear", "Rectified"]


class Linear(Recurrent):
    """Linear attention: out_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j).

    Time is linear in length: the sums over keys are matrices of features x head_dim, taken once for all queries, or
    chunk by chunk under a causal mask. There are no weights to drop, so a model's dropout does not act here. Sums are
    float32 or wider.

    Args:
        features: phi, applied to queries and keys; elu(x) + 1 if None.
    Raises:
        Unsupported: any mask but `Causal()`, padding of keys, or both; a bias; relative positions.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236, eq. 5, 9 (causal) and 18 to 20 (recurrent). The causal form
    works in chunks, where the paper's keeps a sum for each position.

    >>> import torch
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Linear()(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="sum_j (phi(q) . phi(k_j)) v_j / sum_j phi(q) . phi(k_j), phi(x) = elu(x) + 1",
        paper="Katharopoulos et al. 2020, arXiv:2006.16236",
        family="kernel",
        time="n d^2",
        memory="n d + d^2",
        exact="another function",
        causal=True,
        cross=True,
        recurrent=True,
        masks="Causal(), padding of keys, and both together",
        bias=False,
        relative=False,
    )

    def __init__(self, features: FeatureMap | None = None):
        super().__init__()
        self.features = Elu() if features is None else features

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Linear":
        return cls()

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
                "linear",
                self.facts.masks,
                query,
                key,
                value,
                mask=mask,
                bias=bias,
                relative=relative,
                query_start=query_start,
            )
            output = kernelised(self.features(given.query), self.features(given.key), given, query_start)
        return output.to(value.dtype)

    def resume(
        self,
        query: Float[Tensor, "batch heads new query_dim"],
        key: Float[Tensor, "batch kv_heads new key_dim"],
        value: Float[Tensor, "batch kv_heads new value_dim"],
        state: State | None,
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is sum_j phi(k_j) [v_j, 1]^T, (batch, kv_heads, features, dim + 1)."""
        with torch.autocast(query.device.type, enabled=False):
            key_features, counted = self.features(wide(key)), with_count(wide(value))
            size = (*key.shape[:2], key_features.shape[-1], counted.shape[-1])
            sums = counted.new_zeros(size) if state is None else state[0]
            output, sums = scan(self.features(wide(query)), key_features, counted, sums)
            return divided(output).to(value.dtype), (sums,)
