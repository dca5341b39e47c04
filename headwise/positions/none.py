"""No position at all."""

from headwise.positions.position import Position


class NoPosition(Position):
    """Nothing: attention then sees a set, and permuting the input permutes the output."""

    @classmethod
    def sized(cls, d_model: int, head_dim: int, max_len: int) -> "NoPosition":
        return cls()
