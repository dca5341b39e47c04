"""A certificate: what must hold of every mechanism, score, normalizer, mask and position, tried case by case."""

from collections.abc import Collection, Iterator

from headwise.certify import behaviour, definition, layers, mask_family, masking, normalizing, position_family, symmetry
from headwise.certify.invariant import Invariant, Verdict, verdict
from headwise.certify.mask_family import MaskSubject
from headwise.certify.position_family import PositionSubject
from headwise.certify.subject import Subject
from headwise.certify.targets import resolve
from headwise.errors import ConfigError, unknown

__all__ = ["Invariant", "MaskSubject", "PositionSubject", "Subject", "Verdict", "certify", "invariants", "resolve"]
__all__ += ["verdict"]

AnySubject = Subject | MaskSubject | PositionSubject


def invariants(subject: AnySubject) -> tuple[Invariant, ...]:
    """What must hold of a subject of this kind, numbered ones first."""
    if isinstance(subject, MaskSubject):
        return mask_family.INVARIANTS
    if isinstance(subject, PositionSubject):
        return position_family.INVARIANTS
    parts = (definition, masking, symmetry, behaviour, layers, normalizing)
    found = [invariant for part in parts for invariant in part.INVARIANTS]
    return tuple(
        sorted(found, key=lambda one: (not one.id[1:].isdigit(), int(one.id[1:]) if one.id[1:].isdigit() else 0))
    )


def certify(subject: AnySubject, *, only: Collection[str] = (), quick: bool = False) -> Iterator[Verdict]:
    """The verdict of every invariant, one after the other.

    Args:
        only: ids; all if empty.
        quick: fewer shapes, types and modes.
    Raises:
        ConfigError: an unknown id.

    >>> from headwise.certify import certify, resolve
    >>> [verdict.state for verdict in certify(resolve("linear"), only=["A10", "A14"], quick=True)]
    ['holds', 'does not apply']
    """
    wanted = invariants(subject)
    ids = [invariant.id for invariant in wanted]
    for one in only:
        if one not in ids:
            raise ConfigError(unknown("invariant", one, ids))
    return (verdict(one, subject, quick=quick) for one in wanted if not only or one.id in only)
