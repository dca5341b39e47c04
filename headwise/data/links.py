"""Gold word alignments: files with a line of links for each sentence pair, sure and possible ones."""

import os
import re
from dataclasses import dataclass

from headwise.data.files import read_lines
from headwise.errors import DataError

_LINK = re.compile(r"(\d{1,6})([-p?])(\d{1,6})")

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GoldLinks:
    """The (source, target) words of a pair that belong together, from 0; `possible` holds the sure ones too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_links(path: str | os.PathLike[str], *, reverse: bool = False) -> list[GoldLinks]:
    """Reads links between spaces, a line for each pair: `0-1` is a sure one, `0p1` or `0?1` a possible one.

    Args:
        reverse: the first number of a link is of the target.

    Raises:
        DataError: the file cannot be read, or a line holds something else.
    """
    found = []
    for number, line in read_lines(path):
        links: dict[Link, str] = {}
        for text in line.split():
            match = _LINK.fullmatch(text)
            if match is None:
                raise DataError(f"{path}:{number}: '{text[:20]}' is no link; write 0-1 (sure) or 0p1 (possible)")
            first, second = int(match[1]), int(match[3])
            link = (second, first) if reverse else (first, second)
            # a link that is given twice is as sure as its surer one
            links[link] = "-" if "-" in (match[2], links.get(link)) else match[2]
        sure = frozenset(link for link, mark in links.items() if mark == "-")
        found.append(GoldLinks(sure, frozenset(links)))
    return found
