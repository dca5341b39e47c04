"""No position at all."""

from headwise.positions.position import Position


class NoPosition(Position):
    """Nothing: attention then sees a set, and permuting the input permutes the output.

    Under a causal mask a model may still count: each query sees one key more than the one before.
    """

    where = "nowhere"
    extrapolates = "There is no length to learn; a longer input is a larger set."
    paper = "Haviv et al. 2022, arXiv:2203.16634 (causal models without positions)"
