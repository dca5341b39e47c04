"""A mask that several masks make together, taken apart."""

from headwise.attention.masks.mask import And, Mask, Shared


def parts(mask: Mask | None) -> list[Mask]:
    """The masks that all have to allow a pair, from left to right.

    >>> from headwise.attention.masks import Causal, Window
    >>> [type(part).__name__ for part in parts((Causal() & Window(2, 2)).shared())]
    ['Causal', 'Window']
    """
    if isinstance(mask, Shared):
        return parts(mask.mask)
    if isinstance(mask, And):
        return [*parts(mask.left), *parts(mask.right)]
    return [] if mask is None else [mask]


def without(mask: Mask | None, *kinds: type[Mask]) -> Mask | None:
    """What is left of a mask when its parts of these kinds are taken out; None: every pair may meet."""
    found: Mask | None = None
    for part in parts(mask):
        if not isinstance(part, kinds):
            found = part if found is None else found & part
    return found
