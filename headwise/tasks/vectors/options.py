"""Options of word vectors."""

from typing import Annotated

from pydantic import Field

from headwise.tasks.options import Flag, Options


class NeighbourOptions(Options):
    """What is written of a word: its neighbours or its vector."""

    n_best: int | None = Field(None, ge=1, description="neighbours of each word")
    vectors: bool | None = Field(None, description="write vectors; without inputs, of every word")


class WordTestOptions(Options):
    """What a file of tests holds."""

    adds_to = "data"

    test_kind: Annotated[str | None, Flag("--kind")] = Field(
        None, description="what the file tested on holds, where a model has several scores"
    )
