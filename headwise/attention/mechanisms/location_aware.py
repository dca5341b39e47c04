"""Location-aware attention: each query also sees where the one before it looked."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call, check, wide
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._masks import per_head
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import Keep, Normalizer, Scores, softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import Additive
from headwise.errors import ConfigError, ShapeError, Unsupported

Alignment = Float[Tensor, "batch heads key_len"]


@dataclass(frozen=True)
class Smoothing(Normalizer):
    """sigmoid(s_j) / sum over allowed k of sigmoid(s_k), flatter than softmax (Chorowski et al. 2015, section 2.3).

    >>> Smoothing()(torch.zeros(1, 1, 1, 4), None).tolist()
    [[[[0.25, 0.25, 0.25, 0.25]]]]
    """

    def __call__(self, scores: Scores, keep: Keep | None) -> Scores:
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
        normalizer: scores to weights; `Smoothing()` for the paper's smooth focus.
        dropout: probability of dropping a weight while training.
    Raises:
        ConfigError: an even width, a factor not above 0.
        Unsupported: a bias, relative positions, queries that do not start at position 0 without an alignment.
    Source: Chorowski et al. 2015, arXiv:1506.07503, eq. 8 and 9 and section 2.3. Its windowing is a mask here.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> LocationAware(8, 8, 16)(x[:, :, :4], x, x).shape
    torch.Size([2, 3, 4, 8])
    """

    facts = Facts(
        formula="softmax over j of w . tanh(W q_i + V k_j + U (F * weights_(i-1))_j + b), times v",
        paper="Chorowski et al. 2015, arXiv:1506.07503",
        family="recurrence",
        time="n^2 d, query after query",
        memory="n^2 d",
        exact="another function",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=False,
        relative=False,
        steps="none",
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
        normalizer: Normalizer = softmax,
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
        self.sharpening, self.normalizer, self.dropout = sharpening, normalizer, dropout

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "LocationAware":
        return cls(head_dim, head_dim, head_dim, dropout=dropout)

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
        _refuse(bias, relative, query_start)
        return self.resume(query, key, value, None, mask=mask)[0]

    def effective_weights(
        self,
        query: Float[Tensor, "batch heads query_len query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads #query_len key_len"] | None = None,
        relative: Relative | None = None,
        query_start: int = 0,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The alignments themselves, before dropout."""
        _refuse(bias, relative, query_start)
        with torch.autocast(query.device.type, enabled=False):
            keep = self._keep(query, key, key, mask, 0)
            key = _seen(key, query.shape[1], keep)
            return self._weights(wide(query), key, keep, self._before(None, key))

    def resume(
        self,
        query: Float[Tensor, "batch heads new query_dim"],
        key: Float[Tensor, "batch kv_heads key_len key_dim"],
        value: Float[Tensor, "batch kv_heads key_len value_dim"],
        alignment: Float[Tensor, "batch heads known"] | None,
        *,
        mask: Mask | None = None,
        query_start: int = 0,
    ) -> tuple[Float[Tensor, "batch heads new value_dim"], Alignment]:
        """The output of new queries over all keys, and the weights of the last query.

        Args:
            alignment: the weights of the query before the first; zeros if None, and for keys that it does not cover.
        """
        with torch.autocast(query.device.type, enabled=False):
            keep = self._keep(query, key, value, mask, query_start)
            key, values = (_seen(source, query.shape[1], keep) for source in (key, value))
            previous = self._before(alignment, key)
            weights = self._weights(wide(query), key, keep, previous)
            used = F.dropout(weights, self.dropout, self.training)
            last = weights[:, :, -1] if weights.shape[2] else previous
            return (used @ values).to(value.dtype), last

    def extra_repr(self) -> str:
        return f"sharpening={self.sharpening}, normalizer={self.normalizer.name}, dropout={self.dropout}"

    def _keep(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, start: int
    ) -> Bool[Tensor, "#batch #heads new key_len"] | None:
        call = check(Call(query, key, value, self.score, mask=mask, query_start=start))
        prepared = call.prepared()
        if prepared is None:
            return None
        return prepared.keep.expand(*prepared.keep.shape[:2], query.shape[2], key.shape[2])

    def _before(self, alignment: Tensor | None, key: Tensor) -> Tensor:
        known = key.new_zeros(*key.shape[:2], 0) if alignment is None else alignment.to(key.dtype)
        if known.shape[:2] != key.shape[:2] or known.shape[2] > key.shape[2]:
            raise ShapeError(
                f"alignment {tuple(known.shape)} does not fit (batch, heads, keys) = {tuple(key.shape[:3])}"
            )
        return F.pad(known, (0, key.shape[2] - known.shape[2]))

    def _weights(self, query: Tensor, key: Tensor, keep: Tensor | None, previous: Tensor) -> Tensor:
        asked, told = _linear(self.score.query, query), _linear(self.score.key, key)
        # the weights of no query; they carry the graph if there is none
        rows = [asked[:, :, :0] @ told.mT]
        for i in range(query.shape[2]):
            located = _linear(self.combine, self._located(previous))
            scores = _linear(self.score.value, torch.tanh(asked[:, :, i : i + 1] + told + located)).mT
            row = self.normalizer(scores * self.sharpening, None if keep is None else keep[:, :, i : i + 1])
            rows.append(row)
            previous = row.squeeze(2)
        return torch.cat(rows, dim=2)

    def _located(self, weights: Tensor) -> Tensor:
        """f of each key, (batch, heads, key_len, channels)."""
        filters = self.location.weight.to(weights.dtype)
        if not weights.shape[2]:
            # a convolution refuses to slide over no keys at all
            return weights.new_zeros(*weights.shape, filters.shape[0])
        found = F.conv1d(weights.flatten(0, 1).unsqueeze(1), filters, padding=self.location.padding[0])
        return found.mT.unflatten(0, weights.shape[:2])


def _refuse(bias: Tensor | None, relative: Relative | None, query_start: int) -> None:
    if bias is not None or relative is not None:
        given = "a bias" if bias is not None else "relative positions"
        raise Unsupported(
            f"location_aware cannot honour {given}; use a position that is added to the input, or mechanism 'scored'"
        )
    if query_start:
        raise Unsupported(
            f"location_aware got a first query at position {query_start} and does not know where the one before"
            " looked; call resume with that alignment"
        )


def _seen(source: Tensor, heads: int, keep: Tensor | None) -> Tensor:
    """Keys or values for each head, zeros in place of those that no query may see."""
    tensor = per_head(wide(source), heads)
    return tensor if keep is None else tensor.masked_fill(~keep.any(2).unsqueeze(-1), 0.0)


def _linear(linear: nn.Linear, x: Tensor) -> Tensor:
    # the inputs are wider than the parameters of a half-precision model
    return F.linear(x, linear.weight.to(x.dtype), None if linear.bias is None else linear.bias.to(x.dtype))
