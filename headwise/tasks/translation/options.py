"""Options of translations."""

from pydantic import Field

from headwise.tasks.text.options import WritingOptions


class TranslationOptions(WritingOptions):
    """A search whose outputs have scores, and links between their words and those of the source."""

    alignments: bool | None = Field(None, description="add word alignments (source-target)")
