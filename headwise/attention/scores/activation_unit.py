"""A small network as a score."""

from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.scores.score import Key, Pairs, PairScores, Query, Score, Scores, times
from headwise.errors import ConfigError, unknown

ACTIVATIONS: dict[str, type[nn.Module]] = {"prelu": nn.PReLU, "sigmoid": nn.Sigmoid}


class ActivationUnit(Score):
    """MLP([q, k, q - k, q * k]): how much an item k of a history matters for a candidate q, shared by the heads.

    The first layer is a sum of parts for the query, the key and their product, so the four vectors are never put side
    by side: it costs batch x heads x query_len x key_len x hidden numbers, not x 4 dim. A unit can put the item that
    equals the candidate first: rows I and -I over q - k, ReLU (a PReLU of slope 0) and output weights of -1 score
    -|q - k|_1, which is largest at q = k.

    Args:
        dim: width of a query and of a key.
        hidden: widths of the hidden layers, at least one.
        activation: "prelu" or "sigmoid".
    Raises: ConfigError: an unknown activation, or no hidden layer.
    Source: Zhou et al. 2018, arXiv:1706.06978, sec. 4.3 and figure 2, with the inputs of the authors' code (the figure
    leaves q - k out). The paper uses the scores as they are: normalizer "identity".

    >>> import torch
    >>> ActivationUnit(4, [8, 5])(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 7, 4)).shape
    torch.Size([2, 3, 1, 7])
    """

    def __init__(self, dim: int, hidden: Sequence[int] = (36,), activation: str = "prelu"):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(unknown("activation", activation, ACTIVATIONS))
        if not hidden:
            raise ConfigError("hidden () must name the width of at least one hidden layer, such as (36,)")
        self.widths = (dim, dim)
        self.first = nn.Linear(4 * dim, hidden[0])
        widths = [*hidden, 1]
        steps: list[nn.Module] = []
        for wide, out in pairwise(widths):
            steps += [ACTIVATIONS[activation](), nn.Linear(wide, out)]
        self.rest = nn.Sequential(*steps)

    @classmethod
    def sized(cls, *, query_dim: int, key_dim: int, hidden: int, num_heads: int, dim: int) -> "ActivationUnit":
        """With one hidden layer."""
        return cls(dim, [hidden])

    def forward(self, query: Query, key: Key) -> Scores:
        of_query, of_key, of_product = self._parts(query)
        # (batch, heads, query_len x hidden, dim) @ (batch, heads, dim, key_len)
        turned = (query.unsqueeze(-2) * of_product).flatten(2, 3)
        features = (turned @ key.mT).unflatten(2, (query.shape[2], self.first.out_features)).mT
        return self._score(features + (query @ of_query.mT).unsqueeze(-2) + (key @ of_key.mT).unsqueeze(-3))

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        of_query, of_key, of_product = self._parts(query)
        return self._score(query @ of_query.mT + key @ of_key.mT + (query * key) @ of_product.mT)

    def pair_width(self, query: Query) -> int:
        return self.first.out_features

    def _parts(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The first layer's weights of the query, the key and their product."""
        query, key, difference, product = self.first.weight.to(like.dtype).chunk(4, dim=1)
        return query + difference, key - difference, product

    def _score(self, features: Float[Tensor, "*pairs hidden"]) -> Float[Tensor, "*pairs"]:
        x = features + self.first.bias.to(features.dtype)
        *steps, last = self.rest
        for step in steps:
            x = times(step, x)
        # scores are not rounded to the type of the parameters
        return F.linear(x, *(parameter.to(x.dtype) for parameter in last.parameters())).squeeze(-1)
