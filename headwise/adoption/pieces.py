"""Tokens that are bytes as text: which characters, and which parts of characters, each of them holds."""

import json
import re
from collections.abc import Sequence
from typing import Any

_LETTERS = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
# byte-level vocabularies write a byte as its own letter, and a byte without one as a letter from 256 on (Radford 2019)
_BYTES = {chr(byte): byte for byte in _LETTERS} | {
    chr(256 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in _LETTERS)
}
# a vocabulary with byte fallback writes it in hexadecimal
_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")


def texts(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """What each token of a tokenizer of transformers holds of the text; its piece where tokens are no bytes."""
    pieces: list[str] = tokenizer.convert_ids_to_tokens(list(tokens))
    decoder = json.dumps(json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder") or {})
    added = tokenizer.added_tokens_decoder
    if "ByteLevel" in decoder:
        pairs = zip(tokens, pieces, strict=True)
        return spelled([piece.encode() if token in added else _of_letters(piece) for token, piece in pairs])
    if "ByteFallback" in decoder:
        return spelled(
            [bytes.fromhex(one[1]) if (one := _FALLBACK.fullmatch(piece)) else piece.encode() for piece in pieces]
        )
    return pieces


def spelled(parts: Sequence[bytes]) -> list[str]:
    r"""Each part of a text in UTF-8 as characters; of a character in several parts, which one it is.

    Bytes that make no character are written as escapes.

    >>> spelled([b"a ", "é".encode()[:1], "é".encode()[1:] + b"!", b"\xff"])
    ['a ', 'é(1/2)', 'é(2/2)!', '\\xff']
    """
    owners = [part for part, held in enumerate(parts) for _ in held]
    found, text = [""] * len(parts), b"".join(parts)
    start = 0
    while start < len(text):
        character, length = _character(text[start : start + 4])
        held = list(dict.fromkeys(owners[start : start + length]))
        for number, part in enumerate(held, 1):
            found[part] += character if len(held) == 1 else f"{character}({number}/{len(held)})"
        start += length
    return found


def _character(text: bytes) -> tuple[str, int]:
    """The first character, and how many bytes it has."""
    for length in range(1, len(text) + 1):
        try:
            return text[:length].decode(), length
        except UnicodeDecodeError:
            continue
    return f"\\x{text[0]:02x}", 1


def _of_letters(piece: str) -> bytes:
    return b"".join(bytes([_BYTES[letter]]) if letter in _BYTES else letter.encode() for letter in piece)
