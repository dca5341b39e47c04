"""A model that a run starts from, of a run or of a Hugging Face folder: its recipe, its tokenizers, its weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config, to_toml
from headwise.data.files import resolve, sha256
from headwise.data.tokenizers import Tokenizer
from headwise.errors import CheckpointError, ConfigError
from headwise.exchange import huggingface
from headwise.exchange.families import FAMILIES
from headwise.exchange.family import Family, effective
from headwise.exchange.folder import CONFIG as THEIR_CONFIG
from headwise.exchange.folder import Folder
from headwise.exchange.huggingface import Origin
from headwise.exchange.run_files import ENCODED, FILES, for_words
from headwise.layers.adapters import apart, merged
from headwise.locks import FolderLock
from headwise.runs.commits import MANIFEST, Writable
from headwise.runs.publish import CONFIG, DATA, MODEL, OWN_FILES, evaluated, publish
from headwise.runs.reading import Saved, read_folder
from headwise.runs.tensors import TensorFile
from headwise.runs.weights import load_weights, metadata_of, ties, weights_as_file
from headwise.tasks import registry
from headwise.tasks.task import Assets, Task
from headwise.training.recipe import Recipe, flattened, parse_recipe, read_recipe

_SECTIONS = (
    *("model", "tokenizer", "decoding", "length", "pooling", "output", "spelling", "tie_output"),
    "transform_bias",
)
_LENGTHS = ("max_source_len", "max_target_len", "max_len", "size", "channels", "fit", "crop_from", "resample")
# a low rate that falls to zero, in few passes over the data
_FINE_TUNING = {"learning_rate": 5e-5, "schedule": "budget", "warmup_share": 0.1, "max_epochs": 3, "batch_tokens": 1024}
# the fact of a published model: what it was imported from
ORIGIN = "origin"
# keys of [model] that change nothing of what trained weights compute
_FREE = ("dropout", "attention_dropout", "activation_dropout", "initializer", "start")


@dataclass(frozen=True)
class Start:
    """What a run starts from.

    Args:
        files: tokenizers and such, by name.
        tied: names of tensors that are the same as others.
    """

    recipe: Recipe
    files: dict[str, bytes]
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    origin: Origin

    @classmethod
    def read(cls, folder: Path, task: str | None = None) -> "Start":
        """The model of a folder.

        Raises: CheckpointError, Unsupported or DataError naming what is missing, damaged or has no counterpart.
        """
        if (folder / MANIFEST).exists() or not (folder / THEIR_CONFIG).exists():
            return cls._of_run(read_folder(folder))
        return cls._of_imported(huggingface.read(Folder(folder), task))

    @classmethod
    def _of_run(cls, saved: Saved) -> "Start":
        name, tensors, metadata = evaluated(saved)
        tensors = merged(tensors)
        recipe = parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))
        known = saved.facts.get(ORIGIN)
        license = str(known.get("license", "not stated")) if isinstance(known, dict) else "not stated"
        files = {name: data for name, data in saved.files.items() if name not in OWN_FILES}
        origin = Origin(saved.folder.resolve().name, sha256(saved.folder / name), license)
        return cls(recipe, files, tensors, metadata, origin)

    @classmethod
    def _of_imported(cls, imported: huggingface.Imported) -> "Start":
        recipe = read_recipe(imported.values)
        with torch.device("meta"):
            model = registry.task_type(recipe.task)(recipe, Assets(imported.files)).build()
        tied = ties(model)
        expected = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
        return cls(recipe, imported.files, imported.tensors(expected), metadata_of(tied), imported.origin)

    def publish(self, run: Path) -> None:
        """Writes a run folder of this model, as it is before the first step."""
        content = weights_as_file(self.tensors, {})
        files: dict[str, Writable] = {
            CONFIG: to_toml(self.recipe).encode(),
            **self.files,
            MODEL: TensorFile(content.tensors, self.metadata),
        }
        card = _card(self.recipe, self.origin, sum(tensor.numel() for tensor in self.tensors.values()))
        facts = {"step": 0, "metrics": {}, DATA: {}, ORIGIN: vars(self.origin)}
        run.mkdir(parents=True, exist_ok=True)
        with FolderLock(run):
            publish(run, files, facts)
            (run / "README.md").write_text(card, encoding="utf-8")

    def files_for(self, task: str) -> dict[str, bytes]:
        """The files as another task has them: those of tokenizers by its names, without those of the heads."""
        if task == self.recipe.task:
            return self.files
        names = zip(FILES.get(self.recipe.task, ()), FILES.get(task, ()), strict=False)
        files = {theirs: self.files[ours] for ours, theirs in names if ours in self.files}
        return {name: for_words(content) for name, content in files.items()} if task == "tag" else files

    def settings(self, folder: Path, data: Mapping[str, Any], task: str | None = None) -> dict[str, Any]:
        """Sections of a recipe that trains this model further.

        Args:
            data: keys of `[data]`; lengths are those of the model.
            task: of the recipe; None: that of the start.

        Raises: ConfigError for a task that cannot start from this model.
        """
        task = task or self.recipe.task
        values = self.recipe.model_dump(mode="json", exclude_none=True)
        sections = _SECTIONS if task == self.recipe.task else ("model", "tokenizer")
        own: dict[str, Any] = {key: values[key] for key in sections if key in values}
        own["model"]["start"] = str((folder / MODEL).resolve())
        lengths = {key: values["data"][key] for key in _LENGTHS if key in values.get("data", {})}
        if task != self.recipe.task:
            own, lengths = {**own, **self._above(task)}, {}
            if task in ("classify", "regress") and (places := own["model"].get("max_len")):
                lengths = {"max_len": min(places, data.get("max_len", places))}
        training = dict(_FINE_TUNING)
        if task == "image-classify":
            del training["batch_tokens"]
            training["batch_sentences"] = 16
        return {**own, "data": {**data, **lengths}, "training": training}

    def _above(self, task: str) -> dict[str, Any]:
        """What stands above an encoder that was trained for another task, as BERT has it."""
        if task not in ENCODED or self.recipe.task not in ENCODED:
            raise ConfigError(f"{self.origin.name}: is a model of task {self.recipe.task}, not of {task}")
        (files,) = (self.files[name] for name in FILES[self.recipe.task] if name in self.files)
        tokenizer = Tokenizer.from_bytes(files, self.origin.name)
        if tokenizer.imported is not None and tokenizer.imported.family in FAMILIES:
            return _head_of(FAMILIES[tokenizer.imported.family], task)
        if task == "tag":
            above = {"pooling": {"kind": "first", "place": "after"}, "output": {"kind": "softmax"}}
            return {**above, "spelling": {"longest": 0}}
        if task == "masked-lm":
            return {}
        return {"pooling": {"kind": "first", "transform": "tanh"} if tokenizer.around[0] else {"kind": "mean"}}

    def load_into(self, model: nn.Module, recipe: Recipe, task: Task[Any]) -> str:
        """Puts the weights into a new model; returns the line for log and card.

        What stands above the encoder stays new where it was for another task, or for other labels.

        Raises: ConfigError naming the keys, or the weights, that differ.
        """
        path = value_of_start(recipe)
        theirs, ours = (_model_keys(of) for of in (self.recipe, recipe))
        if others := [key for key in ours if ours[key] != theirs.get(key)]:
            listed = "; ".join(f"{key} is {theirs.get(key)!r} there and {ours[key]!r} here" for key in others)
            raise ConfigError(f"model.start: {path}: {listed}; write [model] as there")
        new = self._new(recipe, task)
        tensors, metadata = dict(self.tensors), self.metadata
        if new is not None:
            own, tied = model.state_dict(), ties(model)
            tensors = {name: tensor for name, tensor in tensors.items() if not new(name)}
            tensors |= {name: tensor for name, tensor in own.items() if new(name) and name not in tied}
            metadata = metadata_of(tied)
        try:
            # adapters begin at zero
            load_weights(model, {**tensors, **apart(model.state_dict())}, metadata, f"model.start: {path}")
        except CheckpointError as error:
            raise ConfigError(str(error)) from None
        heads = sorted({name.partition(".")[0] for name in tensors if new is not None and new(name)})
        return self.origin.line() + (f"; new: {', '.join(heads)}" if heads else "")

    def _new(self, recipe: Recipe, task: Task[Any]) -> Callable[[str], bool] | None:
        """Which tensors are not taken over; None: all are."""
        if recipe.task != self.recipe.task:
            return lambda name: name.partition(".")[0] not in ("embedding", "encoder")
        before = registry.task_type(self.recipe.task)(self.recipe, Assets(self.files)).outputs
        return None if before == task.outputs else lambda name: name.partition(".")[0] in ("head", "tagging")


def _head_of(family: Family, task: str) -> dict[str, Any]:
    """The sections of a recipe that say what a family has above its encoder for a task."""
    sections: dict[str, Any] = {}
    for key, value in {**family.assumed, **family.by_task.get(task, {})}.items():
        section, _, name = key.partition(".")
        if not name and key in _SECTIONS:
            sections[key] = value
        elif name and section in ("pooling", "output", "spelling") and task != "masked-lm":
            sections.setdefault(section, {})[name] = value
    return sections


def value_of_start(recipe: Config) -> str | None:
    """`model.start` of a recipe, if it has one."""
    start: str | None = getattr(getattr(recipe, "model", None), "start", None)
    return start


def start_of(recipe: Recipe) -> Start | None:
    """What a recipe starts from. Raises: ConfigError: model.start names no weights file of a folder."""
    value = value_of_start(recipe)
    if value is None:
        return None
    path = resolve(value)
    if path.name != MODEL:
        raise ConfigError(f"model.start: {value}: name the file {MODEL} in the folder; import a model of several files")
    return Start.read(path.parent, recipe.task)


def files_of_start(recipe: Recipe) -> dict[str, bytes] | None:
    """The files of what a recipe starts from, as its task has them; None where it starts from nothing."""
    start = start_of(recipe)
    return None if start is None else start.files_for(recipe.task)


def start_is_gone(recipe: Recipe) -> bool:
    """Whether the file that model.start names is missing."""
    value = value_of_start(recipe)
    return value is not None and not resolve(value).exists()


def _model_keys(recipe: Recipe) -> dict[str, Any]:
    flat = effective(flattened(recipe))
    free = {f"model.{key}" for key in _FREE}
    return {key: value for key, value in flat.items() if key.startswith("model.") and key not in free}


def _card(recipe: Recipe, origin: Origin, count: int) -> str:
    return (
        f"# {origin.name}, imported\n\n"
        f"A model of task {recipe.task} with {count:,} weights, as it was in its folder: nothing was trained here.\n\n"
        f"| | |\n|---|---|\n| start | {origin.name} |\n| SHA-256 | `{origin.sha256}` |\n"
        f"| license | {origin.license} |\n\n"
        "    headwise predict RUN INPUT\n    headwise evaluate RUN --data FILE\n"
        f"    headwise init {recipe.task} --data FILE --start RUN\n\n"
        "`RUN` is this folder. It is complete and can be moved.\n"
    )
