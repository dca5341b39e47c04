"""What a tagger learns from its data besides weights, as the files of its run and back; what there is to tell of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from headwise.data.spans import Scheme, illegal_sentences
from headwise.data.tagged import Tagged
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.data.words import WordTokenizer
from headwise.tasks._files import as_json, from_json
from headwise.tasks.task import required

TOKENIZER_FILE, SPELLING_FILE = "tokenizer.json", "spelling.tokenizer.json"
TAGS_FILE, WORDS_FILE, SPANS_FILE = "tags.json", "words.json", "spans.json"


class Learned(NamedTuple):
    """What tagging learns from its data besides weights: tokens, tags, their scheme, each word's usual tag."""

    tokenizer: WordTokenizer
    tags: list[str]
    words: dict[str, str]
    scheme: Scheme

    @classmethod
    def read(cls, files: Mapping[str, bytes], pieces: TokenizerConfig, longest: int) -> "Learned":
        """That of a run's files.

        Args:
            pieces: what the tokenizer must be made by.
            longest: characters of the longest beginning and ending that tell the spelling of a word; 0: none do.

        Raises: CheckpointError naming a file that is missing or damaged.
        """
        tokenizer = Tokenizer.from_bytes(required(files, TOKENIZER_FILE), TOKENIZER_FILE, pieces)
        spelling = Tokenizer.from_bytes(required(files, SPELLING_FILE), SPELLING_FILE) if longest else None
        tags = from_json(files, TAGS_FILE, _tags, "not a list of tags")
        words = from_json(files, WORDS_FILE, _words, "not a table of words")
        # there is no such file where tags are no spans
        spans = SPANS_FILE in files
        scheme = from_json(files, SPANS_FILE, _scheme, "names no scheme of spans") if spans else "none"
        return cls(WordTokenizer(tokenizer, spelling, longest), tags, words, scheme)

    def files(self) -> dict[str, bytes]:
        """The same by file name."""
        found = {TOKENIZER_FILE: self.tokenizer.pieces.to_bytes(), TAGS_FILE: as_json(self.tags)}
        if self.tokenizer.spelling is not None:
            found[SPELLING_FILE] = self.tokenizer.spelling.to_bytes()
        if self.scheme != "none":
            found[SPANS_FILE] = as_json({"scheme": self.scheme})
        return {**found, WORDS_FILE: as_json(self.words)}


def _tags(found: Any) -> list[str]:
    if not isinstance(found, list) or not found:
        raise ValueError(found)
    return found


def _words(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        raise TypeError(found)
    return found


def _scheme(found: Any) -> Scheme:
    if found["scheme"] not in get_args(Scheme):
        raise ValueError(found)
    scheme: Scheme = found["scheme"]
    return scheme


def left_out(split: str, given: int, kept: int, max_len: int) -> list[str]:
    """How many sentences are too long."""
    lost = given - kept
    return [f"{split}: {lost:,} of {given:,} sentences are longer than max_len {max_len}"] if lost else []


def lacking(split: str, kept: Sequence[Tagged], learned: Learned) -> list[str]:
    """What of the sentences of a split training lacks, and how many of them break the scheme."""
    notes = []
    if broken := illegal_sentences([sentence.tags or () for sentence in kept], learned.scheme):
        notes.append(f"{split}: tags of {broken:,} of {len(kept):,} sentences break the scheme {learned.scheme}")
    if split == "train" or not kept:
        return notes
    total = sum(len(sentence.words) for sentence in kept)
    unseen = sum(word not in learned.words for sentence in kept for word in sentence.words)
    notes.append(f"{split}: {unseen / total:.1%} of {total:,} words are not in the training part")
    others = Counter(tag for sentence in kept for tag in sentence.tags or () if tag not in learned.tags)
    if others:
        named = ", ".join(f"{tag} ({count:,})" for tag, count in others.most_common(5))
        more = ", ..." if len(others) > 5 else ""
        notes.append(f"{split}: tags that training lacks, so that they cannot be got right: {named}{more}")
    return notes
