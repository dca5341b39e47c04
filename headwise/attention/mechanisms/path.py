"""PaTH attention: between a key and a query stand reflections that the tokens after the key make of the input."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.mechanisms._gates import HeadGates, gates_of, unit
from headwise.attention.mechanisms.mechanism import FORWARD, Rule, Written
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import Stage, Working
from headwise.errors import ConfigError

# keys whose reflections are solved for together; a power of their number is spent in each chunk
_CHUNK = 64


class Path(Written):
    """softmax(q_i H_i ... H_(j+1) k_j / sqrt(d)) v_j, H_l = I - b_l w_l w_l^T, |w| = 1, b = 2 sigmoid(w_b x + shift).

    A position scheme made of the tokens: with b = 0 it is softmax attention without positions, with b = 2 every token
    is a reflection. w = silu(conv(B A x)) reads `conv` tokens. Queries meet the keys chunk by chunk, from the last to
    the first, each chunk's reflections as one product (the WY form), in time n^2 d; a traced program takes all keys as
    one chunk. Tokens that the mask hides from all queries reflect nothing. A cache keeps d + 1 more numbers for each
    head and token.

    Args:
        head_dim: width of a key, and of w.
        num_heads: heads; each query head has reflections of its own.
        conv: taps of the convolution over A x; 1: none.
        rank: width between A and B.
        dropout: probability of dropping a weight while training.
    Raises:
        ConfigError: `conv` or `rank` below 1.
        ShapeError: other heads or keys of another width than it was built for.
    Source: Yang et al. 2025, arXiv:2505.16381. Equal to `naive_path_attn` of fla, whose table is
        float32; its layer's w_proj loads as gates.maps.1, bt_proj as gates.maps.0 and `shift`, w_conv1d as `taps`.
        PaTH-FoX, with a forget gate beside it, is not built.

    >>> x, gates = torch.ones(2, 3, 5, 8), torch.zeros(2, 3, 5, 9)
    >>> from headwise.attention.masks import Causal
    >>> Path(8, 3)(Call(x, x, x, mask=Causal(), gates=gates)).shape
    torch.Size([2, 3, 5, 8])
    """

    facts = replace(FORWARD, exact="strengths b of 0", honours="keys")
    num_heads: int
    head_dim: int

    def __init__(self, head_dim: int, num_heads: int, conv: int = 3, rank: int = 32, dropout: float = 0.0):
        super().__init__(dropout)
        if min(conv, rank) < 1:
            raise ConfigError(f"path needs taps, conv ({conv}), and a rank ({rank}) of 1 or more")
        self.head_dim, self.num_heads, self.conv, self.rank = head_dim, num_heads, conv, rank
        self.shift = nn.Parameter(torch.zeros(num_heads))
        self.taps = nn.Parameter(torch.empty(num_heads, head_dim, conv).uniform_(-1, 1) * conv**-0.5)

    def gate_module(self, d_model: int, num_heads: int) -> nn.Module:
        return HeadGates(d_model, num_heads, direct=1, narrow=(self.head_dim,), rank=self.rank)

    def reflections(
        self, call: Call
    ) -> tuple[Float[Tensor, "batch heads key_len head_dim"], Float[Tensor, "batch heads key_len 1"]]:
        """w and b of each token; b is 0 where no query sees it."""
        strength, columns = (wide(gates) for gates in gates_of(call, 1, self.head_dim))
        read, taps = F.pad(columns, (0, 0, self.conv - 1, 0)), self.taps.to(columns.dtype).unsqueeze(1).unbind(-1)
        mixed = torch.stack([tap * read.narrow(2, before, columns.shape[2]) for before, tap in enumerate(taps)])
        direction = unit(F.silu(mixed.sum(0)))
        strength = 2 * torch.sigmoid(strength + wide(self.shift).view(-1, 1, 1))
        keys = None if call.structure.open else call.structure.key_mask()
        return direction, strength if keys is None else strength.masked_fill(~keys.unsqueeze(-1), 0.0)

    def written(self, call: Call) -> tuple[Tensor | None, Rule | None, Rule | None]:
        direction, strength = self.reflections(call)

        def score(query: Tensor, key: Tensor) -> Tensor:
            scaled = query * max(1, self.head_dim) ** -0.5
            return reflected_products(scaled, key, direction, strength, call.query_start)

        return call.keep(), score, None

    def compute_stages(self, call: Call) -> list[Stage]:
        """The directions and strengths of the reflections, scores and weights."""
        with uncast(call.query):
            direction, strength = self.reflections(call)
        working, axes = Working("formula", ("key",)), ("keys", "features")
        text = "the direction along which each token reflects what is before it"
        formula = r"w = \operatorname{silu}(\operatorname{conv}(BAx)) / |\cdot|"
        first = Stage("directions", "W", formula, axes, direction, text, working)
        text = "how much of it: 0 nothing, 1 it is taken off, 2 it is turned round"
        second = Stage("strengths", "b", r"b = 2\sigma(w_b x + c)", axes, strength, text, working)
        return [first, second, *super().compute_stages(call)]


def reflected_products(
    query: Float[Tensor, "batch heads query_len dim"],
    key: Float[Tensor, "batch heads key_len dim"],
    direction: Float[Tensor, "batch heads key_len dim"],
    strength: Float[Tensor, "batch heads key_len 1"],
    start: int,
) -> Float[Tensor, "batch heads query_len key_len"]:
    """q_i H_i ... H_(j+1) k_j for the keys j up to each query, which counts from `start`; later ones mean nothing.

    >>> one, two = torch.ones(1, 1, 1, 1), torch.full((1, 1, 3, 1), 2.0)
    >>> reflected_products(one, one.expand(1, 1, 3, 1), one.expand(1, 1, 3, 1), two, 2).flatten().tolist()
    [1.0, -1.0, 1.0]
    """
    place = torch.arange(query.shape[2], device=query.device).unsqueeze(-1) + start
    cut = (lambda x: (x,)) if torch.compiler.is_compiling() else (lambda x: x.split(_CHUNK, 2)[::-1])
    scores, last = [], key.shape[2]
    for k, w, b in zip(cut(key), cut(direction), cut(strength), strict=True):
        length = k.shape[2]
        erased = b * torch.cat(((w @ k.mT).tril(-1), w), -1)
        # what the reflections of the chunk take off along each w: of its keys, and of the query that goes on to earlier
        solved = torch.linalg.solve_triangular(b * (w @ w.mT).tril(-1), erased, upper=False, unitriangular=True)
        passed = torch.arange(last - length, last, device=query.device) <= place
        taken = (query @ w.mT * passed) @ solved
        scores.append(query @ k.mT - taken[..., :length])
        query, last = query - taken[..., length:], last - length
    return torch.cat(scores[::-1], -1)
