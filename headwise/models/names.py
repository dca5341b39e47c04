"""Keys of a recipe that name a part of attention, with arguments: their types."""

from typing import Annotated

from headwise import positions
from headwise.attention import masks, mechanisms, normalizers, scores
from headwise.config import named

MechanismName = Annotated[str, named(mechanisms.mechanism_type)]
ScoreName = Annotated[str, named(scores.find)]
NormalizerName = Annotated[str, named(normalizers.find)]
PositionName = Annotated[str, named(positions.position_type)]
MaskText = Annotated[str, named(lambda text: masks.build(text, 512))]
