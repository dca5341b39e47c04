"""Masks written on the command line: "causal & padding", "window:64,0 | global:2", "~blocks:8"."""

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from headwise.attention.masks import Mask

# name: (numbers that it takes, as a text; least and most of them)
_NUMBERS = {
    "causal": ("no numbers", 0, 0),
    "window": ("LEFT,RIGHT, such as window:64,64", 2, 2),
    "dilated": ("LEFT,RIGHT,STEP, such as dilated:8,8,4", 3, 3),
    "strided": ("STEP, such as strided:64", 1, 1),
    "blocks": ("SIZE, such as blocks:128", 1, 1),
    "global": ("TOKENS, such as global:2", 1, 1),
    "bigbird": ("BLOCK,WINDOW,GLOBAL,RANDOM, such as bigbird:64,3,2,3", 4, 4),
    "padding": ("no numbers, or one length a sentence", 0, 1 << 30),
    "prefix": ("one length for each sentence, or one for all", 1, 1 << 30),
}


def read_mask(text: str, batch: int, query_len: int, key_len: int) -> "Mask | None":
    """A mask from text: parts joined by & or |, of which & binds closer, each inverted by ~; None for an empty text.

    "padding" without lengths means lengths spread evenly from half of the keys to all of them.

    Raises:
        ConfigError: for an unknown mask, or numbers that do not fit it.
    """
    if not text.strip():
        return None
    either = [_joined(part, batch, query_len, key_len) for part in text.split("|")]
    return functools.reduce(operator.or_, either)


def _joined(text: str, batch: int, query_len: int, key_len: int) -> "Mask":
    both = [_one(part.strip(), batch, query_len, key_len) for part in text.split("&")]
    return functools.reduce(operator.and_, both)


def _one(text: str, batch: int, query_len: int, key_len: int) -> "Mask":
    if text.startswith("~"):
        return ~_one(text[1:].strip(), batch, query_len, key_len)
    name, _, rest = text.partition(":")
    if name not in _NUMBERS:
        raise ConfigError(unknown("mask", name, _NUMBERS))
    expected, least, most = _NUMBERS[name]
    try:
        numbers = [int(number) for number in rest.split(",")] if rest else []
    except ValueError:
        raise ConfigError(f"mask '{text}': '{rest}' are not whole numbers; {name} takes {expected}") from None
    lengths = name in ("padding", "prefix") and len(numbers) not in (0, 1, batch)
    if not least <= len(numbers) <= most or lengths:
        raise ConfigError(f"mask '{text}': {name} takes {expected}" + (f"; there are {batch}" if lengths else ""))
    return _makers(batch, max(query_len, key_len), key_len)[name](numbers)


def _makers(batch: int, length: int, key_len: int) -> "dict[str, Callable[[list[int]], Mask]]":
    import torch

    from headwise.attention import masks

    def lens(numbers: list[int]) -> torch.Tensor:
        if not numbers:
            return torch.linspace(max(1, key_len // 2), key_len, batch).round().long()
        return torch.tensor(numbers).expand(batch)

    return {
        "causal": lambda numbers: masks.Causal(),
        "window": lambda numbers: masks.Window(*numbers),
        "dilated": lambda numbers: masks.Dilated(*numbers),
        "strided": lambda numbers: masks.Strided(*numbers),
        "blocks": lambda numbers: masks.Blocks(*numbers),
        "global": lambda numbers: masks.Global(*numbers),
        "bigbird": lambda numbers: masks.BigBird(length, *numbers),
        "padding": lambda numbers: masks.Padding(lens(numbers)),
        "prefix": lambda numbers: masks.Prefix(lens(numbers)),
    }
