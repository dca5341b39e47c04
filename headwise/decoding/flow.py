"""Beam searches that share the steps of one decoder; more may join between two steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.beam import BeamSearch, take_all
from headwise.decoding.hypotheses import Hypothesis, StepDecoder
from headwise.decoding.rows import device_of
from headwise.errors import ConfigError

N = TypeVar("N")


@runtime_checkable
class JointDecoder(StepDecoder, Protocol):
    """A decoder that takes a step of several loops at once."""

    def step_all(
        self, tokens: Sequence[Int[Tensor, "_"]], caches: Sequence[Cache], beside: Callable[[], object]
    ) -> Float[Tensor, "rows vocab"]:
        """What `step` returns for one loop after another; `beside` is called before the longest product."""
        ...


@dataclass(frozen=True, slots=True)
class Member(Generic[N]):
    """A search that takes part, the names of its sentences, and the length that all their sources are padded to."""

    search: BeamSearch
    names: Sequence[N]
    width: int


class Flow(Generic[N]):
    """Continuous batching: searches of one decoder, each with sentences of its own, that others join between two steps.

    A decoder's products read all its weights, for one row as for hundreds. So a search that began earlier and has few
    sentences left costs next to nothing beside one that has just begun.

    Source: Yu et al. 2022, "Orca", OSDI: iterations are scheduled, not requests; products over the rows of all,
    attention within each. Here what joins is a batch, whose sentences have the same number of steps behind them.
    """

    def __init__(self, decoder: JointDecoder):
        self._decoder, self._device = decoder, device_of(decoder)
        self._members: list[Member[N]] = []

    def __len__(self) -> int:
        """Sentences that are under way."""
        return sum(member.search.open for member in self._members)

    @property
    def tokens(self) -> int:
        """Those of the sources that are under way, padding included."""
        return sum(member.search.open * member.width for member in self._members)

    def join(self, member: Member[N]) -> None:
        """From the next step on it takes part. Raises: ConfigError where it does already, or is done."""
        if not member.search.open or any(member.search is other.search for other in self._members):
            raise ConfigError("a search joins once, while sentences of it are under way")
        self._members.append(member)

    def drop(self, names: set[N]) -> None:
        """These sentences leave with the next step, whatever was found; nothing is told of them."""
        for member in self._members:
            member.search.drop([place for place, name in enumerate(member.names) if name in names])

    @torch.inference_mode()
    def step(self, beside: Callable[[], object] = lambda: None) -> list[tuple[N, list[Hypothesis]]]:
        """One token more for all; the sentences that are done with it and what was found, best first.

        Args:
            beside: called before the longest product, so that threads that it wakes run beside that.

        Raises: Diverged as `beam_search`; no member can go on after it.
        """
        if not self._members:
            return []
        tokens = [member.search.tokens().to(self._device) for member in self._members]
        searches = [member.search for member in self._members]
        take_all(searches, self._decoder.step_all(tokens, [search.cache for search in searches], beside))
        found = [
            (member.names[place], member.search.result(place))
            for member in self._members
            for place in member.search.done
        ]
        self._members = [member for member in self._members if member.search.open]
        return found
