"""A run that the encoder of a new one starts from: its tokenizer, its embeddings and the weights of its encoder."""

import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config, StartFile
from headwise.data.files import resolve
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.models.decoder_only import encoder_name, encoder_weights
from headwise.runs.migration import CONFIG
from headwise.runs.publish import MODEL
from headwise.runs.reading import Saved, read_folder
from headwise.runs.weights import load_weights, metadata_of, read_ties

PARTS = ("embedding", "encoder")
# keys of [model] that change nothing of what trained weights compute; another table of places has another shape
_FREE = {"dropout", "attention_dropout", "activation_dropout", "initializer", "max_len"}


class StartRunConfig(Config):
    """A trained encoder to start from, such as that of a masked language model."""

    weights: StartFile | None = Field(
        None, description="model.safetensors in the folder of a run: masked-lm, language-model, classify, regress, tag"
    )
    frozen: bool = Field(False, description="keep what is taken over fixed instead of training it")


def tokenizer_of_run(path: str, config: TokenizerConfig) -> Tokenizer:
    """The tokenizer that stands beside these weights.

    Raises:
        CheckpointError: no run, or a damaged one.
        ConfigError: a run without a tokenizer of its own, or whose tokenizer is of other settings.
    """
    saved = _saved(path)
    names = [name for name in saved.files if name.endswith("tokenizer.json")]
    if len(names) != 1:
        raise ConfigError(f"start.weights: {path}: the run has {len(names)} tokenizers; {_ADVICE}")
    tokenizer = Tokenizer.from_bytes(saved.files[names[0]], str(saved.folder / names[0]))
    theirs, ours = tokenizer.config.model_dump(), config.model_dump()
    advice = f"write [tokenizer] as in {saved.folder / CONFIG}"
    _refuse_others("tokenizer", theirs, ours, path, advice)
    return tokenizer


def take_over(model: nn.Module, path: str, config: Config, *, frozen: bool) -> str:
    """Puts the embeddings and the encoder of a run into a new model, and tells what is taken over and what is new.

    Args:
        config: of the new model's encoder.

    Raises:
        CheckpointError: no run, or a damaged one.
        ConfigError: naming the keys, or the weights, that differ.
    """
    saved = _saved(path)
    trained = _trained(saved)
    parts = {part: trained.part(part) for part in PARTS}
    if missing := [part for part, (tensors, _) in parts.items() if not tensors]:
        raise ConfigError(f"start.weights: {path}: the model of this run has no {missing[0]}; {_ADVICE}")
    advice = f"write [model] as in {saved.folder / CONFIG}{trained.advice}"
    # keys that an older run, or a language model, does not have, and those that are None
    defaults = {key: field.default for key, field in type(config).model_fields.items()}
    deciding = {key: value for key, value in config.model_dump(mode="json").items() if key not in _FREE}
    _refuse_others("model", {**defaults, **trained.model}, deciding, path, advice)
    for part, (tensors, metadata) in parts.items():
        try:
            load_weights(model.get_submodule(part), tensors, metadata, f"start.weights: {path}, {part}")
        except CheckpointError as error:
            raise ConfigError(f"{error}; {advice}") from None
    count = sum(len(tensors) for tensors, _ in parts.values())
    new = sorted({name.partition(".")[0] for name, _ in model.named_parameters()} - set(PARTS))
    stays = ", which stay as they are" if frozen else ""
    return f"{path}: {count} tensors of {' and '.join(PARTS)} are taken over{stays}; new: {', '.join(new)}"


def freeze(model: nn.Module) -> None:
    """Keeps what is taken over fixed while the rest is trained."""
    for part in PARTS:
        model.get_submodule(part).requires_grad_(False)


_ADVICE = "start from a run of masked-lm, language-model, classify, regress or tag"


class _Trained(NamedTuple):
    """The weights of a run by the names of a model that has an encoder, their ties, and its [model].

    `advice` says how [model] of a run is written for such a model, where it differs.
    """

    tensors: Mapping[str, Tensor]
    ties: Mapping[str, str]
    model: Mapping[str, Any]
    advice: str = ""

    def part(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The weights below a name, and as their metadata which of them are tied to each other."""
        before = f"{name}."
        tensors = {key.removeprefix(before): tensor for key, tensor in self.tensors.items() if key.startswith(before)}
        ties = {key: first for key, first in self.ties.items() if key.startswith(before) and first.startswith(before)}
        return tensors, metadata_of(
            {key.removeprefix(before): first.removeprefix(before) for key, first in ties.items()}
        )


def _trained(saved: Saved) -> _Trained:
    tensors, metadata = saved.file(MODEL)
    ties = read_ties(metadata, str(saved.folder / MODEL))
    try:
        model = dict(tomllib.loads(saved.files[CONFIG].decode())["model"])
    except (KeyError, ValueError, TypeError):
        raise CheckpointError(f"{saved.folder / CONFIG}: says nothing of a model; restore it from a copy") from None
    if model.get("kind") != "decoder" or "decoder.embedding.weight" not in tensors:
        return _Trained(tensors, ties, model)
    # a language model: its blocks read as those of an encoder in which no place sees a later one
    model |= {"kind": "attention", "encoder_layers": model.get("num_layers"), "causal": True}
    named = {encoder_name(key): encoder_name(first) for key, first in ties.items()}
    advice = ', but kind = "attention", causal = true, and num_layers as encoder_layers'
    return _Trained(encoder_weights(tensors, scaled=bool(model.get("embedding_scale", True))), named, model, advice)


def _refuse_others(section: str, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: str, advice: str) -> None:
    """Raises: ConfigError naming the keys of a section of the recipe that differ from those of the run."""
    if others := [key for key, value in ours.items() if theirs[key] != value]:
        differences = "; ".join(f"{section}.{key} is {theirs[key]!r} there and {ours[key]!r} here" for key in others)
        raise ConfigError(f"start.weights: {path}: {differences}; {advice}")


def _saved(path: str) -> Saved:
    file = resolve(path)
    if file.name != MODEL:
        example = (file if file.is_dir() else file.parent) / MODEL
        raise ConfigError(f"start.weights: {path}: name the file {MODEL} in the folder of a run, such as {example}")
    return read_folder(file.parent)
