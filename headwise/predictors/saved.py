"""A Hugging Face model in memory, or from a folder of this disk: nothing that came with it is downloaded or run."""

import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from headwise.adoption import adopt, is_adopted, transformers_part
from headwise.errors import CheckpointError, ConfigError, Unsupported

_CONFIG, _TOKENIZER, _WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
# what a folder says of its tokens; its wishes how to search are not heard: some fetch code, and none is greedy
_TOKENS = ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos")
_INDEX = f"{_WEIGHTS}.index.json"
_MOST_LABELS = 1_000_000
_SPACE = "\u2581"
_LETTERS = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
# byte-level vocabularies write a byte as its own letter, and a byte without one as a letter from 256 on (Radford 2019)
_BYTES = {chr(byte): byte for byte in _LETTERS} | {
    chr(256 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in _LETTERS)
}
# a vocabulary with byte fallback writes it in hexadecimal
_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, eq=False)
class Saved:
    """An adopted model with its tokenizer.

    Args:
        name: what messages call it.
        files: what says which model it is: configuration, tokenizer, weights; none of a model in memory.
    """

    name: str
    files: tuple[Path, ...]
    model: Any
    tokenizer: Any

    @property
    def kind(self) -> str:
        """Whether it is an "encoder", a "decoder", or an "encoder-decoder"."""
        if self.model.config.is_encoder_decoder:
            return "encoder-decoder"
        return "decoder" if self.model.can_generate() else "encoder"

    def tokens(self, text: str, *, alone: bool = True) -> list[int]:
        """The numbers of a text's tokens; `alone`: with what stands before and after a text. Raises: ConfigError."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=alone, truncation=False, padding=False)["input_ids"]
        rows = self.model.get_input_embeddings().weight.shape[0]
        if ids and max(ids) >= rows:
            raise ConfigError(f"{self.name}: the tokenizer has token {max(ids)}, and the model knows {rows} tokens")
        return self.fitting(ids)

    @property
    def longest(self) -> int | None:
        """How many tokens the model has places for; None: no number of them is known."""
        places: int | None = getattr(self.model.config, "max_position_embeddings", None)
        tables = [getattr(module, "position_embeddings", None) for module in self.model.modules()]
        # some count their places from behind that of padding
        starts = [
            table.padding_idx for table in tables if isinstance(table, nn.Embedding) and table.padding_idx is not None
        ]
        return None if places is None else places - max((start + 1 for start in starts), default=0)

    def fitting(self, tokens: list[int]) -> list[int]:
        """The tokens. Raises: ConfigError for more than the model has places for."""
        if self.longest is not None and len(tokens) > self.longest:
            raise ConfigError(f"there are {len(tokens)} tokens, and the model reads {self.longest}; shorten the text")
        return tokens

    def labels(self, tokens: Sequence[int]) -> list[str]:
        """Tokens as people read them, without the mark of a space; parts of a character are numbered: "é(1/2)"."""
        return [text.strip(f" {_SPACE}") or _SPACE for text in texts(self.tokenizer, tokens)]

    def words(self, tokens: Sequence[int]) -> tuple[list[int], list[int]]:
        """Of each token the word that it is a part of, from 0, -1 for a special one; and the places of these."""
        parts = self.tokenizer.convert_ids_to_tokens(list(tokens))
        decoder = json.dumps(json.loads(self.tokenizer.backend_tokenizer.to_str()).get("decoder") or {})
        special = [place for place, token in enumerate(tokens) if token in self.tokenizer.all_special_ids]
        word_of, number = [-1] * len(parts), -1
        for place, piece in enumerate(parts):
            inside = piece.startswith("##") if "WordPiece" in decoder else not piece.startswith((_SPACE, "\u0120"))
            if place in special:
                continue
            # the first token behind a special one begins a word, whatever its mark
            number += not (inside and place and word_of[place - 1] >= 0)
            word_of[place] = number
        return word_of, special

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens spell, without special ones."""
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text.strip()

    def written(self, tokens: Sequence[int], most: int) -> list[int]:
        """What the model writes, at most so many tokens, greedily: behind the given ones, or from its own start."""
        ids = self._row(tokens)
        room = (self.longest or len(tokens) + most + 1) - (1 if self.kind == "encoder-decoder" else len(tokens))
        if min(most, room) < 1:
            return []
        how: dict[str, Any] = {"max_new_tokens": min(most, room), "do_sample": False, "num_beams": 1}
        with torch.no_grad():
            output: list[int] = self.model.generate(ids, attention_mask=torch.ones_like(ids), **how)[0].tolist()
        return output if self.kind == "encoder-decoder" else output[len(tokens) :]

    def start(self) -> int:
        """The token that an encoder-decoder begins to write from. Raises: ConfigError where none is named."""
        for config in (self.model.generation_config, self.model.config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if isinstance(token := getattr(config, name, None), int):
                    return token
        raise ConfigError(f"{self.name}: its configuration has no decoder_start_token_id")

    def inputs(self, tokens: Sequence[int], before: Sequence[int] = ()) -> tuple[Any, ...]:
        """What the model is called with, by position: the tokens it reads, and those it writes behind."""
        arguments = {"input_ids": self._row(tokens)} | ({"decoder_input_ids": self._row(before)} if before else {})
        parameters = inspect.signature(self.model.forward).parameters
        names = list(parameters)[: 1 + max(list(parameters).index(name) for name in arguments)]
        return tuple(arguments.get(name, parameters[name].default) for name in names)

    def _row(self, tokens: Sequence[int]) -> Tensor:
        return torch.tensor([list(tokens)], device=self.model.device)


def saved(folder: Path) -> Saved:
    """The model of a folder, as `save_pretrained` of transformers writes it, adopted.

    The folder holds config.json, tokenizer.json, and model.safetensors or its parts. The model's code is that of
    transformers.

    Raises:
        CheckpointError: naming what is missing or damaged, or is there in another form.
        Unsupported: a family that transformers does not have, that cannot be adopted, or that reads no text.
    """
    values, weights = _checked(folder)
    kind = _class_of(folder, values)
    tokenizers, config = transformers_part("PreTrainedTokenizerFast"), transformers_part("CONFIG_MAPPING")
    how: dict[str, Any] = {"local_files_only": True}
    try:
        settings = config[values["model_type"]].from_pretrained(folder, **how)
        settings.return_dict = True
        _check_layers(folder, settings, weights)
        tokenizer = tokenizers.from_pretrained(folder, **how)
        # not what its configuration may ask for, which could be fetched
        how |= {"attn_implementation": "eager", "use_safetensors": True, "output_loading_info": True}
        model, report = kind.from_pretrained(folder, config=settings, **how)
    except CheckpointError:
        raise
    except Exception as error:  # whatever a damaged file makes of the code that reads it
        line = str(error).strip().partition("\n")[0][:200]
        raise CheckpointError(f"{folder}: transformers cannot read it: {line or type(error).__name__}") from None
    if missing := sorted(report["missing_keys"]):
        raise CheckpointError(f"{folder}: {len(missing)} weights of {kind.__name__} are missing, such as {missing[0]}")
    if model.can_generate():
        model.generation_config = _tokens_of(folder, model)
    return _adopted(str(folder), model, tokenizer, (folder / _CONFIG, folder / _TOKENIZER, *weights))


def in_memory(model: Any, tokenizer: Any) -> Saved:
    """A model with its tokenizer, adopted in place unless it is so already.

    Raises: Unsupported as `saved`; ConfigError: no model of transformers, or no fast tokenizer of it.
    """
    if not isinstance(model, transformers_part("PreTrainedModel")):
        raise ConfigError(f"explored is a model of transformers, a predictor or a folder, not a {type(model).__name__}")
    if not isinstance(tokenizer, transformers_part("PreTrainedTokenizerFast")):
        raise ConfigError(f"a {type(model).__name__} is explored with its tokenizer, a PreTrainedTokenizerFast")
    return _adopted(type(model).__name__, model, tokenizer, ())


def _adopted(name: str, model: Any, tokenizer: Any, files: tuple[Path, ...]) -> Saved:
    kind, reads_and_writes = type(model).__name__, model.config.is_encoder_decoder
    if reads_and_writes != ("decoder_input_ids" in inspect.signature(model.forward).parameters):
        raise CheckpointError(f"{name}: its configuration gives is_encoder_decoder a value that {kind} cannot have")
    if reads_and_writes and not model.can_generate():
        raise Unsupported(f"{name}: {kind} reads and writes, and has no head that says what it writes")
    if getattr(model, "main_input_name", "") != "input_ids":
        raise Unsupported(f"{name}: {kind} reads no text")
    try:
        if not is_adopted(model):
            adopt(model)
    except Unsupported as error:
        raise Unsupported(f"{name}: {error}") from None
    return Saved(name, files, model, tokenizer)


def _tokens_of(folder: Path, model: Any) -> Any:
    """How a model writes: greedily, between the tokens that its folder names. Raises: CheckpointError."""
    rows, defaults = model.get_input_embeddings().weight.shape[0], model.generation_config
    special = {f"{name}_token_id": getattr(defaults, f"{name}_token_id", None) for name in _TOKENS}
    for name, value in special.items():
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if wrong := [token for token in ids if type(token) is not int or not 0 <= token < rows]:
            # some say by -1 that there is none
            if name not in ("bos_token_id", "eos_token_id", "pad_token_id") or type(wrong[0]) is not int:
                raise CheckpointError(f"{folder}: {name} is {str(wrong[0])[:40]}, and the model knows {rows} tokens")
            special[name] = [token for token in ids if token not in wrong] or None
    return transformers_part("GenerationConfig")(**special)


def _checked(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder; nothing is downloaded: write one with save_pretrained")
    for name in (_CONFIG, _TOKENIZER):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has no {name}; write it with save_pretrained of model and tokenizer")
    if (folder / "adapter_config.json").exists():
        raise CheckpointError(f"{folder} holds an adapter; merge it into its model and save that")
    values = _read(folder / _CONFIG)
    if values.get("quantization_config") is not None:
        raise Unsupported(f"{folder}: its weights are quantized; save the model without that")
    if values.get("transformers_weights") is not None:
        raise CheckpointError(f"{folder}: {_CONFIG} names weights by transformers_weights; only {_WEIGHTS} is read")
    labels = values.get("num_labels")
    if isinstance(labels, int) and labels > _MOST_LABELS:
        # a name is made for each
        raise CheckpointError(f"{folder}: {_CONFIG} says {labels:,} labels; at most {_MOST_LABELS:,} are read")
    names = [_WEIGHTS]
    if not (folder / _WEIGHTS).is_file():
        if not (folder / _INDEX).is_file():
            raise CheckpointError(
                f"{folder} has no {_WEIGHTS}, and no other weights are read: pickled ones run what they hold;"
                " model.save_pretrained writes them"
            )
        names = sorted({str(name) for name in dict(_read(folder / _INDEX).get("weight_map") or {}).values()})
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors") or not (folder / name).is_file():
            raise CheckpointError(f"{folder}: {_INDEX} names {name[:100]}, which is no weights file of the folder")
    return values, [folder / name for name in names]


def _check_layers(folder: Path, config: Any, weights: Sequence[Path]) -> None:
    """Raises: CheckpointError for more layers than there are weights, before they take memory and hours."""
    tensors = sum(map(_num_tensors, weights))
    for name in ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers"):
        count = getattr(config, name, None)
        if isinstance(count, int) and count > tensors:
            raise CheckpointError(f"{folder}: {_CONFIG} says {count:,} layers, and there are {tensors:,} weights")


def _num_tensors(path: Path) -> int:
    try:
        with safe_open(path, "pt") as file:
            return len(file.keys())
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error)[:100]}") from None


