"""Sentences with the words that their words depend on, of CoNLL-U."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwise.data.bad_lines import BadLine, strict
from headwise.data.files import MAX_LINE_BYTES
from headwise.data.text import Normalize
from headwise.data.word_lines import cleaned_word, conllu_cells, line_blocks

_FORM, _HEAD, _RELATION = 1, 6, 7


@dataclass(frozen=True, slots=True)
class Parsed:
    """The words of a sentence, and of each the number of the word that it depends on, from 0, and by which relation.

    Args:
        heads: -1 at the root.
        relations: without what language adds to them: "nmod" of "nmod:poss".
        line: the line (from 1) of the file that it begins at.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    line: int


def read_dependencies(path: str | os.PathLike[str], normalize: Normalize = "nfc") -> Iterator[Parsed]:
    """The sentences of a CoNLL-U file, one after another.

    Raises: DataError: `file:line: ...`, what is wrong there.
    """

    def sentences() -> Iterator[Parsed | BadLine]:
        name = os.fspath(path)
        for block in line_blocks(name, MAX_LINE_BYTES, columns=False):
            faults = [text for _, text in block if isinstance(text, BadLine)]
            try:
                if not faults:
                    yield _parsed([(number, str(text)) for number, text in block], normalize)
            except BadLine as fault:
                faults.append(fault.of(name))
            yield from faults

    return strict(sentences())


def _parsed(lines: Sequence[tuple[int, str]], normalize: Normalize) -> Parsed:
    words: list[str] = []
    heads: list[tuple[int, str]] = []
    relations: list[str] = []
    for number, text in lines:
        cells = conllu_cells(number, text, len(words) + 1)
        if cells is not None:
            words.append(cleaned_word(number, cells[_FORM], normalize))
            heads.append((number, cells[_HEAD]))
            relations.append(cells[_RELATION].partition(":")[0])
    if not words:
        raise BadLine("", lines[0][0], "empty sentence", "the sentence is empty; give it words or remove it")
    for number, head in heads:
        if not (head.isdecimal() and int(head[:9]) <= len(words)):
            what = f"{head[:20]!r} is no word of this sentence; column 7 is the number of a word, or 0 at the root"
            raise BadLine("", number, "heads", what)
    return Parsed(tuple(words), tuple(int(head) - 1 for _, head in heads), tuple(relations), lines[0][0])
