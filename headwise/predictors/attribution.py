"""Attribution of a model's outputs to its inputs, by methods that go beyond the raw weights of attention.

Raw weights say where a layer looks. They leave out how large the values are that it finds there, what the layers below
have mixed into them, and what the rest of the model makes of them; each method here puts one of these in, and none of
them proves what a model would do with another input.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import wide
from headwise.cancellation import poll_cancellation
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.attribution import (
    Attribution,
    Mixing,
    Norms,
    averaged,
    contributions,
    flow,
    layers_of,
    norms,
    rollout,
)
from headwise.explain.explanation import Explanation, Kind, Layer, part_of
from headwise.explain.methods import METHODS
from headwise.explain.places import Grid, OnImage
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import Block, Residual
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.norms import norm_parts, normed
from headwise.models.reversible import ReversibleEncoder
from headwise.predictors.ablating import Example, ablated, heads_of
from headwise.predictors.adopted import Adopted
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import Pass, fitting
from headwise.predictors.predictor import Predictor
from headwise.predictors.saying import Said, logits_of, said
from headwise.predictors.watched_heads import Look, explained, look_at
from headwise.records import LayerRecord
from headwise.records.watching import layers

# points on the way from unknown tokens to the input; the paper advises 20 to 300
_POINTS = 50
# weights of a layer, in double precision
_MOST_PAIRS = 1 << 25


class Analysis(NamedTuple):
    """A model that answered an input, what its attention did, and the pass of another input, if there is one."""

    predictor: Predictor[Any, Any, Any]
    look: Look
    other: Pass | None = None

    @property
    def model_pass(self) -> Pass:
        return self.look.seen


# shares by the name of their map, and the numbers with signs behind them
Maps = tuple[dict[str, Layer], dict[str, np.ndarray]]


def attribute(
    predictor: Predictor[Any, Any, Any], item: Any, by: str, target: str | None = None, other: Any = None
) -> Attribution:
    """How much each input counts for each output; for "ablation", "lens" and "patching", what heads and blocks do.

    Args:
        item: an input, or a text that `predictor.parse` reads.
        by: a key of `headwise.explain.methods.METHODS`, where each method has its formula, source and limit.
        target: the output to account for; None: the model's own.
        other: for "patching", an input of as many tokens.

    Raises:
        ConfigError: no such method.
        Unsupported: the model has no attention, or nothing that this method needs; the message says what.
    """
    if by not in METHODS:
        raise ConfigError(unknown("attribution", by, METHODS))
    if by == "patching" and other is None:
        raise ConfigError("by='patching' needs other=, an input of as many tokens")
    if by != "patching" and other is not None:
        raise ConfigError(f"by='{by}' takes no other=; leave it out")
    analysis = Analysis(predictor, look_at(predictor, item, target))
    explanation = analysis.look.explanation
    if other is not None:
        # what writes is made to write the same, as the same tokens
        output = target or (explanation.output if _writes(predictor) else None)
        analysis = Analysis(predictor, look_at(predictor, item, output), explained(predictor, other, output)[1])
    attributed, signed = _COMPUTE[by](analysis)
    on_image, method = isinstance(explanation.places, OnImage) and by not in _OF_MODEL, METHODS[by]
    if on_image:
        attributed = {name: _shown_rows(explanation, layer) for name, layer in attributed.items()}
    note = f"{method.title}: {method.formula}\nsource: {method.source}\nlimit: {method.limit}"
    if by in ("lens", "patching"):
        modules = analysis.model_pass.model.named_modules()
        together = [name for name, module in modules if isinstance(module, ReversibleEncoder)]
        note += "".join(f"\n{name}: its layers are reversible, and count as one block" for name in together)
    source, output, tokens = explanation.source, explanation.output, explanation.tokens
    draw, places = (explanation.draw, explanation.places) if on_image else (None, None)
    return Attribution(source, output, attributed, draw, note, places, tokens, method=by, signed=signed)


# methods whose maps are of heads and blocks, not of inputs
_OF_MODEL = ("ablation", "lens", "patching")


def _shown_rows(explanation: Explanation, layer: Layer) -> Layer:
    """Of a layer over an image the query that the explanation shows, or the mean of all."""
    shown = next(iter(explanation.layers.values()))
    if len(shown.queries) > 1 or len(layer.queries) == 1:
        return layer
    assert isinstance(explanation.places, OnImage)
    chosen, count = explanation.places.chosen, len(layer.queries)
    rows = np.full((1, count), 1 / count) if chosen is None else np.eye(count)[chosen : chosen + 1]
    if isinstance(layer, Norms):
        layer = replace(layer, total=rows @ layer.total)
    return replace(layer, weights=rows @ layer.weights, queries=shown.queries)


def _writes(predictor: Predictor[Any, Any, Any]) -> bool:
    try:
        predictor.writes()
    except Unsupported:
        return False
    return True


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
            allowed = layer.allowed if layer.weights.shape == weights.shape else None
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


def _norms(analysis: Analysis) -> Maps:
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


def _rollout(analysis: Analysis) -> Maps:
    mixings = _mixings(analysis)
    return layers_of("rollout", mixings, rollout(mixings)), {}


def _flow(analysis: Analysis) -> Maps:
    mixings = _mixings(analysis)
    return layers_of("flow", mixings, flow(mixings)), {}


def _alti(analysis: Analysis) -> Maps:
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
        if residual is not None:
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
    own = before[row] if residual.skip else torch.zeros_like(before[row])
    if kind == "cross":
        parts = torch.cat([parts, own[None]])
    else:
        parts[row] += own
    total = parts.sum(0) + written.bias
    after, dtype = residual.after, next(residual.after.parameters(), total).dtype
    output = normed(after, total.to(dtype)[None, None], None)[0, 0]
    return norm_parts(after, total, parts), output.double()


def _ablation(analysis: Analysis) -> Maps:
    example = Example(analysis.model_pass, said(analysis.predictor, analysis.model_pass))
    tables: dict[str, dict[str, list[float]]] = {}
    for name, heads in heads_of(example).items():
        rows = ablated(analysis.predictor, [example], name, heads)
        effects = [row.effect.get("log_prob", row.effect.get("change", 0.0)) for row in rows]
        kind = analysis.look.layers[name][0].kind if name in analysis.look.layers else "self"
        tables.setdefault(f"ablation of {part_of(name)} {kind}, {heads} heads", {})[name] = effects
    total = sum(abs(effect) for table in tables.values() for row in table.values() for effect in row) or 1.0
    attributed, signed = {}, {}
    for title, table in tables.items():
        signed[title] = np.array(list(table.values()))
        sides = zip(("layer", "head"), signed[title].shape, strict=True)
        labels = [[f"{side} {number}" for number in range(count)] for side, count in sides]
        attributed[title] = Layer(np.abs(signed[title])[None] / total, labels[0], labels[1], "cross")
    return attributed, signed


class _Vectors(NamedTuple):
    """The vectors of an input where they enter a model.

    Args:
        number: which input of the pass they are, from 0.
        output: as the model goes on with them.
        baseline: makes those of an input without content: unknown tokens, or pixels of the mean colour.
        places: of each number of `output` the place, a token or a patch, that it belongs to.
        labels: of the places; none: as attention has them.
    """

    number: int
    output: Tensor
    baseline: Callable[[], Tensor]
    places: Tensor
    labels: list[str]

    def sums(self, numbers: Tensor) -> Float[Tensor, "places"]:
        """The sum of numbers like those of `output` at each place."""
        places = self.places.expand_as(numbers).flatten()
        return numbers.new_zeros(int(places.max()) + 1).index_add(0, places, numbers.flatten())


# vectors -> those that go on
Change = Callable[[_Vectors], Tensor]


@contextmanager
def _entering(analysis: Analysis, change: Change) -> Iterator[None]:
    """While open, the vectors of inputs pass through this change; those of a source come first."""
    model = analysis.model_pass.model
    unknown_id, embeddings = _tokens(analysis.predictor)
    places = analysis.look.explanation.places
    number = 0

    def hook(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> Any:
        nonlocal number
        if any(module is embedding for embedding in embeddings):
            tokens = torch.arange(output.shape[:-1].numel(), device=output.device).view(*output.shape[:-1], 1)
            vectors = _Vectors(number, output, partial(_unknown, module, inputs, options, unknown_id), tokens, [])
        elif isinstance(places, OnImage) and _reads_pixels(inputs, output):
            grid = places.grids[-1]
            patches = _patches(places, grid, output)
            vectors = _Vectors(
                number, output, partial(torch.zeros_like, output), patches, replace(grid, before=0).labels
            )
        else:
            return output
        number += 1
        return change(vectors)

    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in model.modules()]
    try:
        with evaluating(model):
            yield
    finally:
        for handle in handles:
            handle.remove()
    if not number:
        raise Unsupported("this method needs inputs that are tokens of a known vocabulary, or pixels")


def _unknown(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], unknown_id: int | None) -> Tensor:
    if unknown_id is None:
        raise Unsupported("the tokenizer of this model has no unknown token, which is the baseline; use by='gradient'")
    vectors: Tensor = module.forward(torch.full_like(inputs[0], unknown_id), *inputs[1:], **options)
    return vectors.detach()


def _reads_pixels(inputs: tuple[Any, ...], output: Any) -> bool:
    """Whether a module makes numbers of the bytes of pictures."""
    pixels = inputs[0] if inputs else None
    if not isinstance(pixels, Tensor) or not isinstance(output, Tensor) or pixels.dtype != torch.uint8:
        return False
    return pixels.ndim == 4 and output.shape == pixels.shape and output.is_floating_point()


def _patches(places: OnImage, grid: Grid, pixels: Tensor) -> Tensor:
    """Of each pixel (height, width) the patch that it lies in."""
    sides = zip(pixels.shape[-2:], places.covered or pixels.shape[-2:], (grid.rows, grid.columns), strict=True)
    rows, columns = (torch.arange(side, device=pixels.device) * count // covered for side, covered, count in sides)
    return rows[:, None] * grid.columns + columns


def _tokens(predictor: Predictor[Any, Any, Any]) -> tuple[int | None, list[nn.Module]]:
    """The number of the unknown token, and the modules that make vectors of numbers of tokens."""
    if isinstance(predictor, Adopted):
        return predictor.saved.tokenizer.unk_token_id, predictor.embeddings()
    try:
        tokenizers: list[Any] = [predictor.writes()]
    except Unsupported:
        tokenizers = list(vars(predictor).values())
    if not any(isinstance(tokenizer, Tokenizer) for tokenizer in tokenizers):
        return None, []
    modules = predictor.model.modules()
    return Tokenizer.unk_id, [module for module in modules if isinstance(module, TokenEmbedding | nn.Embedding)]


# an output of a model -> the number that counts at each place
Counted = Callable[[Any], Tensor]


def _chosen(analysis: Analysis) -> tuple[Said, Counted]:
    """What the model says, and what makes its output the number that counts at each place."""
    answer = said(analysis.predictor, analysis.model_pass)
    if answer.chosen is None:
        return answer, lambda output: wide(logits_of(output)).reshape(-1)
    index = torch.tensor(answer.chosen)[:, None]

    def log_probs(output: Any) -> Tensor:
        scores = wide(logits_of(output))
        scores = scores[0] if scores.ndim == 3 else scores
        return scores.log_softmax(-1).gather(-1, index.to(scores.device)).squeeze(-1)

    alone = log_probs(analysis.model_pass.run()).double().cpu().numpy()
    if not np.allclose(alone, answer.values[range(len(alone)), answer.chosen], atol=1e-3):
        raise Unsupported("the outputs of this model depend on each other, as tags of a chain do; use by='rollout'")
    return answer, log_probs


class _Way(NamedTuple):
    """The vectors of an input, their difference from the start of their way, and the point of it that they are at."""

    vectors: _Vectors
    difference: Tensor
    leaf: Tensor


def _move(point: float, from_baseline: bool, inputs: list[_Way], vectors: _Vectors) -> Tensor:
    """The vectors at a point of their way, at which the gradient is taken; they are added to the list."""
    start = vectors.baseline() if from_baseline else torch.zeros_like(vectors.output)
    difference = vectors.output.detach() - start
    inputs.append(_Way(vectors, difference, (start + point * difference).requires_grad_()))
    return inputs[-1].leaf


def _gradient_of(number: Tensor, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    poll_cancellation()
    return torch.autograd.grad(number, leaves, retain_graph=True, materialize_grads=True)


# numbers (outputs, places) of an input, and labels of its places; none: as attention has them
Table = tuple[np.ndarray, list[str]]


def _gradients(analysis: Analysis, counted: Counted, points: Sequence[float], *, from_baseline: bool) -> list[Table]:
    """Mean gradient of each output times the vectors of each place, for each input.

    Args:
        points: where on the way from the start to the input a gradient is taken, the input being at 1.
        from_baseline: the way begins at the baseline, and the vector is the difference from it; else at zeros.
    """
    sums: list[np.ndarray] = []
    for point in points:
        poll_cancellation()
        inputs: list[_Way] = []
        with torch.enable_grad(), _entering(analysis, partial(_move, point, from_baseline, inputs)):
            numbers = counted(analysis.model_pass.model(*analysis.model_pass.inputs))
        leaves = [way.leaf for way in inputs]
        rows = [_gradient_of(number, leaves) for number in numbers]
        products = [
            torch.stack([way.vectors.sums(row[part] * way.difference) for row in rows])
            for part, way in enumerate(inputs)
        ]
        tables = [product.double().cpu().numpy() / len(points) for product in products]
        sums = [total + table for total, table in zip(sums, tables, strict=True)] if sums else tables
    return list(zip(sums, [way.vectors.labels for way in inputs], strict=True))


def _by_place(analysis: Analysis, method: str, answer: Said, tables: list[Table]) -> Maps:
    """Tables of each input as layers, their shares over all inputs together."""
    known = list(analysis.look.explanation.layers.values())
    sides = [side for layer in reversed(known) for side in (layer.queries, layer.keys)]
    if answer.chosen is not None and (len(answer.chosen) == 1 or all(layer.causal for layer in known)):
        # one answer, or what comes next behind each token
        sides = [[answer.name(choice) for choice in answer.chosen]]
    totals = sum(np.abs(table).sum(-1, keepdims=True) for table, _ in tables)
    attributed, signed = {}, {}
    for number, (table, labels) in enumerate(tables):
        rows = fitting(len(table), *sides)
        columns = labels or fitting(table.shape[1], *(layer.keys for layer in known if number == 0 or layer.causal))
        name = method if len(tables) == 1 else f"{method} of {'the source' if number == 0 else 'what is written'}"
        weights = np.abs(table) / np.where(totals > 0, totals, 1.0)
        across = (len(tables) > 1 and number == 0) or len(table) != table.shape[1]
        kind: Kind = "pooled" if len(table) == 1 else "cross" if across else "self"
        attributed[name] = Layer(weights[None], rows, columns, kind)
        signed[name] = table
    return attributed, signed


def _gradient(analysis: Analysis) -> Maps:
    answer, counted = _chosen(analysis)
    return _by_place(analysis, "gradient", answer, _gradients(analysis, counted, [1.0], from_baseline=False))


def _integrated(analysis: Analysis) -> Maps:
    points = [(number + 0.5) / _POINTS for number in range(_POINTS)]
    answer, counted = _chosen(analysis)
    return _by_place(analysis, "integrated", answer, _gradients(analysis, counted, points, from_baseline=True))


def _occlusion(analysis: Analysis) -> Maps:
    answer, counted = _chosen(analysis)
    inputs: list[_Vectors] = []

    def keep(vectors: _Vectors) -> Tensor:
        inputs.append(vectors)
        return vectors.output

    def run(change: Change) -> np.ndarray:
        poll_cancellation()
        with torch.no_grad(), _entering(analysis, change):
            return counted(analysis.model_pass.model(*analysis.model_pass.inputs)).double().cpu().numpy()

    before, tables = run(keep), []
    for known in inputs:
        count = int(known.places.max()) + 1
        columns = [before - run(partial(_hide, known.number, place)) for place in range(count)]
        tables.append((np.stack(columns, -1), known.labels))
    return _by_place(analysis, "occlusion", answer, tables)


def _hide(number: int, place: int, vectors: _Vectors) -> Tensor:
    """The vectors with the baseline at one place of an input; those of another input as they are."""
    if vectors.number != number:
        return vectors.output
    return torch.where(vectors.places == place, vectors.baseline(), vectors.output)


def _stacks(model: nn.Module) -> dict[str, dict[str, nn.Module]]:
    """The blocks of each stack by their names, in the order of the model; reversible layers are one block together.

    Raises: Unsupported for a model without.
    """
    stacks: dict[str, dict[str, nn.Module]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Block | ReversibleEncoder):
            stacks.setdefault(name.rpartition(".")[0], {})[name] = module
    if not stacks:
        raise Unsupported("this model is not built of blocks, so nothing can be read or put between them")
    return stacks


@contextmanager
def _blocks(modules: Mapping[str, nn.Module], change: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """While open, the outputs of these blocks pass through this change."""

    def hook(name: str, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return change(name, output)

    handles = [module.register_forward_hook(partial(hook, name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _outputs(model_pass: Pass, blocks: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """What each of these blocks returns in a pass."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor) -> Tensor:
        outputs[name] = output
        return output

    with _blocks(blocks, keep):
        model_pass.run()
    return outputs


