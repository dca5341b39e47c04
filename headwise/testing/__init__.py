"""A certificate: what must hold of every mechanism, score, normalizer, mask and position, tried case by case."""

from collections.abc import Collection, Iterator
from typing import Any

from headwise.errors import ConfigError, unknown
from headwise.testing import behaviour, definition, layers, masking, masks, positions
from headwise.testing.case import Case
from headwise.testing.invariant import Invariant, Verdict, verdict
from headwise.testing.masks import MaskSubject
from headwise.testing.positions import PositionSubject
from headwise.testing.subject import Subject
from headwise.testing.targets import resolve

__all__ = ["Case", "Invariant", "MaskSubject", "PositionSubject", "Subject", "Verdict", "certify", "invariants"]
__all__ += ["resolve"]


def invariants(target: Any) -> tuple[Invariant, ...]:
    """What must hold of a thing of this kind."""
    subject = resolve(target)
    if isinstance(subject, MaskSubject):
        return masks.INVARIANTS
    if isinstance(subject, PositionSubject):
        return positions.INVARIANTS
    parts = (definition, masking, behaviour, layers)
    return tuple(invariant for part in parts for invariant in part.INVARIANTS)


def certify(target: Any, *, only: Collection[str] = (), quick: bool = False) -> Iterator[Verdict]:
    """The verdict of every invariant, one after the other.

    Args:
        target: as `resolve` takes it: a class, an object or a function of yours, "module:attribute" or a name.
        only: ids of invariants; all if empty.
        quick: fewer shapes, types and modes.
    Raises: ConfigError: an unknown id; a target that cannot be tried.

    >>> [verdict.state for verdict in certify("linear", only=["bias", "resume"], quick=True)]
    ['does not apply', 'holds']
    """
    subject = resolve(target)
    applicable = invariants(subject)
    ids = [invariant.id for invariant in applicable]
    for name in only:
        if name not in ids:
            raise ConfigError(unknown("invariant", name, ids))
    return (verdict(invariant, subject, quick=quick) for invariant in applicable if not only or invariant.id in only)
