"""Files with a word a line and a blank line after each sentence: CoNLL-U, and columns as in CoNLL-2003."""

from collections.abc import Iterator

from headwise.data.bad_lines import BadLine
from headwise.data.files import scan_lines
from headwise.data.text import Normalize, clean
from headwise.errors import DataError

DOCUMENT = "-DOCSTART-"
# CoNLL-U: https://universaldependencies.org/format.html
CONLLU_COLUMNS = 10

Line = tuple[int, str | BadLine]


def is_document(text: str) -> bool:
    """Whether a line says that a document begins, which is no word."""
    return text.split(maxsplit=1)[:1] == [DOCUMENT]


def line_blocks(name: str, max_line_bytes: int, *, columns: bool) -> Iterator[list[Line]]:
    """The lines between blank ones: of CoNLL-U without comments, of columns without the beginnings of documents."""
    block: list[Line] = []
    for number, text in scan_lines(name, max_line_bytes=max_line_bytes):
        if isinstance(text, BadLine):
            block.append((number, text))
        elif not text or text.isspace() or (columns and is_document(text)):
            if block:
                yield block
            block = []
        elif columns or not text.startswith("#"):
            block.append((number, text))
    if block:
        yield block


def conllu_cells(line: int, text: str, expected: int) -> list[str] | None:
    """The columns of a word's line; None for a line that is no word. Raises: BadLine."""
    cells = text.split("\t", CONLLU_COLUMNS)
    if len(cells) != CONLLU_COLUMNS:
        count = text.count("\t") + 1
        hint = "; columns are separated by tabs, not by spaces" if count == 1 else ""
        raise BadLine(
            "", line, "columns", f"{count} column{'s' if count > 1 else ''}, CoNLL-U has {CONLLU_COLUMNS}{hint}"
        )
    number = cells[0]
    if number.isdecimal():
        if int(number[:9]) != expected:
            what = f"word {number[:9]} where word {expected} is due; number the words of a sentence 1, 2, ... and"
            raise BadLine("", line, "numbering", f"{what} put a blank line after each sentence")
        return cells
    first, mark, second = number.partition("-") if "-" in number else number.partition(".")
    if not (mark and first.isdecimal() and second.isdecimal()):
        what = f"{number[:20]!r} is no word number; the first column is a number, 1-2 or 1.1"
        raise BadLine("", line, "numbering", what)
    return None


def cleaned_word(line: int, word: str, normalize: Normalize) -> str:
    """A word of a line in its normal form. Raises: BadLine."""
    try:
        cleaned = clean(word, normalize)
    except DataError as error:
        raise BadLine("", line, "characters", error.message) from None
    if not cleaned:
        raise BadLine("", line, "empty word", "a word is empty; write the word or remove it")
    return cleaned
