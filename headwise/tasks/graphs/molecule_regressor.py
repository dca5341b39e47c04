"""A trained model that gives molecules a number each: reads SMILES, predicts, scores itself, shows atoms."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.attention.masks import Edges, Mask
from headwise.data.batches import OnDevice
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.explain.places import InGraph
from headwise.labels import visible
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline, of_numbers
from headwise.predictors.evaluating import evaluating
from headwise.predictors.numbers import Scale, number_scores
from headwise.predictors.predictor import Form, Predictor
from headwise.predictors.rows import Scored
from headwise.processes import divided
from headwise.tasks.graphs.encoders import GraphRegressor
from headwise.tasks.graphs.molecules import (
    ELEMENTS,
    Compound,
    MoleculesConfig,
    SmilesError,
    atom_features,
    bond_edges,
    bond_orders,
    compound,
    drawing_of,
    read_strings,
)

# atoms that are read together
_ATOMS = 20_000
# of a molecule whose atoms have room for their numbers in a drawing
_DRAWN = 18


@dataclass(frozen=True, eq=False)
class MoleculeBatch(OnDevice):
    """Molecules side by side as one graph whose parts have no edge in common.

    Args:
        start: where the atoms of each molecule begin.
        targets: of each molecule, in deviations from the mean; NaN where none is known.
    """

    features: Float[Tensor, "atoms features"]
    mask: Mask
    start: Int[Tensor, "molecules"]
    targets: Float[Tensor, "molecules"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Molecules."""
        return len(self.indices)


class MoleculeTable:
    """Molecules as arrays, made once; `batch` puts some of them side by side.

    >>> table = MoleculeTable([compound("CO"), compound("C")], Scale(0.0, 1.0))
    >>> batch = table.batch([0, 1])
    >>> batch.start.tolist(), batch.mask.dense(1, 1, 3, 3)[0, 0].int().tolist()
    ([0, 2], [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    """

    def __init__(self, compounds: Sequence[Compound], scale: Scale):
        self.features = [torch.from_numpy(atom_features(item.molecule)) for item in compounds]
        self.edges = [torch.from_numpy(bond_edges(item.molecule)) for item in compounds]
        targets = [math.nan if item.target is None else item.target for item in compounds]
        self.targets = [(target - scale.mean) / scale.deviation for target in targets]

    def atoms(self) -> Int[np.ndarray, "molecules 1"]:
        """How many atoms each molecule has, as lengths for batches."""
        return np.array([len(rows) for rows in self.features], np.int64).reshape(-1, 1)

    def batch(self, indices: list[int]) -> MoleculeBatch:
        """These molecules as a batch; every atom hears of itself too."""
        count = torch.tensor([len(self.features[index]) for index in indices])
        start = count.cumsum(0) - count
        edges = [self.edges[index] + offset for index, offset in zip(indices, start.tolist(), strict=True)]
        mask = Edges(torch.cat(edges, 1), int(count.sum())).with_self_loops().shared()
        features = torch.cat([self.features[index] for index in indices])
        return MoleculeBatch(features, mask, start, torch.tensor([self.targets[index] for index in indices]), indices)


