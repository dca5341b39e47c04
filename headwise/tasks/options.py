"""Options that tasks add to verbs of the command line, and to the requests of a service."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, create_model

from headwise.config import Config


class Options(Config):
    """What tasks add to a verb: each field is an option, with a description and the default None, which is "not given".

    A predictor takes the values of "predict" and "evaluate" by `Predictor.options`. Those of "data" are keys of the
    recipe's `[data]`, which `init` and `evaluate --data` take; a key that begins with `test_` is of the file tested on,
    and is typed without that.

    >>> class Rounding(Options):
    ...     digits: int | None = Field(None, ge=0, description="digits after the point")
    """

    model_config = ConfigDict(strict=True)
    adds_to: ClassVar[Literal["predict", "evaluate", "data"]] = "predict"


class BestOptions(Options):
    """How many answers are named."""

    n_best: int | None = Field(None, ge=1, description="outputs for each input")


def merged(kinds: Iterable[type[Options]]) -> type[Options]:
    """All options of several kinds; of two with the same name the first."""
    fields: dict[str, Any] = {}
    for kind in kinds:
        for name, field in kind.model_fields.items():
            fields.setdefault(name, (field.annotation, field))
    return create_model("Options", __base__=Options, **fields)
