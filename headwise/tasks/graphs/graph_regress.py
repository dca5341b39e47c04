"""A number for each molecule: graphs of atoms and bonds, many of them side by side in a batch."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.config import Config, build
from headwise.data.sources import Limits, Source, bucketed
from headwise.data.suggestions import Suggestion
from headwise.predictors.baselines import Baseline, named, of_numbers, ridge_regression, sample, standardised
from headwise.predictors.numbers import Scale, error_counts, error_scores
from headwise.tasks._files import as_json, from_json
from headwise.tasks.demo import Demo
from headwise.tasks.graphs.demo import GRAPH_REGRESS
from headwise.tasks.graphs.encoders import GraphEncoderConfig, GraphPoolingConfig, GraphRegressor, build_graph_regressor
from headwise.tasks.graphs.molecule_regressor import MoleculeBatch, MoleculeRegressor, MoleculeTable
from headwise.tasks.graphs.molecules import NUM_FEATURES, Compound, MoleculesConfig, atom_counts, molecule_set, odd
from headwise.tasks.task import Assets, Description, Metric, Probe, Stats, Task

SCALE_FILE = "scale.json"

Molecules = dict[str, list[Compound]]


class GraphRegressConfig(Config):
    """Which molecules to read, and with which model."""

    data: MoleculesConfig = Field(description="the molecules")
    model: GraphEncoderConfig = Field(description="the encoder of atoms: mlp, mean or attention")
    pooling: GraphPoolingConfig = Field(GraphPoolingConfig(), description="how atoms become one vector")
    show: list[str] = Field(default=[], description="molecules shown at each validation; the first ones if empty")
    num_shown: int = Field(4, ge=0, description="how many molecules are shown if none are named")


class GraphRegress(Task[Molecules]):
    """A number for each molecule, which is given as SMILES."""

    name: ClassVar[str] = "graph-regress"
    demo: ClassVar[Demo | None] = GRAPH_REGRESS
    unit: ClassVar[str] = "molecules"
    config_type: ClassVar[type[Config]] = GraphRegressConfig
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("rmse", "low"),
        Metric("mae", "low"),
        Metric("r2", "high"),
    )
    config: GraphRegressConfig

    def __init__(self, config: GraphRegressConfig, assets: Assets[Molecules]):
        super().__init__(config, assets)
        self.scale = from_json(assets.files, SCALE_FILE, Scale.from_json, "no mean and deviation")
        self.tables = {split: MoleculeTable(compounds, self.scale) for split, compounds in (assets.data or {}).items()}

    @classmethod
    def prepare(cls, config: GraphRegressConfig) -> Assets[Molecules]:
        splits = molecule_set(config.data).read()
        parts, notes = splits.examples, [*splits.notes]
        notes += [f"{split}: {note}" for split, items in splits for note in odd(items)]
        notes.append(", ".join(f"{split} {len(items):,}" for split, items in splits) + " molecules")
        targets = np.array([item.target for item in parts["train"]])
        # numbers that are all the same leave nothing to learn, and no deviation to divide by
        scale = Scale(float(targets.mean()), float(targets.std()) or 1.0)
        files = {SCALE_FILE: as_json(scale._asdict())}
        notes.append(f"train: mean {scale.mean:.4g}, standard deviation {targets.std():.4g}")
        return Assets(files, parts, splits.digests, tuple(notes))

    @classmethod
    def examples(cls, config: GraphRegressConfig, split: str) -> list[Compound]:
        return molecule_set(config.data).examples(split)

    @classmethod
    def baselines(
        cls, config: GraphRegressConfig, predictor: MoleculeRegressor, examples: Sequence[Compound]
    ) -> Iterator[Baseline]:
        """Ridge regression on how many atoms of each kind a molecule has."""
        every = cls.examples(config, "train")
        train = sample(every)
        train_features, features = standardised(atom_counts(train), atom_counts(examples))
        predicted = ridge_regression(train_features, [item.target or 0.0 for item in train], features)
        name = named("atom counts and ridge regression", len(train), len(every))
        yield of_numbers(name, predicted, [item.target or 0.0 for item in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        parts = molecule_set(build(MoleculesConfig, data, "data")).read().examples
        values = {
            "data": dict(data),
            "model": {"kind": "attention", "d_model": 128, "num_heads": 8, "num_layers": 3, "dropout": 0.0},
            "pooling": {"kind": "sum"},
            "training": {
                "learning_rate": 1e-3,
                "schedule": "budget",
                "warmup_share": 0.05,
                "batch_tokens": 512,
                "max_epochs": 60,
                "monitor": "rmse",
            },
        }
        return Suggestion(values, f"Numbers of molecules, fitted to the {sum(map(len, parts.values())):,} molecules")

    def build(self) -> GraphRegressor:
        return build_graph_regressor(self.config.model, self.config.pooling, NUM_FEATURES)

    def source(self, split: str, limits: Limits) -> Source[MoleculeBatch] | None:
        table = self.tables.get(split)
        if table is None or not table.features:
            return None
        return bucketed(table.atoms(), table.batch, limits, shuffle=split == "train")

    def loss(self, model: nn.Module, batch: MoleculeBatch) -> Float[Tensor, ""]:
        """Sum of the squared errors, in deviations of training."""
        predictions = model(batch.features, batch.mask, batch.start)
        return F.mse_loss(wide(predictions), batch.targets, reduction="sum")

    def measure(self, model: nn.Module, batches: Iterable[MoleculeBatch]) -> Stats:
        stats: Counter[str] = Counter()
        for batch in batches:
            predictions = model(batch.features, batch.mask, batch.start).double().cpu().numpy()
            stats.update(error_counts(predictions, batch.targets.double().cpu().numpy()))
        return dict(stats)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return {"loss": stats["squares"] / stats["count"]} | error_scores(stats, self.scale.deviation)

    def samples(self, model: nn.Module) -> list[str]:
        predictor = self.predictor(model)
        shown = self._shown(predictor)
        pairs = zip(shown, predictor.predict(shown), strict=True)
        return [
            f"{item.smiles} → {value:.3g}" + ("" if item.target is None else f", is {item.target:.3g}")
            for item, value in pairs
        ]

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(item) for item in self._shown(predictor)]

    def _shown(self, predictor: MoleculeRegressor) -> list[Compound]:
        splits = self.assets.data or {}
        first = splits.get("valid") or splits.get("train") or []
        return [predictor.parse(text) for text in self.config.show] or first[: self.config.num_shown]

    def predictor(self, model: nn.Module) -> MoleculeRegressor:
        assert isinstance(model, GraphRegressor)
        return MoleculeRegressor(model, self.scale, self.config.data)

    def description(self) -> Description:
        count = len((self.assets.data or {}).get("train", []))
        text = (
            f"An encoder of kind {self.config.model.kind} over atoms and bonds, pooled by {self.config.pooling.kind},"
            f" trained with Headwise on {count:,} molecules."
        )
        commands = ('predict RUN "CCO"', "evaluate RUN --data molecules.csv")
        return Description(f"{self.config.data.target_column} of molecules", text, commands)
