"""A run that the encoder of a new one starts from: its tokenizer, its embeddings and the weights of its encoder."""

from pathlib import Path

from pydantic import Field
from torch import nn

from headwise.config import Config, StartFile
from headwise.data.corpus import resolve
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.runs.publish import MODEL
from headwise.runs.reading import Saved, read_folder
from headwise.runs.weights import load_weights

PARTS = ("embedding", "encoder")


class StartRunConfig(Config):
    """A trained encoder to start from, such as that of a masked language model."""

    weights: StartFile | None = Field(
        None, description="model.safetensors in the folder of a run of masked-lm, or of another task of texts"
    )
    frozen: bool = Field(False, description="keep what is taken over fixed instead of training it")


def tokenizer_of_run(path: str, wanted: TokenizerConfig) -> Tokenizer:
    """The tokenizer that stands beside these weights.

    Raises:
        CheckpointError: no run, or a damaged one.
        ConfigError: a run without a tokenizer of its own, or whose tokenizer is of other settings.
    """
    saved = _saved(path)
    names = [name for name in saved.files if name.endswith("tokenizer.json")]
    if len(names) != 1:
        raise ConfigError(f"start.weights: {path}: the run has {len(names)} tokenizers; {_ADVICE}")
    found = Tokenizer.from_bytes(saved.files[names[0]], str(saved.folder / names[0]))
    theirs, ours = found.config.model_dump(), wanted.model_dump()
    if others := [
        f"tokenizer.{key} is {theirs[key]!r} there and {ours[key]!r} here" for key in ours if theirs[key] != ours[key]
    ]:
        told = "; ".join(others)
        raise ConfigError(f"start.weights: {path}: {told}; write [tokenizer] as in {saved.folder / 'config.toml'}")
    return found


def take_over(model: nn.Module, path: str, *, frozen: bool) -> str:
    """Puts the embeddings and the encoder of a run into a new model, and tells what is taken over and what is new.

    Raises:
        CheckpointError: no run, or a damaged one.
        ConfigError: naming the weights that differ in name, shape or type.
    """
    saved = _saved(path)
    tensors = saved.file(MODEL)[0]
    count = 0
    for part in PARTS:
        given = {name.removeprefix(f"{part}."): one for name, one in tensors.items() if name.startswith(f"{part}.")}
        if not given:
            raise ConfigError(f"start.weights: {path}: the model of this run has no {part}; {_ADVICE}")
        try:
            load_weights(model.get_submodule(part), given, {}, f"start.weights: {path}, {part}")
        except CheckpointError as error:
            raise ConfigError(f"{error}; write [model] as in {saved.folder / 'config.toml'}") from None
        count += len(given)
    new = sorted({name.partition(".")[0] for name, _ in model.named_parameters()} - set(PARTS))
    stays = ", which stay as they are" if frozen else ""
    return f"{path}: {count} tensors of {' and '.join(PARTS)} are taken over{stays}; new: {', '.join(new)}"


def freeze(model: nn.Module) -> None:
    """Keeps what is taken over fixed while the rest is trained."""
    for part in PARTS:
        model.get_submodule(part).requires_grad_(False)


_ADVICE = "start from a run of masked-lm, classify or regress"


def _saved(path: str) -> Saved:
    found = resolve(path)
    if found.name != MODEL:
        raise ConfigError(
            f"start.weights: {path}: name the file {MODEL} in the folder of a run, such as {_example(found)}"
        )
    return read_folder(found.parent)


def _example(path: Path) -> Path:
    return (path if path.is_dir() else path.parent) / MODEL
