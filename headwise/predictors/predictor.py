"""A trained model applied to new inputs: what `headwise.load` returns, and what the command line drives."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from headwise.errors import ConfigError, Unsupported

# inputs, outputs, and examples with the answer that is right
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
E = TypeVar("E")

Form = Literal["text", "json"]


class Predictor(ABC, Generic[I, O, E]):
    """Reads inputs of type I, predicts outputs of type O, and scores itself on labelled examples of type E."""

    @abstractmethod
    def parse(self, text: str) -> I:
        """One input from an argument of the command line, or a line of standard input."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[I]:
        """The inputs in a file, one after another, however long it is."""

    @abstractmethod
    def predict(self, items: Sequence[I], options: Any = None) -> list[O]:
        """The outputs of these inputs, in their order.

        Args:
            options: what `options` made; None: the recipe's own.
        """

    @abstractmethod
    def write(self, item: I, output: O, form: Form, options: Any = None) -> list[str]:
        """An output as lines of text, or as one line of JSON with the input beside it; without line ends."""

    @abstractmethod
    def evaluate(self, examples: Sequence[E], *, options: Any = None) -> dict[str, float | str]:
        """The field's scores of labelled examples; texts are signatures that say how a score was computed."""

    def options(self, given: Mapping[str, Any]) -> Any:
        """What `predict` is told, from options by name; without any, the recipe's own.

        Raises: ConfigError naming an option that means nothing here.
        """
        if given:
            raise ConfigError(f"--{next(iter(given)).replace('_', '-')} means nothing to this model; leave it out")
        return None

    def explain(self, item: I, target: str | None = None) -> Any:
        """Where the model looks as it answers, or as it is made to give `target` for an answer.

        Raises: Unsupported if there is nothing to look at.
        """
        raise Unsupported("only translations are drawn; headwise.record(model) gives the attention of any model")