class MoleculeRegressor(Predictor[Compound, float, Compound]):
    """A model with the scale of the numbers it was trained on."""

    given = "molecule"

    def __init__(self, model: GraphRegressor, scale: Scale, data: MoleculesConfig):
        self.model, self.scale, self.data = model, scale, data

    def input_of(self, example: Compound) -> Compound:
        return example

    def parse(self, text: str) -> Compound:
        """A molecule of SMILES. Raises: ConfigError with the position of what is wrong."""
        try:
            return compound(text)
        except SmilesError as error:
            raise ConfigError(f"'{visible(text[:60])}': {error}") from None

    def read(self, path: Path) -> Iterator[Compound]:
        return read_strings(path, self.data)

    @torch.inference_mode()
    def predict(self, items: Sequence[Compound | str] | str, options: Any = None) -> list[float]:
        compounds = self.inputs(items)
        table = MoleculeTable(compounds, self.scale)
        device = self.model.head.weight.device
        predictions: list[float] = []

        def forward(indices: list[int]) -> list[float]:
            batch = table.batch(indices).to(device)
            values: list[float] = self.model(batch.features, batch.mask, batch.start).double().tolist()
            return values

        with evaluating(self.model):
            for _, values in divided(forward, _portions(table.atoms().ravel().tolist())):
                predictions += values
        return [self.scale.mean + self.scale.deviation * value for value in predictions]

    def write(self, item: Compound, output: float, form: Form, options: Any = None) -> list[str]:
        """`SMILES TAB number`, or a line of JSON."""
        if form == "text":
            return [f"{visible(item.smiles)}\t{output:.4g}"]
        fields = {self.data.smiles_column: item.smiles, self.data.target_column: output}
        return [json.dumps(fields, ensure_ascii=False)]

    def scored(self, examples: Sequence[Compound], options: Any = None) -> Scored:
        """Mean absolute error, root mean square error and R2.

        Raises: DataError for no molecules, or one without a number.
        """
        gold = [item.target for item in examples if item.target is not None]
        if not examples or len(gold) < len(examples):
            raise DataError("there is nothing to score: give molecules with a number each")
        # standardised, so that no sum of squares drowns in the square of a large mean
        targets, predictions = (
            (np.array(values) - self.scale.mean) / self.scale.deviation for values in (gold, self.predict(examples))
        )
        return number_scores(
            predictions, targets, self.scale.deviation, [(item.smiles, item.target) for item in examples]
        )

    def variety(self, item: Compound) -> int:
        """How many elements a molecule has, where it has a ring and can be drawn large; else 0."""
        elements = [atom.GetSymbol() for atom in item.molecule.GetAtoms()]
        rings = item.molecule.GetRingInfo().NumRings()
        return len(set(elements)) if rings and len(elements) <= _DRAWN else 0

    def baselines(self, examples: Sequence[Compound]) -> Iterator[Baseline]:
        gold = [item.target for item in examples if item.target is not None]
        yield of_numbers("mean of training", [self.scale.mean] * len(gold), gold)

    def explain(self, item: Compound | str, target: str | None = None) -> Explanation:
        """The attention of every layer between the atoms of a molecule, and of a pooling to them."""
        if target is not None:
            raise ConfigError("the number of a molecule cannot be given here; leave the target out")
        (item,) = self.inputs(item)
        batch = MoleculeTable([item], self.scale).batch([0]).to(self.model.head.weight.device)
        elements = [atom.GetSymbol() for atom in item.molecule.GetAtoms()]
        atoms = [
            f"{element.lower() if atom.GetIsAromatic() else element}{number}"
            for number, (element, atom) in enumerate(zip(elements, item.molecule.GetAtoms(), strict=True), 1)
        ]
        layers = {}
        for name, attention in looking.attended(self.model, batch.features, batch.mask, batch.start).items():
            rows = atoms if attention.shape[1] == len(atoms) else ["molecule"]
            layers[name] = attention.layer(rows, atoms, "self")
        (prediction,) = self.predict([item])
        kinds = [*ELEMENTS, *sorted({*elements} - {*ELEMENTS})]
        spots = drawing_of(item.molecule)
        places = InGraph(
            atoms, elements, kinds, bonds=bond_orders(item.molecule), spots=spots, quantity=self.data.target_column
        )
        return Explanation(item.smiles, f"{prediction:.4g}", layers, places=places)


def _portions(atoms: list[int]) -> Iterator[list[int]]:
    """Numbers of molecules in their order, such that those of a portion have few atoms together."""
    portion: list[int] = []
    total = 0
    for number, count in enumerate(atoms):
        if portion and total + count > _ATOMS:
            yield portion
            portion, total = [], 0
        portion.append(number)
        total += count
    if portion:
        yield portion
