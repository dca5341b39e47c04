"""Attribution by the weights of attention: norms of what is written, and what mixes through the layers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import wide
from headwise.errors import Unsupported
from headwise.explain.attribution import (
    Mixing,
    averaged,
    contributions,
    flow,
    layers_of,
    norms,
    rollout,
)
from headwise.explain.explanation import Kind, Layer, part_of
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import Block, Residual
from headwise.layers.norms import norm_parts, normed
from headwise.predictors.attribution.analysis import Analysis, Maps
from headwise.predictors.looking import Pass, fitting
from headwise.records import LayerRecord
from headwise.records.watching import layers

# weights of a layer, in double precision
_MOST_PAIRS = 1 << 25


def _recorded(analysis: Analysis) -> Iterator[tuple[str, Layer, LayerRecord]]:
    """The layers over the places that attention went over, each pass of a layer by itself.

    Raises: Unsupported for a model without, and for too many pairs.
    """
    looks = {name: look for name, look in analysis.look.layers.items() if look[0].kind != "tags"}
    if not looks:
        raise Unsupported("what is shown of this model is no attention, so nothing can be attributed by it")
    for name, (layer, record) in looks.items():
        # what an explanation shows as if it were of another sequence may be places of its own
        kind: Kind = "self" if layer.kind == "cross" and record.kind == "self" else layer.kind
        for sequence in record.sequences():
            shape = record.num_heads, *sequence.output.shape[2:3], sequence.calls[-1].call.shape[3]
            if np.prod(shape) > _MOST_PAIRS:
                raise Unsupported(f"{name} has {shape[1]:,} x {shape[2]:,} pairs, too many to be attributed to")
            with torch.no_grad():
                weights = sequence.rows()[0].double().cpu().numpy()
            keys = fitting(shape[2], layer.keys)
            allowed = layer.allowed if layer.shape == weights.shape else None
            yield (
                name,
                Layer(weights, fitting(shape[1], layer.queries, keys), keys, kind, layer.causal, allowed),
                sequence,
            )


class _Written(NamedTuple):
    """What the heads of a layer write: row i of its output is the sum of A_hij w_hj over heads and keys, and a bias.

    Args:
        vectors: w_hj = v_hj W_o.
    """

    vectors: Float[Tensor, "heads keys width"]
    bias: Float[Tensor, "width"]


@torch.no_grad()
def _written(analysis: Analysis, name: str, record: LayerRecord) -> _Written:
    """Raises: Unsupported where the output of a layer is no such sum, or not made in one call."""
    place, _ = layers(analysis.model_pass.model)[name]
    attention = analysis.model_pass.model.get_submodule(place.removesuffix(".mechanism"))
    output: nn.Module | None
    if isinstance(attention, MultiHeadAttention):
        output, mean = attention.output, attention.combine == "mean"
    else:
        output, mean = _reader_of(analysis.model_pass, record.output.transpose(1, 2).flatten(2)), False
    if output is None or len(record.calls) > 1:
        raise Unsupported(f"{name} has no output matrix of its own, or was called step by step; use by='rollout'")
    values = per_head(record.value, record.num_heads)[0]
    summed = wide(record.rows()[0]) @ wide(values)
    if not torch.allclose(summed, wide(record.output[0]), rtol=1e-2, atol=1e-3 * float(wide(values).abs().max())):
        raise Unsupported(f"the heads of {name} are no sums of weighted values, which this method divides")
    heads, keys, width = values.shape
    # each value alone among zeros, as the layer joins its heads
    alone = values.new_zeros(heads, keys, heads, width)
    alone[range(heads), :, range(heads)] = values
    joined = alone.mean(2) if mean else alone.flatten(2)
    bias = output(joined.new_zeros(1, joined.shape[-1]))[0]
    return _Written((output(joined) - bias).double(), bias.double())


def _reader_of(model_pass: Pass, heads: Float[Tensor, "batch queries width"]) -> nn.Module | None:
    """The matrix that reads exactly these outputs of heads, side by side, in a model that was adopted."""
    readers: list[nn.Module] = []

    def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if (
            inputs
            and isinstance(inputs[0], Tensor)
            and inputs[0].shape == heads.shape
            and torch.equal(inputs[0], heads)
        ):
            readers.append(module)

    model = model_pass.model
    matrices = [module for module in model.modules() if getattr(getattr(module, "weight", None), "ndim", 0) == 2]
    handles = [module.register_forward_pre_hook(hook) for module in matrices]
    try:
        model_pass.run()
    finally:
        for handle in handles:
            handle.remove()
    return readers[0] if readers else None


def by_norms(analysis: Analysis) -> Maps:
    attributed: dict[str, Layer] = {}
    for name, layer, record in _recorded(analysis):
        # a layer that a model passes several times has a map for each of them
        times = sum(other == name or other.startswith(f"{name}, pass ") for other in attributed)
        title = f"{name}, pass {times + 1}" if times else name
        attributed[title] = norms(layer, _written(analysis, name, record).vectors.cpu().numpy())
    return attributed, {}


def _residuals(analysis: Analysis) -> dict[str, Residual]:
    """The residual around each attention layer of a block, by the layer's name."""
    model = analysis.model_pass.model
    around = {
        id(attention): residual
        for block in model.modules()
        if isinstance(block, Block)
        for attention, residual in block.attentions()
    }
    owners = {name: model.get_submodule(place.removesuffix(".mechanism")) for name, (place, _) in layers(model).items()}
    return {name: around[id(owner)] for name, owner in owners.items() if id(owner) in around}


