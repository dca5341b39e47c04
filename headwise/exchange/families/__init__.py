"""The families of transformers that have a counterpart here: one module for each shape of model."""

from headwise.errors import Unsupported
from headwise.exchange.families import decoders, encoders, gemma, images, modernbert, t5, translators
from headwise.exchange.family import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (translators, t5, decoders, gemma, encoders, modernbert, images)
    for family in module.FAMILIES
}


def family_of(name: object, where: str) -> Family:
    """The family of a `model_type`. Raises: Unsupported naming it and those there are."""
    if not isinstance(name, str) or name not in FAMILIES:
        raise Unsupported(
            f"{where}: model_type = {str(name)[:60]!r} has no counterpart here; these have: {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]
