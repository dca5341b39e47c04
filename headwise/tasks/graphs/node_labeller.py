"""What a trained model says of the nodes of a graph, and of others that are given."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.masks import Edges, Mask
from headwise.data.batches import OnDevice
from headwise.errors import ConfigError, DataError, unknown
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import InGraph
from headwise.labels import decimals, probability, visible
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline, majority
from headwise.predictors.classes import by_tag
from headwise.predictors.evaluating import evaluating
from headwise.predictors.predictor import Form, Predictor, several
from headwise.predictors.rows import Column, Formula, Rows, Scored, question_of
from headwise.records import LayerRecord
from headwise.tasks.graphs.encoders import Features, GraphEncoder, SparseRows
from headwise.tasks.graphs.graph_files import read_archive, read_ids
from headwise.tasks.graphs.graphs import Graph, GraphConfig, LabelledNode

# a table with a smaller share of entries that are not zero is read by those alone
SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class GraphInput(OnDevice):
    """What an encoder of graphs is called with.

    Args:
        mask: which node (query) hears of which (key), with the list of its pairs made once.
    """

    features: Features
    mask: Mask


def graph_input(graph: Graph, self_loops: bool) -> GraphInput:
    """The input of a graph; without features each node has one of its own.

    >>> from headwise.tasks.graphs.graph_files import SparseTable
    >>> graph = Graph(["a", "b"], SparseTable.of(np.eye(2)), np.array([[0], [1]]))
    >>> graph_input(graph, True).mask.dense(1, 1, 2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    mask = Edges(torch.from_numpy(np.ascontiguousarray(graph.edges)), len(graph.ids))
    return GraphInput(_features(graph), (mask.with_self_loops() if self_loops else mask).shared())


def num_features(graph: Graph) -> int:
    """Columns of the features that `graph_input` gives."""
    return graph.features.width or len(graph.ids)


def _features(graph: Graph) -> Features:
    table, nodes = graph.features, len(graph.ids)
    if not table.width:
        own: Tensor = torch.arange(nodes)
        return SparseRows(own, own, torch.ones(nodes))
    if len(table.column) >= SPARSE * nodes * table.width:
        return torch.from_numpy(table.dense())
    start, column = (torch.from_numpy(part.astype(np.int64)) for part in (table.start[:-1], table.column))
    return SparseRows(start, column, torch.from_numpy(table.value))


def feature_table(graph: Graph) -> Any:
    """The features of every node as a sparse matrix of scipy; one column a node without any."""
    from scipy.sparse import csr_array, eye_array

    table, nodes = graph.features, len(graph.ids)
    if not table.width:
        return eye_array(nodes, format="csr")
    return csr_array((table.value, table.column, table.start), shape=(nodes, table.width))


def neighbourhoods(graph: Graph, features: Any) -> Any:
    """S^2 features with S = D^-1/2 (A + I) D^-1/2, D the degrees of A + I: the features of SGC.

    Source: Wu et al. 2019, arXiv 1902.07153, equation 8; edges of one direction alone count in that direction.
    """
    from scipy.sparse import coo_array, diags_array, eye_array

    nodes = len(graph.ids)
    source, target = graph.edges[:, graph.edges[0] != graph.edges[1]]
    adjacency = coo_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes)).tocsr()
    adjacency = adjacency + eye_array(nodes, format="csr")
    scale = diags_array(1 / np.sqrt(adjacency.sum(1)))
    for _ in range(2):
        features = scale @ (adjacency @ (scale @ features))
    return features.tocsr()


# neighbours that a picture has room for
_SHOWN = 24


class Label(NamedTuple):
    """The likeliest label of a node, and its probability."""

    label: str
    probability: float


