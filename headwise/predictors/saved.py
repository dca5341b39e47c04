"""A Hugging Face model in memory, or from a folder of this disk: nothing that came with it is downloaded or run."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from headwise.adoption import adopt, is_adopted, transformers_part
from headwise.data.text import SPACE_MARK
from headwise.errors import CheckpointError, ConfigError, Unsupported
from headwise.predictors.adopted_decoding import AdoptedDecoder, rules_of
from headwise.predictors.token_labels import BYTE_SPACE, Vocabulary, decoder_of, special_ids, texts

# names of main inputs, and what they are
TEXT, PICTURE = "input_ids", "pixel_values"
_INPUTS = {TEXT: "text", PICTURE: "pictures"}
T = TypeVar("T")
# "role" and "content"
Message = Mapping[str, str]
_CONFIG, _TOKENIZER, _WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
# what a folder says of its tokens; its other wishes how to search are not heard: some fetch code, and few are greedy
_TOKENS = ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos")
_FORBIDDEN = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids")
_INDEX = f"{_WEIGHTS}.index.json"
_MOST_LABELS = 1_000_000
# in names of classes
_TASKS = {
    "ForMaskedLM": "masked-lm",
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForImageClassification": "image-classify",
}


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
    def task(self) -> str:
        """What it does, as `task_of` names it; "write" for what reads and writes."""
        by_kind = {"decoder": "language-model", "encoder-decoder": "write"}
        return by_kind.get(self.kind) or task_of(self.model)

    @property
    def longest(self) -> int | None:
        """How many tokens the model has places for; None: no number of them is known."""
        config = self.model.config
        places: int | None = getattr(config, "max_position_embeddings", getattr(config, "max_seq_len", None))
        tables = [getattr(module, "position_embeddings", None) for module in self.model.modules()]
        # some count their places from behind that of padding
        starts = [
            table.padding_idx for table in tables if isinstance(table, nn.Embedding) and table.padding_idx is not None
        ]
        return None if places is None else places - max((start + 1 for start in starts), default=0)

    def rendered(self, messages: Sequence[Message]) -> str:
        """Messages as the tokenizer's chat template writes them, up to where the model answers. Raises: ConfigError."""
        try:
            text: str = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # whatever a template makes of messages that it does not take
            raise ConfigError(f"{self.name}: its chat template refuses these messages: {str(error)[:200]}") from None
        return text

    def fitting(self, tokens: list[int]) -> list[int]:
        """The tokens. Raises: ConfigError for more than the model has places for."""
        if self.longest is not None and len(tokens) > self.longest:
            raise ConfigError(f"there are {len(tokens)} tokens, and the model reads {self.longest}; shorten the text")
        return tokens

    def labels(self, tokens: Sequence[int]) -> list[str]:
        """Tokens as people read them, without the mark of a space; parts of a character are numbered: "é(1/2)"."""
        return [text.strip(f" {SPACE_MARK}") or SPACE_MARK for text in texts(self.tokenizer, tokens)]

    def words(self, tokens: Sequence[int]) -> tuple[list[int], list[int]]:
        """Of each token the word that it is a part of, from 0, -1 for a special one; and the places of these."""
        parts = self.tokenizer.convert_ids_to_tokens(list(tokens))
        decoder = decoder_of(self.tokenizer)
        silent = special_ids(self.tokenizer)
        special = [place for place, token in enumerate(tokens) if token in silent]
        word_of, number = [-1] * len(parts), -1
        for place, piece in enumerate(parts):
            inside = (
                piece.startswith("##") if "WordPiece" in decoder else not piece.startswith((SPACE_MARK, BYTE_SPACE))
            )
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

    @cached_property
    def eos_ids(self) -> list[int]:
        """The tokens that end an output."""
        ends = self.model.generation_config.eos_token_id
        return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What it writes with."""
        size = self.model.get_output_embeddings().weight.shape[0]
        return Vocabulary(self.tokenizer, size, self.eos_ids[0] if self.eos_ids else size)

    def decoder(self, *, rules: bool, max_new: int = 1, before: int = 1, free: int = 0) -> AdoptedDecoder:
        """What writes, step by step.

        Args:
            rules: under those of the generation configuration, for outputs of `max_new` tokens behind `before` others.
            free: so many tokens of an output are not under them.
        """
        if not rules:
            return AdoptedDecoder(self.model, eos_ids=self.eos_ids[:1])
        processors = rules_of(self.model.generation_config, before, before + max_new, self.model.device)
        return AdoptedDecoder(self.model, processors, self.eos_ids, free)

    def room(self, num_read: int) -> int | None:
        """How many tokens an output may have behind so many that are read; None: any number."""
        before = 1 if self.kind == "encoder-decoder" else num_read
        return None if self.longest is None else self.longest - before

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
    """The model of a folder that reads texts, adopted; raises as `read_folder`, and Unsupported where it reads none.

    The folder has a tokenizer.json too.
    """

    def read() -> Any:
        return transformers_part("PreTrainedTokenizerFast").from_pretrained(folder, local_files_only=True)

    model, tokenizer, files = read_folder(folder, TEXT, _TOKENIZER, read)
    if model.can_generate():
        model.generation_config = _tokens_of(folder, model)
    return _text_model(str(folder), model, tokenizer, files)


def read_folder(folder: Path, reads: str, file: str, read: Callable[[], T]) -> tuple[Any, T, tuple[Path, ...]]:
    """A model as `save_pretrained` of transformers writes it, what prepares its inputs, and the files of both.

    The folder holds config.json, and model.safetensors or its parts. The model's code is that of transformers.

    Args:
        reads: the name of its main input.
        file: of what prepares its inputs, which `read` reads.

    Raises:
        CheckpointError: naming what is missing or damaged, or is there in another form.
        Unsupported: a family that transformers does not have, or that reads something else.
    """
    kind = _class_of(folder, _checked(folder)[0])
    if kind.main_input_name != reads:
        raise Unsupported(f"{folder}: {kind.__name__} reads no {_INPUTS[reads]}")
    values, weights = _checked(folder, file)
    how: dict[str, Any] = {"local_files_only": True}
    try:
        settings = transformers_part("CONFIG_MAPPING")[values["model_type"]].from_pretrained(folder, **how)
        settings.return_dict = True
        _check_layers(folder, settings, weights)
        preparation = read()
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
    return model, preparation, (folder / _CONFIG, folder / file, *weights)


def input_of_folder(folder: Path) -> str:
    """The name of the main input of a folder's model; raises as `read_folder`."""
    return str(_class_of(folder, _checked(folder)[0]).main_input_name)


