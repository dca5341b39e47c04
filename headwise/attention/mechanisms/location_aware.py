"""Location-aware attention: each query also sees where the one before it looked."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import normalizers
from headwise.attention.call import Call, per_head
from headwise.attention.dropout import drop
from headwise.attention.mechanisms.mechanism import Facts, Heads, Mechanism, Weights
from headwise.attention.normalizers import Keep, Normalizer, Scores, softmax
from headwise.attention.precision import uncast, wide
from headwise.attention.scores import Additive
from headwise.attention.scores.score import times
from headwise.attention.weights import select_weights
from headwise.attention.zeros import zeroed
from headwise.errors import ConfigError, ShapeError, Unsupported

Alignment = Float[Tensor, "batch heads key_len"]


class Smoothing(Normalizer):
    """sigmoid(s_j) / sum over allowed k of sigmoid(s_k), flatter than softmax (Chorowski et al. 2015, section 2.3).

    >>> Smoothing()(torch.zeros(1, 1, 1, 4), None).tolist()
    [[[[0.25, 0.25, 0.25, 0.25]]]]
    """

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        # a softmax of log sigmoid is the same and cannot divide 0 by 0
        return softmax(F.logsigmoid(scores), keep)


class LocationAware(Mechanism):
    """Location-aware attention: weights_i = normalizer(sharpening * e_i), e_ij = w . tanh(W q_i + V k_j + U f_ij + b).

    f_i = F * weights_(i-1), a convolution over the weights of the query before; those before the first query are 0.
    Queries run one after another, so time is that of a recurrent network: n x m x (hidden (channels + width)) for n
    queries and m keys, and training keeps n x m x hidden numbers a head. All heads share w, W, V, U, F and b. A query
    without keys has weights 0 and hands them on. Dropout acts on the weights that meet values, not on those handed on.

    A later call cannot know where the last one looked: decode with `resume`, which takes and returns that alignment.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden: width of the sum inside tanh.
        channels: filters in F; 10 in the paper.
        width: keys that a filter spans, odd; 201 in the paper, for frames of speech.
        sharpening: factor of the scores before the normalizer, above 0; the paper's beta.
        normalizer: scores to weights, a name or an object; `Smoothing()` for the paper's smooth focus.
        dropout: probability of dropping a weight while training.
    Raises:
        ConfigError: an even width, a factor not above 0.
        Unsupported: a bias, relative positions, queries that do not start at position 0 without an alignment, a
            program exported for any number of queries.
    Source: Chorowski et al. 2015, arXiv:1506.07503, eq. 8 and 9 and section 2.3. Its windowing is a mask here.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> LocationAware(8, 8, 16)(Call(x[:, :, :4], x, x)).shape
    torch.Size([2, 3, 4, 8])
    """

    facts = Facts(
        formula="softmax over j of w . tanh(W q_i + V k_j + U (F * weights_(i-1))_j + b), times v",
        family="recurrence",
        time="n^2 d, query after query",
        memory="n^2 d",
        honours="any",
        causal=True,
        cross=True,
    )

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        hidden: int,
        *,
        channels: int = 10,
        width: int = 31,
        sharpening: float = 1.0,
        normalizer: Normalizer | str | Callable[..., Any] = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        if width < 1 or width % 2 == 0:
            raise ConfigError(f"width ({width}) must be odd, so that a filter has a middle; try {abs(width) + 1}")
        if sharpening <= 0:
            raise ConfigError(f"sharpening ({sharpening}) must be above 0; 1 leaves the scores as they are")
        self.score = Additive(query_dim, key_dim, hidden)
        self.location = nn.Conv1d(1, channels, width, padding=width // 2, bias=False)
        self.combine = nn.Linear(channels, hidden)
        self.normalizer = normalizers.build(normalizer)
        self.sharpening, self.dropout = sharpening, dropout

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "LocationAware":
        return cls(head_dim, head_dim, head_dim, dropout=dropout)

    def require(self, call: Call) -> None:
        if call.query_start:
            raise Unsupported(
                f"LocationAware got a first query at position {call.query_start} and does not know where the one before"
                " looked; call resume with that alignment"
            )
        super().require(call)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        return self.resume(call, None)[0]

    def compute_weights(self, call: Call, heads: Heads, queries: slice, keys: slice) -> Weights:
        """The alignments themselves, before dropout."""
        weights = self._aligned(call, None)[0]
        return select_weights(weights, heads, queries, keys)

    def resume(
        self, call: Call, alignment: Float[Tensor, "batch heads known"] | None
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], Alignment]:
        """The output of new queries over all keys, and the weights of the last query.

        Args:
            alignment: the weights of the query before the first; zeros if None, and for keys that it does not cover.
        """
        call = call.zero_unseen()
        weights, last = self._aligned(call, alignment)
        with uncast(call.query):
            value = wide(per_head(call.value, call.shape[1]))
            used = drop(weights, self.dropout if self.training else 0.0)
            return (used @ value).to(call.value.dtype), last

    def _aligned(self, call: Call, alignment: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weights of all queries, one after another, and those of the last."""
        self.require_terms(call)
        _, heads, query_len, key_len = call.shape
        if isinstance(query_len, torch.SymInt):
            raise Unsupported("LocationAware runs query after query: export it for a fixed number of queries")
        self.score.check(call.query.shape[-1], call.key.shape[-1])
        query, keep = wide(call.query), call.keep()
        if keep is not None:
            # what a query without a key holds must not reach the gradient of the keys
            query = zeroed(query, keep.any(-1, keepdim=True))
            keep = keep.expand(*keep.shape[:2], query_len, key_len)
        with uncast(query):
            projected_queries = times(self.score.query, query)
            projected_keys = times(self.score.key, wide(per_head(call.key, heads)))
            previous = _before(alignment, projected_keys)
            # the weights of no query, which carry the graph if there is none
            rows = [projected_queries[:, :, :0] @ projected_keys.mT]
            for i in range(query_len):
                inside = (
                    projected_queries[:, :, i : i + 1] + projected_keys + times(self.combine, self._located(previous))
                )
                scores = self.score.of_sums(inside).unsqueeze(2) * self.sharpening
                rows.append(self.normalizer(scores, None if keep is None else keep[:, :, i : i + 1]))
                previous = rows[-1].squeeze(2)
            return torch.cat(rows, dim=2), previous

    def _located(self, weights: Tensor) -> Tensor:
        """f of each key, (batch, heads, key_len, channels)."""
        if not weights.shape[2]:
            # a convolution refuses to slide over no keys at all
            return weights.new_zeros(*weights.shape, self.location.out_channels)
        features = times(self.location, weights.flatten(0, 1).unsqueeze(1))
        return features.mT.unflatten(0, weights.shape[:2])


def _before(alignment: Tensor | None, projected_keys: Tensor) -> Tensor:
    """The alignment over all keys, zero for those that it does not cover."""
    if alignment is None:
        return projected_keys.new_zeros(projected_keys.shape[:3])
    if alignment.shape[:2] != projected_keys.shape[:2] or alignment.shape[2] > projected_keys.shape[2]:
        expected, actual = tuple(projected_keys.shape[:3]), tuple(alignment.shape)
        raise ShapeError(f"alignment {actual} does not fit (batch, heads, keys) = {expected}")
    return F.pad(alignment.to(projected_keys.dtype), (0, projected_keys.shape[2] - alignment.shape[2]))
