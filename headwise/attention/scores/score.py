"""The base of every score function, and the shapes they share."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ShapeError

Query = Float[Tensor, "batch heads query_len query_dim"]
Key = Float[Tensor, "batch heads key_len key_dim"]
KvKey = Float[Tensor, "batch kv_heads key_len key_dim"]
AsDot = Float[Tensor, "_ _ _ _"]
Scores = Float[Tensor, "batch heads query_len key_len"]


class Score(nn.Module, ABC):
    """Base of the score functions."""

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """One number for each pair of query and key."""

    def as_dot(self, query: Query, key: KvKey) -> tuple[AsDot, AsDot, float] | None:
        """(q', k', scale) such that the score is exactly scale * q' . k'; None if it is no such product.

        What can be written so runs on every kernel for dot products. k' has the heads of the key.
        """
        return None

    def pairs(
        self, query: Float[Tensor, "heads pairs query_dim"], key: Float[Tensor, "heads pairs key_dim"]
    ) -> Float[Tensor, "heads pairs"]:
        """The score of query i with key i: what a kernel needs that computes only listed pairs."""
        as_dot = self.as_dot(query.unsqueeze(0), key.unsqueeze(0))
        if as_dot is not None:
            turned, other, scale = as_dot
            return (turned * other).sum(-1).squeeze(0) * scale
        scores = self(query.transpose(0, 1).unsqueeze(2), key.transpose(0, 1).unsqueeze(2))
        return scores.squeeze(-1).squeeze(-1).transpose(0, 1)

    def pair_width(self, query: Query) -> int:
        """Numbers that are multiplied for each pair; a score that is no dot product keeps them all at once."""
        return query.shape[-1]

    def per_head(self) -> bool:
        """Whether it has numbers of its own for each head: it then needs all heads of a call at once."""
        return False

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raises: ShapeError if the score cannot compare vectors of these widths."""
        if query_dim != key_dim:
            raise ShapeError(
                f"query_dim ({query_dim}) and key_dim ({key_dim}) differ: a dot product needs equal widths;"
                " use Bilinear or Additive"
            )


def times(linear: nn.Linear, x: Float[Tensor, "*axes wide"]) -> Float[Tensor, "*axes out"]:
    """linear(x) in the type of x: scores are wider than the parameters of a half-precision model."""
    return F.linear(x, linear.weight.to(x.dtype))


def check_built(score: Score, built: tuple[int, ...], given: tuple[int, int]) -> None:
    """Raises: ShapeError if a score with parameters meets vectors of other widths."""
    if built != given:
        raise ShapeError(f"{type(score).__name__} was built for (query_dim, key_dim) = {built}, got {given}")


def check_heads(score: Score, built: int, query: Query) -> None:
    """Raises: ShapeError if a score with numbers for each head meets another number of heads."""
    if query.shape[1] != built:
        raise ShapeError(f"{type(score).__name__} was built for {built} heads, got {query.shape[1]}")