def _class_of(folder: Path, values: dict[str, Any]) -> Any:
    named = values.get("architectures")
    name = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    registered = str(values.get("model_type")) in transformers_part("CONFIG_MAPPING")
    kind = transformers_part(name) if registered and name.isidentifier() else None
    if not (isinstance(kind, type) and issubclass(kind, transformers_part("PreTrainedModel"))):
        raise Unsupported(
            f"{folder}: {_CONFIG} names the model '{name[:100]}', which transformers does not have; code that comes"
            " with a model is not run"
        )
    if getattr(kind, "main_input_name", "") != "input_ids" or not issubclass(kind, nn.Module):
        raise Unsupported(f"{folder}: {name} reads no text")
    return kind


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error)[:100]}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is no object of JSON")
    return values


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
            [bytes.fromhex(match[1]) if (match := _FALLBACK.fullmatch(piece)) else piece.encode() for piece in pieces]
        )
    return pieces


def spelled(parts: Sequence[bytes]) -> list[str]:
    r"""Each part of a text in UTF-8 as characters; of a character in several parts, which one it is.

    Bytes that make no character are written as escapes.

    >>> spelled([b"a ", "é".encode()[:1], "é".encode()[1:] + b"!", b"\xff"])
    ['a ', 'é(1/2)', 'é(2/2)!', '\\xff']
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
    return f"\\x{text[0]:02x}", 1


def _of_letters(piece: str) -> bytes:
    return b"".join(bytes([_BYTES[letter]]) if letter in _BYTES else letter.encode() for letter in piece)
