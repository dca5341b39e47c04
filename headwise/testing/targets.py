"""From what a user names to what is tried: a registered name, `module:attribute`, a class, an object or a function."""

import inspect
from collections.abc import Callable
from typing import Any

from headwise import positions
from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import REGISTRY, Mask
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores import Score
from headwise.errors import ConfigError, HeadwiseError, Unsupported, unknown
from headwise.positions.position import Position
from headwise.registry import Creator, Registry, imported
from headwise.testing.case import HEAD_DIM, MAX_LEN, Case
from headwise.testing.masks import SAMPLES, MaskSubject
from headwise.testing.positions import D_MODEL, HEADS, PositionSubject
from headwise.testing.positions import MAX_LEN as PLACES
from headwise.testing.subject import Subject
from headwise.trust import trusting

# a class of one's own with arguments
_OWN: Registry[Any] = Registry("target", object, dict)

AnySubject = Subject | MaskSubject | PositionSubject


def resolve(target: Any) -> AnySubject:
    """What is to be tried.

    Args:
        target: a class, an object or a function; "module:attribute", looked for in the current folder too; or a
            registered name such as "linear", with its family before a dot where several have that name, as in
            "normalizers.relu".
    Raises: ConfigError: no such module, attribute or name; it cannot be built or called, and why.

    >>> resolve("linear").name
    'linear'
    """
    if isinstance(target, Subject | MaskSubject | PositionSubject):
        return target
    if not isinstance(target, str):
        return _checked(_of(getattr(target, "__name__", type(target).__name__), target))
    families = _families()
    family, _, name = target.partition(".") if target.partition(".")[0] in families else ("", "", target)
    # arguments may stand after a name, as in top_k:8
    registered = name.partition(":")[0]
    makers = {kind: make for kind, (names, make) in families.items() if registered in names and family in ("", kind)}
    if not makers and ":" in target:
        # what is to be tried is the user's own word
        with trusting():
            return _checked(_of(target, _OWN.find(target) if target.count(":") > 1 else imported(target)))
    if not makers:
        advice = "; a thing of your own is named module:attribute, such as my_module:MyAttention"
        raise ConfigError(
            unknown("target", target, [name for names, _ in families.values() for name in names]) + advice
        )
    if len(makers) > 1:
        raise ConfigError(
            f"target '{target}' is the name of several; write {' or '.join(f'{kind}.{name}' for kind in makers)}"
        )
    return _checked(next(iter(makers.values()))(name))


def _families() -> dict[str, tuple[Any, Callable[[str], AnySubject]]]:
    """The names of each family, and what makes a subject of one."""
    return {
        "mechanisms": (mechanisms.names(), lambda name: Subject(name, _built(mechanisms.mechanism_type(name)))),
        "scores": (scores.SCORES, lambda name: Subject(name, _scoring(name))),
        "normalizers": (normalizers.catalogue(), lambda name: _of(name, normalizers.find(name))),
        "masks": (SAMPLES, _masking),
        "positions": (positions.names(), lambda name: PositionSubject(name, _placed(positions.position_type(name)))),
    }


def _masking(name: str) -> MaskSubject:
    return MaskSubject(name, SAMPLES.get(name) or (lambda batch, n: REGISTRY.build(name, length=n)))


def _scoring(name: str) -> Callable[[int, float], Scored]:
    sizes = (HEAD_DIM, HEAD_DIM, HEAD_DIM)
    return lambda heads, dropout: Scored(scores.build(name, *sizes, heads), dropout=dropout)


def _of(name: str, target: Any) -> AnySubject:
    """What a user's object is: class, instance or function."""
    kind = target if isinstance(target, type) else target.kind if isinstance(target, Creator) else type(target)
    if issubclass(kind, Position):
        return PositionSubject(name, _placed(target))
    if issubclass(kind, Mask):
        sample: Mask = target() if isinstance(target, type | Creator) else target
        return MaskSubject(name, lambda batch, n: sample)
    if issubclass(kind, Score):
        return Subject(name, lambda heads, dropout: Scored(_sized(target, heads, dropout), dropout=dropout))
    if issubclass(kind, Normalizer):
        return Subject(name, lambda heads, dropout: Scored(normalizer=_sized(target, heads, dropout), dropout=dropout))
    if not callable(target):
        raise ConfigError(f"'{name}' is {kind.__name__}, which cannot be called with query, key and value")
    return Subject(name, _built(target))


def _placed(target: Any) -> Callable[[], Position]:
    is_class = isinstance(target, type | Creator) and hasattr(target, "sized")
    return lambda: target.sized(D_MODEL, HEAD_DIM, HEADS, PLACES) if is_class else target


def _built(target: Any) -> Callable[[int, float], Any]:
    return lambda heads, dropout: _sized(target, heads, dropout)


def _sized(target: Any, heads: int, dropout: float) -> Any:
    """A class is built by its `sized`, or by the sizes that its constructor has arguments for."""
    if not isinstance(target, type | Creator):
        return target
    sizes: dict[str, Any] = {"head_dim": HEAD_DIM, "num_heads": heads, "max_len": MAX_LEN, "dropout": dropout}
    if sized := getattr(target, "sized", None):
        return sized(**sizes)
    sizes |= dict.fromkeys(("query_dim", "key_dim", "hidden", "dim"), HEAD_DIM)
    return target(**{name: size for name, size in sizes.items() if name in inspect.signature(target).parameters})


def _checked(subject: AnySubject) -> AnySubject:
    """The subject, once it has been built and called."""
    if not isinstance(subject, Subject):
        return subject
    try:
        subject.module(2)
    except HeadwiseError:
        raise
    except Exception as error:
        advice = "; a classmethod sized(*, head_dim, num_heads, max_len, dropout) says how"
        raise ConfigError(f"{subject.name} cannot be built: {type(error).__name__}: {error}{advice}") from error
    case = Case(2, 2, 2, 3, 3, mask=subject.open_mask)
    try:
        subject.run(case, case.call())
    except Unsupported:
        return subject
    except Exception as error:
        shape = f"query, key and value of (batch, heads, length, head_dim) = (2, 2, 3, {HEAD_DIM})"
        raise ConfigError(f"{subject.name} fails for {shape}: {type(error).__name__}: {error}") from error
    return subject
