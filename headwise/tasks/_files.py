"""What a task learned from its data as small files of its run, and back."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import CheckpointError
from headwise.tasks.task import required

T = TypeVar("T")

_COUNTS = TypeAdapter(Annotated[dict[str, int], Field(min_length=1)], config=ConfigDict(strict=True))


def as_json(value: Any, *, ordered: bool = False) -> bytes:
    """A value as the content of a file.

    Args:
        ordered: the order of its keys means something.
    """
    return (json.dumps(value, ensure_ascii=False, sort_keys=not ordered) + "\n").encode()


def from_json(files: Mapping[str, bytes], name: str, read: Callable[[Any], T], wrong: str) -> T:
    """What a file of the run says.

    Args:
        read: makes it of the JSON; it raises ValueError, TypeError, LookupError, AttributeError or
            OverflowError for anything else.
        wrong: what is the matter with a file that says something else.

    Raises: CheckpointError naming the file, if it is missing or damaged.
    """
    try:
        return read(json.loads(required(files, name)))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        raise damaged(name, wrong) from None


def tokenizer_in(files: Mapping[str, bytes], name: str, config: TokenizerConfig | None = None) -> Tokenizer:
    """The tokenizer in a file of the run, made as `config` says. Raises: CheckpointError if it is missing."""
    return Tokenizer.from_bytes(required(files, name), name, config)


def counts_of(files: Mapping[str, bytes], name: str, what: str) -> dict[str, int]:
    """The table of `what` in a file of the run, with the count of each. Raises: CheckpointError as `from_json`."""
    return from_json(files, name, _COUNTS.validate_python, f"not a table of {what}")


def damaged(name: str, wrong: str) -> CheckpointError:
    return CheckpointError(f"{name}: {wrong}; restore it from a copy of the run")
