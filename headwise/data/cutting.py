"""What tokens may not cross, and the entries of a vocabulary that no text can produce."""

from typing import Any

from tokenizers import Regex, pre_tokenizers

from headwise.data.text import SPACE_MARK

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
