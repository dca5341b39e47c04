"""Labels for the nodes of one graph, of which some are known: the whole graph is read at each step."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config, build
from headwise.data.batches import NO_TAG, OnDevice
from headwise.data.files import resolve
from headwise.data.sources import Limits, Source, whole
from headwise.data.suggestions import Suggestion
from headwise.errors import CheckpointError, DataError
from headwise.labels import decimals
from headwise.predictors.baselines import Baseline, logistic_regression, of_labels
from headwise.tasks._files import as_json, counts_of
from headwise.tasks._labelling import Labelling
from headwise.tasks.demo import Demo
from headwise.tasks.graphs.demo import NODE_CLASSIFY
from headwise.tasks.graphs.encoders import GraphEncoder, GraphEncoderConfig
from headwise.tasks.graphs.graphs import Graph, GraphConfig, LabelledNode, labelled, read_graph
from headwise.tasks.graphs.node_labeller import (
    SPARSE,
    GraphInput,
    NodeLabeller,
    feature_table,
    graph_input,
    neighbourhoods,
    num_features,
)
from headwise.tasks.graphs.options import EdgeOptions
from headwise.tasks.task import Assets, Description

# of logistic regression: rows of features that add up to 1 want a weak penalty
_STRENGTH = 100.0

GRAPH_FILE, NODES_FILE, LABELS_FILE = "graph.npz", "nodes.json", "labels.json"

Splits = dict[str, list[LabelledNode]]


class NodeClassifyConfig(Config):
    """Which graph to label, and with which model."""

    data: GraphConfig = Field(description="the graph")
    model: GraphEncoderConfig = Field(description="the encoder: mlp, mean or attention")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the labels")
    show: list[str] = Field(default=[], description="nodes labelled at each validation; the first ones if empty")
    num_shown: int = Field(4, ge=0, description="how many nodes are shown if none are named")


@dataclass(frozen=True, eq=False)
class NodeBatch(OnDevice):
    """The whole graph, and the labels of some of its nodes; the others are `NO_TAG`."""

    input: GraphInput
    targets: Int[Tensor, "nodes"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Nodes whose labels count."""
        return len(self.indices)