class NodeLabeller(Predictor[str, Label, LabelledNode]):
    """A model with the graph that it was trained on.

    Args:
        labels: by their numbers, each with its nodes in training.
    """

    given = "node"
    verb = "classify"

    def __init__(self, model: GraphEncoder, graph: Graph, labels: Mapping[str, int], data: GraphConfig):
        self.model, self.graph, self.data = model, graph, data
        self.labels = list(labels)
        self.number = {name: place for place, name in enumerate(graph.ids)}
        self.input = graph_input(graph, data.self_loops)

    def input_of(self, example: LabelledNode) -> str:
        return example.node

    def parse(self, text: str) -> str:
        """The name of a node. Raises: ConfigError with the nearest one if there is none of this name."""
        name = text.strip()
        self._place(name)
        return name

    def read(self, path: Path) -> Iterator[str]:
        """The nodes of a file: the id column of a table, a name a line, or all nodes of an archive of graphs."""
        ids = (
            read_archive(path).ids
            if path.suffix == ".npz"
            else read_ids(path, self.data.columns(), self.data.max_line_bytes)
        )
        return map(self.parse, ids)

    @torch.inference_mode()
    def odds(self) -> Float[Tensor, "nodes labels"]:
        """The probability of each label for each node: one pass over the whole graph."""
        return torch.softmax(self._logits(), -1)

    def predict(self, items: Sequence[str] | str, options: Any = None) -> list[Label]:
        """The label of each node, in their order; one pass over the graph for all of them. `options` are none."""
        places = [self._place(name) for name in several(items)]
        best, label = self.odds()[places].max(-1)
        return [Label(self.labels[number], odds) for number, odds in zip(label.tolist(), best.tolist(), strict=True)]

    def write(self, item: str, output: Label, form: Form, options: Any = None) -> list[str]:
        """`node TAB label TAB probability`, or a line of JSON."""
        if form == "text":
            return [f"{visible(item)}\t{visible(output.label)}\t{probability(output.probability)}"]
        fields = {"node": item, "label": output.label, "probability": round(output.probability, 6)}
        return [json.dumps(fields, ensure_ascii=False)]

    def scored(self, examples: Sequence[LabelledNode], options: Any = None) -> Scored:
        """Accuracy and macro-F1; `per_label` is the F1 of each label with how often it occurs.

        Raises: DataError for no nodes, or a node that the graph of the run has not.
        """
        for item in examples:
            if item.node not in self.number:
                raise DataError(f"line {item.line}: node '{item.node}' is not in the graph of this run; remove it")
        predictions = [prediction.label for prediction in self.predict([item.node for item in examples])]
        gold = [item.label for item in examples]
        macro, per_label = by_tag(predictions, gold)
        hits = [int(predicted == correct) for predicted, correct in zip(predictions, gold, strict=True)]
        columns: dict[str, Column] = {"predicted": predictions, "gold": gold, "right": hits}
        formulas = {"accuracy": Formula("mean", ("right",)), "macro_f1": Formula("macro_f1", ("predicted", "gold"))}
        rows = Rows(columns, formulas, question_of([item.node for item in examples], gold), "nodes")
        return Scored({"accuracy": float(np.mean(hits)), "macro_f1": macro, "per_label": per_label}, rows)

    def baselines(self, examples: Sequence[LabelledNode]) -> Iterator[Baseline]:
        yield majority([item.label for item in examples])

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The attention of every layer from one node to those it hears of, the weakest of very many as one."""
        # matplotlib is imported where something is drawn
        from headwise.tasks.graphs.neighbours import Neighbourhood

        if target is not None:
            raise ConfigError("the label of a node cannot be given here; leave the target out")
        place = self._place(item)
        pairs = self.input.mask.structure().pairs
        assert pairs is not None
        keys = pairs.key[pairs.query == place].tolist()
        if not keys:
            raise ConfigError(f"node '{item}' hears of no node, not even itself; there is nothing to look at")
        moved = self._moved()
        trace = looking.traced(self.model, moved.features, moved.mask)
        rows = {name: _row(trace[name], place, keys) for name in trace.names()}
        # the node itself, if it hears of itself, then the others from the strongest on
        strength = sum(weights[:, 0].mean(0) for weights, _ in rows.values()) + (np.array(keys) == place) * len(rows)
        order = np.argsort(-strength, kind="stable")
        shown, others = order[:_SHOWN], order[_SHOWN:]
        predictions = self.odds().argmax(-1)
        names = [self.graph.ids[keys[number]] for number in shown]
        labels = [self.labels[int(predictions[keys[number]])] for number in shown]
        more = [f"{len(others):,} others"] if len(others) else []
        gathered = _gathered(shown, others)
        layers = {
            name: Layer(weights @ gathered.T, [item], [*names, *more], "self", mask=allowed @ (gathered > 0).T)
            for name, (weights, allowed) in rows.items()
        }
        (prediction,) = self.predict([item])
        output = f"{prediction.label} ({decimals(prediction.probability)})"
        draw = Neighbourhood(item, prediction.label, [*labels, *([""] if more else [])], self.labels)
        places = InGraph(self.graph.ids, [self.labels[number] for number in predictions.tolist()], self.labels, place)
        return Explanation(item, output, layers, draw, places=places)

    def _logits(self) -> Tensor:
        moved = self._moved()
        with evaluating(self.model):
            logits: Tensor = self.model(moved.features, moved.mask)
        return logits

    def _moved(self) -> GraphInput:
        return self.input.to(next(self.model.parameters()).device)

    def _place(self, name: str) -> int:
        if name not in self.number:
            raise ConfigError(unknown("node", name, self.graph.ids))
        return self.number[name]


def _row(record: LayerRecord, place: int, keys: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """What one node looks at among these, and which of them it may; no other row is computed."""
    row = looking.Attended(record, (place, place + 1))
    weights, allowed = row.weights[..., keys], row.allowed()
    return weights, np.ones((1, 1, len(keys)), bool) if allowed is None else allowed[..., keys]


def _gathered(shown: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which keys stand behind each label: those that are shown, and all others as one."""
    membership = np.zeros((len(shown) + (len(others) > 0), len(shown) + len(others)))
    membership[np.arange(len(shown)), shown] = 1
    membership[len(shown) :, others] = 1
    return membership
