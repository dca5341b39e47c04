"""From what a user names to what is tried: a registered name, or `module:attribute`."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headwise import positions
from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import Mask
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer
from headwise.attention.scores import Score
from headwise.certify.case import HEAD_DIM, MAX_LEN, Case
from headwise.certify.mask_family import SAMPLES, MaskSubject
from headwise.certify.position_family import D_MODEL, HEADS, PositionSubject
from headwise.certify.position_family import MAX_LEN as PLACES
from headwise.certify.subject import Subject
from headwise.errors import ConfigError, HeadwiseError, Unsupported, unknown
from headwise.positions.position import Position

AnySubject = Subject | MaskSubject | PositionSubject


def resolve(target: str) -> AnySubject:
    """What is to be tried.

    Args:
        target: "module:attribute", looked for in the current folder too; or a registered name such as "linear", with
            its family before a dot where several have that name, as in "normalizers.relu".
    Raises:
        ConfigError: no such module, attribute or name; it cannot be built or called, and why.

    >>> resolve("linear").name
    'linear'
    """
    if ":" in target and target.partition(":")[0] in normalizers.catalogue():
        # such as top_k:8, which is no module
        return normalizer(target)
    if ":" in target:
        module, _, attribute = target.partition(":")
        return _checked(_of(target, _imported(module, attribute)))
    families = _families()
    family, dot, name = target.rpartition(".")
    found = [
        (one, make) for one, names in families.items() for known, make in names.items() if known == (name or target)
    ]
    found = [(one, make) for one, make in found if not dot or one == family]
    if not found:
        known = [name for names in families.values() for name in names]
        advice = "; a thing of your own is named module:attribute, such as my_module:MyAttention"
        raise ConfigError(unknown("target", target, known) + advice)
    if len(found) > 1:
        wanted = " or ".join(f"{one}.{target}" for one, _ in found)
        raise ConfigError(f"target '{target}' is the name of several things; write {wanted}")
    return found[0][1](name or target)


def _families() -> dict[str, dict[str, Callable[[str], AnySubject]]]:
    return {
        "mechanisms": dict.fromkeys(mechanisms.names(), mechanism),
        "scores": dict.fromkeys(scores.SCORES, score),
        "normalizers": dict.fromkeys(normalizers.NORMALIZERS, normalizer),
        "masks": dict.fromkeys(SAMPLES, mask),
        "positions": dict.fromkeys(positions.names(), position),
    }


def mechanism(name: str) -> Subject:
    """A registered mechanism."""
    return Subject(name, _built(mechanisms.mechanism_type(name)))


def score(name: str) -> Subject:
    """A registered score, in attention by its definition."""
    return Subject(
        name,
        lambda heads, dropout: Scored(scores.build(name, HEAD_DIM, HEAD_DIM, HEAD_DIM, heads), dropout=dropout),
    )


def normalizer(name: str) -> Subject:
    """A registered normalizer, with its option if it needs one, in attention by its definition."""
    made = normalizers.build(name)
    return Subject(name, lambda heads, dropout: Scored(normalizer=made, dropout=dropout))


def mask(name: str) -> MaskSubject:
    """A registered mask."""
    return MaskSubject(name, SAMPLES[name])


def position(name: str) -> PositionSubject:
    """A registered position scheme."""
    return PositionSubject(name, lambda: positions.build(name, D_MODEL, HEAD_DIM, HEADS, PLACES))


@contextmanager
def _here() -> Iterator[None]:
    """The current folder can be imported from, for the time of an import."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _imported(module: str, attribute: str) -> Any:
    if not module or not attribute:
        raise ConfigError(f"'{module}:{attribute}' is not module:attribute, such as my_module:MyAttention")
    try:
        with _here():
            found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(f"no module '{module}' here ({Path.cwd()}) or installed") from None
        raise ConfigError(f"module '{module}' needs '{error.name}', which is not installed") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"module '{module}' fails when it is imported: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise ConfigError(unknown(f"attribute of module '{module}':", part, names))
        found = getattr(found, part)
    return found


def _of(name: str, found: Any) -> AnySubject:
    """What a user's object is: class, instance or function."""
    kind = found if isinstance(found, type) else type(found)
    if issubclass(kind, Position):
        return PositionSubject(name, _position(found))
    if issubclass(kind, Mask):
        sample: Mask = found() if isinstance(found, type) else found
        return MaskSubject(name, lambda batch, n: sample)
    if issubclass(kind, Score):
        return Subject(name, _around_score(found))
    if issubclass(kind, Normalizer):
        weights: Normalizer = found() if isinstance(found, type) else found
        return Subject(name, lambda heads, dropout: Scored(normalizer=weights, dropout=dropout))
    if isinstance(found, type):
        return Subject(name, _built(found))
    if not callable(found):
        raise ConfigError(f"'{name}' is {kind.__name__}, which cannot be called with query, key and value")
    return Subject(name, lambda heads, dropout: found)


def _position(found: Any) -> Callable[[], Position]:
    if not isinstance(found, type):
        return lambda: found
    return lambda: found.sized(D_MODEL, HEAD_DIM, HEADS, PLACES)  # type: ignore[attr-defined]


def _around_score(found: Any) -> Callable[[int, float], Scored]:
    if not isinstance(found, type):
        return lambda heads, dropout: Scored(found, dropout=dropout)
    widths = {"query_dim": HEAD_DIM, "key_dim": HEAD_DIM, "hidden": HEAD_DIM, "dim": HEAD_DIM}
    return lambda heads, dropout: Scored(_with_sizes(found, {**widths, "num_heads": heads}), dropout=dropout)


def _built(kind: type) -> Callable[[int, float], Any]:
    """Builds a class by its `sized`, or by the sizes that its constructor has arguments for."""

    def make(heads: int, dropout: float) -> Any:
        sizes = {"head_dim": HEAD_DIM, "num_heads": heads, "max_len": MAX_LEN, "dropout": dropout}
        sized = getattr(kind, "sized", None)
        own = sized is not None and getattr(sized, "__func__", sized) is not Mechanism.sized.__func__  # type: ignore[attr-defined]
        return sized(**sizes) if own and sized is not None else _with_sizes(kind, sizes)

    return make


def _with_sizes(kind: type, sizes: dict[str, Any]) -> Any:
    parameters = inspect.signature(kind).parameters
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and name not in sizes
    ]
    if missing:
        raise ConfigError(
            f"{kind.__name__} needs {', '.join(missing)}: give it a classmethod"
            " sized(*, head_dim, num_heads, max_len, dropout), or name a function or an instance"
        )
    return kind(**{name: size for name, size in sizes.items() if name in parameters})


def _checked(subject: AnySubject) -> AnySubject:
    """The subject, once it has been built and called."""
    if not isinstance(subject, Subject):
        return subject
    try:
        module = subject.module(2)
    except HeadwiseError:
        raise
    except Exception as error:
        raise ConfigError(f"{subject.name} cannot be built: {type(error).__name__}: {error}") from error
    if isinstance(module, nn.Module) and type(module).forward is nn.Module.forward:
        raise ConfigError(f"{subject.name} has no forward(query, key, value)")
    case = Case(2, 2, 2, 3, 3, mask=subject.open_mask)
    try:
        output: Tensor = subject.run(case, *case.tensors())
    except Unsupported:
        return subject
    except Exception as error:
        raise ConfigError(
            f"{subject.name} fails for query, key and value of (batch, heads, length, head_dim) ="
            f" (2, 2, 3, {HEAD_DIM}): {type(error).__name__}: {error}"
        ) from error
    assert output.ndim == 4
    return subject
