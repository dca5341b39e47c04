"""Fonts that have the characters of a label; what no installed font has is written as its code, with one warning."""

import warnings
from collections.abc import Iterable
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from headwise.data.text import script
from headwise.labels import visible

FIRST = "DejaVu Sans"  # ships with matplotlib
NONE = "no installed font"
ADVICE = "apt-get install fonts-noto-cjk (or fonts-wqy-zenhei)"

# tried in this order before the rest of what is installed: simplified Chinese first, then fonts with all of Han
PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "SimHei",
    "Noto Sans CJK JP",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)

# fonts that have a sign for every character, which says nothing but its script; matplotlib ships one of them
_PLACEHOLDERS = ("last resort", "lastresort", "adobe blank")


def families(texts: Iterable[str]) -> list[str]:
    """Font families, in the order to try them, that together have as many of the characters as installed fonts can."""
    chosen = [FIRST]
    missing = _drawn(texts) - _characters(FIRST)
    for family in _installed() if missing else ():
        found = missing & _characters(family)
        if found:
            chosen.append(family)
            missing -= found
        if not missing:
            break
    return chosen


def legible(text: str, fonts: Iterable[str]) -> str:
    """The text with each character that none of the fonts has written as its code, such as U+4F60.

    Warns, for each script, how to install a font that has them; always in the same words from the same place, so that
    Python shows it once.
    """
    missing = _drawn([text]).difference(*(_characters(family) for family in fonts))
    if not missing:
        return text
    _warn(missing)
    return "".join(f"U+{ord(character):04X}" if character in missing else character for character in text)


def report() -> list[tuple[str, str]]:
    """For `headwise doctor`: which font would draw some scripts, or that none is there."""
    samples = {
        "Latin": "é",
        "Greek": "λ",
        "Cyrillic": "ж",
        "Chinese": "你",
        "Japanese": "の",
        "Korean": "한",
        "Arabic": "ع",
    }
    rows = []
    for name, sample in samples.items():
        fonts = families([sample])
        rows.append((name, next((family for family in fonts if sample in _characters(family)), NONE)))
    return rows


def _drawn(texts: Iterable[str]) -> set[str]:
    return {character for text in texts for character in visible(text) if not character.isspace()}


def _warn(missing: set[str]) -> None:
    for name in sorted({script(character) or "signs" for character in missing}):
        what = "some signs" if name == "signs" else f"characters of the script {name}"
        warnings.warn(
            f"no installed font has {what}; they are shown as codes. "
            f"Install one: {ADVICE}, or https://fonts.google.com/noto",
            # this line, not that of whoever draws: Python tells a warning of one place once
            stacklevel=1,
        )


@cache
def _characters(family: str) -> frozenset[str]:
    """The characters that matplotlib would draw with the regular face of this family."""
    path = next(str(entry.fname) for entry in font_manager.fontManager.ttflist if _is_regular(entry, family))
    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (RuntimeError, OSError):
        # matplotlib keeps a list of fonts; this one was removed since, or is damaged
        return frozenset()


@cache
def _installed() -> tuple[str, ...]:
    """Families with a regular face, also those installed after matplotlib last looked; the preferred ones first."""
    known = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            _register(path)
    names = {entry.name for entry in font_manager.fontManager.ttflist if _is_regular(entry, entry.name)}
    names = {name for name in names if not name.lower().lstrip(".").startswith(_PLACEHOLDERS)}
    first = [family for family in PREFERRED if family in names]
    return tuple(first + sorted(names.difference(first)))


def _is_regular(entry: font_manager.FontEntry, family: str) -> bool:
    return entry.name == family and entry.style == "normal" and entry.weight in (400, "normal", "regular")


def _register(path: str) -> None:
    try:
        font_manager.fontManager.addfont(path)
    except (ValueError, RuntimeError, OSError):
        # a font that matplotlib cannot read is no font for us
        return
