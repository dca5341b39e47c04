"""Stick-breaking attention: each key takes its share of what the keys after it left over."""

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import FORWARD, Rule, Written
from headwise.attention.normalizers import Keep, Scores


class StickBreaking(Written):
    """sigmoid(z_ij) prod over j < l < i of (1 - sigmoid(z_il)) v_j, z = q k^T / sqrt(d), for keys j < i.

    The nearest key breaks its share off a stick of length 1, the next one of what is left: recent keys come first,
    which is a position scheme of its own, and rows sum to 1 at most. A query does not see its own key; the first row is
    zero. Keys that the mask hides break nothing off. Logarithms of shares are summed in float32 or wider.

    Args:
        dropout: probability of dropping a weight while training.
    Source: Tan et al. 2024, arXiv:2410.17980, eq. 4 and 5; fla's `naive_stickbreaking_attn` is the same.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> from headwise.attention.masks import Causal
    >>> StickBreaking()(Call(x, x, x, mask=Causal())).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = FORWARD

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        # of the keys before each query
        keep, (_, _, query_len, key_len) = call.keep(), call.shape
        query = torch.arange(call.query_start, call.query_start + query_len, device=call.query.device)[:, None]
        earlier = torch.arange(key_len, device=call.query.device) < query
        return earlier[None, None] if keep is None else keep & earlier, None, broken


def broken(scores: Scores, keep: Keep | None) -> Scores:
    """The weights of scores whose last allowed key breaks the stick first.

    >>> broken(torch.zeros(1, 1, 1, 3), None).tolist()
    [[[[0.125, 0.25, 0.5]]]]
    """
    shares, rests = F.logsigmoid(scores), F.logsigmoid(-scores)
    if keep is not None:
        rests = rests.masked_fill(~keep, 0.0)
    # of the keys behind each one, not a difference, which would lose small sums beside a large one
    left = F.pad(rests.flip(-1).cumsum(-1), (1, 0))[..., :-1].flip(-1)
    weights = (shares + left).exp()
    return weights if keep is None else weights.masked_fill(~keep, 0.0)
