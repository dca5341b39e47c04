"""The base of every position scheme: five places where position may enter, each doing nothing unless overridden."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.relative import Relative


class Position(nn.Module, ABC):
    """A way to tell a model where a token stands. `start` is always the position of the first token given."""

    @classmethod
    @abstractmethod
    def sized(cls, d_model: int, head_dim: int, max_len: int) -> "Position":
        """The scheme for a model of these sizes; a scheme takes what it needs of them."""

    def embed(self, x: Float[Tensor, "*batch length d_model"], start: int) -> Float[Tensor, "*batch length d_model"]:
        """Changes the embeddings."""
        return x

    def rotate(
        self, heads: Float[Tensor, "*batch length head_dim"], start: int
    ) -> Float[Tensor, "*batch length head_dim"]:
        """Changes projected queries and keys."""
        return heads

    def bias(
        self,
        query: Float[Tensor, "batch heads query_len head_dim"],
        key: Float[Tensor, "batch kv_heads key_len head_dim"],
        start: int,
    ) -> Float[Tensor, "#batch #heads query_len key_len"] | None:
        """Added to the scores."""
        return None

    def relative(
        self,
        query: Float[Tensor, "batch heads query_len head_dim"],
        key: Float[Tensor, "batch kv_heads key_len head_dim"],
        low: int,
        high: int,
    ) -> Relative | None:
        """What distances add to scores and values, as tables for the distances (key - query) from `low` to `high`."""
        return None

    def acts_on_scores(self) -> bool:
        """Whether this scheme adds something to scores or values."""
        kind = type(self)
        return kind.bias is not Position.bias or kind.relative is not Position.relative

    def acts_in_attention(self) -> bool:
        """Whether attention layers have to know this scheme."""
        return self.acts_on_scores() or type(self).rotate is not Position.rotate
