"""From a run folder: its predictor, its examples, its recipe and its baselines."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwise.data.files import digest
from headwise.data.splits import SPLITS
from headwise.errors import CheckpointError, ConfigError, DataError, unknown
from headwise.predictors.predictor import Predictor
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.publish import CONFIG, DATA, OWN_FILES, TRAINER, evaluated, read_run
from headwise.runs.reading import Saved, read_file
from headwise.runs.weights import load_weights, match_weights
from headwise.tasks import registry
from headwise.tasks.task import Assets, Task
from headwise.training.comparison import Baselines, compare_with_baselines
from headwise.training.precision import Decision
from headwise.training.randomness import isolated
from headwise.training.recipe import Recipe, parse_recipe, read_recipe
from headwise.training.recipes import named_files
from headwise.training.session import Trainer
from headwise.trust import trusting

_DRAWS = frozenset({"normal_", "uniform_", "bernoulli_", "exponential_", "random_"})
# the default types of PyTorch with which models are trained
_TRAINED = frozenset({torch.float32, torch.float64})


def load(folder: str | os.PathLike[str], *, trust: bool = False) -> Predictor[Any, Any, Any]:
    """The predictor of a run folder; every file is verified first.

    If the model is damaged, the best intact checkpoint, or else the newest, is used instead, with a warning that names
    the damaged file.

    The model is on PyTorch's default device (`torch.set_default_device`).

    Args:
        trust: run code that the run names outside the installed packages, and remember it as trusted until it changes.
    Raises:
        CheckpointError: naming the file if there is no such folder or nothing intact is left.
        Untrusted: the run names such code, and it is not trusted yet.
        ConfigError: if the default device is "meta".
    """
    with trusting(trust):
        predictor = read_run(Path(folder), _warn, _predictor)
    if (twin := predictor.twin()) is not None:
        twin.decide = Decision(Path(folder), predictor, lambda split: examples(folder, split))
    return predictor


def task_of(folder: str | os.PathLike[str]) -> Task[Any]:
    """The task of a run folder, for a predictor of another model. Raises: CheckpointError as `recipe_of`."""
    return read_run(Path(folder), _warn, _task)


def recipe_of(folder: str | os.PathLike[str]) -> Recipe:
    """The recipe of a run folder. Raises: CheckpointError if there is none, or none of this program."""
    return read_run(Path(folder), _warn, _recipe)


def data_digests(folder: str | os.PathLike[str]) -> Mapping[str, str]:
    """The SHA-256 of each file that a run was trained on, by its key. Raises: CheckpointError as `recipe_of`."""
    return read_run(Path(folder), _warn, _recipe_and_data)[1]


def checkpoint_steps(folder: str | os.PathLike[str]) -> list[int]:
    """The steps that have a checkpoint, in order. Raises: CheckpointError if there are none."""
    steps = sorted({entry.step for entry in Checkpoints(Path(folder)).entries()})
    if not steps:
        raise CheckpointError(f"{folder}: there is no checkpoint in it")
    return steps


def load_step(folder: str | os.PathLike[str], step: int) -> Predictor[Any, Any, Any]:
    """The predictor of the checkpoint of one step.

    Raises: CheckpointError if there is no such checkpoint, or none intact.
    """
    return _predictor(Checkpoints(Path(folder)).at(step))


def examples(folder: str | os.PathLike[str], split: str = "test", data: Mapping[str, Any] | None = None) -> list[Any]:
    """The labelled examples of a run's recipe, for its predictor's `evaluate`.

    Args:
        split: "train", "valid" or "test".
        data: keys of the recipe's `[data]` to put in place of its own, such as `{"test": "other.tsv"}`; None is the
            key's default.

    Raises:
        CheckpointError: no recipe in the folder, or none of this program.
        ConfigError: keys that the recipe's data does not have.
        DataError: files that are not there or are wrong, or no such split.
    """
    if split not in SPLITS:
        raise ConfigError(unknown("split", split, SPLITS))
    path = Path(folder) / CONFIG
    recipe, before = read_run(path.parent, _warn, _recipe_and_data)
    if data:
        values = recipe.model_dump(mode="json", exclude_none=True)
        changed = {**values.get("data", {}), **data}
        values["data"] = {key: value for key, value in changed.items() if value is not None}
        recipe = read_recipe(values)
    of_split = registry.task_type(recipe.task).examples(recipe, split)
    if not of_split:
        raise DataError(
            f"{path}: the recipe has no {split} part; name a file of examples (--data FILE) or another part (--split)"
        )
    of_recipe = {name: digest for name, digest in before.items() if name not in (data or {})}
    for note in _changes(recipe, split, of_recipe):
        _warn(note)
    return of_split


def baselines_of(
    folder: str | os.PathLike[str],
    predictor: Predictor[Any, Any, Any],
    examples: Sequence[Any],
    scores: Mapping[str, float | str],
) -> Baselines:
    """The baselines of a run on the examples on which its predictor has these scores, and the comparison.

    Those fitted to the training data are left out if it has changed since the run was trained.

    Raises: CheckpointError: no recipe in the folder, or none of this program.
    """
    recipe, trained = read_run(Path(folder), _warn, _recipe_and_data)
    return compare_with_baselines(recipe, predictor, examples, scores, trained)


def _changes(recipe: Recipe, split: str, before: Mapping[str, str]) -> list[str]:
    """Warnings about changed files of a split, or of training where the split is a part of that."""
    files = named_files(recipe)
    source = split if split in files else "train"
    warning = "has changed since the run was trained: scores cannot be compared with earlier ones"
    if source == "train":
        warning += f", and the {split} part may hold what was trained on"
    names = [name for name in (source, f"{source}_target") if name in before and name in files]
    return [f"{files[name]}: {warning}" for name in names if digest(files[name]) != before[name]]


def _recipe_and_data(saved: Saved) -> tuple[Recipe, Mapping[str, str]]:
    """The recipe of a run, and the SHA-256 of the files it was trained on by key."""
    digests = saved.facts.get(DATA)
    if not isinstance(digests, dict):
        digests = Trainer.read(saved).data if TRAINER in saved.files else _digests_of_state(saved.folder)
    return _recipe(saved), digests


def _digests_of_state(run: Path) -> Mapping[str, str]:
    """For older runs, whose published model has no digests: from the newest intact checkpoint."""
    for entry in Checkpoints(run).entries():
        try:
            return Trainer.read(Saved(entry.path, {}, {TRAINER: read_file(entry.path, TRAINER)}, {})).data
        except CheckpointError:
            continue
    return {}


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _recipe(saved: Saved) -> Recipe:
    return parse_recipe(saved.files.get(CONFIG, b""), str(saved.folder / CONFIG))


class _Undrawn(TorchFunctionMode):
    """Inside, no random numbers are drawn: on the meta device PyTorch would import its compiler for that."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") in _DRAWS:
            return args[0] if args else (options or {})["tensor"]
        return function(*args, **(options or {}))