class NodeClassify(Labelling[Splits]):
    """Labels for the nodes of one graph, some of which are known."""

    name: ClassVar[str] = "node-classify"
    demo: ClassVar[Demo | None] = NODE_CLASSIFY
    unit: ClassVar[str] = "nodes"
    config_type: ClassVar[type[Config]] = NodeClassifyConfig
    options = (EdgeOptions,)
    config: NodeClassifyConfig

    def __init__(self, config: NodeClassifyConfig, assets: Assets[Splits]):
        super().__init__(config, assets)
        try:
            self.graph = Graph.of(assets.file(GRAPH_FILE), assets.file(NODES_FILE))
        except DataError as error:
            raise CheckpointError(f"{GRAPH_FILE}, {NODES_FILE}: {error}; restore them from a copy of the run") from None
        self.labels = counts_of(assets.files, LABELS_FILE, "labels")
        self.input = graph_input(self.graph, config.data.self_loops)

    @classmethod
    def prepare(cls, config: NodeClassifyConfig) -> Assets[Splits]:
        graph_data = read_graph(config.data)
        counts = Counter(item.label for item in graph_data.splits["train"])
        if len(counts) == 1:
            (only,) = counts
            raise DataError(f"{config.data.train}: all nodes to train on have the label '{only}'; label some otherwise")
        files = {**graph_data.graph.files(), LABELS_FILE: as_json(counts)}
        return Assets(files, graph_data.splits, graph_data.digests, graph_data.notes)

    @classmethod
    def examples(cls, config: NodeClassifyConfig, split: str) -> list[LabelledNode]:
        # a part with a file of its own is scored without the graph that was trained on
        path = None if split == "train" else getattr(config.data, split)
        return read_graph(config.data).splits[split] if path is None else labelled(resolve(path), config.data)

    @classmethod
    def baselines(
        cls, config: NodeClassifyConfig, predictor: NodeLabeller, examples: Sequence[LabelledNode]
    ) -> Iterator[Baseline]:
        """Logistic regression on the features of nodes, and on those of their neighbourhoods (SGC)."""
        train, gold = cls.examples(config, "train"), [item.label for item in examples]
        train_places, places = ([predictor.number[item.node] for item in items] for items in (train, examples))
        labels = [item.label for item in train]
        features = feature_table(predictor.graph)
        if predictor.graph.features.width:
            predicted = logistic_regression(features[train_places], labels, features[places], _STRENGTH)
            yield of_labels("features and logistic regression", predicted, gold)
        near = neighbourhoods(predictor.graph, features)
        yield of_labels("SGC", logistic_regression(near[train_places], labels, near[places], _STRENGTH), gold)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        graph = read_graph(build(GraphConfig, data, "data")).graph
        features = graph.features
        # words that occur are counts of one kind, other numbers have units of their own
        counts = len(features.value) < SPARSE * len(graph.ids) * features.width and (features.value >= 0).all()
        scale = "rows" if counts else "columns" if features.width else "none"
        values = {
            "data": {"scale": scale, **data},
            "model": {"kind": "attention", "d_model": 64, "num_heads": 8, "num_layers": 2, "dropout": 0.6},
            "training": {
                "optimizer": "adam",
                "learning_rate": 5e-3,
                "weight_decay": 5e-4,
                "schedule": "constant",
                "warmup_steps": 0,
                "max_epochs": 300,
                "validate_every_epochs": 10,
                "patience": 10,
                "monitor": "accuracy",
            },
        }
        about = f"Labels of nodes, fitted to the graph of {len(graph.ids):,} nodes"
        return Suggestion(values, about)

    def build(self) -> GraphEncoder:
        return self.config.model.encoder(num_features(self.graph), len(self.labels))

    def source(self, split: str, limits: Limits) -> Source[NodeBatch] | None:
        if not self._nodes(split):
            return None
        batch = self.batch(split, limits.examples)
        return whole(lambda: batch)

    def batch(self, split: str, limit: int | None = None) -> NodeBatch:
        """The whole graph with the labels of a split, or of its first nodes."""
        number = {name: place for place, name in enumerate(self.graph.ids)}
        nodes = self._nodes(split)[:limit]
        # labels that training lacks are numbered behind the others, and are never right
        label_numbers = {label: place for place, label in enumerate(self.labels)}
        targets = torch.full((len(number),), NO_TAG)
        for item in nodes:
            targets[number[item.node]] = label_numbers.get(item.label, len(label_numbers))
        indices = sorted(number[item.node] for item in nodes)
        return NodeBatch(self.input, targets, indices)

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    def answered(self, model: nn.Module, batch: NodeBatch) -> tuple[Tensor, Tensor]:
        return model(batch.input.features, batch.input.mask), batch.targets

    def samples(self, model: nn.Module) -> list[str]:
        labeller = self.predictor(model)
        nodes = self._nodes("valid") or self._nodes("train")
        gold = {item.node: item.label for item in nodes}
        shown = [labeller.parse(name) for name in self.config.show] or [*gold][: self.config.num_shown]
        pairs = zip(shown, labeller.predict(shown), strict=True)
        return [
            f"{name} → {prediction.label} ({decimals(prediction.probability)}), is {gold.get(name, '?')}"
            for name, prediction in pairs
        ]

    def predictor(self, model: nn.Module) -> NodeLabeller:
        assert isinstance(model, GraphEncoder)
        return NodeLabeller(model, self.graph, self.labels, self.config.data)

    def description(self) -> Description:
        text = (
            f"An encoder of kind {self.config.model.kind} that gives each of the {len(self.graph.ids):,} nodes of this"
            f" graph one of {len(self.labels)} labels, trained with Headwise on {sum(self.labels.values()):,} of them."
            " It knows no other graph."
        )
        commands = ("predict RUN NODE", "explain RUN NODE")
        return Description("Labeller of nodes", text, commands, " The graph is in it.")

    def _nodes(self, split: str) -> list[LabelledNode]:
        return [] if self.assets.data is None else self.assets.data.get(split, [])
