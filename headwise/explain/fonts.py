"""Fonts for the characters of a label; characters without a font are written as codes, with one warning."""

import contextlib
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

# fonts whose glyph for every character shows only its script; matplotlib ships one of them
_PLACEHOLDERS = ("last resort", "lastresort", "adobe blank")


def families(texts: Iterable[str]) -> list[str]:
    """Font families, in the order to try them, that together have every character that an installed font has."""
    chosen = [FIRST]
    missing = _drawn(texts) - _characters(FIRST)
    for family in _installed() if missing else ():
        if covered := missing & _characters(family):
            chosen.append(family)
            missing -= covered
        if not missing:
            break
    return chosen


def legible(text: str, fonts: Iterable[str]) -> str:
    """The text with each character that none of the fonts has written as its code, such as U+4F60.

    Warns, for each script, how to install a font; always with the same text and from the same line, so that Python
    shows it once.
    """
    missing = _drawn([text]).difference(*(_characters(family) for family in fonts))
    if not missing:
        return text
    _warn(missing)
    return "".join(f"U+{ord(character):04X}" if character in missing else character for character in text)


def report() -> list[tuple[str, str]]:
    """For `headwise doctor`: the font of each of some scripts, or `NONE`."""
    samples = {
        "Latin": "é",
        "Greek": "λ",
        "Cyrillic": "ж",
        "Chinese": "你",
        "Japanese": "の",
        "Korean": "한",
        "Arabic": "ع",
    }
    return [
        (name, next((family for family in families([sample]) if sample in _characters(family)), NONE))
        for name, sample in samples.items()
    ]


def _drawn(texts: Iterable[str]) -> set[str]:
    return {character for text in texts for character in visible(text) if not character.isspace()}


def _warn(missing: set[str]) -> None:
    for name in sorted({script(character) or "signs" for character in missing}):
        what = "some signs" if name == "signs" else f"characters of the script {name}"
        warnings.warn(
            f"no installed font has {what}; they are shown as codes. "
            f"Install one: {ADVICE}, or https://fonts.google.com/noto",
            # this line, not that of the caller: Python shows a warning of one line once
            stacklevel=1,
        )


@cache
def _characters(family: str) -> frozenset[str]:
    """The characters that matplotlib would draw with the regular face of this family."""
    path = next(str(entry.fname) for entry in font_manager.fontManager.ttflist if _is_regular(entry, family))
    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (RuntimeError, OSError):
        # a font of matplotlib's list that is damaged, or was removed since
        return frozenset()


@cache
def _installed() -> tuple[str, ...]:
    """Families with a regular face, also those installed since matplotlib made its list; the preferred ones first."""
    listed = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in listed:
            with contextlib.suppress(ValueError, RuntimeError, OSError):
                # matplotlib refuses some fonts
                font_manager.fontManager.addfont(path)
    names = {entry.name for entry in font_manager.fontManager.ttflist if _is_regular(entry, entry.name)}
    names = {name for name in names if not name.lower().lstrip(".").startswith(_PLACEHOLDERS)}
    first = [family for family in PREFERRED if family in names]
    return tuple(first + sorted(names.difference(first)))


def _is_regular(entry: font_manager.FontEntry, family: str) -> bool:
    return entry.name == family and entry.style == "normal" and entry.weight in (400, "normal", "regular")