def _task(saved: Saved) -> Task[Any]:
    recipe = _recipe(saved)
    files = {name: data for name, data in saved.files.items() if name not in OWN_FILES}
    try:
        return registry.task_type(recipe.task)(recipe, Assets(files))
    except DataError as error:
        # the data is that of the folder, not of the user
        raise CheckpointError(f"{saved.folder}: {error}") from None


def _predictor(saved: Saved) -> Predictor[Any, Any, Any]:
    task = _task(saved)
    name, tensors, metadata = evaluated(saved)
    if len(tensors) < (expected := task.fewest_tensors()):
        raise CheckpointError(
            f"{saved.folder / name}: the weights do not fit the model: {len(tensors)} tensors, and the recipe's has"
            f" {expected} or more"
        )
    with isolated(task.config.seed), _default_type(tensors):
        with torch.device("meta"), _Undrawn():
            # a recipe that does not fit the weights is refused before its model takes memory
            match_weights(task.build(), tensors, metadata, str(saved.folder / name))
        model = task.build()
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ConfigError("a model cannot be loaded onto the meta device, which holds no numbers; load it outside")
    load_weights(model, tensors, metadata, str(saved.folder / name))
    return task.predictor(model.eval())


@contextmanager
def _default_type(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside, the default type is that of the saved weights."""
    before = torch.get_default_dtype()
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()} & _TRAINED
    if len(dtypes) != 1:
        yield
        return
    torch.set_default_dtype(dtypes.pop())
    try:
        yield
    finally:
        torch.set_default_dtype(before)
