"""What a tagger learns from its data besides weights, as the files of its run and back."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.data.words import WordTokenizer
from headwise.errors import CheckpointError
from headwise.tasks.task import required

TOKENIZER_FILE, SPELLING_FILE = "tokenizer.json", "spelling.tokenizer.json"
TAGS_FILE, WORDS_FILE = "tags.json", "words.json"


class Learned(NamedTuple):
    """What tagging learns from its data besides weights: tokens, tags, the most frequent tag of each word."""

    tokenizer: WordTokenizer
    tags: list[str]
    words: dict[str, str]

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
        return cls(WordTokenizer(tokenizer, spelling, longest), _tags(files), _words(files))

    def files(self) -> dict[str, bytes]:
        """The same by file name."""
        found = {TOKENIZER_FILE: self.tokenizer.pieces.to_bytes(), TAGS_FILE: _bytes(self.tags)}
        if self.tokenizer.spelling is not None:
            found[SPELLING_FILE] = self.tokenizer.spelling.to_bytes()
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


def _json(files: Mapping[str, bytes], name: str) -> object:
    try:
        return json.loads(required(files, name))
    except ValueError:
        return None