# the shares of the columns, and of what a row was before, that a layer makes its rows of
Share = Callable[[str, Layer, LayerRecord], tuple[np.ndarray, np.ndarray]]


def _mixings(analysis: Analysis, share: Share | None = None) -> list[Mixing]:
    """The layers from the first to the last, by default with the means of their heads.

    Raises: Unsupported where they do not follow each other over one input.
    """
    residuals, mixings = _residuals(analysis), list[Mixing]()

    def mean(name: str, layer: Layer, record: LayerRecord) -> tuple[np.ndarray, np.ndarray]:
        return averaged(layer, residual=name not in residuals or residuals[name].skip)

    repeated = [name for name, (_, record) in analysis.look.layers.items() if len(record.sequences()) > 1]
    if len(repeated) > 1:
        raise Unsupported(f"{repeated[0]} and others are passed several times, in an order that is not recorded")
    for name, layer, record in _recorded(analysis):
        mixings.append(Mixing(*_sides(name, layer, mixings), layer, *(share or mean)(name, layer, record)))
    for mixing in mixings:
        alike = [other for other in mixings if other.part == mixing.part and other.layer.kind == "self"]
        if len({other.weights.shape for other in alike}) > 1:
            raise Unsupported(f"the layers of '{mixing.part}' go over different places, so they cannot be multiplied")
    return mixings


def _sides(name: str, layer: Layer, before: Sequence[Mixing]) -> tuple[str, str]:
    """Whose places the rows and the columns of a layer are, behind these layers."""
    part = part_of(name)
    others = [mixing.part for mixing in before if mixing.part != part and mixing.layer.kind == "self"]
    memory = part if layer.kind == "self" else others[-1] if others else "input"
    return "pooled" if layer.kind == "pooled" else part, memory


def by_rollout(analysis: Analysis) -> Maps:
    mixings = _mixings(analysis)
    return layers_of("rollout", mixings, rollout(mixings)), {}


def by_flow(analysis: Analysis) -> Maps:
    mixings = _mixings(analysis)
    return layers_of("flow", mixings, flow(mixings)), {}


def by_alti(analysis: Analysis) -> Maps:
    residuals = _residuals(analysis)
    sums = _residual_inputs(analysis, residuals)

    def share(name: str, layer: Layer, record: LayerRecord) -> tuple[np.ndarray, np.ndarray]:
        written = _written(analysis, name, record)
        weights = torch.from_numpy(layer.weights)
        residual, before = residuals.get(name), sums.get(name)
        if before is None and layer.kind != "pooled":
            raise Unsupported(f"{name} is in no block whose residual and norm are known; use by='rollout'")
        rows = [
            _decomposed(weights[:, row], written, residual, before, row, layer.kind) for row in range(weights.shape[1])
        ]
        parts, outputs = (torch.stack(side).cpu().numpy() for side in zip(*rows, strict=True))
        near = contributions(parts, outputs)
        if residual is not None and residual.skip:
            # biases can be all that a row is near to; then it keeps what it was
            alone = np.flatnonzero(near.sum(-1) == 0)
            near[alone, -1 if layer.kind == "cross" else alone] = 1.0
        if layer.kind != "cross":
            return near, np.zeros(len(near))
        return near[:, :-1], near[:, -1]

    mixings = _mixings(analysis, share)
    return layers_of("alti", mixings, rollout(mixings)), {}


def _residual_inputs(analysis: Analysis, residuals: Mapping[str, Residual]) -> dict[str, Float[Tensor, "rows width"]]:
    """The vectors that each of these residuals adds to, by the name of the attention layer inside; none without."""
    inputs: dict[str, Tensor] = {}

    def hook(name: str, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        inputs[name] = arguments[0][0].detach().double()

    handles = [module.register_forward_pre_hook(partial(hook, name)) for name, module in residuals.items()]
    try:
        analysis.model_pass.run()
    finally:
        for handle in handles:
            handle.remove()
    return inputs


@torch.no_grad()
def _decomposed(
    weights: Float[Tensor, "heads keys"],
    written: _Written,
    residual: Residual | None,
    before: Float[Tensor, "rows width"] | None,
    row: int,
    kind: Kind,
) -> tuple[Float[Tensor, "parts width"], Float[Tensor, "width"]]:
    """The vectors that the output of a row is the sum of, but for biases, and the output.

    What a row was before is a part of its own behind the keys of a cross-attention, and added to its own key's else.
    """
    parts = torch.einsum("hk,hkd->kd", weights.to(written.vectors), written.vectors)
    if residual is None or before is None:
        return parts, parts.sum(0) + written.bias
    inside, dtype = residual.inside, next(residual.inside.parameters(), parts).dtype
    summed = parts.sum(0) + written.bias
    normed_sum = normed(inside, summed.to(dtype)[None, None], None)[0, 0].to(summed.dtype)
    parts = norm_parts(inside, summed, parts)
    bias = normed_sum - parts.sum(0)
    own = before[row] if residual.skip else torch.zeros_like(before[row])
    if kind == "cross":
        parts = torch.cat([parts, own[None]])
    else:
        parts[row] += own
    total = parts.sum(0) + bias
    after, dtype = residual.after, next(residual.after.parameters(), total).dtype
    output = normed(after, total.to(dtype)[None, None], None)[0, 0]
    return norm_parts(after, total, parts), output.double()
