"""What a tagger learns from its data besides weights, as the files of its run and back; what there is to tell of it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from headwise.data.spans import Scheme, illegal_sentences
from headwise.data.tagged import Tagged
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.data.words import WordTokenizer
from headwise.errors import CheckpointError
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
        return cls(WordTokenizer(tokenizer, spelling, longest), _tags(files), _words(files), _scheme(files))

    def files(self) -> dict[str, bytes]:
        """The same by file name."""
        found = {TOKENIZER_FILE: self.tokenizer.pieces.to_bytes(), TAGS_FILE: _bytes(self.tags)}
        if self.tokenizer.spelling is not None:
            found[SPELLING_FILE] = self.tokenizer.spelling.to_bytes()
        if self.scheme != "none":
            found[SPANS_FILE] = _bytes({"scheme": self.scheme})
        return {**found, WORDS_FILE: _bytes(self.words)}


def _bytes(value: list[str] | dict[str, str]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _tags(files: Mapping[str, bytes]) -> list[str]:
    found = _json(files, TAGS_FILE)
    if not isinstance(found, list) or not found:
        raise CheckpointError(f"{TAGS_FILE}: not a list of tags; restore it from a copy of the run")
    return found


def _words(files: Mapping[str, bytes]) -> dict[str, str]:
    found = _json(files, WORDS_FILE)
    if not isinstance(found, dict):
        raise CheckpointError(f"{WORDS_FILE}: not a table of words; restore it from a copy of the run")
    return found


def _scheme(files: Mapping[str, bytes]) -> Scheme:
    # there is no such file where tags are no spans
    found = _json(files, SPANS_FILE) if SPANS_FILE in files else {"scheme": "none"}
    if not isinstance(found, dict) or found.get("scheme") not in get_args(Scheme):
        raise CheckpointError(f"{SPANS_FILE}: names no scheme of spans; restore it from a copy of the run")
    scheme: Scheme = found["scheme"]
    return scheme


def _json(files: Mapping[str, bytes], name: str) -> object:
    try:
        return json.loads(required(files, name))
    except ValueError:
        return None


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
