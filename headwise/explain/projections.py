"""What an attention layer does around its mechanism, in float64: inputs to queries, keys, values; heads to output."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.call import Call, per_head
from headwise.attention.checkpointing import call_with, tensors_of
from headwise.attention.scores import GAT, Additive
from headwise.attention.stages import Stage, Working
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.position import Position

# a float32 layer and the same in float64 differ by less, as a share of the largest number
_NEAR = 1e-5
# parameters of a head that are shown, at most
_MOST_PARAMETERS = 1 << 18
# what each position does with them
HEADS = {
    "query": "what each position asks for",
    "key": "what each position is found by",
    "value": "what each position hands on",
}
_SYMBOLS = {"input": "X", "memory": "C"}
_NORMED, _PLAIN = "before position turns it", "before norms and position turn it"


def near(values: Tensor, recorded: Tensor) -> bool:
    """Whether a tensor in float64 is what a layer computed, up to its rounding."""
    if values.shape != recorded.shape:
        return False
    scale = max(1.0, float(recorded.abs().max())) if recorded.numel() else 1.0
    return torch.allclose(values, recorded.double(), rtol=0.0, atol=_NEAR * scale)


def recorded_head(name: str, call: Call) -> Stage:
    """Queries, keys or values as a call was given them."""
    tensor: Tensor = getattr(call, name)
    symbol, axis = name[0].upper(), "queries" if name == "query" else "keys"
    return Stage(name, symbol, symbol, (axis, "features"), per_head(tensor, call.shape[1]).double(), HEADS[name])


class Projections:
    """The maps of one layer, each stage from those before it; what cannot be followed is as it was recorded.

    Args:
        layer: its parameters are read at each use.
    """

    def __init__(self, layer: MultiHeadAttention):
        self._layer = layer

    def before(self, call: Call, tensors: dict[str, Tensor]) -> list[Stage]:
        """From the inputs to queries, keys and values.

        Args:
            tensors: what the layer was given in this call, `input` and `memory`.
        """
        inputs = (
            ("input", "queries", "what the layer is given"),
            ("memory", "keys", "what is looked at: another sequence"),
        )
        stages = [
            Stage(name, _SYMBOLS[name], _SYMBOLS[name], (axis, "features"), _one_head(tensors[name]), text)
            for name, axis, text in inputs
            if name in tensors
        ]
        chains = [self._chain(name, call, tensors) for name in HEADS]
        # what comes before the queries and the keys themselves stands before both
        return [*stages, *(stage for chain in chains for stage in chain[:-1]), *(chain[-1] for chain in chains)]

    def after(
        self, output: Float[Tensor, "batch heads queries dim"], tensors: dict[str, Tensor], head: int
    ) -> list[Stage]:
        """From the outputs of the heads to that of the layer.

        Args:
            tensors: what its last map was given and gave, `joined` and `layer output`.
        """
        last = self._layer.output
        if "joined" not in tensors or isinstance(last, nn.Identity):
            return []
        side, axes = self._layer.combine == "concat", ("queries", "features")
        formula = r"H = [O_1 \dots O_h]" if side else r"H = \frac{1}{h} \sum_i O_i"
        text = "the outputs of all heads, side by side" if side else "the mean of the outputs of all heads"
        if self._layer.closing is not None:
            formula, text = formula.replace("O", r"\hat{O}"), f"{text}, each after its norm and gate"
        joined, working = output.transpose(1, 2).flatten(2) if side else output.mean(1), None
        if self._layer.closing is None and near(joined, tensors["joined"]):
            first = {"first": head * output.shape[-1]}
            working = Working("join", ("output",), first) if side else Working("formula", ("output",))
        else:
            joined = tensors["joined"].double()
        stages = [Stage("joined", "H", formula, axes, joined.unsqueeze(1), text, working)]
        result, working = tensors["layer output"].double(), None
        if type(last) is nn.Linear and near(sums := _linear(last, joined), result):
            result, working = sums, Working("linear", ("joined",), _names("o", last))
        formula = "Y = H W_O" + (" + b_O" if getattr(last, "bias", None) is not None else "")
        text = "what the layer returns"
        return [*stages, Stage("layer output", "Y", formula, axes, result.unsqueeze(1), text, working)]

    def parameters(self, head: int) -> dict[str, Float[np.ndarray, "..."]]:
        """Matrices and biases that make the vectors of a head and the output, by name; none where they are too many.

        `wq`, `bq` and so on: a row for each number of the vector.
        """
        parts: dict[str, Tensor] = {}
        for name in HEADS:
            linear, first, dim, count = self._place(name)
            at = first + head * count // self._layer.num_heads * dim
            if type(linear) is nn.Linear:
                parts |= _parameters(name[0], linear, slice(at, at + dim))
        if type(self._layer.output) is nn.Linear:
            parts |= _parameters("o", self._layer.output, slice(None))
        return _shown(parts)

    def _chain(self, name: str, call: Call, tensors: dict[str, Tensor]) -> list[Stage]:
        """The projection, behind it a norm and a rotation if there are any; what is recorded if it is not that."""
        layer, recorded = self._layer, recorded_head(name, call)
        linear, first, dim, count = self._place(name)
        source = "memory" if call.cross and name != "query" else "input"
        if source not in tensors or type(linear) is not nn.Linear:
            return [recorded]
        rows = slice(first, first + dim * count)
        heads = _linear(linear, tensors[source].double(), rows).unflatten(-1, (count, dim)).transpose(1, 2)
        steps: list[tuple[Tensor, Working]] = [(heads, Working("linear", (source,), _names(name[0], linear)))]
        norm = layer.query_norm if name == "query" else layer.key_norm
        if name != "value" and not isinstance(norm, nn.Identity):
            heads = call_with(norm, {key: value.double() for key, value in tensors_of(norm).items()}, (heads,))
            steps.append((heads, _norm(norm)))
        position = layer.position
        if name != "value" and position is not None and type(position).rotate is not Position.rotate and not call.cross:
            start = call.query_start if name == "query" else 0
            turn = position.rotate if name == "query" else position.rotate_keys
            heads = turn(heads, start)
            steps.append((heads, _rotation(turn, start, *heads.shape[-2:])))
        if not near(per_head(heads, call.shape[1]), recorded.values):
            return [recorded]
        return [self._stage(name, source, linear, number, steps, call) for number in range(len(steps))]

    def _stage(
        self, name: str, source: str, linear: nn.Linear, number: int, steps: list[tuple[Tensor, Working]], call: Call
    ) -> Stage:
        """One map of a chain, read from the stage before it."""
        names = [*(f"plain {name}", f"normed {name}")[: len(steps) - 1], name]
        (values, working), symbol = steps[number], name[0].upper()
        own = symbol if number == len(steps) - 1 else f"{symbol}_{number}"
        if number:
            before, function = f"{symbol}_{number - 1}", r"\operatorname{norm}" if working.rule == "norm" else "r"
            formula, working = (
                f"{own} = {function}({before})",
                Working(working.rule, (names[number - 1],), working.numbers),
            )
        else:
            formula = f"{own} = {_SYMBOLS[source]} W_{symbol}" + ("" if linear.bias is None else f" + b_{symbol}")
        text = HEADS[name] if own == symbol else _NORMED if number else _PLAIN
        axis = "queries" if name == "query" else "keys"
        return Stage(names[number], own, formula, (axis, "features"), per_head(values, call.shape[1]), text, working)

    def _place(self, name: str) -> tuple[nn.Module, int, int, int]:
        """Of queries, keys or values: the map that makes them, its first row, the width of a head and their number."""
        layer = self._layer
        widths = dict(zip(HEADS, layer.widths(), strict=True))
        if name == "value" and layer.shared in ("kv", "qkv"):
            name = "key"
        if name == "key" and layer.shared in ("qk", "qkv"):
            name = "query"
        count = layer.num_heads if name == "query" else layer.num_kv_heads
        dim = layer.value_dim if name == "value" else layer.head_dim
        first = {"query": 0, "key": widths["query"], "value": widths["query"] + widths["key"]}[name]
        if layer.memory_projection is None or name == "query":
            return layer.projection, first, dim, count
        return layer.memory_projection, first - widths["query"], dim, count


def _linear(linear: nn.Linear, x: Tensor, rows: slice = slice(None)) -> Tensor:
    bias = None if linear.bias is None else linear.bias[rows].double()
    return F.linear(x, linear.weight[rows].double(), bias)


def score_parameters(score: object, head: int) -> dict[str, Float[np.ndarray, "..."]]:
    """Matrices by which a score adds its parts, `score query` and `score key`; none where they are too many."""
    if not isinstance(score, Additive | GAT):
        return {}
    matrices = zip(("score query", "score key"), score.matrices(), strict=True)
    return _shown({name: matrix[head % len(matrix)] for name, matrix in matrices})


def _shown(parts: dict[str, Tensor]) -> dict[str, Float[np.ndarray, "..."]]:
    numbers = {name: part.detach().float().cpu().numpy() for name, part in parts.items()}
    return numbers if sum(array.size for array in numbers.values()) <= _MOST_PARAMETERS else {}


def _names(letter: str, linear: nn.Linear) -> dict[str, str]:
    names = {"matrix": f"w{letter}"}
    return names if linear.bias is None else names | {"bias": f"b{letter}"}


def _parameters(letter: str, linear: nn.Linear, rows: slice) -> dict[str, Tensor]:
    parts = {f"w{letter}": linear.weight[rows]}
    return parts if linear.bias is None else parts | {f"b{letter}": linear.bias[rows]}


def _norm(norm: nn.Module) -> Working:
    """The working of a norm over features; of another one its terms are not known."""
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        return Working("formula", ())
    width = norm.normalized_shape[-1]
    parts = {"gain": norm.weight, "shift": getattr(norm, "bias", None)}
    numbers = {"gain": torch.ones(width), "shift": torch.zeros(width)}
    numbers |= {name: part.detach().double() for name, part in parts.items() if part is not None}
    eps = torch.finfo(torch.float64).eps if norm.eps is None else norm.eps
    return Working("norm", (), {**numbers, "eps": eps, "mean": isinstance(norm, nn.LayerNorm)})


def _rotation(turn: Callable[[Tensor, int], Tensor], start: int, length: int, width: int) -> Working:
    """What each column of a turned vector takes of itself and of its partner, where it takes no more."""
    basis = torch.eye(width, dtype=torch.float64)[:, None, None].expand(width, 1, length, width)
    # (from column, position, to column)
    images = turn(basis, start)[:, 0]
    own = images.diagonal(dim1=0, dim2=2)
    others = images - torch.diag_embed(own, dim1=0, dim2=2)
    partner = others.abs().sum(1).argmax(0)
    from_partner = others[partner, :, torch.arange(width)].mT
    if not torch.allclose(others.sum(0), from_partner, rtol=0.0, atol=1e-12):
        return Working("formula", ())
    return Working("rotation", (), {"cos": own, "sin": from_partner, "partner": partner})


def _one_head(tensor: Tensor) -> Tensor:
    """A tensor that all heads share, with an axis of one head."""
    return tensor.detach().double().unsqueeze(1)
