"""Options of pictures."""

from pydantic import Field

from headwise.tasks.options import Options


class PictureOptions(Options):
    """How large a picture may be whose size no recipe sets."""

    max_pixels: int | None = Field(
        None, ge=1, description="pixels of a picture that keeps its size; default: 262,144, or those of the training's"
    )
