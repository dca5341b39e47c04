"""Tokens of a tokenizer of transformers as people read them: characters, never the letters that stand for bytes."""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from headwise.data.text import SPACE_MARK

_LETTERS = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
# byte-level vocabularies write a byte as its own letter, and a byte without one as a letter from 256 on (Radford 2019)
_BYTES = {chr(byte): byte for byte in _LETTERS} | {
    chr(256 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in _LETTERS)
}
# a vocabulary with byte fallback writes it in hexadecimal
_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")
# the letter of a space
BYTE_SPACE = "\u0120"


class Vocabulary:
    """What a model of transformers writes with.

    Args:
        vocab_size: tokens that it can write; a tokenizer may know fewer.
        eos_id: the token that ends an output; `vocab_size` where none does.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, eos_id: int):
        self._tokenizer, self.vocab_size, self.eos_id = tokenizer, vocab_size, eos_id

    @cached_property
    def _shown(self) -> list[str]:
        known = min(self.vocab_size, len(self._tokenizer))
        labels = [text.strip(f" {SPACE_MARK}") or SPACE_MARK for text in texts_alone(self._tokenizer, range(known))]
        return labels + [f"<{token}>" for token in range(known, self.vocab_size)]

    @property
    def special_ids(self) -> frozenset[int]:
        """Tokens that stand for no text."""
        return special_ids(self._tokenizer)

    def shown(self, token: int) -> str:
        """A token as figures show it: without the mark of a space, unless it is nothing else."""
        return self._shown[token] if token < self.vocab_size else ""

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens, without what stands before and after a text."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """What tokens spell, without special ones."""
        ids = [token for token in tokens if token < len(self._tokenizer)]
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Tokens that stand for no text, those of its chat template among them."""
    added = tokenizer.added_tokens_decoder.items()
    return frozenset([*tokenizer.all_special_ids, *(token for token, about in added if about.special)])


def texts(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """What each token of a text holds of it; parts of a character are numbered, as in `spelled`."""
    return spelled(_bytes(tokenizer, tokens))


def texts_alone(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """What each token says by itself; parts of a character are replacement signs."""
    return [spelled([part])[0] for part in _bytes(tokenizer, tokens)]


def decoder_of(tokenizer: Any) -> str:
    """How a tokenizer makes text of its tokens, as JSON."""
    return json.dumps(json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder") or {})


def _bytes(tokenizer: Any, tokens: Sequence[int]) -> list[bytes]:
    names = tokenizer.convert_ids_to_tokens(list(tokens))
    pieces: list[str] = [piece or f"<{token}>" for token, piece in zip(tokens, names, strict=True)]
    decoder, added = decoder_of(tokenizer), tokenizer.added_tokens_decoder
    if "ByteLevel" in decoder:
        pairs = zip(tokens, pieces, strict=True)
        return [piece.encode() if token in added else _of_letters(piece) for token, piece in pairs]
    if "ByteFallback" in decoder:
        return [
            bytes.fromhex(match[1]) if (match := _FALLBACK.fullmatch(piece)) else piece.encode() for piece in pieces
        ]
    return [piece.encode() for piece in pieces]


def spelled(parts: Sequence[bytes]) -> list[str]:
    r"""Each part of a text in UTF-8 as characters; of a character in several parts, which one it is.

    A byte that makes no character is the replacement sign, which no escape that somebody typed can be taken for.

    >>> spelled([b"a ", "é".encode()[:1], "é".encode()[1:] + b"!", b"\xff"])
    ['a ', 'é(1/2)', 'é(2/2)!', '�']
    """
    owners = [part for part, content in enumerate(parts) for _ in content]
    labels, text = [""] * len(parts), b"".join(parts)
    start = 0
    while start < len(text):
        character, length = _character(text[start : start + 4])
        sharing = list(dict.fromkeys(owners[start : start + length]))
        for number, part in enumerate(sharing, 1):
            labels[part] += character if len(sharing) == 1 else f"{character}({number}/{len(sharing)})"
        start += length
    return labels


def _character(text: bytes) -> tuple[str, int]:
    """The first character, and how many bytes it has."""
    for length in range(1, len(text) + 1):
        try:
            return text[:length].decode(), length
        except UnicodeDecodeError:
            continue
    return "\ufffd", 1


def _of_letters(piece: str) -> bytes:
    return b"".join(bytes([_BYTES[letter]]) if letter in _BYTES else letter.encode() for letter in piece)
