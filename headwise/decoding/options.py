"""A run's own decoding with what somebody asks for in its place: one option implies the method that it belongs to."""

from collections.abc import Mapping
from typing import Any

from headwise.config import build
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError

# as the command line calls them
_FLAGS = {"beam_size": "--beam"}
_OF_SAMPLING = ("temperature", "top_k", "top_p")


def asked(base: DecodingConfig, given: Mapping[str, Any]) -> DecodingConfig:
    """The decoding with these keys of `DecodingConfig` set; `n_best` counts samples too.

    Raises:
        ConfigError: for options that belong to another method, or values that are not allowed.

    >>> asked(DecodingConfig(), {"top_k": 5, "n_best": 2}).num_samples
    2
    """
    options, n_best = dict(given), int(given.get("n_best", 1))
    method = options.pop("method", None)
    of_sampling = [name for name in _OF_SAMPLING if name in options]
    chosen = method or ("sample" if of_sampling else "beam" if "beam_size" in options or n_best > 1 else base.method)
    if of_sampling and chosen != "sample":
        raise ConfigError(f"{flag(of_sampling[0])} needs --method sample, not {chosen}")
    if "beam_size" in options and chosen != "beam":
        raise ConfigError(f"--beam needs --method beam, not {chosen}")
    if chosen == "greedy" and n_best > 1:
        raise ConfigError("--n-best needs --method beam or sample; greedy finds one output")
    values = {**base.model_dump(), **options, "method": chosen, "n_best": 1, "num_samples": 1}
    if chosen == "sample":
        values["num_samples"] = n_best
    else:
        values |= {"n_best": n_best, "beam_size": max(n_best, int(options.get("beam_size", base.beam_size)))}
    return build(DecodingConfig, values, "options")


def flag(name: str) -> str:
    """An option as it is typed, from its name.

    >>> flag("n_best"), flag("beam_size")
    ('--n-best', '--beam')
    """
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")
