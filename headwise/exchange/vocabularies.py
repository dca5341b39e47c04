"""Tokenizers of folders without a tokenizer.json: sentencepiece models and word lists, by transformers' converter."""

import importlib
import json
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headwise.adoption import transformers_module
from headwise.errors import CheckpointError, ConfigError, MachineError
from headwise.exchange.folder import CONFIG, TARGET_TOKENIZER, TOKENIZER, Folder

# what a tokenizer is read from: the first that is there
_SOURCES = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")
_BESIDE = ("merges.txt", "special_tokens_map.json", "added_tokens.json")
_SETTINGS = "tokenizer_config.json"
# of Marian, which has a sentencepiece model for each side, and a list of pieces beside
_SIDES = {TOKENIZER: ("source.spm", "vocab.json"), TARGET_TOKENIZER: ("target.spm", "target_vocab.json")}
_MAX_BYTES = 1 << 26
# scores of pieces that the model of a side does not know: of unknown characters, which are one piece, and of others
_UNKNOWN, _FOREIGN = -1e5, -1e9


def tokenizer_of(folder: Folder, name: str = TOKENIZER) -> dict[str, Any]:
    """The content of a tokenizer.json, or of what transformers would write there.

    Raises: CheckpointError where there is none, or transformers cannot read it; MachineError where a package is
        missing that reads it.
    """
    if folder.has(name):
        return folder.tokenizer(name)
    file = _SIDES[name][0] if folder.has(_SIDES[name][0]) else None
    if file is None and name == TOKENIZER:
        file = next((source for source in _SOURCES if folder.has(source)), None)
    if file is None:
        # what says that it is missing
        return folder.tokenizer(name)
    where = folder.path / file
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
            warnings.simplefilter("ignore")
            if not file.startswith("vocab"):
                _check_model(folder, file)
            described = _marian(folder, name, Path(place)) if file.endswith(".spm") else _auto(folder, Path(place))
    except (CheckpointError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except (ImportError, ConfigError):
        raise MachineError(
            f"{where}: is read by transformers, with sentencepiece and protobuf: pip install 'headwise[hf]'"
        ) from None
    except BaseException as error:
        # a panic of the library is no Exception
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{where}: transformers cannot read it: {type(error).__name__}: {reason}") from None
    return described


def _check_model(folder: Folder, file: str) -> None:
    """Raises: ImportError where a package is missing; CheckpointError for what is no sentencepiece model."""
    library: Any = importlib.import_module("sentencepiece")
    importlib.import_module("google.protobuf")
    try:
        # theirs takes what it cannot read for a file of another kind
        library.SentencePieceProcessor().LoadFromSerializedProto(folder.content(file, _MAX_BYTES))
    except RuntimeError:
        raise CheckpointError(f"{folder.path / file}: is no sentencepiece model") from None


def sides_differ(folder: Folder) -> bool:
    """Whether texts that are written are cut by another model than those that are read."""
    return folder.has(TARGET_TOKENIZER) or (not folder.has(TOKENIZER) and folder.has(_SIDES[TARGET_TOKENIZER][0]))


def pieces_behind(folder: Folder, rows: int, *described: Mapping[str, Any] | None) -> int:
    """Pieces of the models of Marian that the model itself does not know, where tokenizers are made of these."""
    if folder.has(TOKENIZER) or not folder.has(_SIDES[TOKENIZER][0]):
        return 0
    return max(len(own["model"]["vocab"]) - rows for own in described if own is not None)


def _auto(folder: Folder, place: Path) -> dict[str, Any]:
    """What the tokenizer class of a folder makes of copies of its files: links are refused, and code is left out."""
    for name in (*_SOURCES, *_BESIDE):
        if folder.has(name):
            (place / name).write_bytes(folder.content(name, _MAX_BYTES))
    settings = folder.settings(_SETTINGS)
    settings.pop("auto_map", None)
    (place / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    (place / CONFIG).write_text(json.dumps({"model_type": folder.config.get("model_type")}), encoding="utf-8")
    kind = transformers_module().AutoTokenizer
    tokenizer = kind.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    described: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return described


def _marian(folder: Folder, name: str, place: Path) -> dict[str, Any]:
    """A sentencepiece model whose pieces have the numbers of a list beside it."""
    model, own = _SIDES[name]
    pieces = folder.numbers(own if folder.has(own) else _SIDES[TOKENIZER][1])
    (place / model).write_bytes(folder.content(model, _MAX_BYTES))
    converter = transformers_module("convert_slow_tokenizer").SpmConverter
    described = json.loads(converter(SimpleNamespace(vocab_file=str(place / model))).converted().to_str())
    settings = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", **folder.token_names}
    names = [settings[key] for key in ("unk_token", "eos_token", "pad_token")]
    if lost := [text for text in names if text not in pieces]:
        raise CheckpointError(f"{folder.path}: its list of pieces has no {lost[0]!r}")
    return numbered(described, pieces, *names)


def numbered(described: Mapping[str, Any], pieces: Mapping[str, int], unk: str, eos: str, pad: str) -> dict[str, Any]:
    """A tokenizer whose pieces have other numbers; pieces without one come behind, and are read as the unknown one.

    Args:
        described: the content of a tokenizer.json, of Unigram or BPE.
        pieces: numbers from 0 on.
    """
    model = dict(described["model"])
    scores = dict(model["vocab"])
    behind = [piece for piece in scores if piece not in pieces]
    every = {piece: number for number, piece in enumerate([*sorted(pieces, key=pieces.__getitem__), *behind])}
    if model["type"] == "Unigram":
        other = {piece: _FOREIGN if scores.keys() & {*piece} else _UNKNOWN for piece in every}
        model |= {"vocab": [[piece, scores.get(piece, other[piece])] for piece in every], "unk_id": pieces[unk]}
    else:
        model |= {"vocab": every, "unk_token": unk}
    whole = [entry for entry in described["added_tokens"] if not entry["special"]]
    # codes of languages stand before a text
    codes = [piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{**entry, "id": every[entry["content"]]} for entry in whole]
    added += [{"id": pieces[piece], "content": piece, **flags} for piece in (unk, eos, pad, *codes)]
    end = {"SpecialToken": {"id": eos, "type_id": 0}}
    frame = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, end],
        "special_tokens": {eos: {"id": eos, "ids": [pieces[eos]], "tokens": [eos]}},
    }
    added.sort(key=lambda entry: int(entry["id"]))
    return {**described, "model": model, "added_tokens": added, "post_processor": frame}
