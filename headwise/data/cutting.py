"""What tokens may not cross, entries of a vocabulary that no text can produce, and how punctuation is spaced."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Regex, pre_tokenizers

from headwise.config import Config
from headwise.data.text import SPACE_MARK

# where the examples show nothing
_CLOSING = frozenset(".,;:!?%…)]}»”’、。")
_OPENING = frozenset("([{«“‘¿¡#$€£")
_QUOTES = frozenset("\"'")

# a word or mark, and where it begins and ends in the text
Piece = tuple[str, tuple[int, int]]
_Counts = Counter[tuple[str, bool]]


class Spacing(Config):
    """Marks that stand without a space before or after them; quotation marks that pair up; marks side by side.

    >>> rule = Spacing.learn([[("Oui", (0, 3)), ("!", (4, 5))], [("Oui", (0, 3)), (",", (3, 4)), ("toi", (5, 8))]])
    >>> rule.join(["Toi", ",", "oui", "!"])
    'Toi, oui !'
    """

    no_space_before: str = ""
    no_space_after: str = ""
    quotes: str = ""
    touching: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @classmethod
    def learn(cls, texts: Iterable[Sequence[Piece]]) -> "Spacing":
        """Follows the majority, mark by mark; marks never seen beside a word follow English usage."""
        before, after, between = _Counts(), _Counts(), _Counts()
        marks: set[str] = set()
        for pieces in texts:
            for (left, (_, end)), (right, (start, _)) in itertools.pairwise(pieces):
                if _is_mark(left) and _is_mark(right):
                    between[left + right, end == start] += 1
                else:
                    before[right, end == start] += 1
                    after[left, end == start] += 1
            marks.update(piece for piece, _ in pieces if _is_mark(piece))
        return cls(
            no_space_before="".join(sorted(m for m in marks - _QUOTES if _glued(before, m, m in _CLOSING))),
            no_space_after="".join(sorted(m for m in marks - _QUOTES if _glued(after, m, m in _OPENING))),
            quotes="".join(sorted(m for m in marks & _QUOTES if _paired(before, after, m))),
            touching=tuple(sorted({pair for pair, _ in between if _glued(between, pair, False)})),
            apart=tuple(sorted({pair for pair, _ in between if not _glued(between, pair, True)})),
        )

    def join(self, words: Sequence[str]) -> str:
        """The words and marks as one text; linear time."""
        parts: list[str] = []
        opened: set[str] = set()
        previous: str | None = None
        glue = True
        for word in words:
            closes = word in opened
            if previous is not None and not self._touch(previous, word, glue or closes):
                parts.append(" ")
            parts.append(word)
            glue = _in(word, self.no_space_after)
            if _in(word, self.quotes):
                glue = not closes
                opened ^= {word}
            previous = word
        return "".join(parts)

    def _touch(self, left: str, right: str, glue: bool) -> bool:
        if len(left) > 1 and len(right) > 1:
            # no marks
            return glue
        if not _in(left, self.quotes) and not _in(right, self.quotes):
            if left + right in self.touching:
                return True
            if left + right in self.apart:
                return False
        return glue or _in(right, self.no_space_before)


def _is_mark(piece: str) -> bool:
    return len(piece) == 1 and not piece.isalnum()


def _in(word: str, marks: str) -> bool:
    return len(word) == 1 and word in marks


def _glued(counts: _Counts, mark: str, default: bool) -> bool:
    glued, spaced = counts[mark, True], counts[mark, False]
    return default if glued == spaced else glued > spaced


def _paired(before: _Counts, after: _Counts, mark: str) -> bool:
    """A quotation mark around words touches its word on one side: half of all its sides."""
    glued = before[mark, True] + after[mark, True]
    return 2 * glued >= before[mark, False] + after[mark, False]


# padding, begin, end, unknown
_NAMES = ("<pad>", "<bos>", "<eos>", "<unk>")
NUM_SPECIALS = len(_NAMES)

# One mark of punctuation, but not within "i'm", "chez-moi", "e.g", "10.5" or "10:30".
_MARK = r"(?:(?<!\w)['’.\-]|['’.\-](?!\w)|(?<!\d)[,:]|[,:](?!\d)|[^\w\s'’.,:\-▁]|_)"

# with spaces kept: words with the one space before them, other white space by itself, so none reaches over a line end
_KEPT, _KEPT_MARKS = r" ?\S+|\s", r" ?\w+| ?[^\w\s]|\s"


def specials(kind: str, spaces: str, split_punctuation: bool) -> tuple[str, ...]:
    """The entries of numbers 0 to 3. Spaces in front keep them apart from every text, which may well hold <unk>.

    One is enough where no piece with a space is a whole word; the piece of a word has one in front at most.

    >>> specials("word", "joined", True)[3], specials("word", "kept", False)[3]
    (' <unk>', '  <unk>')
    """
    wide = spaces == "kept" and kind != "char" and not split_punctuation
    return tuple(f"{'  ' if wide else ' '}{name}" for name in _NAMES)


def cutter(kind: str, spaces: str, split_punctuation: bool) -> Any:
    """Cuts text into what tokens may not cross: characters, or words with or without their punctuation."""
    if kind == "char":
        return pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    if spaces == "kept":
        return pre_tokenizers.Split(Regex(_KEPT_MARKS if split_punctuation else _KEPT), "isolated")
    words = pre_tokenizers.WhitespaceSplit() if kind == "word" else pre_tokenizers.Metaspace()
    if not split_punctuation:
        return words
    pattern = _MARK if kind == "word" else f"{SPACE_MARK}?{_MARK}"
    return pre_tokenizers.Sequence([words, pre_tokenizers.Split(Regex(pattern), "isolated")])
