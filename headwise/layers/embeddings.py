"""Token numbers, or vectors, to vectors that know their position."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.attention.precision import autocast_dtype
from headwise.errors import DataError
from headwise.positions.position import Position


class TokenEmbedding(nn.Module):
    """dropout(norm(position(scale * E[token]))): the input of an encoder or decoder.

    Under bfloat16 autocast the result is bfloat16, so that the layers above add to numbers of the type that their
    products have, without casts between the two.

    Args:
        vocab_size: rows of the table E.
        d_model: width of a row.
        position: adds or changes nothing, sines, or a learned table.
        dropout: on the sum of embedding and position.
        scaled: whether scale is sqrt(d_model); otherwise it is 1.
        norm: of the sum; None: an identity.
    Source: Vaswani et al. 2017, arXiv:1706.03762, sections 3.4 and 3.5.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        position: Position,
        dropout: float,
        *,
        scaled: bool = True,
        norm: nn.Module | None = None,
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.position = position
        self.dropout = Dropout(dropout)
        self.norm = nn.Identity() if norm is None else norm
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def forward(self, tokens: Int[Tensor, "batch length"], start: int = 0) -> Float[Tensor, "batch length d_model"]:
        """`start`: position of the first token.

        Raises: DataError for a token outside the vocabulary. (On a GPU PyTorch ends the process.)
        """
        try:
            rows = F.embedding(tokens, self.weight)
        except IndexError:
            raise DataError(_outside(tokens, self.weight.shape[0])) from None
        embedded: Tensor = self.dropout(self.norm(self.position.embed(rows * self.scale, start)))
        # float16 is too narrow for what many layers add up
        return embedded.bfloat16() if autocast_dtype(embedded.device) == torch.bfloat16 else embedded

    def extra_repr(self) -> str:
        return f"vocab_size={self.weight.shape[0]}, d_model={self.weight.shape[1]}"


class VocabularyOutput(nn.Linear):
    """cap tanh((W (scale h) + b) / cap): the logits of scaled states, which may be bent to lie between -cap and cap.

    Args:
        width: of the states.
        scale: what they are multiplied by.
        cap: the bound; None: there is none.
    Source: scale: Raffel et al. 2020, arXiv:1910.10683, whose code scales where the output shares its matrix with
        embeddings; cap: Gemma team 2024, arXiv:2408.00118, section 2.

    >>> output = VocabularyOutput(4, 3, bias=False, scale=0.5)
    >>> torch.equal(output(2 * torch.ones(1, 4)), nn.functional.linear(torch.ones(1, 4), output.weight))
    True
    """

    def __init__(self, width: int, vocab_size: int, *, bias: bool, scale: float = 1.0, cap: float | None = None):
        super().__init__(width, vocab_size, bias=bias)
        self.scale, self.cap = scale, cap

    def forward(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocab"]:
        logits = super().forward(states * self.scale)
        return logits if self.cap is None else self.cap * (logits / self.cap).tanh()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale={self.scale:.4g}, cap={self.cap}"


class Placed(nn.Module):
    """project(norm(position(x))): vectors that get to know where they stand.

    Args:
        position: adds or changes nothing, sines, or a learned table.
        norm: of the sum; None: an identity.
        project: to the width of the layers above; None: an identity.
    """

    def __init__(self, position: Position, norm: nn.Module | None = None, project: nn.Module | None = None):
        super().__init__()
        self.position = position
        self.norm = nn.Identity() if norm is None else norm
        self.project = nn.Identity() if project is None else project

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length d_model"]:
        placed: Tensor = self.project(self.norm(self.position.embed(x, 0)))
        return placed


def _outside(tokens: Tensor, vocab_size: int) -> str:
    wrong = ((tokens < 0) | (tokens >= vocab_size)).nonzero()[0].tolist()
    token = int(tokens[tuple(wrong)])
    return f"token {token} at row {wrong[0]}, position {wrong[-1]} is outside the vocabulary of {vocab_size}"
