"""Retention: linear attention whose memory of a key fades at a fixed rate per head."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.mechanisms._recurrence import Call, Keys, Recurrence, State, Terms, per_head
from headwise.attention.precision import wide
from headwise.attention.stages import PAIRS, Stage, Working
from headwise.errors import ConfigError


class Retention(Recurrence):
    """Retention: out_i = sum over j <= i of decay^(i - j) (q_i . k_j / sqrt(d)) v_j, with a decay for each head.

    The distance i - j counts positions, those of hidden keys included. Weights are not normalised, so a layer wants a
    group norm of each head behind it; the norm and the swish gate of the paper are not linear in the value and belong
    to the layer, its rotation to a rotary position.

    Args:
        decay: for each head, above 0 and at most 1; fixed.
    Raises: ConfigError: a decay outside this range; else as `Recurrence`.
    Source: Sun et al. 2023, arXiv:2307.08621, eq. 5 (parallel), 6 (recurrent), 7 (chunks) and 8 (decays).

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> Retention(torch.tensor([0.5, 0.9, 1.0]))(Call(x, x, x, mask=Causal())).shape
    torch.Size([2, 3, 5, 8])
    """

    hidden_fade = True

    fade: Float[Tensor, "heads"]

    def __init__(self, decay: Float[Tensor, "heads"]):
        super().__init__()
        if not decay.is_meta and not bool(((decay > 0) & (decay <= 1)).all()):
            raise ConfigError(f"decay must be above 0 and at most 1 for each head, got {decay.tolist()}")
        self.num_heads = len(decay)
        # 1 - decay: those of the paper are powers of 2, which no type of the module rounds
        self.register_buffer("fade", 1.0 - decay)

    @classmethod
    def sized(cls, *, head_dim: int, num_heads: int, max_len: int, dropout: float) -> "Retention":
        """The decays of the paper: 1 - 2^(-5 - h) for head h."""
        return cls(1.0 - 2.0 ** (-5.0 - torch.arange(num_heads)))

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        batch, _, _, width = call.query.shape
        log_decay = self.log_decay(call.query.dtype).expand(batch, -1, call.key.shape[2], -1)
        return Terms(call.query * max(1, width) ** -0.5, call.key, call.value, log_decay), ()

    def log_decay(self, dtype: torch.dtype) -> Float[Tensor, "1 heads 1 1"]:
        """log decay of each head."""
        # a decay that rounds to 0 has no logarithm
        return torch.log1p(-self.fade.to(dtype)).clamp(min=-88.0).view(1, -1, 1, 1)

    def compute_stages(self, call: Call) -> list[Stage]:
        """Products, their scale, and the decay of each pair, which is 0 for keys behind the query."""
        query, key = wide(call.query), wide(per_head(call.key, call.query.shape[1]))
        products, width = query @ key.mT, query.shape[-1]
        queries = torch.arange(call.query_start, call.query_start + query.shape[2], device=query.device)
        distance = queries[:, None] - torch.arange(key.shape[2], device=query.device)
        decay = (self.log_decay(query.dtype) * distance.clamp(min=0)).exp() * (distance >= 0)
        text, root = "each query times each key", max(1, width) ** 0.5
        stages = [Stage("products", "P", r"P = Q K^\top", PAIRS, products, text, Working("dot", ("query", "key")))]
        text = f"divided by the square root of their width, {width}"
        working = Working("quotient", ("products",), {"divisor": root})
        stages.append(Stage("scaled", "S", rf"S = P / \sqrt{{{width}}}", PAIRS, products / root, text, working))
        text = "how much of a key is left: less with each position, nothing of later ones"
        formula = r"D_{ij} = \gamma^{i - j} \text{ if } j \leq i, \text{ else } 0"
        stages.append(Stage("decay", "D", formula, PAIRS, decay, text))
        text = "what each value counts; not normalised, and below zero where the score is"
        working = Working("product", ("scaled", "decay"))
        return [*stages, Stage("weights", "A", r"A = S \odot D", PAIRS, self.weights(call), text, working)]
