"""Tokenizers of ours as tokenizer.json and tokenizer_config.json of transformers."""

import json
from typing import Any

from headwise.data.text import SPACE_MARK
from headwise.data.tokenizers import Tokenizer
from headwise.exchange.folder import TARGET_TOKENIZER, TOKENIZER
from headwise.exchange.keys import Flat

_NAMES = {"pad": "pad_token", "bos": "bos_token", "eos": "eos_token", "unk": "unk_token", "mask": "mask_token"}
_NAMES |= {"cls": "cls_token", "sep": "sep_token"}


def theirs_of_tokenizers(tokenizers: tuple[Tokenizer, ...], flat: Flat, longest: int) -> dict[str, bytes]:
    """Their files by name.

    Args:
        longest: tokens of a text at most.
    """
    ends, fronted = flat.get("model.kind") == "transformer", flat.get("front", False)
    names = (TOKENIZER, TARGET_TOKENIZER)
    described = [_described(tokenizer, ends=ends, fronted=fronted) for tokenizer in tokenizers]
    target = _described(tokenizers[0].target, ends=ends, fronted=fronted)
    if len(tokenizers) == 1 and target != described[0]:
        described.append(target)
    files = {name: as_json(values) for name, values in zip(names, described, strict=False)}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **_special_names(tokenizers[0], masked=flat.get("task") == "masked-lm"),
    }
    return {**files, "tokenizer_config.json": as_json(settings)}


def _special_names(tokenizer: Tokenizer, *, masked: bool) -> dict[str, str]:
    """`masked`: tokens are masked by that of padding, unless there is one for it."""
    known = tokenizer.imported
    if known is None:
        numbers: dict[str, int | None] = {"pad": 0, "bos": 1, "eos": 2, "unk": 3, "mask": 0 if masked else None}
    else:
        numbers = {name: getattr(known, name, None) for name in _NAMES}
        # what one token stands before and behind every text for
        numbers |= {name: ids[0] for name, ids in (("cls", known.before), ("sep", known.after)) if len(ids) == 1}
    entries = tokenizer.entries()
    return {_NAMES[name]: entries[number] for name, number in numbers.items() if number is not None}


def _described(tokenizer: Tokenizer, *, ends: bool, fronted: bool) -> dict[str, Any]:
    """The content of a tokenizer.json.

    Args:
        ends: what is read ends in the token of its end.
        fronted: the token of the begin stands before each text.
    """
    described = tokenizer.described()
    if tokenizer.imported is not None:
        return described if not tokenizer.imported.behind else _without_behind(described, tokenizer.vocab_size)
    config, entries = tokenizer.config, tokenizer.entries()
    forms: list[dict[str, Any]] = [] if config.normalize == "none" else [{"type": config.normalize.upper()}]
    if config.spaces == "joined":
        forms += [
            _replaced({"String": SPACE_MARK}, "_"),
            _replaced({"Regex": r"\s+"}, " "),
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ]
    own = described.get("normalizer")
    described["normalizer"] = {"type": "Sequence", "normalizers": [*forms, *([own] if own else [])]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    described["added_tokens"] = [{"id": number, "content": entries[number], **flags} for number in range(4)]
    if described.get("decoder") is None:
        described["decoder"] = _decoder(config.kind, config.spaces)
    if not ends and config.spaces == "kept":
        begin = tokenizer.opening_id()
        described["post_processor"] = _framed(entries[begin], begin, first=True)
    if fronted:
        described["post_processor"] = _framed(entries[tokenizer.bos_id], tokenizer.bos_id, first=True)
    if ends:
        described["post_processor"] = _framed(entries[tokenizer.eos_id], tokenizer.eos_id, first=False)
    return described


def _without_behind(described: dict[str, Any], rows: int) -> dict[str, Any]:
    """A tokenizer without pieces that its model does not know; texts with them are cut into others there."""
    model = dict(described["model"])
    if isinstance(model["vocab"], list):
        model["vocab"] = model["vocab"][:rows]
    else:
        known = {piece: number for piece, number in model["vocab"].items() if number < rows}
        merges = [merge for merge in model["merges"] if {*merge, "".join(merge)} <= known.keys()]
        model |= {"vocab": known, "merges": merges}
    added = [entry for entry in described["added_tokens"] if entry["id"] < rows]
    return {**described, "model": model, "added_tokens": added}


def _decoder(kind: str, spaces: str) -> dict[str, Any] | None:
    if spaces == "kept" or kind == "char":
        return {"type": "Fuse"}
    if kind == "word":
        # words have a space between them
        return None
    return {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "always", "split": True}


def _replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _framed(text: str, number: int, *, first: bool) -> dict[str, Any]:
    """What puts a token before a text, or after it."""

    def of(sequence: str) -> list[dict[str, Any]]:
        parts = [{"Sequence": {"id": sequence, "type_id": 0}}, {"SpecialToken": {"id": text, "type_id": 0}}]
        return parts[::-1] if first else parts

    special = {text: {"id": text, "ids": [number], "tokens": [text]}}
    return {"type": "TemplateProcessing", "single": of("A"), "pair": [*of("A"), *of("B")], "special_tokens": special}


def as_json(values: Any) -> bytes:
    """Values as the content of a file."""
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()
