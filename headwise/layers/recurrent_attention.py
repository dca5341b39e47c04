"""A stack of recurrent layers that attends at every step, with additive scores and a softmax: all steps in one pass.

Equal to the same cells and `Scored(Additive(...))` called step by step, in outputs and gradients. Keys are projected
once and not at every step, and v . tanh(x) = 2 v . sigmoid(2x) - sum(v), whose last part no softmax sees: the logistic
function is several times cheaper than the hyperbolic tangent on some processors.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.layers.recurrent import Cell
from headwise.layers.recurrent_tape import Tape, input_gates, outer_sum
from headwise.runtime import small_products


@dataclass(frozen=True, slots=True)
class Attended:
    """What the steps attend to: values, their keys as the score projects them, and which are hidden.

    `bias` is added to the scores, minus infinity where a key is hidden; `empty` marks sentences without a key;
    `factors` multiply the weights while training.
    """

    keys: Float[Tensor, "width key_len batch"]
    values: Float[Tensor, "value_dim key_len batch"]
    bias: Float[Tensor, "key_len batch"]
    empty: Bool[Tensor, "batch"] | None
    factors: Float[Tensor, "steps key_len batch"] | None


@dataclass(frozen=True, slots=True)
class Scoring:
    """The score v . tanh(W h + key) of a step."""

    query: Float[Tensor, "width hidden"]
    value: Float[Tensor, "1 width"]


def attentive_sequence(
    cells: list[Cell],
    x: Float[Tensor, "steps input_dim batch"],
    state: Float[Tensor, "layers state_dim batch"],
    attended: Attended,
    scoring: Scoring,
    factors: Float[Tensor, "steps lower hidden batch"] | None,
) -> Float[Tensor, "steps hidden batch"]:
    """The top layer's hidden states when each step reads [context; x], the query being the hidden state before it.

    Args:
        x: the part of the first layer's input that is known beforehand.
        factors: multiply the output of each layer but the last.
    """
    weights = [weight for cell in cells for weight in (cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh)]
    hidden: Tensor = _Attentive.apply(
        cells[0].tape,
        x,
        state,
        *(getattr(attended, field.name) for field in fields(attended)),
        scoring.query,
        scoring.value,
        factors,
        *weights,
    )
    return hidden


class _Attentive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kind, x, state, keys, values, bias, empty, kept, query, value, factors, *weights):
        steps, width = x.shape[0], values.shape[0]
        first, input_bias = weights[:2]
        ctx.attention = attention = _AttentionTape(
            Attended(keys, values, bias, empty, kept), Scoring(query, value), steps
        )
        ctx.stack = stack = _Stack(kind, state, weights, factors, steps)
        ctx.save_for_backward(x, first)
        with small_products(weights[2].numel() * state.shape[2]):
            on_context = first[:, :width].contiguous()
            for step, gates in enumerate(input_gates(first[:, width:], input_bias, x).unbind(0)):
                context = attention.forward(step, stack.top.hidden_at[step])
                stack.forward(step, torch.addmm(gates, on_context, context))
        # a copy: who changes the result must not change what the gradient needs
        return stack.top.states[1:, : stack.top.hidden_dim].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        attention, stack, (x, first) = ctx.attention, ctx.stack, ctx.saved_tensors
        steps, hidden, batch = gradient.shape
        attention.rewind()
        stack.rewind()
        width = first.shape[1] - x.shape[1]
        of_context = first[:, :width].t()
        with small_products(stack.top.weight.numel() * batch):
            for step in reversed(range(steps)):
                d_query = attention.backward(step, torch.mm(of_context, stack.backward(step, gradient[step])))
                stack.d_states[-1][:hidden] += d_query
            d_given = stack.tapes[0].d_given()
            d_x = torch.bmm(first[:, width:].t().expand(steps, -1, -1), d_given)
            d_first = outer_sum(d_given, torch.cat([attention.contexts, x], 1))
            d_keys, d_values, d_query_weight, d_value = attention.gradients(stack.top)
            d_weights = stack.gradients(d_first)
        d_attended = d_keys, d_values, None, None, None
        return None, d_x, torch.stack(stack.d_states), *d_attended, d_query_weight, d_value, None, *d_weights


class _Stack:
    """The tapes of a stack of layers, the first of which is given its input's gates at every step."""

    def __init__(
        self, kind: type[Tape], state: Tensor, weights: tuple[Tensor, ...], factors: Tensor | None, steps: int
    ):
        batch = state.shape[2]
        layers = [weights[at : at + 4] for at in range(0, len(weights), 4)]
        self.tapes = [kind(layer[2], layer[3], start, steps) for layer, start in zip(layers, state, strict=True)]
        self.inputs = [layer[0] for layer in layers[1:]]
        self._input_bias = [layer[1][:, None].expand(-1, batch).contiguous() for layer in layers[1:]]
        self.top = self.tapes[-1]
        self._factors = None if factors is None else [layer.unbind(0) for layer in factors.unbind(1)]
        hidden = self.top.hidden_dim
        # the input of each upper layer at each step
        self._read = [state.new_empty(steps, hidden, batch) for _ in self.inputs]
        self._read_at = [read.unbind(0) for read in self._read]

    def forward(self, step: int, given: Tensor) -> None:
        self.tapes[0].forward(step, given)
        for layer, weight in enumerate(self.inputs):
            read = self._read_at[layer][step]
            if self._factors is None:
                read.copy_(self.tapes[layer].hidden_at[step + 1])
            else:
                torch.mul(self.tapes[layer].hidden_at[step + 1], self._factors[layer][step], out=read)
            self.tapes[layer + 1].forward(step, torch.addmm(self._input_bias[layer], weight, read))

    def rewind(self) -> None:
        for tape in self.tapes:
            tape.rewind()
        self.d_states = [torch.zeros_like(tape.state_at[0]) for tape in self.tapes]

    def backward(self, step: int, gradient: Tensor) -> Tensor:
        """Gradient of the first layer's given gates; `d_states` become those of the states before the step."""
        hidden = self.top.hidden_dim
        for layer in reversed(range(len(self.tapes))):
            self.d_states[layer][:hidden] += gradient
            given, self.d_states[layer] = self.tapes[layer].backward(step, self.d_states[layer])
            if layer:
                gradient = torch.mm(self.inputs[layer - 1].t(), given)
                if self._factors is not None:
                    gradient *= self._factors[layer - 1][step]
        return given

    def gradients(self, d_first: Tensor) -> list[Tensor]:
        """Of all weights, in the order in which they came; `d_first`: that of the first layer's input weight."""
        found = []
        for layer, tape in enumerate(self.tapes):
            d_input = outer_sum(tape.d_given(), self._read[layer - 1]) if layer else d_first
            d_weight, d_bias, d_input_bias = tape.d_weights()
            found += [d_input, d_input_bias, d_weight, d_bias]
        return found


