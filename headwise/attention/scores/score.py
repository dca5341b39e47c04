"""The bases of every score function, the shapes they share, and a plain function as a score."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.functions import arguments, check_function, check_result, name_of
from headwise.errors import ShapeError, Unsupported

Query = Float[Tensor, "batch heads query_len query_dim"]
Key = Float[Tensor, "batch heads key_len key_dim"]
KvKey = Float[Tensor, "batch kv_heads key_len key_dim"]
AsDot = Float[Tensor, "_ _ _ _"]
Scores = Float[Tensor, "batch heads query_len key_len"]
Pairs = Float[Tensor, "batch heads pairs _"]
PairScores = Float[Tensor, "batch heads pairs"]


class Score(nn.Module, ABC):
    """Base of the score functions: one method, `forward`. A product of two vectors is better a `Product`."""

    # heads, and widths of a query and a key, that its parameters are made for; None: any, of equal widths
    num_heads: int | None = None
    widths: tuple[int, int] | None = None

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """One number for each pair of query and key."""

    def is_dot(self) -> bool:
        """Whether it is a product of two vectors, which `as_dot` gives: it then runs on every kernel for products."""
        return False

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        """(q', k', scale) such that the score is exactly scale * q' . k'. k' has the heads of the key."""
        raise Unsupported(f"{type(self).__name__} is no dot product; ask `is_dot` first")

    def pairs(self, query: Pairs, key: Pairs) -> PairScores:
        """The score of query i with key i: what a kernel needs that computes only listed pairs."""
        if self.is_dot():
            turned, other, scale = self.as_dot(query, key)
            return (turned * other).sum(-1) * scale
        # each pair as a sequence of its own
        batch, pairs = query.shape[0], query.shape[2]
        query, key = (x.transpose(1, 2).flatten(0, 1).unsqueeze(2) for x in (query, key))
        return self(query, key).flatten(1).unflatten(0, (batch, pairs)).transpose(1, 2)

    def pair_width(self, query: Query) -> int:
        """Numbers that are multiplied for each pair."""
        return query.shape[-1]

    def kept_width(self, query: Query) -> int:
        """Numbers of each pair that are in memory at once: all of them, unless the score is a product."""
        return 1 if self.is_dot() else self.pair_width(query)

    def per_head(self) -> bool:
        """Whether it has numbers of its own for each head: it then needs all heads of a call at once."""
        return self.num_heads is not None

    def extra_repr(self) -> str:
        return arguments(self)

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raises: ShapeError if the score cannot compare vectors of these widths."""
        if self.widths is not None:
            check_built(self, "(query_dim, key_dim)", self.widths, (query_dim, key_dim))
        elif query_dim != key_dim:
            raise ShapeError(
                f"query_dim ({query_dim}) and key_dim ({key_dim}) differ: a dot product needs equal widths;"
                " use Bilinear or Additive"
            )


class Product(Score):
    """Base of the scores that are a dot product of what they make of query and key: one method, `as_dot`."""

    @abstractmethod
    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float]:
        """(q', k', scale) of the score scale * q' . k'. k' has the heads of the key."""

    def forward(self, query: Query, key: Key) -> Scores:
        turned, other, scale = self.as_dot(query, key)
        # fewer numbers than there are scores
        return (turned * scale) @ other.mT

    def is_dot(self) -> bool:
        return True


def times(layer: nn.Module, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """layer(x) for an x in a wider type than the parameters, as sums and scores are in a half-precision model."""
    if isinstance(layer, nn.Identity):
        return x
    dtype = next(layer.parameters(), x).dtype
    return layer(x.to(dtype)).to(x.dtype)


def check_built(module: nn.Module, what: str, built: object, actual: object) -> None:
    """Raises: ShapeError if something with parameters for one size meets another."""
    if built != actual:
        raise ShapeError(f"{type(module).__name__} was built for {what} {built}, got {actual}")


class Custom(Score):
    """function(query, key): any function of (batch, heads, length, dim) as a score. The parameters of a module learn.

    Args:
        function: (query, key) -> scores (batch, heads, query_len, key_len), one pair not looking at another.
    Raises:
        ConfigError: a class in place of an instance, and what cannot be called.
        ShapeError: when called, if the scores have another shape, or another type than query and key.

    >>> import torch
    >>> Custom(lambda query, key: -torch.cdist(query, key))(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        check_function("score", function, "(query, key) -> scores")
        self.function = function

    def forward(self, query: Query, key: Key) -> Scores:
        scores = self.function(query, key)
        return check_result(scores, f"score '{name_of(self.function)}'", (*query.shape[:3], key.shape[2]), query)

    def per_head(self) -> bool:
        # nobody knows
        return True

    def check(self, query_dim: int, key_dim: int) -> None:
        """Any widths: the function knows."""
