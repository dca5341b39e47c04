"""Text and numbers for people: control characters visible, long tokens shortened, roundings that stay off 0 and 1."""

import unicodedata
from typing import SupportsFloat

from rich.cells import cell_len, chop_cells

# categories without a picture of their own: controls, lone surrogates, private use; line and paragraph separators.
# Bidirectional overrides and invisible marks are of category Cf, where the joiners that emoji and scripts need stay.
_HIDDEN = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
# rounding error of sums in float32: a number this close to a bound counts as the bound
NOISE = 1e-6
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


def decimals(value: SupportsFloat, places: int = 2) -> str:
    """A number with so many decimals; it reads as 0 or 1 only if it is 0 or 1.

    A number that would be rounded to one of them is written as a bound.

    >>> decimals(0.996), decimals(1e-9), decimals(-0.002), decimals(1.0), decimals(0.5)
    ('>0.99', '<0.01', '>-0.01', '1.00', '0.50')
    """
    return _rounded(float(value), f"{value:.{places}f}", places, 1)


def significant(value: SupportsFloat, digits: int) -> str:
    """A number with so many significant digits; it reads as 1 only if it is 1.

    >>> significant(0.99999, 4), significant(0.25, 4), significant(1.0, 4)
    ('>0.9999', '0.25', '1')
    """
    return _rounded(float(value), f"{value:.{digits}g}", digits, 1)


def cell_text(weight: SupportsFloat) -> str:
    """A weight in a cell of a map: two decimals without the leading zero, "·" for what they do not show; 0 and 1 only
    for what is 0 and 1.

    >>> [cell_text(weight) for weight in (0.891, 0.004, 0.9999, 1.0, 0, -0.25)]
    ['.89', '·', '>.99', '1', '0', '−.25']
    """
    value, size = float(weight), abs(float(weight))
    sign = "−" if value < 0 else ""
    if 0 < size < 0.005:
        return "·"
    if size in (0, 1):
        return f"{sign}{size:.0f}"
    return f"{sign}>.99" if 0.995 <= size < 1 else sign + f"{size:.2f}".removeprefix("0")


def percent(share: SupportsFloat, places: int = 0) -> str:
    """A share of 1 in percent; it reads as 0 % or 100 %, without decimals, only for none or all.

    >>> percent(0.0004), percent(0.9999, 1), percent(0.25), percent(1, 1)
    ('<1%', '>99.9%', '25%', '100%')
    """
    value = 100 * float(share)
    if value == 0 or abs(value - 100) < 100 * NOISE:
        return f"{value:.0f}%"
    return f"{_rounded(value, f'{value:.{places}f}', places, 100)}%"


def probability(value: SupportsFloat) -> str:
    """A probability with four decimals, or as many as it needs to read neither 0 nor 1; a valid number.

    >>> probability(0.25), probability(0.99999), probability(0.0000123), probability(1.0)
    ('0.2500', '0.99999', '1.2e-05', '1.0000')
    """
    share = float(value)
    if 0 < share < 5e-5:
        return f"{share:.1e}"
    texts = (f"{share:.{places}f}" for places in range(4, 8))
    return next(text for text in texts if float(text) != 1 or share >= 1 - NOISE)


def literal(text: str) -> str:
    r"""The text escaped for matplotlib, so that a dollar sign starts no formula.

    >>> literal("$5 and $6")
    '\\$5 and \\$6'
    """
    return text.replace("$", r"\$")


def _rounded(value: float, text: str, places: int, bound: int) -> str:
    """The rounded text; a bound such as "<0.01" where it reads as 0 or `bound` and the value is neither."""
    step, rounded = 10.0**-places, abs(float(text))
    below = rounded == 0 and value != 0
    if not below and not (rounded == bound and abs(value) < bound * (1 - NOISE)):
        return text
    limit = f"{step if below else bound - step:.{places}f}"
    return f"{'<' if below else '>'}{limit}" if value > 0 else f"{'>' if below else '<'}-{limit}"


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