class _AttentionTape:
    """Additive attention with one query a sentence and step; `forward` in turn, then `rewind`, then `backward`."""

    def __init__(self, attended: Attended, scoring: Scoring, steps: int):
        width, key_len, batch = attended.keys.shape
        self.attended, self.scoring = attended, scoring
        # every factor of sigmoid's form of tanh goes into the weights, once
        self._keys = 2 * attended.keys
        self._query = 2 * scoring.query
        self._value = 2 * scoring.value
        self._bias = attended.bias.reshape(1, -1)
        self.features = attended.keys.new_empty(steps, width, key_len, batch)
        self.weights = attended.keys.new_empty(steps, key_len, batch)
        self.contexts = attended.keys.new_empty(steps, attended.values.shape[0], batch)
        self._feature_at = self.features.unbind(0)
        self._flat_at = self.features.flatten(2).unbind(0)
        self._weight_at = self.weights.unbind(0)
        self._context_at = self.contexts.unbind(0)
        self._factor_at = None if attended.factors is None else attended.factors.unbind(0)

    def forward(self, step: int, hidden: Tensor) -> Tensor:
        """The context of every sentence."""
        query = torch.mm(self._query, hidden)
        torch.add(self._keys, query.unsqueeze(1), out=self._feature_at[step]).sigmoid_()
        scores = torch.addmm(self._bias, self._value, self._flat_at[step])
        weights = torch.softmax(scores.view_as(self._weight_at[step]), 0, out=self._weight_at[step])
        if self.attended.empty is not None:
            weights.masked_fill_(self.attended.empty, 0.0)
        return torch.sum(self.attended.values * self._used(step), 1, out=self._context_at[step])

    def _used(self, step: int) -> Tensor:
        return self._weight_at[step] if self._factor_at is None else self._weight_at[step] * self._factor_at[step]

    def rewind(self) -> None:
        # 4 v s (1 - s): the derivative of a score by its query and key, before the gradient of the score enters
        self._d_features = (1 - self.features).mul_(self.features).mul_(4 * self.scoring.value.view(-1, 1, 1))
        self._d_feature_at = self._d_features.unbind(0)
        self._d_queries = torch.empty_like(self.features[:, :, 0])
        self._d_query_at = self._d_queries.unbind(0)
        self._d_scores = torch.empty_like(self.weights)
        self._d_values = torch.zeros_like(self.attended.values)

    def backward(self, step: int, d_context: Tensor) -> Tensor:
        """Gradient of the hidden state that was the query."""
        d_context = d_context.unsqueeze(1)
        self._d_values.addcmul_(d_context, self._used(step))
        d_used = (self.attended.values * d_context).sum(0)
        if self._factor_at is not None:
            d_used *= self._factor_at[step]
        weights = self._weight_at[step]
        d_scores = torch._softmax_backward_data(d_used, weights, 0, weights.dtype)
        self._d_scores[step] = d_scores
        d_features = self._d_feature_at[step].mul_(d_scores)
        d_query = torch.sum(d_features, 1, out=self._d_query_at[step])
        return torch.mm(self.scoring.query.t(), d_query)

    def gradients(self, queries: Tape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of keys, values, W and v, when the steps are done; `queries`: the layer whose hidden states were queries."""
        hidden = queries.states[:-1, : queries.hidden_dim]
        d_query = outer_sum(self._d_queries, hidden)
        d_value = 2 * torch.bmm(self.features.flatten(2), self._d_scores.flatten(1).unsqueeze(2)).sum(0)
        # what sigmoid's form left out of the score, sum(v), is seen by no softmax and has no gradient
        return self._d_features.sum(0), self._d_values, d_query, d_value.mT
