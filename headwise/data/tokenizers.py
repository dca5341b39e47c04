"""Text to token numbers and back: words, characters, BPE or Unigram pieces, on Hugging Face `tokenizers`."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, trainers

from headwise.config import Config
from headwise.data.cutting import NUM_SPECIALS, Spacing, cutter, specials
from headwise.data.text import SPACE_MARK, Normalize, clean, normalized
from headwise.data.threads import threads_for
from headwise.data.unigram import train_unigram
from headwise.errors import DataError

I = TypeVar("I")  # noqa: E741

# in no text, so in no vocabulary
_NO_CHARACTER = "\U0010fffd"
_FORMAT = "headwise-tokenizer"
_MAX_FILE_BYTES = 1 << 28
_SPACING_EXAMPLES = 20_000
# a text that shows what an imported tokenizer puts around one, and names of a mask
_SAMPLE, _MASKS = "a b", ("[MASK]", "<mask>")


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["word", "char", "bpe", "unigram", "imported"] = Field(
        "bpe", description="what a token is; imported: as the tokenizer.json of an imported model says"
    )
    vocab_size: int = Field(8000, ge=8, description="largest vocabulary, the four special tokens included")
    joint: bool = Field(True, description="one vocabulary for both languages, trained on both sides")
    min_frequency: int = Field(1, ge=1, description="rarer words (bpe: pairs of pieces) do not become tokens")
    lowercase: bool = Field(False, description="convert text to lower case")
    normalize: Normalize = Field("nfc", description="Unicode form of every text: none, nfc or nfkc")
    split_punctuation: bool = Field(True, description="punctuation never shares a token with a word (not for char)")
    spaces: Literal["joined", "kept"] = Field(
        "joined", description="joined: white space only separates words; kept: every space, tab and line end is text"
    )


class Specials(Config):
    """The tokens of an imported tokenizer that have a meaning to a model, and those around a text.

    Args:
        rows: tokens that the model knows.
        behind: entries of the tokenizer behind these, which are read as the unknown token.
        pad, bos, eos, unk, mask: their numbers; None: there is no such token. `bos` is what a decoder starts from.
        silent: tokens that stand for no text.
        banned: tokens that are never written.
        before, after: what stands around a text that is read.
        first: what a text that is written begins with, after `bos`.
        family: of the model that it came with, which an export prefers.
    """

    rows: int = Field(ge=1)
    behind: int = Field(0, ge=0)
    pad: int | None = Field(None, ge=0)
    bos: int | None = Field(None, ge=0)
    eos: int | None = Field(None, ge=0)
    unk: int | None = Field(None, ge=0)
    mask: int | None = Field(None, ge=0)
    silent: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    family: str | None = None

    def numbers(self) -> set[int]:
        """All of them."""
        values = self.model_dump(exclude={"rows", "behind", "family"}).values()
        return {token for value in values for token in (value if isinstance(value, tuple) else [value])} - {None}


class Tokenizer:
    """Text to token numbers and back. Made by `train`, `load`, `imported` or `from_bytes`.

    Unless it is imported, numbers 0 to 3 are padding, begin, end and unknown; no text can produce the first three. Text
    is cleaned first (see `clean`), so offsets count characters of `tokenizer.clean(text)`. Training depends on nothing
    but its input.

    >>> words = Tokenizer.train(["go .", "i'm home ."], TokenizerConfig(kind="word"))
    >>> words.encode("I'm home.")
    [3, 6, 4]
    >>> words.decode([6, 4])
    'home .'
    """

    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unk_id: int = 3
    # tokens that stand for no text, and those that are never written
    special_ids: frozenset[int] = frozenset(range(NUM_SPECIALS))
    banned_ids: tuple[int, ...] = (0, 1, 3)

    def __init__(
        self, config: TokenizerConfig, spacing: Spacing, backend: Any, data: bytes, imported: Specials | None = None
    ) -> None:
        self.config = config
        self.vocab_size: int = backend.get_vocab_size() if imported is None else imported.rows
        self._spacing = spacing
        self._backend = backend
        self._data = data
        self.imported = imported
        # what stands around a text
        self._before: tuple[int, ...] = ()
        self._after: tuple[int, ...] = ()
        if imported is not None:
            self._take(imported)
        self._pieces = [self._spelt(token) for token in range(self.vocab_size)]

    def _take(self, specials: Specials) -> None:
        self._before, self._after = specials.before, specials.after
        # where there is no such token: padding is beside the lengths, and no text has the unknown one
        self.pad_id = specials.pad or 0
        self.eos_id = self.pad_id if specials.eos is None else specials.eos
        self.bos_id = self.eos_id if specials.bos is None else specials.bos
        self.unk_id = -1 if specials.unk is None else specials.unk
        self.special_ids, self.banned_ids = frozenset(specials.silent), specials.banned

    def _spelt(self, token: int) -> str:
        piece = self._backend.id_to_token(token)
        if self.imported is None or piece is None or token in self.special_ids:
            # a model may have rows that its tokenizer does not know
            return f"<{token}>" if piece is None else str(piece)
        if "ByteLevel" not in str(self._backend.decoder):
            return str(piece)
        text = str(self._backend.decode([token]))
        return SPACE_MARK + text[1:] if text.startswith(" ") else text

    @cached_property
    def target(self) -> "Tokenizer":
        """The tokens of what is written in the same vocabulary: itself, unless texts that are read are framed.

        An imported model may cut the texts that it writes in another way.
        """
        if self.imported is None:
            return self
        framed = self.imported.model_copy(update={"before": self.imported.first, "after": ()})
        document = json.loads(self._data)
        if other := document.pop("target", None):
            document |= {"tokenizer": other, "specials": framed.model_dump(mode="json")}
            return Tokenizer.from_bytes(json.dumps(document, ensure_ascii=False, sort_keys=True).encode(), "target")
        return Tokenizer(self.config, self._spacing, self._backend, self._data, framed)

    @cached_property
    def bare(self) -> "Tokenizer":
        """The same tokens, with nothing around a text."""
        if self.imported is None or not (self._before or self._after):
            return self
        alone = self.imported.model_copy(update={"before": (), "after": ()})
        return Tokenizer(self.config, self._spacing, self._backend, self._data, alone)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What stands before and behind every text that is read."""
        return self._before, self._after

    def shorten(self, items: Sequence[I], longest: int) -> Sequence[I]:
        """The first of a text's tokens, or of what belongs to each, with what stands behind every text."""
        if len(items) <= longest:
            return items
        behind = min(len(self._after), longest)
        return [*items[: longest - behind], *items[len(items) - behind :]]

    @classmethod
    def of_imported(
        cls,
        described: Mapping[str, Any],
        config: TokenizerConfig,
        specials: Specials,
        name: str,
        target: Mapping[str, Any] | None = None,
    ) -> "Tokenizer":
        """The tokenizer of a tokenizer.json.

        Args:
            target: of the texts that are written, where they are cut in another way into the same tokens.

        Raises: DataError naming it where it cannot be read, or has tokens that the model does not know.
        """
        document = {
            "format": _FORMAT,
            "version": 1,
            "config": config.model_dump(mode="json"),
            "spacing": Spacing().model_dump(mode="json"),
            "tokenizer": {**described, "padding": None, "truncation": None},
            "specials": specials.model_dump(mode="json"),
            **({} if target is None else {"target": {**target, "padding": None, "truncation": None}}),
        }
        return cls.from_bytes(json.dumps(document, ensure_ascii=False, sort_keys=True).encode("utf-8"), name)

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

    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int | None, int | None]:
        """What an imported tokenizer says by itself: tokens before and after a text, silent ones, unknown and mask.

        Raises: DataError where what stands around a text is not the same for all.
        """
        samples = [_SAMPLE, *map(self.piece, range(self.vocab_size))]
        sample = next((text for text in samples if self._backend.encode(text, add_special_tokens=False).ids), "")
        alone = self._backend.encode(sample, add_special_tokens=False).ids
        ids = self._backend.encode(sample).ids
        around = len(ids) - len(alone)
        start = next((n for n in range(around + 1) if ids[n : n + len(alone)] == alone), None)
        if start is None:
            raise DataError("the tokenizer changes a text where it adds special tokens")
        added = self._backend.get_added_tokens_decoder()
        silent = tuple(sorted(token for token, about in added.items() if about.special))
        names = {str(about.content): token for token, about in added.items()}
        unk = getattr(self._backend.model, "unk_token", None)
        unknown = self._backend.token_to_id(unk) if isinstance(unk, str) else _unigram_unknown(self._backend)
        mask = next((names[name] for name in _MASKS if name in names), None)
        return tuple(ids[:start]), tuple(ids[start + len(alone) :]), silent, unknown, mask

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
            if config.kind == "imported":
                return _imported(document, config, data)
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
        """The token numbers of a text, without begin and end; with what stands around it if that is imported."""
        ids = self._backend.encode(self.clean(text), add_special_tokens=False).ids
        return [*self._before, *self._known(ids), *self._after]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many texts, on all cores."""
        encodings = self._backend.encode_batch_fast([self.clean(text) for text in texts], add_special_tokens=False)
        return [[*self._before, *self._known(encoding.ids), *self._after] for encoding in encodings]

    def _known(self, ids: list[int]) -> list[int]:
        if self.imported is None or not self.imported.behind:
            return ids
        return [token if token < self.vocab_size else self.unk_id for token in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token numbers; padding, begin and end are left out, unknown shows as <unk>.

        The inverse of `encode` for characters and pieces, and for words where spaces are kept; else spaces around
        punctuation follow the habit of the training text.

        Raises: DataError: a number outside the vocabulary.
        """
        if self.imported is not None:
            return self._decoded(ids)
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
        cleaned, silent = self.clean(text), [self.piece(token) for token in (*self._before, *self._after)]
        spans = self.offsets(text)
        inside = [cleaned[start:end].strip() or SPACE_MARK for start, end in spans]
        number, last = len(self._before), len(spans) - len(self._after)
        return [*silent[:number], *inside[number:last], *silent[number:]]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of each token in `tokenizer.clean(text)`, in characters; spaces before a word are left out."""
        cleaned = self.clean(text)
        encoding = self._backend.encode(cleaned, add_special_tokens=False)
        spans: list[tuple[int, int]] = [(0, 0)] * len(self._before)
        for piece, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
            if self.config.spaces == "kept":
                pass
            elif piece == SPACE_MARK and cleaned[start:end] != " ":
                # the mark put before the first word covers nothing
                end = start
            elif end - start > 1 and cleaned[start] == " ":
                start += 1
            spans.append((start, end))
        return [*spans, *[(len(cleaned), len(cleaned))] * len(self._after)]

    def piece(self, token: int) -> str:
        """The vocabulary entry of a token number, such as "▁home" or "<eos>"; `DataError` outside the vocabulary."""
        if not 0 <= token < self.vocab_size:
            raise DataError(f"token {token} is not in the vocabulary of {self.vocab_size} tokens")
        return self._pieces[token].strip() if token in self.special_ids else self._pieces[token]

    def shown(self, token: int) -> str:
        """A token as figures show it: without the mark of a space, unless it is nothing else."""
        return self.piece(token).strip(SPACE_MARK) or SPACE_MARK

    def opening_id(self) -> int:
        """The token that stands before a text that goes on: the end of a line, or where that is no token, the begin."""
        if self.imported is not None:
            return self.imported.first[0] if self.imported.first else self.bos_id
        ids = self.encode("\n")
        return ids[0] if len(ids) == 1 and ids[0] != self.unk_id else self.bos_id

    def entries(self) -> list[str]:
        """The entries of the vocabulary as the file has them, those of special tokens with their spaces."""
        entries = map(self._backend.id_to_token, range(self.vocab_size))
        return [f"<{token}>" if entry is None else str(entry) for token, entry in enumerate(entries)]

    def described(self) -> dict[str, Any]:
        """The tokenizer as `tokenizers` describes it: the content of a tokenizer.json."""
        values: dict[str, Any] = json.loads(self._data)["tokenizer"]
        return values

    def pieces(self) -> list[str]:
        """All vocabulary entries in the order of their numbers."""
        return [self.piece(token) for token in range(self.vocab_size)]

    def _decoded(self, ids: Sequence[int]) -> str:
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            self.piece(min(ids) if min(ids) < 0 else max(ids))
        known = [token for token in ids if self._backend.id_to_token(token) is not None]
        text = str(self._backend.decode([token for token in known if token not in self.special_ids]))
        # some decoders drop the space before the first word, which is a part of a text that goes on
        if self.config.spaces == "joined":
            return text.strip()
        begins = known and self._pieces[known[0]].startswith(SPACE_MARK)
        return f" {text}" if begins and not text.startswith(" ") else text


def _unigram_unknown(backend: Any) -> int | None:
    unknown: int | None = json.loads(backend.to_str())["model"].get("unk_id")
    return unknown


def _imported(document: Mapping[str, Any], config: TokenizerConfig, data: bytes) -> Tokenizer:
    specials = Specials.model_validate(document["specials"])
    try:
        backend = Backend.from_str(json.dumps(document["tokenizer"]))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        # a panic of the library is no Exception
        raise ValueError(str(error)) from None
    entries = backend.get_vocab().values()
    if (largest := max([*entries, *specials.numbers()], default=0)) >= specials.rows + specials.behind:
        raise ValueError(f"it has token {largest}, and the model knows {specials.rows} tokens")
    return Tokenizer(config, Spacing(), backend, data, specials)


def _cleaned(text: str, config: TokenizerConfig) -> str:
    if config.kind == "imported":
        # its own normalizer cleans
        return text
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
