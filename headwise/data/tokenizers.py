"""Text to token numbers and back: words, characters, BPE or Unigram pieces, on Hugging Face `tokenizers`."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, trainers

from headwise.config import Config
from headwise.data.cutting import NUM_SPECIALS, Spacing, cutter, specials
from headwise.data.text import SPACE_MARK, Normalize, clean, normalized
from headwise.data.threads import threads_for
from headwise.data.unigram import train_unigram
from headwise.errors import DataError

# in no text, so in no vocabulary
_NO_CHARACTER = "\U0010fffd"
_FORMAT = "headwise-tokenizer"
_MAX_FILE_BYTES = 1 << 28
_SPACING_EXAMPLES = 20_000


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["word", "char", "bpe", "unigram"] = Field("bpe", description="what a token is")
    vocab_size: int = Field(8000, ge=8, description="largest vocabulary, the four special tokens included")
    joint: bool = Field(True, description="one vocabulary for both languages, trained on both sides")
    min_frequency: int = Field(1, ge=1, description="rarer words (bpe: pairs of pieces) do not become tokens")
    lowercase: bool = Field(False, description="convert text to lower case")
    normalize: Normalize = Field("nfc", description="Unicode form of every text: none, nfc or nfkc")
    split_punctuation: bool = Field(True, description="punctuation never shares a token with a word (not for char)")
    spaces: Literal["joined", "kept"] = Field(
        "joined", description="joined: white space only separates words; kept: every space, tab and line end is text"
    )


class Tokenizer:
    """Text to token numbers and back. Made by `train`, `load` or `from_bytes`.

    Numbers 0 to 3 are padding, begin, end and unknown; no text can produce the first three. Text is cleaned first (see
    `clean`), so offsets count characters of `tokenizer.clean(text)`. Training depends on nothing but its input.

    >>> words = Tokenizer.train(["go .", "i'm home ."], TokenizerConfig(kind="word"))
    >>> words.encode("I'm home.")
    [3, 6, 4]
    >>> words.decode([6, 4])
    'home .'
    """

    pad_id: ClassVar[int] = 0
    bos_id: ClassVar[int] = 1
    eos_id: ClassVar[int] = 2
    unk_id: ClassVar[int] = 3
    # tokens that stand for no text
    special_ids: ClassVar[frozenset[int]] = frozenset(range(NUM_SPECIALS))

    def __init__(self, config: TokenizerConfig, spacing: Spacing, backend: Any, data: bytes) -> None:
        self.config = config
        self.vocab_size: int = backend.get_vocab_size()
        self._spacing = spacing
        self._backend = backend
        self._data = data
        self._pieces = [str(backend.id_to_token(token)) for token in range(self.vocab_size)]

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Learns the tokens of `texts`; for a joint vocabulary these are both sides.

        Raises: DataError: there is no text.
        """
        cleaned = [_cleaned(text, config) for text in texts]
        if not any(cleaned):
            raise DataError("no text to train a tokenizer on: every line is empty")
        backend = _untrained(config)
        _train(backend, cleaned, config)
        described = json.loads(backend.to_str())
        # registered special tokens would be found inside texts; here they are plain entries of the vocabulary
        described["added_tokens"] = []
        spacing = Spacing()
        if _is_spaced(config):
            spacing = Spacing.learn(map(backend.pre_tokenizer.pre_tokenize_str, cleaned[:_SPACING_EXAMPLES]))
        document = {
            "format": _FORMAT,
            "version": 1,
            "config": config.model_dump(mode="json"),
            "spacing": spacing.model_dump(mode="json"),
            "tokenizer": described,
        }
        return cls.from_bytes(json.dumps(document, ensure_ascii=False, sort_keys=True).encode("utf-8"), "new tokenizer")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Reads what `save` wrote. Raises: DataError naming the file and what is wrong with it."""
        try:
            if Path(path).stat().st_size > _MAX_FILE_BYTES:
                raise DataError(f"{path}: larger than {_MAX_FILE_BYTES:,} bytes: not a tokenizer file")
            data = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
        return cls.from_bytes(data, os.fspath(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str, expected: TokenizerConfig | None = None) -> "Tokenizer":
        """A tokenizer from the bytes of its file; `name` stands in errors, and `expected` must have made it."""
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT or document["version"] != 1:
                raise ValueError(f"format {document['format']!r} version {document['version']!r} is not known")
            config = TokenizerConfig.model_validate(document["config"])
            if expected not in (None, config):
                raise ValueError("it is of another configuration than the recipe's")
            _refuse_other(document["tokenizer"], config)
            spacing = Spacing.model_validate(document["spacing"])
            backend = Backend.from_str(json.dumps(document["tokenizer"]))
            if backend.num_special_tokens_to_add(False) or backend.get_added_tokens_decoder():
                raise ValueError("it has added tokens")
            if tuple(backend.id_to_token(token) for token in range(4)) != specials(
                config.kind, config.spaces, config.split_punctuation
            ):
                raise ValueError("tokens 0 to 3 are not pad, bos, eos, unk")
            if any(backend.id_to_token(token) is None for token in range(backend.get_vocab_size())):
                raise ValueError("the token numbers have gaps")
            if cls.unk_id not in backend.encode(_NO_CHARACTER, add_special_tokens=False).ids:
                raise ValueError("unknown text has no token")
        except Exception as error:
            # the library raises bare Exception for what it cannot read
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{name}: not a tokenizer file of this package: {type(error).__name__}: {reason}") from None
        return cls(config, spacing, backend, data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one JSON file with everything `load` needs."""
        Path(path).write_bytes(self._data)

    def to_bytes(self) -> bytes:
        return self._data

    def digest(self) -> str:
        """SHA-256 of the tokenizer's file; equal digests mean equal token numbers for every text."""
        return hashlib.sha256(self._data).hexdigest()

    def clean(self, text: str) -> str:
        """The text as it is read: the normalisation of the configuration, capitals untouched."""
        return _cleaned(text, self.config)

    def encode(self, text: str) -> list[int]:
        """The token numbers of a text, without begin and end."""
        return self._backend.encode(self.clean(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many texts, on all cores."""
        encodings = self._backend.encode_batch_fast([self.clean(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token numbers; padding, begin and end are left out, unknown shows as <unk>.

        The inverse of `encode` for characters and pieces, and for words where spaces are kept; else spaces around
        punctuation follow the habit of the training text.

        Raises: DataError: a number outside the vocabulary.
        """
        pieces = [self.piece(token) for token in ids if token not in (self.pad_id, self.bos_id, self.eos_id)]
        if _is_spaced(self.config):
            return self._spacing.join(pieces)
        joined = "".join(pieces)
        if self.config.spaces == "kept":
            return joined
        if self.config.kind != "char":
            joined = joined.replace(SPACE_MARK, " ")
        return " ".join(joined.split())

    def tokens(self, text: str) -> list[str]:
        """What each token covers of the text, for figures; a token that is only a space shows as U+2581.

        >>> Tokenizer.train(["Go home."], TokenizerConfig(kind="word", lowercase=True)).tokens("Go  home!")
        ['Go', 'home', '!']
        """
        cleaned = self.clean(text)
        return [cleaned[start:end].strip() or SPACE_MARK for start, end in self.offsets(text)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of each token in `tokenizer.clean(text)`, in characters; spaces before a word are left out."""
        cleaned = self.clean(text)
        encoding = self._backend.encode(cleaned, add_special_tokens=False)
        spans: list[tuple[int, int]] = []
        for piece, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
            if self.config.spaces == "kept":
                pass
            elif piece == SPACE_MARK and cleaned[start:end] != " ":
                # the mark put before the first word covers nothing
                end = start
            elif end - start > 1 and cleaned[start] == " ":
                start += 1
            spans.append((start, end))
        return spans

    def piece(self, token: int) -> str:
        """The vocabulary entry of a token number, such as "▁home" or "<eos>"; `DataError` outside the vocabulary."""
        if not 0 <= token < self.vocab_size:
            raise DataError(f"token {token} is not in the vocabulary of {self.vocab_size} tokens")
        return self._pieces[token].strip() if token < NUM_SPECIALS else self._pieces[token]

    def shown(self, token: int) -> str:
        """A token as figures show it: without the mark of a space, unless it is nothing else."""
        return self.piece(token).strip(SPACE_MARK) or SPACE_MARK

    def pieces(self) -> list[str]:
        """All vocabulary entries in the order of their numbers."""
        return [self.piece(token) for token in range(self.vocab_size)]


def _cleaned(text: str, config: TokenizerConfig) -> str:
    return normalized(text, config.normalize) if config.spaces == "kept" else clean(text, config.normalize)


def _is_spaced(config: TokenizerConfig) -> bool:
    """Whether the spaces of decoded text are learned, not read."""
    return config.kind == "word" and config.spaces == "joined"


def _untrained(config: TokenizerConfig) -> Any:
    entries = specials(config.kind, config.spaces, config.split_punctuation)
    unknown = entries[3]
    if config.kind == "bpe":
        backend = Backend(models.BPE(unk_token=unknown, fuse_unk=True))
    elif config.kind == "unigram":
        backend = Backend(models.Unigram([(piece, 0.0) for piece in entries], unk_id=3))
    else:
        backend = Backend(models.WordLevel({piece: token for token, piece in enumerate(entries)}, unk_token=unknown))
    if config.lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = cutter(config.kind, config.spaces, config.split_punctuation)
    return backend


def _train(backend: Any, texts: list[str], config: TokenizerConfig) -> None:
    entries = list(specials(config.kind, config.spaces, config.split_punctuation))
    size = config.vocab_size - NUM_SPECIALS
    if config.kind == "unigram":
        learned = train_unigram(_word_counts(backend, texts, config), size)
        backend.model = models.Unigram([(piece, 0.0) for piece in entries] + learned, unk_id=3)
        return
    options: dict[str, Any] = {"special_tokens": entries, "show_progress": False}
    options |= {"vocab_size": config.vocab_size, "min_frequency": config.min_frequency}
    if config.kind == "bpe":
        # the most frequent characters, so that a large script cannot exceed the size
        options |= {"initial_alphabet": [SPACE_MARK], "limit_alphabet": size}
    trainer = trainers.BpeTrainer if config.kind == "bpe" else trainers.WordLevelTrainer
    with threads_for(len(texts)):
        backend.train_from_iterator(texts, trainer(**options))


def _refuse_other(described: Any, config: TokenizerConfig) -> None:
    """Everything but the words must be as the configuration makes it: no padding, no cutting, no chance."""
    fresh = json.loads(_untrained(config).to_str())
    pairs = [(part, described.get(part), fresh[part]) for part in fresh if part not in ("model", "added_tokens")]
    model = described["model"]
    pairs += [(f"model.{part}", model.get(part), value) for part, value in fresh["model"].items()]
    for part, actual, expected in pairs:
        if actual != expected and part not in ("model.vocab", "model.merges"):
            raise ValueError(f"its {part} is not what its configuration makes")


def _word_counts(backend: Any, texts: Iterable[str], config: TokenizerConfig) -> Counter[str]:
    words = Counter[str]()
    keeps_spaces = config.spaces == "kept"
    for word, count in Counter(word for text in texts for word in ([text] if keeps_spaces else text.split())).items():
        lowered = backend.normalizer.normalize_str(word) if backend.normalizer else word
        for part, _ in backend.pre_tokenizer.pre_tokenize_str(lowered):
            words[part] += count
    return Counter({word: count for word, count in words.items() if count >= config.min_frequency})
