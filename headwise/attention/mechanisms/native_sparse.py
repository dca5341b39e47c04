"""Native sparse attention: a summary of each block, the blocks that suit a query best, and a window, by three gates."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention import planner
from headwise.attention.call import Call, per_head
from headwise.attention.dropout import drop
from headwise.attention.kernels import plain
from headwise.attention.masks import Table, Window
from headwise.attention.mechanisms import _blocks
from headwise.attention.mechanisms._blocks import CHOOSING, Chosen, best, blocked, places, shown_keys
from headwise.attention.mechanisms._gates import gates_of
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import PAIRS, Stage, Working
from headwise.errors import ConfigError

_RULE = r"C_{ib} = [b \in \operatorname{top}(\textstyle\sum_h P_{hib})]"


class NativeSparse(Mechanism):
    """g_1 softmax(q k'^T) v' + g_2 softmax(q k^T) v over chosen blocks + g_3 that over a window, g = sigmoid(W x).

    Blocks are `block` tokens; k'_b = sum_t a_t (k_t + e_t) and v'_b = sum_t c_t v_t sum up a block that ends before the
    query, or with it, with learned a, c and e. Their weights P, summed over the heads of a group, choose `top` blocks:
    the first, the query's own, and the best between. Keys that the mask hides from all queries are in no summary. The
    choice is a step, so no gradient goes through it. Of a long sequence the chosen blocks and the window alone are
    computed, see `attend_blocks`.

    Args:
        head_dim: width of a key.
        block: tokens of a block; 32 in the paper's summaries (which overlap), 64 in its choice.
        top: blocks that a query sees whole, 2 or more; 16 in the paper.
        window: keys of the window, the query's own included; 512 in the paper.
        dropout: probability of dropping a weight of each of the three while training.
    Raises:
        ConfigError: a block or window below 1, `top` below 2.
        ShapeError: keys of another width than it was built for.
    Source: Yuan et al. 2025, arXiv:2502.11089. The paper sums up a block by a network with positions
        inside it; here, as the output is linear in values, by learned numbers that start as the mean, as fla does. One
        key and value serve all three (the paper has three of each). The two blocks behind the own one are not forced.

    >>> x = torch.ones(2, 3, 5, 8)
    >>> from headwise.attention.masks import Causal
    >>> NativeSparse(8, block=2)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 3))).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(
        CHOOSING,
        time="n (top block + window) d + n^2 d / block",
        memory="n (top block + window) + n^2 / block",
        bias=False,
        relative=False,
        # the heads of a group choose together
        apart=False,
    )
    gate_width = 3

    def __init__(self, head_dim: int, block: int = 32, top: int = 16, window: int = 512, dropout: float = 0.0):
        super().__init__()
        if min(block, window) < 1 or top < 2:
            raise ConfigError(f"native_sparse: block ({block}) and window ({window}) must be 1 or more, top ({top}) 2")
        self.head_dim, self.block, self.top, self.window, self.dropout = head_dim, block, top, window, dropout
        # of keys, and of values
        self.pooling = nn.Parameter(torch.full((2, block), 1 / block))
        self.inside = nn.Parameter(torch.zeros(block, head_dim))

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "NativeSparse":
        """32 blocks and a window of an eighth of the sequence, the sizes of the paper at most."""
        return cls(head_dim, max(1, min(32, max_len // 32)), 16, max(1, min(512, max_len // 8)), dropout)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        dropout, gates = self.dropout if self.training else 0.0, self.branch_gates(call).unsqueeze(-1).unbind(3)
        with uncast(call.query):
            weights, chosen = self.summaries(call)
            sums = drop(weights, dropout) @ per_head(self._summed(call.value, 1), call.shape[1])
        bare = replace(call, gates=None, dropout=dropout)
        window = Window(self.window - 1, 0)
        near = replace(bare, mask=window if call.mask is None else call.mask & window)
        whole = _blocks.attend_blocks(bare, chosen, self.block, self.top, dropout)
        read = [sums, whole.to(sums.dtype), planner.run(near).to(sums.dtype)]
        return torch.stack([gate * rows for gate, rows in zip(gates, read, strict=True)]).sum(0).to(call.value.dtype)

    def branch_gates(self, call: Call) -> Float[Tensor, "batch heads query_len 3"]:
        """g of each query; one half where no token stands behind its position."""
        (gates,) = gates_of(call, 3)
        up_to = places(call).squeeze(-1).clamp(max=call.shape[3])
        return wide(F.pad(gates, (0, 0, 0, 1)).index_select(2, up_to)).sigmoid()

    def summaries(self, call: Call) -> tuple[Float[Tensor, "batch heads query_len blocks"], Chosen]:
        """The weights of the blocks' summaries, and the blocks that each query sees whole."""
        shown = shown_keys(call)
        inside = self.inside.to(shown.dtype).repeat(-(-call.shape[3] // self.block), 1)[: call.shape[3]]
        # 1 for keys that some head of their group sees
        of_groups = shown if shown.shape[1] == 1 else shown.unflatten(1, (-1, call.group)).amax(2)
        keys = self._summed(wide(call.key) + of_groups * inside, 0)
        number, place = torch.arange(keys.shape[2], device=keys.device), places(call)
        there = blocked(shown, self.block).amax(3).mT > 0
        ended = ((number + 1) * self.block - 1 <= place) & there
        pooled = Call(wide(call.query), keys, keys, mask=Table(ended))
        weights = plain.weights(pooled)
        shared = weights.detach().unflatten(1, (-1, call.group)).sum(2).repeat_interleave(call.group, 1)
        own = number == place // self.block
        between = (number > 0) & (number < place // self.block) & there
        return weights, best(shared, between, self.top - 2) | own | (number == 0)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The weights of summaries, the chosen blocks, the gates, and what all three make of each value."""
        with uncast(call.query):
            weights, chosen = self.summaries(call)
        working, text = Working("formula", ("query", "key")), "what the summary of each earlier block counts"
        formula = r"P = \operatorname{softmax}(Q K'^\top / \sqrt{d})"
        first = Stage("block weights", "P", formula, ("queries", "blocks"), weights, text, working)
        text, axes = "how much of summaries, chosen blocks and window each query takes", ("queries", "branches")
        of = Working("formula", ("query",))
        gates = Stage("branch gates", "g", r"g = \sigma(W x)", axes, self.branch_gates(call), text, of)
        text = "what each value counts for each query, by all three"
        last = Stage("weights", "A", r"A = g_1 A_1 + g_2 A_2 + g_3 A_3", PAIRS, self.weights(call), text, working)
        return [first, _blocks.choice_stage(chosen, call, self.block, _RULE), gates, last]

    def _summed(self, x: Tensor, which: int) -> Float[Tensor, "batch kv_heads blocks dim"]:
        blocks = blocked(wide(x), self.block)
        return (blocks * self.pooling[which].to(blocks.dtype).unsqueeze(-1)).sum(3)
