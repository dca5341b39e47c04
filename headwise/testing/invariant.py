"""An invariant: what must hold, of what, and the first case in which it does not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["holds", "fails", "does not apply"]


def always(subject: Any) -> str | None:
    """For what must hold of everything."""
    return None


def where(holds: Callable[[Any], object], why: str) -> Callable[[Any], str | None]:
    """For what must hold where something else does of a subject; else `why` it does not apply."""
    return lambda subject: None if holds(subject) else why


@dataclass(frozen=True)
class Invariant:
    """Something that must hold of a subject, in every one of a list of cases that runs from small to large.

    Args:
        title: what must hold, in plain words.
        cases: of a subject, smallest first, so that the first failure is the smallest; True asks for few.
        check: what is wrong with the subject in a case; None if nothing is.
        applies: why a subject makes no such promise; None if it does.
    """

    id: str
    title: str
    cases: Callable[[Any, bool], Iterable[Any]]
    check: Callable[[Any, Any], str | None]
    applies: Callable[[Any], str | None] = always


@dataclass(frozen=True)
class Verdict:
    """What became of an invariant.

    Args:
        reason: why it does not apply, or what was found wrong.
        example: the smallest case in which it fails; evaluated, it makes the tensors again.
    """

    id: str
    title: str
    state: State
    reason: str = ""
    example: str = ""
    cases: int = 0


def verdict(invariant: Invariant, subject: Any, *, quick: bool = False) -> Verdict:
    """Tries the cases in order and stops at the first that fails; an error in one is a failure."""
    if why := invariant.applies(subject):
        return Verdict(invariant.id, invariant.title, "does not apply", why)
    tried = 0
    for case in invariant.cases(subject, quick):
        tried += 1
        try:
            wrong = invariant.check(subject, case)
        except Exception as error:
            wrong = f"raised {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if wrong is not None:
            return Verdict(invariant.id, invariant.title, "fails", wrong, str(case), tried)
    if tried == 0:
        return Verdict(
            invariant.id, invariant.title, "does not apply", "it honours none of the masks that this is about"
        )
    return Verdict(invariant.id, invariant.title, "holds", cases=tried)
