"""Token labels: control characters made visible, long tokens shortened, nothing read as mathematics."""

import unicodedata

from rich.cells import cell_len, chop_cells

# categories without a picture of their own: controls, lone surrogates, private use; line and paragraph separators.
# Bidirectional overrides and invisible marks are of category Cf, where the joiners that emoji and scripts need stay.
_HIDDEN = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
_SHOWN_FORMATS = {"\u200c", "\u200d"}


def visible(text: str) -> str:
    r"""The text with every control or invisible character written as its escape, safe for a terminal and a figure.

    >>> visible("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    return "".join(_escaped(character) if _is_hidden(character) else character for character in text)


def columns(text: str) -> int:
    """Terminal columns that the text takes: wide characters two, combining marks none.

    >>> columns("chez"), columns("你好")
    (4, 4)
    """
    return cell_len(text)


def shorten(text: str, limit: int) -> str:
    """The text in at most `limit` columns, its middle replaced by an ellipsis.

    >>> shorten("Donaudampfschifffahrt", 9)
    'Dona…ahrt'
    """
    if columns(text) <= limit:
        return text
    head = _prefix(text, limit // 2)
    tail = _prefix(text[::-1], limit - limit // 2 - 1)[::-1]
    # a mark that lost its letter would land on the ellipsis
    while tail and unicodedata.combining(tail[0]):
        tail = tail[1:]
    return f"{head}…{tail}"


def padded(text: str, width: int) -> str:
    """The text filled with spaces to `width` terminal columns."""
    return text + " " * max(0, width - columns(text))


def literal(text: str) -> str:
    r"""The text as matplotlib must get it to draw it as it is: a dollar sign starts no formula.

    >>> literal("$5 and $6")
    '\\$5 and \\$6'
    """
    return text.replace("$", r"\$")


def _is_hidden(character: str) -> bool:
    category = unicodedata.category(character)
    return category in _HIDDEN or (category == "Cf" and character not in _SHOWN_FORMATS)


def _escaped(character: str) -> str:
    code = ord(character)
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
    if character in named:
        return named[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _prefix(text: str, limit: int) -> str:
    return next(iter(chop_cells(text, limit)), "") if limit > 0 else ""
