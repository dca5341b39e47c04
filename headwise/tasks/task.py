"""What a task is to training, prediction and evaluation: data, model, loss, scores; one file of this folder each."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from headwise.config import Config


@dataclass(frozen=True, slots=True)
class Sample:
    """One example of what a model does: what it was given, what was expected and what came out."""

    source: str
    reference: str
    output: str


@runtime_checkable
class Batch(Protocol):
    """What `collate` makes: which examples, and how many real target tokens they have."""

    @property
    def num_tokens(self) -> int: ...

    @property
    def indices(self) -> list[int]: ...


class Task(ABC):
    """A kind of problem with its data read; splits are "train", "valid" and "test"."""

    name: ClassVar[str]
    config_type: ClassVar[type[Config]]

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def build(self, seed: int) -> nn.Module:
        """A new model; its weights depend on the seed alone."""

    @abstractmethod
    def lengths(self, split: str) -> np.ndarray:
        """Sizes of the examples of a split as (examples, sides); no rows where there is no such split."""

    @abstractmethod
    def collate(self, split: str, indices: list[int]) -> Any:
        """The examples at these places as a `Batch`."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        """Sum of the loss over the real target tokens (nats); 0 with zero gradient for a batch without any."""

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str, *, limit: int | None = None) -> dict[str, float]:
        """Scores of the model on a split, or on its first `limit` examples."""

    @abstractmethod
    def samples(self, model: nn.Module) -> list[Sample]:
        """What the model does with a fixed set of examples; shown at each validation."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What prediction needs besides weights and config (tokenizers, labels), by file name."""

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the data files as read, by name."""

    @classmethod
    @abstractmethod
    def restore(cls, files: Mapping[str, bytes], config: Any) -> "Task":
        """A task for prediction only, from the files of a run folder."""

    @abstractmethod
    def predictor(self, model: nn.Module) -> Any:
        """What `load` returns: the object that applies the model to new inputs."""

    @abstractmethod
    def card(self, metrics: Mapping[str, float]) -> str:
        """Markdown for the README of a run: what the model does, on what it was trained, how to use it."""
