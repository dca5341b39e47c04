"""Options of rankings."""

from pydantic import Field

from headwise.tasks.options import Options


class RankingOptions(Options):
    """How many items are named."""

    n_best: int | None = Field(None, ge=1, description="items for each history")
