"""Attribution of a model's outputs to its inputs, by methods that go beyond the raw weights of attention.

Raw weights say where a layer looks. They leave out how large the values are that it finds there, what the layers below
have mixed into them, and what the rest of the model makes of them; each method here puts one of these in, and none of
them proves what a model would do with another input.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    averaged,
    contributions,
    flow,
    layers_of,
    norms,
    rollout,
)
from headwise.explain.explanation import Kind, Layer, part_of
from headwise.explain.methods import METHODS
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import Block, Residual
from headwise.layers.embeddings import TokenEmbedding
from headwise.layers.norms import norm_parts, normed
from headwise.models.reversible import ReversibleEncoder
from headwise.predictors.ablating import Example, ablated, heads_of
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import Pass, fitting
from headwise.predictors.predictor import Predictor
from headwise.predictors.saying import Said, said
from headwise.predictors.watched_heads import Look, explained, look_at
from headwise.records import LayerRecord
from headwise.records.watching import layers

# points on the way from unknown tokens to the input; the paper advises 20 to 300
_POINTS = 50


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
    method = METHODS[by]
    note = f"{method.title}: {method.formula}\nsource: {method.source}\nlimit: {method.limit}"
    if by in ("lens", "patching"):
        modules = analysis.model_pass.model.named_modules()
        together = [name for name, module in modules if isinstance(module, ReversibleEncoder)]
        note += "".join(f"\n{name}: its layers are reversible, and count as one block" for name in together)
    source, output, tokens = explanation.source, explanation.output, explanation.tokens
    return Attribution(source, output, attributed, note=note, tokens=tokens, method=by, signed=signed)


def _writes(predictor: Predictor[Any, Any, Any]) -> bool:
    try:
        predictor.writes()
    except Unsupported:
        return False
    return True


def _recorded(analysis: Analysis) -> Iterator[tuple[str, Layer, LayerRecord]]:
    """The layers whose rows and columns are the places that attention went over, each pass of a layer by itself.

    Raises: Unsupported for a model without.
    """
    looks = {name: look for name, look in analysis.look.layers.items() if look[0].kind != "tags"}
    if not looks:
        raise Unsupported("what is shown of this model is no attention, so nothing can be attributed by it")
    for name, (layer, record) in looks.items():
        for sequence in record.sequences():
            with torch.no_grad():
                weights = sequence.rows()[0].double().cpu().numpy()
            if weights.shape != layer.weights.shape:
                raise Unsupported(
                    "what is shown of this model are no single places, so nothing can be attributed to them"
                )
            yield name, Layer(weights, layer.queries, layer.keys, layer.kind, layer.causal, layer.allowed), sequence


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
    if not isinstance(attention, MultiHeadAttention) or len(record.calls) > 1:
        raise Unsupported(f"{name} has no output matrix of its own, or was called step by step; use by='rollout'")
    values = per_head(record.value, record.num_heads)[0]
    summed = wide(record.rows()[0]) @ wide(values)
    if not torch.allclose(summed, wide(record.output[0]), rtol=1e-2, atol=1e-3 * float(wide(values).abs().max())):
        raise Unsupported(f"the heads of {name} are no sums of weighted values, which this method divides")
    heads, keys, width = values.shape
    # each value alone among zeros, as the layer joins its heads
    alone = values.new_zeros(heads, keys, heads, width)
    alone[range(heads), :, range(heads)] = values
    joined = alone.flatten(2) if attention.combine == "concat" else alone.mean(2)
    bias = attention.output(joined.new_zeros(joined.shape[-1]))
    return _Written((attention.output(joined) - bias).double(), bias.double())


def _norms(analysis: Analysis) -> Maps:
    attributed: dict[str, Layer] = {}
    for name, layer, record in _recorded(analysis):
        attributed[name] = norms(layer, _written(analysis, name, record).vectors.cpu().numpy())
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
        heads_named = [f"head {head}" for head in range(signed[title].shape[1])]
        attributed[title] = Layer(np.abs(signed[title])[None] / total, list(table), heads_named, "cross")
    return attributed, signed


# the number of the pass through an embedding, the vectors of the tokens, and those of unknown tokens in their places ->
# the vectors that go on
Change = Callable[[int, Tensor, Tensor], Tensor]


@contextmanager
def _embeddings(analysis: Analysis, change: Change) -> Iterator[None]:
    """While open, the vectors of tokens pass through this change; those of a source come first."""
    model = analysis.model_pass.model
    modules = [module for module in model.modules() if isinstance(module, TokenEmbedding | nn.Embedding)]
    if not modules or not _has_tokens(analysis.predictor):
        raise Unsupported("this method needs a tokenizer of this package, whose unknown token is its baseline")
    number = 0

    def hook(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Tensor) -> Tensor:
        nonlocal number
        number += 1
        unknown = module.forward(torch.full_like(inputs[0], Tokenizer.unk_id), *inputs[1:], **options)
        return change(number - 1, output, unknown)

    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        with evaluating(model):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _has_tokens(predictor: Predictor[Any, Any, Any]) -> bool:
    """Whether it reads numbers of a tokenizer of this package, whose unknown token is known."""
    try:
        return isinstance(predictor.writes(), Tokenizer)
    except Unsupported:
        return any(isinstance(value, Tokenizer) for value in vars(predictor).values())


def _chosen(analysis: Analysis) -> tuple[Said, Callable[[Tensor], Tensor]]:
    """What the model says, and what makes its output the number that counts at each place."""
    answer = said(analysis.predictor, analysis.model_pass)
    if answer.chosen is None:
        return answer, lambda output: wide(output).reshape(-1)
    index = torch.tensor(answer.chosen)[:, None]

    def log_probs(output: Tensor) -> Tensor:
        scores = wide(output[0] if output.ndim == 3 else output)
        return scores.log_softmax(-1).gather(-1, index.to(scores.device)).squeeze(-1)

    alone = log_probs(analysis.model_pass.run()).double().cpu().numpy()
    if not np.allclose(alone, answer.values[range(len(alone)), answer.chosen], atol=1e-3):
        raise Unsupported("the outputs of this model depend on each other, as tags of a chain do; use by='rollout'")
    return answer, log_probs


def _gradients(analysis: Analysis, points: Sequence[float], *, from_unknown: bool) -> list[np.ndarray]:
    """Mean gradient of each place times the vector of each token, (places, tokens), an input each.

    Args:
        points: where on the way from the start to the tokens a gradient is taken, the tokens being at 1.
        from_unknown: the way begins at unknown tokens, and the vector is the difference from them; else at zeros.
    """
    _, counted = _chosen(analysis)
    sums: list[np.ndarray] = []
    for point in points:
        poll_cancellation()
        vectors: list[Tensor] = []
        ways: list[Tensor] = []
        with torch.enable_grad(), _embeddings(analysis, partial(_moved, point, from_unknown, ways, vectors)):
            numbers = counted(analysis.model_pass.model(*analysis.model_pass.inputs))
        rows = [torch.autograd.grad(number, vectors, retain_graph=True, materialize_grads=True) for number in numbers]
        products = [torch.stack([(row[part] * way).sum(-1).flatten() for row in rows]) for part, way in enumerate(ways)]
        tables = [product.double().cpu().numpy() / len(points) for product in products]
        sums = [total + table for total, table in zip(sums, tables, strict=True)] if sums else tables
    return sums


def _moved(
    point: float,
    from_unknown: bool,
    ways: list[Tensor],
    vectors: list[Tensor],
    number: int,
    output: Tensor,
    unknown: Tensor,
) -> Tensor:
    """The vectors at a point of their way, which a gradient is taken at; both are put into the lists."""
    start = unknown.detach() if from_unknown else torch.zeros_like(output)
    ways.append(output.detach() - start)
    vectors.append((start + point * ways[-1]).requires_grad_())
    return vectors[-1]


def _by_token(analysis: Analysis, method: str, tables: list[np.ndarray]) -> Maps:
    """Numbers (places, tokens) of each input as layers, their shares over all inputs together."""
    known = list(analysis.look.explanation.layers.values())
    totals = sum(np.abs(table).sum(-1, keepdims=True) for table in tables)
    attributed, signed = {}, {}
    for number, table in enumerate(tables):
        rows = fitting(len(table), *(layer.queries for layer in reversed(known)))
        columns = fitting(table.shape[1], *(layer.keys for layer in known if number == 0 or layer.causal))
        name = method if len(tables) == 1 else f"{method} of {'the source' if number == 0 else 'what is written'}"
        weights = np.abs(table) / np.where(totals > 0, totals, 1.0)
        across = (len(tables) > 1 and number == 0) or len(table) != table.shape[1]
        kind: Kind = "pooled" if len(table) == 1 else "cross" if across else "self"
        attributed[name] = Layer(weights[None], rows, columns, kind)
        signed[name] = table
    return attributed, signed


def _gradient(analysis: Analysis) -> Maps:
    return _by_token(analysis, "gradient", _gradients(analysis, [1.0], from_unknown=False))


def _integrated(analysis: Analysis) -> Maps:
    points = [(number + 0.5) / _POINTS for number in range(_POINTS)]
    return _by_token(analysis, "integrated", _gradients(analysis, points, from_unknown=True))


def _occlusion(analysis: Analysis) -> Maps:
    _, counted = _chosen(analysis)
    lengths: list[int] = []

    def measure(number: int, output: Tensor, unknown: Tensor) -> Tensor:
        lengths.append(output.shape[:-1].numel())
        return output

    def run(change: Change) -> np.ndarray:
        poll_cancellation()
        with torch.no_grad(), _embeddings(analysis, change):
            return counted(analysis.model_pass.model(*analysis.model_pass.inputs)).double().cpu().numpy()

    before = run(measure)
    tables = []
    for place, length in enumerate(lengths):
        columns = [before - run(partial(_without, place, token)) for token in range(length)]
        tables.append(np.stack(columns, -1))
    return _by_token(analysis, "occlusion", tables)


def _without(place: int, token: int, number: int, output: Tensor, unknown: Tensor) -> Tensor:
    """The vectors with the unknown token in place of one of an input; of another input as they are."""
    if number != place:
        return output
    # the batch, which is one example, may be the first axis or the second
    chosen = torch.arange(output.shape[:-1].numel(), device=output.device).view(*output.shape[:-1], 1) == token
    return torch.where(chosen, unknown, output)


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
