"""Options of word vectors."""

from pydantic import Field

from headwise.tasks.options import BestOptions, Options


class NeighbourOptions(BestOptions):
    """What is written of a word: its neighbours or its vector."""

    vectors: bool | None = Field(None, description="write vectors; without inputs, of every word")


class WordTestOptions(Options):
    """What a file of tests holds."""

    adds_to = "data"

    test_kind: str | None = Field(None, description="what the file tested on holds, where a model has several scores")
