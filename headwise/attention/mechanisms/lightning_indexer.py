"""DeepSeek sparse attention: a light indexer chooses the keys of each query, and learns from the attention itself."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import Call
from headwise.attention.mechanisms._blocks import CHOOSING, Choosing, Chosen, best, places, shown_keys
from headwise.attention.mechanisms._gates import HeadGates, gates_of
from headwise.attention.precision import uncast, wide
from headwise.attention.weights import weights as exact_weights
from headwise.errors import ConfigError


class LightningIndexer(Choosing):
    """softmax(q k^T / sqrt(d)) v over the `top` keys of highest I_ij = sum_h w_ih relu(a_ih . b_j) / sqrt(h width).

    a and w of each head h, as many as those of attention, and b of all heads are linear in the layer's input, and all
    heads see the same keys. No gradient goes through the choice and none from the indexer to the input: its maps learn
    from a loss of their own, KL(mean weights of the heads || softmax(I) over the chosen keys), summed over queries,
    whose gradient is added where the output's passes, unscaled. The exact reference, in the time of all pairs: no key
    is skipped. A cache keeps a, w and b of each token. A token's own key counts as any other. Mapped by `torch.vmap`
    the indexer learns nothing.

    Args:
        top: keys that a query sees; 2048 in DeepSeek-V3.2.
        width: of a and b; b is the mean of what the heads hold of it.
        dropout: probability of dropping a weight while training.
    Raises: ConfigError: `top` or `width` below 1.
    Source: DeepSeek-AI 2025, DeepSeek-V3.2-Exp, eq. 1, 2. There a and b are 128 wide, with 64 heads, a is made of the
        narrow queries of MLA, and some columns are turned by rotary positions; here nothing is turned. Its warm-up,
        where the indexer learns from dense attention, is `top` as large as the length.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> from headwise.attention.masks import Causal
    >>> LightningIndexer(2, width=4)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 9))).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        CHOOSING,
        formula="softmax(q k^T / sqrt(d)) v over the top keys by sum_h w_h relu(a_h . b_j)",
        paper="DeepSeek-AI 2025, DeepSeek-V3.2-Exp",
        exact="as many keys chosen as there are",
        apart=False,
    )
    block = 1
    rule = r"C_{ij} = [j \in \operatorname{top}(\textstyle\sum_h w_{ih} \operatorname{relu}(a_{ih} \cdot b_j))]"
    teaches = True

    def __init__(self, top: int = 64, width: int = 8, dropout: float = 0.0):
        super().__init__()
        if min(top, width) < 1:
            raise ConfigError(f"lightning_indexer: top ({top}) and width ({width}) must be 1 or more")
        self.top, self.width, self.dropout = top, width, dropout

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module:
        return Detached(HeadGates(d_model, num_heads, direct=2 * self.width + 1))

    def index(self, call: Call) -> Float[Tensor, "batch 1 query_len key_len"]:
        """I: how much each query wants each key."""
        a, w, b = (wide(part) for part in gates_of(call, self.width, 1, self.width))
        place = places(call).squeeze(-1).clamp(max=max(0, call.shape[3] - 1))
        if call.shape[3]:
            a, w = a.index_select(2, place), w.index_select(2, place)
        products = (a @ b.mean(1, keepdim=True).mT).relu() * w if call.shape[3] else a.new_zeros(call.shape)
        return products.sum(1, keepdim=True) * (call.shape[1] * self.width) ** -0.5

    @torch.no_grad()
    def chosen(self, call: Call) -> Chosen:
        with uncast(call.query):
            scores, shown = self.index(call), shown_keys(call).amax(1, keepdim=True).mT > 0
            number = torch.arange(call.shape[3], device=scores.device)
            return best(scores, (number <= places(call)) & shown, self.top).expand(-1, call.shape[1], -1, -1)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        output = super().compute(call)
        if not (torch.is_grad_enabled() and call.gates is not None and call.gates.requires_grad):
            return output
        with uncast(call.query):
            with torch.no_grad():
                other = self.as_scored(call, 0.0)
                target = wide(exact_weights(other, None, slice(None), slice(None))).mean(1, keepdim=True)
            scores = self.index(call).masked_fill(target == 0, float("-inf"))
            logs = scores.masked_fill((target > 0).sum(-1, keepdim=True) == 0, 0.0).log_softmax(-1)
            loss = -(target * logs.masked_fill(target == 0, 0.0)).sum()
        taught: Tensor = _Taught.apply(output, loss)
        return taught


class Detached(nn.Module):
    """A map of the layer's input that sends no gradient to it."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch heads length gates"]:
        gates: Tensor = self.module(x.detach())
        return gates


class _Taught(torch.autograd.Function):
    """The first tensor as it is; the second, a loss, gets a gradient of 1 where the first gets any."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, loss: Tensor) -> Tensor:
        ctx.like = (loss.dtype, loss.device)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        dtype, device = ctx.like
        return gradients[0], torch.ones((), dtype=dtype, device=device)
