"""How much each input counts for each output, by rules that go beyond the raw weights of attention.

Raw weights say where a layer looks. They leave out how large the values are that it finds there, what the layers below
have mixed into them, and what the rest of the model makes of them; each rule here puts one of these in, and none of
them proves what a model would do with another input.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor, nn

from headwise.attention.call import per_head
from headwise.attention.precision import wide
from headwise.cancellation import poll_cancellation
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, Unsupported, unknown
from headwise.explain.explanation import Explanation, Heads, Kind, Layer
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.blocks import Block
from headwise.layers.embeddings import TokenEmbedding
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import Pass, fitting, numbers
from headwise.predictors.predictor import Predictor
from headwise.predictors.saying import Said, said
from headwise.predictors.watched_heads import explained
from headwise.records import LayerRecord, Trace
from headwise.records.watching import layers

# points on the way from unknown tokens to the input; the paper advises 20 to 300
_POINTS = 50
# capacities of edges are whole numbers of this share of the whole
_FLOW = 1 << 20
# places of a sequence up to which flows are computed, one for each pair
_LONGEST_FLOW = 64


@dataclass(frozen=True)
class Attribution(Explanation):
    """An explanation whose layers hold shares: of all that counts for a row, each input's part in absolute value.

    Those of "lens" hold probabilities, and those of "patching" parts of a difference, from 0 to 1.

    Args:
        method: the rule, a key of `METHODS`.
        signed: the numbers behind the shares where they have signs, by layer: (queries, keys).
    """

    method: str = ""
    signed: Mapping[str, Float[np.ndarray, "queries keys"]] = field(default_factory=dict)

    def caption(self, layer: str | int | None = None, heads: Heads = None) -> str:
        """The name of what is shown; of several heads, which."""
        name = self.layer_name(layer)
        return super().caption(layer, heads) if len(self.layers[name].weights) > 1 else name

    def lines(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> list[str]:
        """The inputs that count most for each output, and what the rule says and does not say."""
        heading = f"{self.caption(layer, heads)}: {METHODS[self.method].heading}"
        return [heading, self.table(layer, heads, top=top), "", self.note]


class Look(NamedTuple):
    """A model that answered: what its attention did, in which pass; the pass of another input, if there is one."""

    predictor: Predictor[Any, Any, Any]
    explanation: Explanation
    model_pass: Pass
    other: Pass | None = None


class Method(NamedTuple):
    """A rule of attribution: what it computes, who proposed it, and what it does not say."""

    formula: str
    source: str
    caution: str
    compute: Callable[[Look], tuple[dict[str, Layer], dict[str, np.ndarray]]]
    heading: str = "what counts most in each row"


def attribute(
    predictor: Predictor[Any, Any, Any], item: Any, by: str, target: str | None = None, other: Any = None
) -> Attribution:
    """How much each input counts for each output; for "lens" and "patching", what each block does.

    Args:
        item: an input, or a text that `predictor.parse` reads.
        by: a key of `METHODS`.
        target: the output to account for; None: the model's own.
        other: for "patching", an input of as many tokens.

    Raises:
        ConfigError: no such rule.
        Unsupported: the model has no attention, or nothing that this rule needs; the message says what.
    """
    if by not in METHODS:
        raise ConfigError(unknown("attribution", by, METHODS))
    if by == "patching" and other is None:
        raise ConfigError("by='patching' needs other=, an input of as many tokens")
    if by != "patching" and other is not None:
        raise ConfigError(f"by='{by}' takes no other=; leave it out")
    look = Look(predictor, *explained(predictor, item, target))
    if other is not None:
        # what writes is made to write the same, as the same tokens
        output = target or (look.explanation.output if _writes(predictor) else None)
        look = Look(predictor, *explained(predictor, item, output), explained(predictor, other, output)[1])
    method = METHODS[by]
    attributed, signed = method.compute(look)
    note = f"{by}: {method.formula}\nsource: {method.source}\nnot said: {method.caution}"
    source, output, tokens = look.explanation.source, look.explanation.output, look.explanation.tokens
    return Attribution(source, output, attributed, note=note, tokens=tokens, method=by, signed=signed)


def _writes(predictor: Predictor[Any, Any, Any]) -> bool:
    try:
        predictor.writes()
    except Unsupported:
        return False
    return True


def shares(scores: Float[np.ndarray, "*rows keys"]) -> Float[np.ndarray, "*rows keys"]:
    """Each score's part of its row in absolute value; zeros where all are.

    >>> shares(np.array([[1.0, -3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    sizes = np.abs(scores)
    totals = sizes.sum(-1, keepdims=True)
    return np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)


def _recorded(look: Look) -> Iterator[tuple[str, Layer, LayerRecord]]:
    """The layers whose rows and columns are the places that attention went over. Raises: Unsupported without any."""
    trace: Trace = look.model_pass.again()
    names = [name for name, layer in look.explanation.layers.items() if layer.kind != "tags" and name in trace.names()]
    whole = [name for name in names if look.explanation.layers[name].weights.shape == numbers(trace, name).shape[1:]]
    if not whole:
        raise Unsupported("what is shown of this model are no single places, so nothing can be attributed to them")
    for name in whole:
        yield name, look.explanation.layers[name], trace[name]


def _norms(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    modules = dict(look.model_pass.model.named_modules())
    places = {name: place for name, (place, _) in layers(look.model_pass.model).items()}
    attributed: dict[str, Layer] = {}
    for name, layer, record in _recorded(look):
        attention = modules.get(places[name].removesuffix(".mechanism"))
        if not isinstance(attention, MultiHeadAttention) or len(record.calls) > 1:
            raise Unsupported(f"{name} has no output matrix of its own, or was called step by step; use by='rollout'")
        call = record.calls[0].call
        if call.relative is not None and call.relative.value_table is not None:
            raise Unsupported(f"{name} adds vectors of distances to its values, which norms leave out")
        values = wide(per_head(call.value, call.shape[1]))[0]
        heads = attention.output.weight.to(values.dtype).detach()
        # (heads, value_dim, d_model); with "mean" all heads go through one matrix
        matrices = heads.mT.unflatten(0, (-1, values.shape[-1])).expand(len(values), -1, -1)
        written = (values @ matrices).double().cpu().numpy()
        weights = shares(layer.weights * np.linalg.norm(written, axis=-1)[:, None])
        # all heads together, a query at a time: (keys, d_model)
        sums = [np.einsum("hk,hkd->kd", row, written) for row in layer.weights.swapaxes(0, 1)]
        total = shares(np.stack([np.linalg.norm(row, axis=-1) for row in sums]))
        attributed[name] = _Norms(weights, layer.queries, layer.keys, layer.kind, layer.causal, layer.allowed, total)
    return attributed, {}


@dataclass(frozen=True)
class _Norms(Layer):
    """Norms of each head, and of what all heads write together, which is no mean of theirs."""

    total: Float[np.ndarray, "queries keys"] = field(default_factory=lambda: np.zeros((0, 0)))

    def mean(self, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        return self.total if heads is None else super().mean(heads)


class _Mixing(NamedTuple):
    """A layer as rollout and flow see it: half of a place is what it was, half what attention brings.

    Args:
        part: whose places the rows are, the first word of the layer's name, such as "decoder".
        memory: whose places the columns are.
    """

    part: str
    memory: str
    layer: Layer
    weights: Float[np.ndarray, "queries keys"]


def _mixings(look: Look) -> list[_Mixing]:
    """The layers from the first to the last. Raises: Unsupported where they do not follow each other over one input."""
    mixings: list[_Mixing] = []
    for name, layer, _ in _recorded(look):
        part = name.partition(".")[0]
        others = [mixing.part for mixing in mixings if mixing.part != part and mixing.layer.kind == "self"]
        memory = part if layer.kind == "self" else others[-1] if others else "input"
        if layer.kind == "pooled":
            part = "pooled"
        # weights that have signs, or do not sum to one, count by their size
        mixings.append(_Mixing(part, memory, layer, shares(layer.mean())))
    for mixing in mixings:
        alike = [other for other in mixings if other.part == mixing.part and other.layer.kind == "self"]
        if len({other.weights.shape for other in alike}) > 1:
            raise Unsupported(f"the layers of '{mixing.part}' go over different places, so they cannot be multiplied")
    return mixings


def _rollout(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    # of each part, how much of every place is from each place of each input
    content: dict[str, dict[str, np.ndarray]] = {}
    mixings = _mixings(look)
    inputs = {mixing.memory for mixing in mixings}
    for part, memory, _, weights in mixings:
        rows, columns = weights.shape
        for known, size in ((part, rows), (memory, columns)):
            content.setdefault(known, {known: np.eye(size)} if known in inputs else {})
        brought = {source: weights @ table for source, table in content[memory].items()}
        before = content[part]
        share = 0.5 if before else 1.0
        mixed = {source: (1 - share) * table for source, table in before.items()}
        for source, table in brought.items():
            mixed[source] = mixed.get(source, 0.0) + share * table
        content[part] = _whole(mixed)
    return _named("rollout", mixings, content), {}


def _whole(content: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same with rows that sum to one over all inputs: a query without a key keeps what it was."""
    totals = sum(table.sum(-1, keepdims=True) for table in content.values())
    return {source: table / np.where(totals > 0, totals, 1.0) for source, table in content.items()}


def _named(rule: str, mixings: list[_Mixing], content: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Layer]:
    """What the last part is made of, an input each."""
    last = mixings[-1].part
    shown = {}
    for source, table in content[last].items():
        rows = next(mixing.layer for mixing in reversed(mixings) if mixing.part == last)
        columns = next(mixing.layer for mixing in mixings if mixing.memory == source)
        kind: Kind = "pooled" if rows.kind == "pooled" else "self" if source == last else "cross"
        name = rule if len(content[last]) == 1 else f"{rule} from {source}"
        shown[name] = Layer(table[None], rows.queries, columns.keys, kind, rows.causal and source == last)
    return shown


def _flow(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    mixings = _mixings(look)
    # edges from a place to what it is made of, and the latest nodes of each part
    edges: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    nodes: dict[str, np.ndarray] = {}
    inputs: dict[str, np.ndarray] = {}
    count = 0
    for part, memory, _, weights in mixings:
        for known, size in ((part, weights.shape[0]), (memory, weights.shape[1])):
            if size > _LONGEST_FLOW:
                raise Unsupported(f"flow is computed for up to {_LONGEST_FLOW} tokens, not {size}; use by='rollout'")
            if known not in nodes and any(mixing.memory == known for mixing in mixings):
                nodes[known] = inputs[known] = np.arange(count, count + size)
                count += size
        new = np.arange(count, count + len(weights))
        count += len(weights)
        rows, columns = np.nonzero(weights > 0)
        share = 0.5 if part in nodes else 1.0
        edges.append((new[rows], nodes[memory][columns], share * weights[rows, columns]))
        if part in nodes:
            edges.append((new, nodes[part], np.full(len(new), 1 - share)))
        nodes[part] = new
    start, end, capacity = (np.concatenate(side) for side in zip(*edges, strict=True))
    graph = coo_array((np.rint(capacity * _FLOW).astype(np.int32), (start, end)), (count, count)).tocsr()
    last = mixings[-1].part
    content = {
        source: np.array([_flows(graph, row, columns) for row in nodes[last]]) for source, columns in inputs.items()
    }
    return _named("flow", mixings, {last: _whole(content)}), {}


def _flows(graph: Any, row: np.int64, columns: Int[np.ndarray, "inputs"]) -> list[int]:
    """The maximum flow from a node to each of these."""
    poll_cancellation()
    return [int(maximum_flow(graph, row, column).flow_value) for column in columns]


# the number of the pass through an embedding, the vectors of the tokens, and those of unknown tokens in their places ->
# the vectors that go on
Change = Callable[[int, Tensor, Tensor], Tensor]


@contextmanager
def _embeddings(look: Look, change: Change) -> Iterator[None]:
    """While open, the vectors of tokens pass through this change; those of a source come first."""
    model = look.model_pass.model
    modules = [module for module in model.modules() if isinstance(module, TokenEmbedding | nn.Embedding)]
    if not modules or not _has_tokens(look.predictor):
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


def _chosen(look: Look) -> tuple[Said, Callable[[Tensor], Tensor]]:
    """What the model says, and what makes its output the number that counts at each place."""
    answer = said(look.predictor, look.model_pass)
    if answer.chosen is None:
        return answer, lambda output: wide(output).reshape(-1)
    index = torch.tensor(answer.chosen)[:, None]

    def log_probs(output: Tensor) -> Tensor:
        scores = wide(output[0] if output.ndim == 3 else output)
        return scores.log_softmax(-1).gather(-1, index.to(scores.device)).squeeze(-1)

    alone = log_probs(look.model_pass.run()).double().cpu().numpy()
    if not np.allclose(alone, answer.values[range(len(alone)), answer.chosen], atol=1e-3):
        raise Unsupported("the outputs of this model depend on each other, as tags of a chain do; use by='rollout'")
    return answer, log_probs


def _gradients(look: Look, points: Sequence[float], *, from_unknown: bool) -> list[np.ndarray]:
    """Mean gradient of each place times the vector of each token, (places, tokens), an input each.

    Args:
        points: where on the way from the start to the tokens a gradient is taken, the tokens being at 1.
        from_unknown: the way begins at unknown tokens, and the vector is the difference from them; else at zeros.
    """
    _, counted = _chosen(look)
    sums: list[np.ndarray] = []
    for point in points:
        poll_cancellation()
        vectors: list[Tensor] = []
        ways: list[Tensor] = []
        with torch.enable_grad(), _embeddings(look, partial(_moved, point, from_unknown, ways, vectors)):
            numbers = counted(look.model_pass.model(*look.model_pass.inputs))
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


def _by_token(look: Look, rule: str, tables: list[np.ndarray]) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    """Numbers (places, tokens) of each input as layers, their shares over all inputs together."""
    known = list(look.explanation.layers.values())
    totals = sum(np.abs(table).sum(-1, keepdims=True) for table in tables)
    attributed, signed = {}, {}
    for number, table in enumerate(tables):
        rows = fitting(len(table), *(layer.queries for layer in reversed(known)))
        columns = fitting(table.shape[1], *(layer.keys for layer in known if number == 0 or layer.causal))
        name = rule if len(tables) == 1 else f"{rule} of {'the source' if number == 0 else 'what is written'}"
        weights = np.abs(table) / np.where(totals > 0, totals, 1.0)
        across = (len(tables) > 1 and number == 0) or len(table) != table.shape[1]
        kind: Kind = "pooled" if len(table) == 1 else "cross" if across else "self"
        attributed[name] = Layer(weights[None], rows, columns, kind)
        signed[name] = table
    return attributed, signed


def _gradient(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    return _by_token(look, "gradient", _gradients(look, [1.0], from_unknown=False))


def _integrated(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    points = [(number + 0.5) / _POINTS for number in range(_POINTS)]
    return _by_token(look, "integrated", _gradients(look, points, from_unknown=True))


def _occlusion(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    _, counted = _chosen(look)
    lengths: list[int] = []

    def measure(number: int, output: Tensor, unknown: Tensor) -> Tensor:
        lengths.append(output.shape[:-1].numel())
        return output

    def run(change: Change) -> np.ndarray:
        poll_cancellation()
        with torch.no_grad(), _embeddings(look, change):
            return counted(look.model_pass.model(*look.model_pass.inputs)).double().cpu().numpy()

    before = run(measure)
    tables = []
    for place, length in enumerate(lengths):
        columns = [before - run(partial(_without, place, token)) for token in range(length)]
        tables.append(np.stack(columns, -1))
    return _by_token(look, "occlusion", tables)


def _without(place: int, token: int, number: int, output: Tensor, unknown: Tensor) -> Tensor:
    """The vectors with the unknown token in place of one of an input; of another input as they are."""
    if number != place:
        return output
    # the batch, which is one example, may be the first axis or the second
    chosen = torch.arange(output.shape[:-1].numel(), device=output.device).view(*output.shape[:-1], 1) == token
    return torch.where(chosen, unknown, output)


def _stacks(model: nn.Module) -> dict[str, dict[str, Block]]:
    """The blocks of each stack by their names, in the order of the model. Raises: Unsupported for a model without."""
    stacks: dict[str, dict[str, Block]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Block):
            stacks.setdefault(name.rpartition(".")[0], {})[name] = module
    if not stacks:
        raise Unsupported("this model is not built of blocks, so nothing can be read or put between them")
    return stacks


@contextmanager
def _blocks(modules: Mapping[str, Block], change: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """While open, the outputs of these blocks pass through this change."""

    def hook(name: str, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return change(name, output)

    handles = [module.register_forward_hook(partial(hook, name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _outputs(model_pass: Pass, blocks: Mapping[str, Block]) -> dict[str, Tensor]:
    """What each of these blocks returns in a pass."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor) -> Tensor:
        outputs[name] = output
        return output

    with _blocks(blocks, keep):
        model_pass.run()
    return outputs


def _lens(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    answer, counted = _chosen(look)
    if answer.chosen is None:
        raise Unsupported("this model says numbers, which have no probability to follow from block to block")
    *_, (stack, blocks) = _stacks(look.model_pass.model).items()
    outputs, last = _outputs(look.model_pass, blocks), list(blocks)[-1]
    rows = []
    for name in blocks:
        with _blocks({last: blocks[last]}, lambda _, output, name=name: outputs[name]):  # type: ignore[misc]
            rows.append(counted(look.model_pass.run()).exp().double().cpu().numpy())
    keys = [f"{place + 1}:{answer.name(choice)}" for place, choice in enumerate(answer.chosen)]
    return {f"lens of {stack}": Layer(np.stack(rows)[None], list(blocks), keys, "cross")}, {}


def _patching(look: Look) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    assert look.other is not None
    sizes, other_sizes = (
        [part.shape for part in model_pass.inputs if isinstance(part, Tensor)]
        for model_pass in (look.model_pass, look.other)
    )
    if sizes != other_sizes:
        raise ConfigError("the other input has another number of tokens, so its places are not those of the first one")
    _, log_probs = _chosen(look)
    first = _behind(look.model_pass, look.other) if _writes(look.predictor) else 0

    def counted(output: Tensor) -> Tensor:
        return log_probs(output)[first:]

    def patched(blocks: Mapping[str, Block], change: Callable[[str, Tensor], Tensor]) -> float:
        assert look.other is not None
        with _blocks(blocks, change):
            return float(counted(look.other.run()).sum())

    whole, without = float(counted(look.model_pass.run()).sum()), patched({}, lambda _, output: output)
    if whole == without:
        raise ConfigError("the model tells no difference between the two inputs; choose another one")
    attributed, signed = {}, {}
    for stack, blocks in _stacks(look.model_pass.model).items():
        outputs = _outputs(look.model_pass, blocks)
        places = range(next(iter(outputs.values())).shape[1])
        table = [
            [patched({name: block}, partial(_put, outputs, at)) for at in places] for name, block in blocks.items()
        ]
        restored = (np.array(table) - without) / (whole - without)
        own = [layer.keys for name, layer in look.explanation.layers.items() if name.startswith(f"{stack}.")]
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


METHODS: dict[str, Method] = {
    "norms": Method(
        "||A_ij v_j W_o|| of each head, and of the sum of all heads, as shares of a row",
        "Kobayashi et al. 2020, arXiv:2004.10102, eq. 4",
        "what the residual connection keeps and what later layers make of it",
        _norms,
    ),
    "rollout": Method(
        "the product of (A + I) / 2 over the layers, A the mean of the heads, in shares; cross-attention likewise",
        "Abnar and Zuidema 2020, arXiv:2005.00928, section 3; cross-attention is added here",
        "how large the values are, whether a head's content is used, and whether the model has the residuals I",
        _rollout,
    ),
    "flow": Method(
        "the maximum flow from each output to each input through edges of capacity (A + I) / 2, as shares of a row",
        "Abnar and Zuidema 2020, arXiv:2005.00928, section 3; cross-attention and shares are added here",
        "how large the values are; flows to several inputs need not fit through the network at once",
        _flow,
    ),
    "gradient": Method(
        "x_j . d log p / d x_j at the vectors of the tokens",
        "Shrikumar et al. 2016, arXiv:1605.01713; Simonyan et al. 2013, arXiv:1312.6034",
        "what happens beyond a small change of the input; a saturated output has no gradient",
        _gradient,
    ),
    "integrated": Method(
        f"(x_j - u_j) . the mean of d log p / d x_j at {_POINTS} points from u to x, u being unknown tokens; a row sums"
        " to about log p(x) - log p(u)",
        "Sundararajan et al. 2017, arXiv:1703.01365, eq. 3, at the middle of each step",
        "what another baseline than unknown tokens would give",
        _integrated,
    ),
    "occlusion": Method(
        "log p(x) - log p(x with the unknown token in place of token j)",
        "Zeiler and Fergus 2014, arXiv:1311.2901, section 2.2; Li et al. 2016, arXiv:1612.08220",
        "what tokens do together, and what is left of a token in the tokens beside it",
        _occlusion,
    ),
    "lens": Method(
        "the probability of each output, were the rest of the model to read block l in place of the last one",
        "nostalgebraist 2020, 'interpreting GPT: the logit lens'; Belrose et al. 2023, arXiv:2303.08112",
        "what a block knows in a form that only later blocks read: nothing trained it to be read by the output",
        _lens,
        "the outputs that are most probable after each block",
    ),
    "patching": Method(
        "(log p(y) with block l at place j taken from the input - log p(y) of the other) / (the whole difference)",
        "Vig et al. 2020, arXiv:2004.12265; Meng et al. 2022, arXiv:2202.05262, section 2.1 (causal tracing)",
        "what other inputs would show; a place that restores all need not be the only one",
        _patching,
        "the places that bring back most of the difference",
    ),
}
