"""Words in columns, as in CoNLL-2000 and CoNLL-2003: a word a line, a blank line after each sentence."""

import re

from headwise.data.bad_lines import Fault

DOCUMENT = "-DOCSTART-"

_Cells = tuple[str, str | None]


class Columns:
    """Reads the word and the tag of the lines of one file, which all have as many columns as the first.

    A line with a tab is cut at its tabs, others at runs of spaces. There are no comments: `#` is a word.

    Args:
        word, tag: numbers of columns from 0, or from the end as -1.
        required: a file without a column for tags is refused.

    >>> Columns(0, -1, required=True).cells(1, "Paris NNP I-NP B-LOC")
    ('Paris', 'B-LOC')
    """

    def __init__(self, word: int, tag: int, *, required: bool):
        self.word, self.tag, self.required = word, tag, required
        self.first = self.width = 0

    def cells(self, line: int, text: str) -> _Cells:
        """The word of a line and its tag; None where the file has words alone.

        Raises:
            Fault: what is wrong, with the number of the line.
        """
        found = text.split("\t") if "\t" in text else re.split(" +", text.strip(" "))
        if not self.width:
            self._begin(line, len(found))
        if len(found) != self.width:
            what = f"{_count(len(found))}, but line {self.first} has {self.width}; give every word the same columns"
            raise Fault(line, "columns", f"{what}, and put a blank line after each sentence")
        word, tag = found[self.word], None if self.width == 1 else found[self.tag].strip()
        if tag == "":
            raise Fault(line, "tags", "the tag is empty; give every word a tag")
        return word, tag

    def _begin(self, line: int, width: int) -> None:
        """Sees whether a file of so many columns has those that are asked for."""
        if width == 1 and self.required:
            what = "1 column; a word needs a tag beside it, after a space or a tab"
            raise Fault(line, "columns", what)
        for name, column in (("word_column", self.word), ("tag_column", self.tag)):
            if not -width <= column < width and width > 1:
                what = f"{_count(width)}, so there is no {name} {column}; set {name} from 0 to {width - 1}"
                raise Fault(line, "columns", f"{what}, or from the end as -1")
        if width > 1 and self.word % width == self.tag % width:
            what = f"word_column {self.word} and tag_column {self.tag} are the same of {width} columns; change one"
            raise Fault(line, "columns", what)
        if width == 1:
            self.word = 0
        self.first, self.width = line, width


def is_document(text: str) -> bool:
    """Whether a line says that a document begins, which is no word."""
    return text.split(maxsplit=1)[:1] == [DOCUMENT]


def _count(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"
