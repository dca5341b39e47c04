"""The protocol of a task: data, model, loss, scores; families are the folders beside this file.

A task of one's own stays where it is and is named `my_package.module:MyTask` in a recipe.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.inspection import DataKind, Inspection
from headwise.data.sources import Limits, Source
from headwise.data.splits import SPLITS
from headwise.data.suggestions import Suggestion
from headwise.errors import CheckpointError, ConfigError
from headwise.predictors.baselines import Baseline
from headwise.predictors.predictor import Predictor
from headwise.tasks.demo import Demo
from headwise.tasks.options import Options

# what a task is made of, in one place for those who write one
__all__ = [
    "Assets",
    "Batch",
    "DataKind",
    "Demo",
    "Given",
    "Inspection",
    "Metric",
    "Options",
    "Probe",
    "Suggestion",
    "Task",
]

D = TypeVar("D")

# (folder, seed, count) -> the files of drawn examples, and how many each has; further arguments are options of
# `headwise data make`, by their names
Generator = Callable[..., dict[Path, int]]
# numbers that add up over batches and processes
Stats = dict[str, float]


class Metric(NamedTuple):
    """A score that `summarise` gives, and which way it improves."""

    name: str
    better: Literal["low", "high"]


class Probe(NamedTuple):
    """An input whose attention is followed through a training, and the answer that the model is made to give, if any.

    What the model would answer by itself changes from step to step, and with it what there is to look at.
    """

    item: Any
    target: str | None = None


class Description(NamedTuple):
    """What the README of a run says.

    Args:
        commands: of `headwise`, to begin with.
    """

    title: str
    text: str
    commands: tuple[str, ...]
    more: str = ""


@runtime_checkable
class Batch(Protocol):
    """What a source hands out: which examples, and how many real target tokens they have."""

    @property
    def num_tokens(self) -> int: ...

    @property
    def indices(self) -> list[int]: ...

    def to(self, device: torch.device | str) -> "Batch": ...


@dataclass(frozen=True)
class Assets(Generic[D]):
    """What a task learned from its files before there is a model.

    Args:
        files: what prediction needs besides weights and configuration (tokenizers, labels), by file name.
        data: the examples; None in a run that is loaded to predict.
        digests: SHA-256 of the data files as read, by their keys in the recipe: a run is known by what it was trained
            on, wherever that lies.
        notes: what was left out of the data, or is odd about it; told at the start of a run.
    """

    files: Mapping[str, bytes]
    data: D | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def file(self, name: str) -> bytes:
        """The content of a file. Raises: CheckpointError when the run has none of this name."""
        return required(self.files, name)


def required(files: Mapping[str, bytes], name: str) -> bytes:
    """The content of a file of a run. Raises: CheckpointError when the run has none of this name."""
    if name not in files:
        raise CheckpointError(f"{name} is missing from the run folder; restore it from a copy of the run")
    return files[name]


@dataclass(frozen=True)
class Given:
    """What the reading of data takes over instead of making it.

    Args:
        files: what a run has learned from its data before, by file name; None: it is learned.
        scratch: the folder for what is otherwise kept for later runs, such as the tokens of a long text; None: it is
            kept, in the data cache.
        start: the files are those of a model to start from, whose labels may be others.
    """

    files: Mapping[str, bytes] | None = None
    scratch: Path | None = None
    start: bool = False


class Task(ABC, Generic[D]):
    """A kind of problem; splits are "train", "valid" and "test".

    A task is made of its configuration and assets alone, in the same way for training and for prediction; what reads
    files is `prepare`, once.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[Config]]
    metrics: ClassVar[tuple[Metric, ...]]
    # what `headwise data report` knows of its data
    kinds: ClassVar[tuple[DataKind, ...]] = ()
    # what `headwise demo` trains on; None: there is none
    demo: ClassVar[Demo | None] = None
    # what `headwise data make` draws, by name
    generators: ClassVar[Mapping[str, Generator]] = {}
    # what verbs of the command line and requests of a service take for it
    options: ClassVar[tuple[type[Options], ...]] = ()
    # what `num_tokens` of a batch counts
    unit: ClassVar[str] = "tokens"

    def __init__(self, config: Any, assets: Assets[D]) -> None:
        self.config = config
        self.assets = assets

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what the last layer of the model says, by number; none where it says no names."""
        return ()

    @classmethod
    def prepare(cls, config: Any) -> Assets[Any]:
        """Reads the data files and trains what has to be trained on them, such as tokenizers.

        A task has this or `prepare_with`.
        """
        if cls.prepare_with.__func__ is Task.prepare_with.__func__:  # type: ignore[attr-defined]
            raise TypeError(f"{cls.__name__} needs a class method prepare(config)")
        return cls.prepare_with(config, Given())

    @classmethod
    def prepare_with(cls, config: Any, given: Given) -> Assets[Any]:
        """As `prepare`, with what is given. Here: `prepare`, which must then learn the files that are given.

        Raises: CheckpointError naming the first file that comes out different.
        """
        assets = cls.prepare(config)
        files = assets.files if given.files is None else given.files
        if others := [name for name in files.keys() | assets.files.keys() if files.get(name) != assets.files.get(name)]:
            raise CheckpointError(
                f"{min(others)}: is not what the task makes of its data now, and the model knows nothing else; put the "
                f"data back, or write {cls.__name__}.prepare_with so that it reads other data with the files of a run"
            )
        return assets

    @classmethod
    @abstractmethod
    def examples(cls, config: Any, split: str) -> list[Any]:
        """The labelled examples of a split as its files have them, for the predictor's `evaluate`."""

    @classmethod
    def inspect(cls, config: Any, held_out: str | None = None) -> Sequence[Inspection]:
        """What `headwise data report` says of the data files: by its kind of data, else how many examples there are.

        Args:
            held_out: a file of examples that are looked up among those of train, for kinds of data that can.
        """
        data = getattr(config, "data", None)
        kind = next((kind for kind in cls.kinds if isinstance(data, kind.section)), None)
        if kind is not None:
            return kind.inspect(data, held_out)
        if held_out is not None:
            raise ConfigError(f"--held-out does not apply to task '{cls.name}'; leave it out")
        counts = {part: len(cls.examples(config, part)) for part in SPLITS}
        return [Inspection(part, "examples", count) for part, count in counts.items() if count]

    @classmethod
    def baselines(cls, config: Any, predictor: Any, examples: Sequence[Any]) -> Iterator[Baseline]:
        """Baselines fitted to the training data, scored by the names of `metrics`, the cheapest first; here none.

        Those that need no training data are the predictor's.

        Args:
            predictor: of a run of this configuration, as `predictor` made it.
        """
        yield from ()

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """What `headwise init` writes: a recipe fitted to the data. Here: every setting at its default, and a metric
        to monitor where there is no loss.

        Args:
            data: keys of `[data]`, or of the task itself if it has no such section, as the user gave them.
        """
        inside = "data" in cls.config_type.model_fields
        values = {"data": dict(data)} if inside else dict(data)
        if "loss" not in {metric.name for metric in cls.metrics}:
            values["training"] = {"monitor": cls.metrics[0].name}
        return Suggestion(values, f"Task {cls.name}")

    @abstractmethod
    def build(self) -> nn.Module:
        """A new model with random weights; needs no file, and works on the meta device."""

    def fewest_tensors(self) -> int:
        """Tensors that the model's weights have at least, as `[model]` states without building, if it does.

        Weights with fewer are refused before a model of this size is built: it may take long.
        """
        count: Callable[[], int] | None = getattr(getattr(self.config, "model", None), "fewest_tensors", None)
        return 0 if count is None else count()

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        """Puts weights that come from elsewhere, such as word vectors, into a new model, once before the first step.

        Returns: what to tell about it.
        """
        return []

    @abstractmethod
    def source(self, split: str, limits: Limits) -> Source[Any] | None:
        """The batches of a split, those of "train" in random order; None where there is no such split."""

    def select(self, examples: Sequence[Any], count: int) -> Sequence[Any]:
        """The examples of a split that `source` has where `Limits.examples` is `count`; here the first ones."""
        return examples[:count]

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        """Sum of the loss over the real target tokens (nats); 0 with zero gradient for a batch without any."""

    @abstractmethod
    def measure(self, model: nn.Module, batches: Iterable[Any]) -> Stats:
        """Counts over these batches, from which `summarise` makes scores."""

    @abstractmethod
    def summarise(self, stats: Stats) -> dict[str, float]:
        """The scores of summed counts, by the names of `metrics`."""

    def samples(self, model: nn.Module) -> list[str]:
        """What the model does with a fixed set of examples, a line each, shown at each validation; here none."""
        return []

    def probe(self, predictor: Predictor[Any, Any, Any], text: str) -> Probe:
        """What a film of the training looks at where the recipe names this input, without an answer to it."""
        return Probe(predictor.parse(text))

    def probes(self, predictor: Predictor[Any, Any, Any]) -> list[Probe]:
        """What it looks at where the recipe names none: a few inputs, those of `samples`. Here there are none."""
        return []

    @abstractmethod
    def predictor(self, model: nn.Module) -> Predictor[Any, Any, Any]:
        """What `load` returns: the object that applies the model to new inputs."""

    def description(self) -> Description:
        """What the README of a run says of the model."""
        return Description(f"Task {self.name}", "Trained with Headwise.", ("predict RUN INPUT", "evaluate RUN"))

    def card(self, metrics: Mapping[str, float]) -> str:
        """Markdown for the README of a run: what the model does, on what it was trained, how to use it."""
        title, text, commands, more = self.description()
        train = getattr(getattr(self.config, "data", None), "train", None)
        trained = "" if train is None else f" trained on {PurePath(train).name}"
        scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        usage = "".join(f"    headwise {command}\n" for command in commands)
        return (
            f"# {title}{trained}\n\n{text} Validation: {scores or 'none'}.\n\n{usage}\n"
            f"`RUN` is this folder. It is complete and can be moved.{more}\n"
        )
