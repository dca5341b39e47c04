"""Masks written on the command line: "causal & padding", "window:64,0 | global:2", "~blocks:8"."""

from typing import TYPE_CHECKING

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.attention.masks import Mask


def read_mask(text: str, batch: int, query_len: int, key_len: int) -> "Mask | None":
    """A mask from text, as `masks.build` reads it; None for an empty one.

    "padding" and "prefix" are followed by a length for each sentence, or one for all; "padding" alone means lengths
    spread evenly from half of the keys to all of them.

    Raises: ConfigError: for an unknown mask, or arguments that do not fit it.
    """
    import torch

    from headwise.attention import masks

    def make(part: str) -> "Mask":
        name, _, argument = part.partition(":")
        if name not in ("padding", "prefix"):
            return masks.REGISTRY.build(part, length=max(query_len, key_len))
        lengths, least = argument.split(",") if argument else [], 0 if name == "padding" else 1
        if not all(length.strip().isdecimal() for length in lengths) or len(lengths) not in (least, 1, batch):
            raise ConfigError(f"mask '{part}': {name} takes one length, or one for each of {batch} sentences")
        if not lengths:
            return masks.Padding(torch.linspace(max(1, key_len // 2), key_len, batch).round().long())
        return masks.MASKS[name](torch.tensor([*map(int, lengths)]).expand(batch))  # type: ignore[call-arg]

    return masks.combined(text, make) if text.strip() else None
