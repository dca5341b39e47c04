"""Log-linear attention: a recurrence that keeps a state for each of log n blocks of its past, and weighs them apart."""

import math
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.mechanisms._gates import by_head, gates_of
from headwise.attention.mechanisms._masks import check_length
from headwise.attention.mechanisms._recurrence import FADING, Call, Keys, Output, Recurrence, Run, State, Terms
from headwise.attention.mechanisms._scan import level_of, scan, step, tree
from headwise.attention.mechanisms.gated_delta import GatedDelta
from headwise.attention.mechanisms.mamba2 import Mamba2
from headwise.attention.stages import Stage, Working
from headwise.errors import ConfigError

_BASES = {"mamba2": (Mamba2, 1), "gated_delta": (GatedDelta, 2)}


# the largest weight of a level: products with larger ones would overflow in float32
_LARGEST = 100.0


class LogLinear(Recurrence):
    """Log-linear: out_i = sum_l c_il q_i S_i^(l), S^(l) of k_j v_j^T of block l, c = softplus(w_l x_i + shift_l).

    S^(l) is the state of a recurrence over a block of 2^(l - 1) tokens, the blocks of the binary digits of i from the
    past to the present; S^(0) that of token i alone. With c = 1 it is its base. The weight of a pair is that of the
    base times c of its level. Time is n d^2 log n in chunks; decoding keeps a matrix for each level. Blocks
    count positions, those of hidden keys too. Weights of levels beyond 100 count as 100. A traced
    program is quadratic.

    Args:
        num_heads: heads.
        max_len: the most tokens: 1 + the binary digits of max_len - 1 levels.
        base: "mamba2", whose state fades, or "gated_delta", in which a key's new value replaces the old one too.
    Raises: ConfigError: max_len below 1, another base; ShapeError: more tokens; else as `Recurrence`.
    Source: Guo et al. 2025, arXiv:2506.04761. `naive_log_linear_attn` of fla takes log decays and c. Here c
        starts as 1 but for w x.

    >>> from headwise.attention.masks import Causal
    >>> x = torch.ones(2, 3, 5, 8)
    >>> LogLinear(3, 8)(Call(x, x, x, mask=Causal(), gates=torch.zeros(2, 3, 5, 5))).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(FADING, time="n d^2 log n", memory="n d + d^2 log n")
    fla_refusal = "its states are a tree"

    def __init__(self, num_heads: int, max_len: int, base: Literal["mamba2", "gated_delta"] = "mamba2"):
        super().__init__()
        if max_len < 1 or base not in _BASES:
            needs = f"max_len ({max_len}) of 1 or more and base mamba2 or gated_delta: {base}"
            raise ConfigError(f"log_linear needs {needs}")
        self.num_heads, self.max_len, self.levels = num_heads, max_len, 1 + (max_len - 1).bit_length()
        kind, self.width = _BASES[base]
        self.gate_width = self.width + self.levels
        self.base: Recurrence = kind(num_heads)
        # softplus(log(e - 1)) = 1
        self.level_shift = nn.Parameter(torch.full((num_heads, self.levels), math.log(math.expm1(1.0))))

    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        """Those of the base; beside them c, then the position; kept is the number of tokens, (batch, 1, 1, 1)."""
        own, levels = gates_of(call, self.width, self.levels)
        length = call.shape[3]
        before = past[0] if past else levels.new_zeros(call.shape[0], 1, 1, 1)
        check_length(self, self.max_len, length)
        terms, _ = self.base.terms(replace(call, gates=own), (), keys)
        place = before + torch.arange(length, device=levels.device, dtype=levels.dtype).unsqueeze(-1)
        weights = F.softplus(levels + by_head(self.level_shift, levels.dtype)).clamp(max=_LARGEST)
        aside = torch.cat((weights, place.expand(-1, call.shape[1], -1, -1)), -1)
        return terms._replace(aside=aside), (before + length,)

    def whole(self, terms: Terms, run: Run) -> Output:
        assert terms.aside is not None
        return tree(terms._replace(aside=None), terms.aside[..., :-1])

    def advance(self, terms: Terms, sums: Tensor | None, run: Run) -> tuple[Output, Tensor]:
        """The states of all levels lie side by side, as they are for the next token: (..., features, levels * wide)."""
        assert terms.aside is not None
        bare, width, length = terms._replace(aside=None), terms.value.shape[-1], terms.query.shape[2]
        if sums is None:
            number = level_of(torch.tensor(length), torch.arange(length)).clamp(max=self.levels - 1)
            own = F.one_hot(number, self.levels).to(terms.value).unsqueeze(-1)
            parted = (terms.value.unsqueeze(-2) * own).flatten(-2)
            return self.whole(terms, run), scan(bare._replace(value=parted), None)[1]
        outputs = []
        for i in range(length):
            token = bare.map(partial(torch.narrow, dim=2, start=i, length=1))
            value = F.pad(token.value, (0, (self.levels - 1) * width))
            rows, sums = step(token._replace(value=value), sums)
            weights, place = terms.aside[:, :, i : i + 1].split((self.levels, 1), -1)
            outputs.append((rows.unflatten(-1, (-1, width)) * weights.unsqueeze(-1)).sum(-2))
            sums = self._merged(sums, place[:, :1].long(), width)
        return torch.cat(outputs, 2), sums

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        return self.base.finish(output, terms)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The weights of the levels, then the terms of the base and the weights of pairs."""
        terms, _ = self._visible(call)
        assert terms.aside is not None
        formula, working = r"c_{il} = \operatorname{softplus}(w_l x_i + b_l)", Working("formula", ("query",))
        text = "what each query makes of what it reads of each level: 0 itself, then 1, 1, 2, 4 ... tokens"
        levels = Stage("levels", "c", formula, ("queries", "levels"), terms.aside[..., :-1], text, working)
        return [levels, *super().compute_stages(call)]

    def _merged(self, sums: Tensor, place: Tensor, width: int) -> Tensor:
        """The states as the token after this place will meet them: those of the trailing digits become one."""
        target = torch.arange(self.levels, device=sums.device).maximum(level_of(place, place + 1))
        levels = sums.unflatten(-1, (-1, width))
        target = target.clamp(max=self.levels - 1).unsqueeze(-1).expand_as(levels)
        return torch.zeros_like(levels).scatter_add(-2, target, levels).flatten(-2)
