"""The one normalisation of text, used wherever text enters; scripts and hidden characters."""

import unicodedata
from collections.abc import Mapping
from typing import Literal

from headwise.errors import DataError

Normalize = Literal["none", "nfc", "nfkc"]

# The mark that subword tokenizers write for a space.
SPACE_MARK = "\u2581"

_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_MAX_COMBINING_RUN = 256
# first words of character names that do not name the script
_SCRIPTS = {"CJK": "Han", "IDEOGRAPHIC": "Han", "MASCULINE": "Latin", "FEMININE": "Latin", "MICRO": "Greek"}


def clean(text: str, normalize: Normalize = "nfc") -> str:
    """The text as every reader and tokenizer sees it: Unicode-normalised, every run of white space one plain space.

    No-break, narrow and thin spaces, tabs and Unicode line separators count as white space; zero-width characters do
    not. U+2581, the space mark of subword tokenizers, becomes an underscore. Cleaning twice changes nothing. Linear
    time.

    Args:
        normalize: the Unicode form, NFC or NFKC, or "none" to leave the characters as they are.

    Raises: DataError: for a lone surrogate, or more than 256 combining marks in a row.

    >>> clean("  Va\u202f!\u00a0 Oui\t")
    'Va ! Oui'
    """
    return " ".join(normalized(text, normalize).replace(SPACE_MARK, "_").split())


def normalized(text: str, normalize: Normalize = "nfc") -> str:
    """The Unicode form alone: white space stays as it stands.

    Raises: DataError: for a lone surrogate, or more than 256 combining marks in a row.
    """
    if text.isascii():
        return text
    refuse_surrogates(text)
    # normalising sorts each run of combining marks in quadratic time
    if len(text) > _MAX_COMBINING_RUN:
        _refuse_long_runs(text)
    return text if normalize == "none" else unicodedata.normalize(_FORMS[normalize], text)


def script(character: str) -> str | None:
    """The script of a letter, such as "Latin" or "Han"; None for anything that is not a letter.

    >>> [script(c) for c in "aя中ーع1 "]
    ['Latin', 'Cyrillic', 'Han', 'Katakana', 'Arabic', None, None]
    """
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "OTHER").replace("-", " ").split()
    # "HALFWIDTH KATAKANA LETTER A"
    first = words[1 if words[0] in ("FULLWIDTH", "HALFWIDTH") else 0]
    return _SCRIPTS.get(first, first.capitalize())


def script_counts(characters: Mapping[str, int]) -> dict[str, int]:
    """Letters per script, most frequent first, from character counts; costs one look-up per different character."""
    counts: dict[str, int] = {}
    for character, count in characters.items():
        name = script(character)
        if name is not None:
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def hidden(character: str) -> str | None:
    """The code point and name of a character that cannot be seen (control, zero-width, direction mark), else None.

    >>> hidden("\u200b"), hidden("a")
    ('U+200B ZERO WIDTH SPACE', None)
    """
    if unicodedata.category(character) not in ("Cc", "Cf", "Co", "Cn"):
        return None
    return f"U+{ord(character):04X} {unicodedata.name(character, 'control or unassigned character')}"


def refuse_surrogates(text: str) -> None:
    """Raises: DataError for half of a surrogate pair, which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise DataError(
            f"lone surrogate U+{code:04X} at character {error.start + 1} is no character; write the character itself"
        ) from None


def _refuse_long_runs(text: str) -> None:
    run = 0
    for position, character in enumerate(text):
        run = run + 1 if unicodedata.combining(character) else 0
        if run > _MAX_COMBINING_RUN:
            raise DataError(
                f"more than {_MAX_COMBINING_RUN} combining marks in a row, up to character {position + 1}; remove them"
            )