def in_memory(model: Any, tokenizer: Any) -> Saved:
    """A model with its tokenizer, adopted in place unless it is so already.

    Raises: Unsupported as `saved`; ConfigError: no fast tokenizer of transformers.
    """
    if not isinstance(tokenizer, transformers_part("PreTrainedTokenizerFast")):
        raise ConfigError(f"a {type(model).__name__} is explored with its tokenizer, a PreTrainedTokenizerFast")
    return _text_model(type(model).__name__, model, tokenizer, ())


def _text_model(name: str, model: Any, tokenizer: Any, files: tuple[Path, ...]) -> Saved:
    kind, reads_and_writes = type(model).__name__, model.config.is_encoder_decoder
    if reads_and_writes != ("decoder_input_ids" in inspect.signature(model.forward).parameters):
        raise CheckpointError(f"{name}: its configuration gives is_encoder_decoder a value that {kind} cannot have")
    if reads_and_writes and not model.can_generate():
        raise Unsupported(f"{name}: {kind} reads and writes, and has no head that says what it writes")
    adopt_named(name, model)
    return Saved(name, files, model, tokenizer)


def task_of(model: Any) -> str:
    """The task of an encoder of transformers, which the name of its class says; "encode": it makes vectors alone.

    >>> task_of(type("BertForMaskedLM", (), {})())
    'masked-lm'
    """
    return next((task for ending, task in _TASKS.items() if ending in type(model).__name__), "encode")


def adopt_named(name: str, model: Any) -> None:
    """Adopts a model unless it is so already. Raises: Unsupported, with the name."""
    try:
        if not is_adopted(model):
            adopt(model)
    except Unsupported as error:
        raise Unsupported(f"{name}: {error}") from None


def _tokens_of(folder: Path, model: Any) -> Any:
    """How a model writes: greedily, with the tokens that its folder names or forbids. Raises: CheckpointError."""
    rows, defaults = model.get_input_embeddings().weight.shape[0], model.generation_config
    values = {name: getattr(defaults, name, None) for name in (*(f"{name}_token_id" for name in _TOKENS), *_FORBIDDEN)}
    for name, value in values.items():
        if wrong := [token for token in _flat(value) if type(token) is not int or not 0 <= token < rows]:
            # some say by -1 that there is none
            if name not in ("bos_token_id", "eos_token_id", "pad_token_id") or type(wrong[0]) is not int:
                raise CheckpointError(f"{folder}: {name} is {str(wrong[0])[:40]}, and the model knows {rows} tokens")
            values[name] = [token for token in _flat(value) if token not in wrong] or None
    if not all(isinstance(word, list) and word for word in values["bad_words_ids"] or []):
        raise CheckpointError(f"{folder}: bad_words_ids is no list of lists of tokens")
    return transformers_part("GenerationConfig")(**values)


def _flat(value: Any) -> list[Any]:
    """The tokens in a token, or in lists of them."""
    if isinstance(value, list):
        return [token for part in value for token in _flat(part)]
    return [] if value is None else [value]


def _checked(folder: Path, *others: str) -> tuple[dict[str, Any], list[Path]]:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder; nothing is downloaded: write one with save_pretrained")
    for name in (_CONFIG, *others):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has no {name}; write it with save_pretrained")
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
    return kind


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error)[:100]}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is no object of JSON")
    return values
