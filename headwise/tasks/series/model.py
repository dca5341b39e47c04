"""Models that tell how series of numbers go on: an encoder that tells all steps at once, a decoder that tells the next.

Numbers are standardised; both kinds read them through a linear layer in place of a table of embeddings.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.attention.precision import autocast_dtype
from headwise.models.pooling import SequencePooling, SequencePoolingConfig
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import (
    AloneConfig,
    AttentionConfig,
    BidirectionalConfig,
    ConvolutionConfig,
    EncoderConfig,
    TokenEncoder,
    WindowConfig,
    input_width,
)
from headwise.models.transformer import TransformerDecoder
from headwise.models.transformer_cache import TransformerCache
from headwise.models.transformer_config import StackConfig
from headwise.models.transformer_parts import build_positions, closing_norm, decoder_block, layer_positions
from headwise.positions import Position


class StepwiseConfig(StackConfig):
    """A stack that predicts the next step, and reads its prediction to predict the one after it."""

    kind: Literal["decoder"] = Field("decoder", description="the family of the model")
    num_layers: int = Field(2, ge=1, le=1024, description="blocks of self-attention and feed-forward")

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        self.check_steps("mechanism")

    def fewest_tensors(self) -> int:
        """Tensors that the weights have at least, counted without building: the norms and biases of every layer."""
        return 4 * self.num_layers


ForecasterConfig = Annotated[
    AloneConfig | WindowConfig | ConvolutionConfig | BidirectionalConfig | AttentionConfig | StepwiseConfig,
    Field(discriminator="kind"),
]


Windows = Float[Tensor, "batch positions columns"]
Forecasts = Float[Tensor, "batch count targets"]


class Forecaster(nn.Module, ABC):
    """Reads a history and tells the steps after it.

    Args:
        targets: the places of the predicted columns among those that are read.
        change: what the network says is added to the latest numbers; else it is the number itself.
    """

    def __init__(self, targets: list[int], horizon: int, change: bool):
        super().__init__()
        self.targets, self.horizon, self.change = targets, horizon, change

    @abstractmethod
    def forward(self, history: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch horizon targets"]:
        """The steps after each history."""

    @abstractmethod
    def teacher_forced(self, window: Windows, count: int) -> tuple[Forecasts, Forecasts]:
        """What is said of the last `count` steps of windows, whose last `horizon` steps follow a history, and them."""


class PooledForecaster(Forecaster):
    """head(dropout(pooling(encoder(dropout(W x))))): all steps of the forecast at once.

    Args:
        entry: W, from the columns to the width of the encoder.
        head: to horizon x targets numbers.
        front: a learned vector before the first step, None: none.
    """

    def __init__(
        self,
        entry: nn.Linear,
        encoder: TokenEncoder,
        pooling: SequencePooling,
        *,
        front: nn.Parameter | None,
        dropout: float,
        targets: list[int],
        horizon: int,
        change: bool,
    ):
        super().__init__(targets, horizon, change)
        self.entry, self.encoder, self.pooling = entry, encoder, pooling
        self.head = nn.Linear(encoder.width, horizon * len(targets))
        self.front, self.dropout = front, Dropout(dropout)

    def states(self, history: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch places width"]:
        """What the encoder says of every step, that of the front vector first."""
        x = self.entry(history)
        if self.front is not None:
            x = torch.cat([self.front.to(x.dtype).expand(len(x), 1, -1), x], 1)
        read: Tensor = self.encoder(self.dropout(x), whole(x))
        return read

    def forward(self, history: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch horizon targets"]:
        states = self.states(history)
        forecast: Tensor = self.head(self.dropout(self.pooling(states, whole(states))))
        forecast = forecast.unflatten(1, (self.horizon, len(self.targets)))
        return forecast + history[:, -1:, self.targets] if self.change else forecast

    def teacher_forced(self, window: Windows, count: int) -> tuple[Forecasts, Forecasts]:
        """`count` is the horizon: nothing else is predicted."""
        return self(window[:, : -self.horizon]), window[:, -self.horizon :, self.targets]


class Entry(nn.Module):
    """dropout(position(W x)): numbers as the input of a stack that goes step by step."""

    def __init__(self, columns: int, d_model: int, position: Position, dropout: float):
        super().__init__()
        self.linear, self.position, self.dropout = nn.Linear(columns, d_model), position, Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch length columns"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """`start`: the place of the first step."""
        entered: Tensor = self.dropout(self.position.embed(self.linear(x), start))
        return entered.bfloat16() if autocast_dtype(entered.device) == torch.bfloat16 else entered


class StepwiseForecaster(Forecaster):
    """A causal stack that predicts all columns of the next step at every place; a forecast reads its own predictions.

    Args:
        decoder: from numbers to numbers; it has no memory.
    """

    def __init__(self, decoder: TransformerDecoder, targets: list[int], horizon: int, change: bool):
        super().__init__(targets, horizon, change)
        self.decoder = decoder

    def predict_next(self, steps: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch length columns"]:
        """The step after each place, predicted from the steps up to it."""
        output: Tensor = self.decoder.output(self.decoder.hidden(steps, None, None))
        return steps + output if self.change else output

    def start(self, history: Float[Tensor, "batch length columns"]) -> TransformerCache:
        """What the stack keeps of these steps, which are read in one pass; there may be none."""
        cache = self.decoder.empty(history)
        if history.shape[1]:
            self.decoder.extend(history, cache)
        return cache

    def step(self, numbers: Float[Tensor, "batch columns"], cache: TransformerCache) -> Float[Tensor, "batch columns"]:
        """The step after one more, which the cache takes in."""
        output = self.decoder.step(numbers, cache)
        return numbers + output if self.change else output

    def roll_out(self, history: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch horizon columns"]:
        """All columns of the next steps, each predicted from the predictions before it."""
        cache, numbers, forecast = self.start(history[:, :-1]), history[:, -1], []
        for _ in range(self.horizon):
            numbers = self.step(numbers, cache)
            forecast.append(numbers)
        return torch.stack(forecast, 1)

    def forward(self, history: Float[Tensor, "batch length columns"]) -> Float[Tensor, "batch horizon targets"]:
        return self.roll_out(history)[..., self.targets]

    def teacher_forced(self, window: Windows, count: int) -> tuple[Forecasts, Forecasts]:
        """Of all columns, each step from the true ones before it."""
        return self.predict_next(window[:, :-1])[:, -count:], window[:, -count:]


def whole(x: Float[Tensor, "batch length width"]) -> Tensor:
    """The lengths of sequences that have all places."""
    return torch.full((x.shape[0],), x.shape[1], dtype=torch.long, device=x.device)


def build_forecaster(
    config: EncoderConfig | StepwiseConfig,
    pooling: SequencePoolingConfig,
    columns: int,
    targets: list[int],
    *,
    horizon: int,
    change: bool,
) -> Forecaster:
    """The model of a configuration.

    Args:
        pooling: of an encoder; a decoder has none.
        columns: numbers of a step.
        targets, horizon, change: as of `Forecaster`.

    >>> config, pooling = ConvolutionConfig(d_model=8), SequencePoolingConfig(kind="last")
    >>> build_forecaster(config, pooling, 3, [0, 2], horizon=5, change=True)(torch.ones(2, 7, 3)).shape
    torch.Size([2, 5, 2])
    """
    model: Forecaster
    if isinstance(config, StepwiseConfig):
        model = StepwiseForecaster(_stack(config, columns), targets, horizon, change)
    else:
        encoder = config.encoder()
        model = PooledForecaster(
            nn.Linear(columns, input_width(config)),
            encoder,
            pooling.pooling(encoder.width, encoder.backward),
            front=nn.Parameter(torch.randn(input_width(config))) if pooling.kind == "cls" else None,
            dropout=config.dropout,
            targets=targets,
            horizon=horizon,
            change=change,
        )
    initialize_with_cells(model, config.initializer)
    return model


def _stack(config: StepwiseConfig, columns: int) -> TransformerDecoder:
    position = build_positions(config)
    blocks = [
        decoder_block(config, own, config.mechanism, layer, cross=False)
        for layer, own in enumerate(layer_positions(config, position, config.num_layers))
    ]
    entry = Entry(columns, config.d_model, position, config.dropout)
    return TransformerDecoder(entry, blocks, closing_norm(config), nn.Linear(config.d_model, columns))
