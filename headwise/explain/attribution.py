"""Attribution from arrays: shares of rows, norms of what keys add, and how layers mix their inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from headwise.cancellation import poll_cancellation
from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation, Heads, Kind, Layer
from headwise.explain.methods import METHODS
from headwise.explain.values import Legend

# capacities of edges are whole numbers of this share of the whole
_CAPACITY = 1 << 20
# tokens of a sequence up to which flows are computed, one for each pair
_LONGEST_FLOW = 64


@dataclass(frozen=True)
class Attribution(Explanation):
    """An explanation whose layers hold shares: of all that counts for a row, each input's part in absolute value.

    Those of "lens" hold probabilities, and those of "patching" parts of a difference, from 0 to 1.

    Args:
        method: a key of `METHODS`.
        signed: the numbers behind the shares where they have signs, by layer: (queries, keys).
    """

    method: str = ""
    signed: Mapping[str, Float[np.ndarray, "queries keys"]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Memory of its numbers."""
        tables = [*(layer.weights for layer in self.layers.values()), *self.signed.values()]
        return sum(table.nbytes for table in tables)

    def values(self, name: str, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        """The numbers of a map that are drawn: those with signs, where there are some."""
        return self.signed[name] if name in self.signed else super().values(name, heads)

    def legend(self, name: str) -> Legend:
        method, framed = METHODS[self.method], self.layers[name].kind != "self"
        signed = name in self.signed
        quantity = method.signed if signed else method.quantity
        return Legend(method.title, method.rows, method.columns, quantity, framed, signed)

    def caption(self, layer: str | int | None = None, heads: Heads = None) -> str:
        """The name of what is shown; of several heads, which."""
        name = self.layer_name(layer)
        if self.layers[name].shape[0] == 1:
            return name
        of_all = heads is None and isinstance(self.layers[name], Norms)
        which = f"{name}, all heads together" if of_all else super().caption(layer, heads)
        return f"{METHODS[self.method].title}: {which}"

    def lines(self, layer: str | int | None = None, heads: Heads = None, *, top: int = 3) -> list[str]:
        """The inputs that count most for each output, and what the method says and does not say."""
        heading = f"{self.caption(layer, heads)}: {METHODS[self.method].heading}"
        return [heading, self.table(layer, heads, top=top), "", self.note]


def shares(scores: Float[np.ndarray, "*rows keys"]) -> Float[np.ndarray, "*rows keys"]:
    """Each score's part of its row in absolute value; zeros where all are.

    >>> shares(np.array([[1.0, -3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    sizes = np.abs(scores)
    totals = sizes.sum(-1, keepdims=True)
    return np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)


@dataclass(frozen=True)
class Norms(Layer):
    """Norms of what each head writes, and of what all heads write together, which is no mean of theirs."""

    total: Float[np.ndarray, "queries keys"] = field(default_factory=lambda: np.zeros((0, 0)))

    def mean(self, heads: Heads = None) -> Float[np.ndarray, "queries keys"]:
        return self.total if heads is None else super().mean(heads)


def norms(layer: Layer, written: Float[np.ndarray, "heads keys width"]) -> Norms:
    """Shares of ||A_ij w_j| for what each head writes of a key, w_j = v_j W_o, and of the sum over heads."""
    weights = shares(np.abs(layer.weights) * np.linalg.norm(written, axis=-1)[:, None])
    # a query at a time: (keys, width)
    sums = [np.einsum("hk,hkd->kd", row, written) for row in layer.weights.swapaxes(0, 1)]
    total = shares(np.stack([np.linalg.norm(row, axis=-1) for row in sums]))
    return Norms(weights, layer.queries, layer.keys, layer.kind, layer.causal, layer.mask, total)


class Mixing(NamedTuple):
    """What a layer makes the vectors of its rows of: shares of its columns, and of what the rows were before.

    Args:
        part: whose places the rows are, such as "decoder".
        memory: whose places the columns are.
        weights: share of each column.
        residual: share of the row itself before the layer; a row of both sums to one.
    """

    part: str
    memory: str
    layer: Layer
    weights: Float[np.ndarray, "queries keys"]
    residual: Float[np.ndarray, "queries"]


def averaged(layer: Layer, *, residual: bool) -> tuple[np.ndarray, np.ndarray]:
    """The weights and the residual of a `Mixing` by the mean of the heads: (A + I) / 2, or A without a residual.

    Weights that have signs, or do not sum to one, count by their size.
    """
    weights, share = shares(layer.mean()), 0.5 if residual else 0.0
    return (1 - share) * weights, np.full(len(weights), share)


def contributions(
    parts: Float[np.ndarray, "rows parts width"], outputs: Float[np.ndarray, "rows width"]
) -> Float[np.ndarray, "rows parts"]:
    """How near each of the vectors that a row is the sum of comes to it in L1, as shares; the larger, the nearer.

    Source: Ferrando et al. 2022, arXiv:2203.04212, section 3; a row of zeros is one that no vector comes nearer to
        than zero does.

    >>> contributions(np.array([[[2.0, 0.0], [0.0, 1.0]]]), np.array([[2.0, 1.0]])).round(3).tolist()
    [[0.667, 0.333]]
    """
    lengths = np.abs(outputs).sum(-1, keepdims=True)
    return shares(np.maximum(0.0, lengths - np.abs(outputs[:, None] - parts).sum(-1)))


def rollout(mixings: Sequence[Mixing]) -> dict[str, Float[np.ndarray, "rows inputs"]]:
    """How much of each place of the last part is from each place of each input: the product of all layers.

    Source: Abnar and Zuidema 2020, arXiv:2005.00928, section 3.
    """
    content: dict[str, dict[str, np.ndarray]] = {}
    inputs = {mixing.memory for mixing in mixings}
    for part, memory, _, weights, residual in mixings:
        rows, columns = weights.shape
        for name, size in ((part, rows), (memory, columns)):
            content.setdefault(name, {name: np.eye(size)} if name in inputs else {})
        mixed = {source: residual[:, None] * table for source, table in content[part].items()}
        for source, table in content[memory].items():
            mixed[source] = mixed.get(source, 0.0) + weights @ table
        content[part] = whole(mixed)
    return content[mixings[-1].part]


def rollout_within(
    layers: Iterable[Float[np.ndarray, "heads places places"]],
) -> Float[np.ndarray, "places places"]:
    """Rollout through layers of self-attention with residuals, by their weights from the first to the last.

    >>> rollout_within([np.array([[[0.0, 1.0], [1.0, 0.0]]])] * 2).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    mixings = []
    for weights in layers:
        labels = [""] * weights.shape[-1]
        layer = Layer(weights.mean(0, keepdims=True), labels, labels, "self")
        mixings.append(Mixing("places", "places", layer, *averaged(layer, residual=True)))
    return rollout(mixings)["places"]


def flow(mixings: Sequence[Mixing]) -> dict[str, Float[np.ndarray, "rows inputs"]]:
    """The maximum flow from each place of the last part to each place of each input, as shares of a row."""
    # edges from a place to what it is made of, and the latest nodes of each part
    edges: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    nodes: dict[str, np.ndarray] = {}
    inputs: dict[str, np.ndarray] = {}
    count = 0
    for part, memory, _, weights, residual in mixings:
        for name, size in ((part, weights.shape[0]), (memory, weights.shape[1])):
            if size > _LONGEST_FLOW:
                raise Unsupported(f"flow is computed for up to {_LONGEST_FLOW} tokens, not {size}; use by='rollout'")
            if name not in nodes and any(mixing.memory == name for mixing in mixings):
                nodes[name] = inputs[name] = np.arange(count, count + size)
                count += size
        new = np.arange(count, count + len(weights))
        count += len(weights)
        capacities = weights if part in nodes else shares(weights)
        rows, columns = np.nonzero(capacities > 0)
        edges.append((new[rows], nodes[memory][columns], capacities[rows, columns]))
        if part in nodes:
            edges.append((new, nodes[part], residual))
        nodes[part] = new
    start, end, capacity = (np.concatenate(side) for side in zip(*edges, strict=True))
    graph = coo_array((np.rint(capacity * _CAPACITY).astype(np.int32), (start, end)), (count, count)).tocsr()
    last = nodes[mixings[-1].part]
    return whole({source: np.array([_flows(graph, row, to) for row in last]) for source, to in inputs.items()})


def _flows(graph: Any, row: np.int64, columns: Int[np.ndarray, "inputs"]) -> list[int]:
    """The maximum flow from a node to each of these."""
    poll_cancellation()
    return [int(maximum_flow(graph, row, column).flow_value) for column in columns]


def whole(content: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same with rows that sum to one over all inputs; rows of zeros stay."""
    totals = sum(table.sum(-1, keepdims=True) for table in content.values())
    return {source: table / np.where(totals > 0, totals, 1.0) for source, table in content.items()}


def layers_of(method: str, mixings: Sequence[Mixing], content: Mapping[str, np.ndarray]) -> dict[str, Layer]:
    """What the last part is made of as layers, one for each input."""
    last = mixings[-1].part
    rows = next(mixing.layer for mixing in reversed(mixings) if mixing.part == last)
    layers = {}
    for source, table in content.items():
        columns = next(mixing.layer for mixing in mixings if mixing.memory == source)
        kind: Kind = "pooled" if rows.kind == "pooled" else "self" if source == last else "cross"
        name = method if len(content) == 1 else f"{method} from {source}"
        layers[name] = Layer(table[None], rows.queries, columns.keys, kind, rows.causal and source == last)
    return layers
