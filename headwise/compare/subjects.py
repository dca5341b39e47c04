"""What is measured: ways to mix the tokens of a sequence, of any length and width."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention import attend, mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.layers.attention import MultiHeadAttention

# places that a convolution sees at once
KERNEL_SIZE = 3


class Mixer(nn.Module):
    """A layer from (batch, length, width) to that shape. `unrolled`: a recurrent one goes token by token in Python."""

    unrolled = False


@dataclass(frozen=True)
class Subject:
    """A way to mix tokens.

    Args:
        build: the layer for a length and a width.
        length, width: powers of the two in its time, by theory; None where no power is stated.
        recurrent: whether it reads one token after another.
    """

    name: str
    build: Callable[[int, int], Mixer]
    length: float | None
    width: float | None
    recurrent: bool = False


class _Convolution(Mixer):
    def __init__(self, width: int, before: int, after: int):
        super().__init__()
        self.padding = (before, after)
        self.convolution = nn.Conv1d(width, width, KERNEL_SIZE)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return self.convolution(nn.functional.pad(x.mT, self.padding)).mT


class Recurrent(Mixer):
    """PyTorch's layer, or the same steps by its cell, which can be counted and traced."""

    def __init__(self, kind: Literal["RNN", "GRU", "LSTM"], width: int):
        super().__init__()
        self.layer: nn.RNNBase = getattr(nn, kind)(width, width, batch_first=True)
        cell: nn.RNNCellBase = getattr(nn, f"{kind}Cell")(width, width)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(cell, name, getattr(self.layer, f"{name}_l0"))
        self.cell = cell

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        if not self.unrolled:
            return self.layer(x)[0]
        return torch.stack(self.steps(x), 1)

    def steps(self, x: Float[Tensor, "batch length width"], window: int | None = None) -> list[Tensor]:
        """The state after each token; gradients go back through at most `window` cells."""
        state, states = None, list[Tensor]()
        for place, token in enumerate(x.unbind(1)):
            if window is not None and state is not None and (x.shape[1] - place) == window:
                state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
            state = self.cell(token, state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return states


class _Product(Mixer):
    """A mechanism alone, of one head as wide as the layer, without projections."""

    def __init__(self, mechanism: Mechanism, width: int):
        super().__init__()
        self.mechanism = mechanism
        self.mask = None if mechanism.facts.bidirectional else Causal()
        self.gates = mechanism.gate_module(width, 1)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        head = x.unsqueeze(1)
        gates = None if self.gates is None else self.gates(x)
        return self.mechanism(Call(head, head, head, mask=self.mask, gates=gates)).squeeze(1)


class _Plain(Mixer):
    """Attention by its definition, which keeps a score for each pair."""

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        head = x.unsqueeze(1)
        return attend(head, head, head, kernel="plain").squeeze(1)


class _Layer(Mixer):
    def __init__(self, width: int):
        super().__init__()
        self.attention = MultiHeadAttention(width, 1)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return self.attention(x)


def powers(time: str) -> tuple[float | None, float | None]:
    """The powers of n and d in a cost as `Facts.time` states it: those of its first product.

    >>> powers("n^2 d; n w d under a window of w"), powers("n m d + m^3 for m landmarks"), powers("not stated")
    ((2.0, 1.0), (1.0, 1.0), (None, None))
    """
    product = re.split(r" for |[;,]| \+ (?![^(]*\))", time)[0]
    powers = {name: re.search(rf"\b{name}(?:\^(\d))?\b", product) for name in "nd"}
    if powers["n"] is None:
        return None, None
    return tuple(float(match[1] or 1) if match else 0.0 for match in powers.values())  # type: ignore[return-value]


def _mechanism(name: str, length: int, width: int) -> Mixer:
    kind = mechanisms.mechanism_type(name)
    return _Product(kind.sized(head_dim=width, num_heads=1, max_len=length, dropout=0.0), width)


def subjects() -> dict[str, Subject]:
    """All that can be measured, by name. Mechanisms stand for themselves, of one head and without projections.

    `scored` takes the kernel that is planned for it; `plain` keeps a score for each pair, as the definition does.

    >>> subjects()["rnn"].length, subjects()["scored"].length
    (1.0, 2.0)
    """
    fixed = [
        Subject("cnn", lambda _, width: _Convolution(width, KERNEL_SIZE // 2, KERNEL_SIZE // 2), 1.0, 2.0),
        Subject("causal-cnn", lambda _, width: _Convolution(width, KERNEL_SIZE - 1, 0), 1.0, 2.0),
        Subject("rnn", lambda _, width: Recurrent("RNN", width), 1.0, 2.0, recurrent=True),
        Subject("gru", lambda _, width: Recurrent("GRU", width), 1.0, 2.0, recurrent=True),
        Subject("lstm", lambda _, width: Recurrent("LSTM", width), 1.0, 2.0, recurrent=True),
        # n^2 d + n d^2: neither power stands alone
        Subject("attention-layer", lambda _, width: _Layer(width), None, None),
        Subject("plain", lambda *_: _Plain(), 2.0, 1.0),
    ]
    subjects = {what.name: what for what in fixed}
    for name in mechanisms.names():
        facts = getattr(mechanisms.mechanism_type(name), "facts", None)
        length, width = powers(facts.time) if facts is not None else (None, None)
        subjects[name] = Subject(name, partial(_mechanism, name), length, width)
    return subjects


def subject(name: str) -> Subject:
    """A subject by its name. Raises: ConfigError for an unknown one."""
    known = subjects()
    if name not in known:
        raise ConfigError(unknown("way to mix tokens", name, known))
    return known[name]


def layer(what: Subject, length: int, width: int, *, unrolled: bool = False, seed: int = 0) -> Mixer:
    """A layer with weights drawn from a seed, for evaluation.

    Raises: Unsupported: the mechanism cannot be built for these sizes.
    """
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        try:
            mixer = what.build(length, width).train(False)
        except ConfigError as error:
            raise Unsupported(f"{what.name} of length {length} and width {width}: {error}") from None
    mixer.unrolled = unrolled and what.recurrent
    return mixer


def tokens(length: int, width: int, seed: int = 0, batch: int = 1) -> Float[Tensor, "batch length width"]:
    """Normal numbers, the same for the same seed."""
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(seed))
