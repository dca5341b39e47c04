"""What searches in place of Headwise's own decoder, where it computes the same; the rest falls to that, by name."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.search import DecodingConfig
from headwise.errors import HeadwiseError
from headwise.layers.inference import state_of
from headwise.records.watching import watched

Name = Literal["headwise", "ctranslate2", "auto"]


class Tokens(NamedTuple):
    """What a predictor reads and writes.

    Args:
        tokenizers: of what is read, and of what is written where that is another one.
        banned: tokens that are never written.
        first: tokens that every output begins with, with probability 1.
    """

    tokenizers: tuple[Tokenizer, ...]
    banned: frozenset[int]
    first: tuple[int, ...] = ()


@runtime_checkable
class Engine(Protocol):
    """Searches with the weights of a model, outside PyTorch."""

    def refusal(self, config: DecodingConfig, prefix: Sequence[int]) -> str | None:
        """Why it does not search so; None: it does."""
        ...

    def search(
        self, sources: Sequence[list[int]], limits: Sequence[int], config: DecodingConfig
    ) -> list[list[Hypothesis] | str]:
        """The hypotheses of each source, best first; or why Headwise's decoder has to search for them.

        Args:
            sources: tokens as the model reads them.
            limits: tokens of an output at most, of each source.
        """
        ...


# of a precision: the engine, and how it was checked. Raises: HeadwiseError where there is none, or it is not equal
Open = Callable[[str], tuple[Engine, str]]


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine and how it was checked, or why there is none."""

    engine: Engine | None
    reason: str
    parameters: tuple[object, ...] = ()
    error: HeadwiseError | None = None

    def __str__(self) -> str:
        return f"{'headwise' if self.engine is None else 'ctranslate2'}: {self.reason}"


class Engines:
    """The engine of a predictor, opened when a search first asks for it.

    `open` makes it; without it every search is Headwise's own. `instead` and `precision` take the place of every engine
    and precision that is asked for. While attention is recorded, or when parameters have changed, nothing else
    searches.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.open: Open | None = None
        self.instead: Name | None = None
        self.precision: str | None = None
        self._opened: dict[str, Opened] = {}
        self._reasons: Counter[str] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        # a copy of a predictor may get other weights
        return {**vars(self), "open": None, "_opened": {}, "_reasons": Counter()}

    def of(self, model: nn.Module, config: DecodingConfig, prefix: Sequence[int], count: int) -> Engine | None:
        """The engine for a search for `count` inputs; None: Headwise's own decoder.

        Raises: HeadwiseError where an engine is asked for by its name, and there is none for this model.
        """
        requested, precision = self.instead or config.engine, self.precision or config.precision
        if requested == "headwise" or (self.open is None and precision not in self._opened):
            return None
        opened = self.opened(model, requested, precision)
        if opened.engine is None:
            return None
        reason = _changed(model, opened) or opened.engine.refusal(config, prefix)
        if reason is not None:
            self.fell(reason, count)
            return None
        return opened.engine

    def opened(self, model: nn.Module, requested: Name, precision: str) -> Opened:
        """The engine of a precision. Raises: as `of`."""
        if precision not in self._opened:
            assert self.open is not None
            try:
                engine, reason = self.open(precision)
            except HeadwiseError as error:
                self._opened[precision] = Opened(None, str(error), error=error)
            else:
                self._opened[precision] = Opened(engine, reason, tuple(map(state_of, model.parameters())))
        opened = self._opened[precision]
        if opened.error is not None and requested != "auto":
            raise opened.error
        return opened

    @contextmanager
    def testing(self, engine: Engine) -> Iterator[None]:
        """While open, who asks for an engine by its name gets this one."""
        before = dict(vars(self))
        self.open, self.instead, self.precision = (lambda _: (engine, "under test")), None, None
        self._opened, self._reasons = {}, Counter()
        try:
            yield
        finally:
            vars(self).update(before)

    @contextmanager
    def own(self) -> Iterator[None]:
        """While open, every search is Headwise's own."""
        before, self.instead = self.instead, "headwise"
        try:
            yield
        finally:
            self.instead = before

    def fell(self, reason: str, count: int) -> None:
        """So many inputs were searched for by Headwise's own decoder."""
        if count:
            self._reasons[reason] += count

    @property
    def reports(self) -> list[str]:
        """Which engines ran, and why Headwise's own decoder did for how many inputs."""
        own = [f"headwise for {count:,} inputs: {reason}" for reason, count in self._reasons.items()]
        return [*map(str, self._opened.values()), *own]


def _changed(model: nn.Module, opened: Opened) -> str | None:
    if any(watched(module) for module in model.modules() if isinstance(module, Mechanism)):
        return "attention is recorded"
    return (
        None
        if tuple(map(state_of, model.parameters())) == opened.parameters
        else "the weights have changed since the engine was opened"
    )
