"""Options of language models."""

from pydantic import Field

from headwise.tasks.text.options import SearchOptions


class ContinuationOptions(SearchOptions):
    """A search, and where it ends."""

    stop: str | None = Field(None, min_length=1, max_length=100, description=r"text that ends it; \n is a line end")
