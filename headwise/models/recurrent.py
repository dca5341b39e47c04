"""Recurrent layers of PyTorch's cells, tanh, GRU and LSTM: one step, and a whole padded sequence in either direction.

Models keep them in float32 under autocast: states that are rounded at every step drift.
"""

from collections.abc import Iterable
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.dropout import drop
from headwise.errors import ConfigError, DataError, unknown
from headwise.models.initializers import SCHEMES, Scheme, initialize

# rnn: tanh of a map of input and state, without gates
Name = Literal["gru", "lstm", "rnn"]
Stepwise = nn.GRUCell | nn.LSTMCell | nn.RNNCell
# what reads whole sequences
Layer = nn.GRU | nn.LSTMCell | nn.RNN

CELLS: dict[str, type[Stepwise]] = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "rnn": nn.RNNCell}

# the hidden state, and for an LSTM its cell
State = tuple[Tensor, ...]
Lens = Int[Tensor, "batch"]


def build(name: str, input_dim: int, hidden_dim: int) -> Stepwise:
    """The cell of this name. Raises: ConfigError if unknown."""
    if name not in CELLS:
        raise ConfigError(unknown("cell", name, CELLS))
    return CELLS[name](input_dim, hidden_dim)


def build_layer(name: str, input_dim: int, hidden_dim: int) -> Layer:
    """What reads whole sequences: PyTorch's layer in one call; an LSTM step by step, for its cell at every end.

    Raises: ConfigError if unknown.

    >>> build_layer("rnn", 3, 5)
    RNN(3, 5)
    """
    cell = build(name, input_dim, hidden_dim)
    if isinstance(cell, nn.LSTMCell):
        return cell
    return (nn.RNN if isinstance(cell, nn.RNNCell) else nn.GRU)(input_dim, hidden_dim)


def advance(cell: nn.Module, x: Float[Tensor, "rows input_dim"], state: State) -> State:
    """The state after one more step.

    >>> advance(nn.GRUCell(3, 5), torch.zeros(2, 3), (torch.zeros(2, 5),))[0].shape
    torch.Size([2, 5])
    """
    after = cell(x, state if isinstance(cell, nn.LSTMCell) else state[0])
    return after if isinstance(after, tuple) else (after,)


def read(
    layer: Layer, x: Float[Tensor, "steps batch input_dim"], lens: Lens, back: bool
) -> tuple[Float[Tensor, "steps batch hidden_dim"], Float[Tensor, "batch state_dim"]]:
    """Hidden states at every step, and the state after the last real token: hidden, and for an LSTM its cell behind.

    Args:
        lens: real tokens of each sequence; what follows changes nothing.
        back: each sequence is read from its last real token to its first.
    """
    states = _states(layer, reversed_within(x, lens) if back else x)
    hidden = states[..., : layer.hidden_size]
    return (reversed_within(hidden, lens) if back else hidden), last_state(states, lens)


def read_both(
    directions: Iterable[nn.Module], x: Float[Tensor, "steps batch input_dim"], lens: Lens
) -> tuple[Float[Tensor, "steps batch width"], Float[Tensor, "batch state_dim"]]:
    """As `read`, by one layer for each direction, forwards first: their states side by side."""
    outputs = [read(cast(Any, layer), x, lens, bool(back)) for back, layer in enumerate(directions)]
    hidden, last = zip(*outputs, strict=True)
    return torch.cat(hidden, -1), torch.cat(last, -1)


def _states(layer: Layer, x: Tensor) -> Tensor:
    if isinstance(layer, nn.GRU | nn.RNN) and x.shape[0] > 0:
        return layer(x)[0]
    parts = 2 if isinstance(layer, nn.LSTMCell) else 1
    state: State = (x.new_zeros(x.shape[1], layer.hidden_size),) * parts
    states: list[Tensor] = []
    for step in x.unbind(0):
        state = advance(layer, step, state)
        states.append(torch.cat(state, -1))
    return torch.stack(states) if states else x.new_zeros(0, x.shape[1], parts * layer.hidden_size)


def reversed_within(x: Float[Tensor, "steps batch width"], lens: Lens) -> Float[Tensor, "steps batch width"]:
    """Each sequence backwards within its own length; padding stays behind."""
    steps = torch.arange(x.shape[0], device=x.device)[:, None]
    source = torch.where(steps < lens, lens - 1 - steps, steps)
    return x.gather(0, source[..., None].expand_as(x))


def last_state(states: Float[Tensor, "steps batch state_dim"], lens: Lens) -> Float[Tensor, "batch state_dim"]:
    """The state after the last real step of each sequence, however much padding follows; 0 for an empty one."""
    if states.shape[0] == 0:
        return states.new_zeros(states.shape[1:])
    index = (lens - 1).clamp(min=0)[:, None].expand(1, *states.shape[1:])
    return states.gather(0, index)[0].masked_fill((lens == 0)[:, None], 0.0)


def embedded(embedding: nn.Embedding, tokens: Int[Tensor, "batch steps"]) -> Float[Tensor, "steps batch width"]:
    """The vectors of tokens, steps before batch. Raises: DataError outside the vocabulary."""
    try:
        rows: Tensor = embedding(tokens.t())
    except IndexError:
        worst = int(tokens.max() if tokens.min() >= 0 else tokens.min())
        raise DataError(f"token {worst} is outside the vocabulary of {embedding.num_embeddings}") from None
    return rows


def dropout_factors(shape: tuple[int, ...], dropout: float, like: Tensor) -> Float[Tensor, "..."] | None:
    """0 with the probability of dropout, else what keeps the mean: for many steps in one draw; None without dropout."""
    return drop(like.new_ones(shape), dropout) if dropout else None


def initialize_with_cells(model: nn.Module, scheme: Scheme) -> None:
    """Fills the linear layers of a model, see `initialize`, and its cells, both as PyTorch stacks them."""
    initialize(model, scheme)
    for module in model.modules():
        if isinstance(module, Layer | Stepwise):
            for name, parameter in module.named_parameters():
                fill = SCHEMES[scheme] if name.startswith("weight") else nn.init.zeros_
                fill(parameter.detach())
