"""Attention whose heads exchange scores before the softmax and weights after it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.attention.call import Call, check, wide
from headwise.attention.dropout import Dropout
from headwise.attention.masks import Mask
from headwise.attention.mechanisms._masks import hidden, per_head
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.normalizers import softmax
from headwise.attention.relative import Relative
from headwise.attention.scores import ScaledDot
from headwise.errors import ShapeError


class TalkingHeads(Mechanism):
    """softmax((q k^T / sqrt(d)) P_l + bias under mask) P_w v, where P_l and P_w mix heads.

    Bias and relative terms are added to the mixed scores, where the mask is too. With a mask that differs by head, a
    pair forbidden to a head is nothing in that head: its score is 0 in the mixtures of the others, and so is the
    weight that the others give it there. Time n^2 (d + heads), memory n^2 heads: no score is spared.

    Args:
        num_heads: heads before, between and after the mixtures.
        dropout: probability of dropping a mixed weight while training.
    Raises:
        ShapeError: for other heads than it was built for.
    Source: Shazeer et al. 2020, arXiv:2003.02436, section 4, with as many heads at each place (h_k = h = h_v). The
    mixtures start as identities, which is softmax attention.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> TalkingHeads(3)(x, x, x).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = Facts(
        formula="softmax((q k^T / sqrt(d)) P_l) P_w v, P over heads",
        paper="Shazeer et al. 2020, arXiv:2003.02436",
        family="definition",
        time="n^2 (d + h) for h heads",
        memory="n^2",
        exact="P_l and P_w identities",
        causal=True,
        cross=True,
        recurrent=False,
        masks="any",
        bias=True,
        relative=True,
    )

    def __init__(self, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.before = nn.Parameter(torch.eye(num_heads))
        self.after = nn.Parameter(torch.eye(num_heads))
        self.dropout = Dropout(dropout)
        self.score = ScaledDot()

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "TalkingHeads":
        return cls(num_heads, dropout)

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
        # a query of NaN spoils its position in every head, but no gradient of others
        lost = ~query.isfinite().all(-1, keepdim=True).all(1, keepdim=True)
        query = query.masked_fill(lost, 0.0)
        call = Call(query, key, value, self.score, softmax, mask, bias, relative, query_start=query_start)
        with torch.autocast(query.device.type, enabled=False):
            used = self.dropout(self._weights(check(call)))
            values = wide(per_head(value, query.shape[1]))
            prepared = call.prepared()
            if prepared is not None:
                values = hidden(values, _seen(prepared.keep, key.shape[2]))
                lost = lost & prepared.keep.any(-1, keepdim=True)
            output = used @ values
            if relative is not None and relative.value_table is not None:
                output = output + relative.values(used, 0, query_start)
        return output.masked_fill(lost, float("nan")).to(value.dtype)

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
        """The mixed weights before dropout; a row need not sum to 1."""
        call = Call(query, key, key, self.score, softmax, mask, bias, relative, query_start=query_start)
        with torch.autocast(query.device.type, enabled=False):
            return self._weights(check(call))

    def _weights(self, call: Call) -> Tensor:
        heads = self.before.shape[0]
        if call.shape[1] != heads:
            raise ShapeError(f"talking_heads was built for {heads} heads, got {call.shape[1]}")
        prepared = call.prepared()
        keep = None if prepared is None else prepared.keep
        query, key = wide(call.query), wide(per_head(call.key, heads))
        if keep is None:
            scores = _mixed(self.score(query, key), self.before)
        else:
            scores = self.score(query, hidden(key, _seen(keep, key.shape[2])))
            scores = _mixed(scores.masked_fill(~keep, 0.0), self.before)
        if call.bias is not None:
            allowed = call.bias != float("-inf")
            keep = allowed if keep is None else keep & allowed
            scores = scores + call.bias.to(scores.dtype)
        if call.relative is not None and call.relative.has_bias():
            scores = scores + call.relative.bias(0, *call.shape[2:], call.query_start).to(scores.dtype)
        weights = _mixed(softmax(scores, keep), self.after)
        return weights if keep is None else weights.masked_fill(~keep, 0.0)

    def extra_repr(self) -> str:
        return f"num_heads={self.before.shape[0]}"


def _mixed(scores: Tensor, mixture: Tensor) -> Tensor:
    return torch.einsum("bhqk,hg->bgqk", scores, mixture.to(scores.dtype))


def _seen(
    keep: Bool[Tensor, "#batch #heads #query_len #key_len"], key_len: int
) -> Bool[Tensor, "#batch #heads 1 key_len"]:
    """Keys that some query may see."""
    return keep.any(2, keepdim=True).expand(-1, -1, -1, key_len)
