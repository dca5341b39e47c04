"""Run folders of older formats: one function from each format to the next.

A key that is renamed, or a file whose content changes, gets its step here and a new `FORMAT`: old runs stay loadable.
"""

import tomllib
from collections.abc import Callable
from typing import Any

import tomli_w

from headwise.errors import CheckpointError

FORMAT = 4
CONFIG = "config.toml"

Files = dict[str, bytes]


def migrate(files: Files, version: int) -> Files:
    r"""The files of a folder of format `version` in the current format; a configuration that is invalid is unchanged.

    >>> migrate({"config.toml": b"[training]\ntensorboard = true"}, 1)
    {'config.toml': b'[training]\ntrackers = [\n    "tensorboard",\n]\n'}
    """
    for number in range(version, FORMAT):
        files = _STEPS[number](files)
    return files


def check_format(version: object, name: str) -> int:
    """The format of file `name`. Raises: CheckpointError when this program does not read it."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CheckpointError(f"{name}: it names no format of this program")
    if version > FORMAT:
        raise CheckpointError(f"{name}: format {version} is newer than this program reads ({FORMAT}); update headwise")
    return version


def _config_step(change: Callable[[dict[str, Any]], None]) -> Callable[[Files], Files]:
    """A step that changes the values of the configuration in place, or leaves an invalid one as it is."""

    def step(files: Files) -> Files:
        try:
            values = tomllib.loads(files[CONFIG].decode())
            change(values)
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            return files
        return {**files, CONFIG: tomli_w.dumps(values).encode()}

    return step


def _from_1(values: dict[str, Any]) -> None:
    """training.tensorboard became one of training.trackers; model.kernel went."""
    training, model = values.get("training", {}), values.get("model", {})
    if training.pop("tensorboard", False):
        training["trackers"] = ["tensorboard"]
    model.pop("kernel", None)


def _from_2(values: dict[str, Any]) -> None:
    """norm, of a model or of its encoder of pixels, became norm_order where its value was pre or post."""
    model = values.get("model", {})
    for section in (model, model.get("sequence", {})):
        if section.get("norm") in ("pre", "post"):
            section["norm_order"] = section.pop("norm")


# format 4 adds checkpoints in parts, which older folders do not have
_STEPS: dict[int, Callable[[Files], Files]] = {1: _config_step(_from_1), 2: _config_step(_from_2), 3: dict}