def _lens(analysis: Analysis) -> Maps:
    answer, counted = _chosen(analysis)
    if answer.chosen is None:
        raise Unsupported("this model says numbers, which have no probability to follow from block to block")
    *_, (stack, blocks) = _stacks(analysis.model_pass.model).items()
    outputs, last = _outputs(analysis.model_pass, blocks), list(blocks)[-1]
    rows = []
    for name in blocks:
        with _blocks({last: blocks[last]}, lambda _, output, name=name: outputs[name]):  # type: ignore[misc]
            rows.append(counted(analysis.model_pass.run()).exp().double().cpu().numpy())
    keys = [f"{place + 1}:{answer.name(choice)}" for place, choice in enumerate(answer.chosen)]
    return {f"lens of {stack}": Layer(np.stack(rows)[None], list(blocks), keys, "cross")}, {}


def _patching(analysis: Analysis) -> Maps:
    assert analysis.other is not None
    sizes, other_sizes = (
        [part.shape for part in model_pass.inputs if isinstance(part, Tensor)]
        for model_pass in (analysis.model_pass, analysis.other)
    )
    if sizes != other_sizes:
        raise ConfigError("the other input has another number of tokens, so its places are not those of the first one")
    _, log_probs = _chosen(analysis)
    first = _behind(analysis.model_pass, analysis.other) if _writes(analysis.predictor) else 0

    def counted(output: Tensor) -> Tensor:
        return log_probs(output)[first:]

    def patched(blocks: Mapping[str, nn.Module], change: Callable[[str, Tensor], Tensor]) -> float:
        assert analysis.other is not None
        with _blocks(blocks, change):
            return float(counted(analysis.other.run()).sum())

    whole, without = float(counted(analysis.model_pass.run()).sum()), patched({}, lambda _, output: output)
    if whole == without:
        raise ConfigError("the model tells no difference between the two inputs; choose another one")
    attributed, signed = {}, {}
    for stack, blocks in _stacks(analysis.model_pass.model).items():
        outputs = _outputs(analysis.model_pass, blocks)
        places = range(next(iter(outputs.values())).shape[1])
        table = [
            [patched({name: block}, partial(_put, outputs, at)) for at in places] for name, block in blocks.items()
        ]
        restored = (np.array(table) - without) / (whole - without)
        own = [layer.keys for name, layer in analysis.look.explanation.layers.items() if name.startswith(f"{stack}.")]
        keys = fitting(len(places), *own)
        attributed[f"patching of {stack}"] = Layer(restored.clip(0, 1)[None], list(blocks), keys, "cross")
        signed[f"patching of {stack}"] = restored
    return attributed, signed


def _behind(model_pass: Pass, other: Pass) -> int:
    """The first place whose output counts: of a sequence of input and output, that of the last token that differs."""
    if len(model_pass.inputs) > 1:
        return 0
    different = (model_pass.inputs[0] != other.inputs[0])[0].nonzero()
    return int(different[-1]) if len(different) else 0


def _put(outputs: Mapping[str, Tensor], place: int, name: str, output: Tensor) -> Tensor:
    """The output of a block with that of another pass at one place."""
    here = torch.arange(output.shape[1], device=output.device)[:, None] == place
    return torch.where(here, outputs[name], output)


_COMPUTE: dict[str, Callable[[Analysis], Maps]] = {
    "norms": _norms,
    "rollout": _rollout,
    "flow": _flow,
    "alti": _alti,
    "gradient": _gradient,
    "integrated": _integrated,
    "occlusion": _occlusion,
    "ablation": _ablation,
    "lens": _lens,
    "patching": _patching,
}
