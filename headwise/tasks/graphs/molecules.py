"""Molecules with a number each: SMILES as RDKit reads them, options, tables, and the features of atoms and bonds."""

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadRule, strict
from headwise.data.files import MAX_LINE_BYTES, resolve
from headwise.data.readers import Pair
from headwise.data.splits import DataSet, Nouns
from headwise.data.tables import Key, heading, number_of, scan_rows
from headwise.errors import ConfigError, DataError
from headwise.tasks.graphs.graph_files import table_of

# of longer strings RDKit may search the rings for many seconds
_MAX_CHARACTERS = 5_000
# the logs of RDKit belong to the process
_LOGS = threading.Lock()


class SmilesError(DataError):
    """A string is no SMILES."""


def parse_smiles(text: str) -> Any:
    """The RDKit molecule of a string; spaces around it are dropped, and hydrogens written as atoms stay atoms.

    Raises:
        SmilesError: RDKit cannot read it; with the position (from 1) where RDKit names one.
        ConfigError: RDKit is not installed.

    >>> ethanol = parse_smiles("CCO")
    >>> [(atom.GetSymbol(), atom.GetTotalNumHs()) for atom in ethanol.GetAtoms()], ethanol.GetNumBonds()
    ([('C', 3), ('C', 2), ('O', 1)], 2)
    """
    rdkit = _rdkit()
    text = text.strip()
    if len(text) > _MAX_CHARACTERS:
        raise SmilesError(f"{len(text):,} characters; at most {_MAX_CHARACTERS:,} are read")
    # RDKit leaves out the end of a string with other characters
    if other := re.search("[^!-~]", text):
        raise SmilesError(f"position {other.start() + 1}: SMILES are printable ASCII without spaces")
    options = rdkit.Chem.SmilesParserParams()
    options.removeHs = options.parseName = options.allowCXSMILES = False
    with _LOGS, rdkit.rdBase.BlockLogs(), rdkit.rdBase.CaptureErrorLog() as log:
        molecule = rdkit.Chem.MolFromSmiles(text, options)
    if molecule is None:
        reasons = re.sub(r"^\[[0-9:]+\] (SMILES Parse Error: )?", "", log.messages, flags=re.M)
        position = re.search("around position ([0-9]+)", reasons)
        what = re.split(" while parsing:| for input:|\n", reasons, maxsplit=1)[0]
        raise SmilesError(f"position {position[1]}: {what}" if position else what)
    if not molecule.GetNumAtoms():
        raise SmilesError("the string is empty; write a SMILES")
    return molecule


def _rdkit() -> Any:
    try:
        import rdkit
        import rdkit.Chem
    except ImportError:
        raise ConfigError("molecules need RDKit; install it with: pip install 'headwise[molecules]'") from None
    return rdkit


# elements that have a column of their own, in this order; all others share one
ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si", "H")
_NEIGHBOURS, _HYDROGENS = 5, 4
_ORDERS = (1.0, 2.0, 3.0, 1.5)
# columns of the features of an atom
NUM_FEATURES = len(ELEMENTS) + 1 + _NEIGHBOURS + 1 + _HYDROGENS + 1 + len(_ORDERS) + 3


class MoleculesConfig(Config):
    """Which molecules to read, and how."""

    train: DataFile = Field(description="table of molecules (CSV or TSV with a heading), one a line, as SMILES")
    valid: DataFile | None = Field(None, description="validation file; without it a part of train is held out")
    test: DataFile | None = Field(None, description="test file; without it a part of train is held out")
    smiles_column: str = Field("smiles", description="column of the molecules")
    target_column: str = Field("target", description="column of the numbers to predict")
    bad_lines: BadRule = Field("stop", description="a molecule or a number that cannot be read: stop, or skip it")
    valid_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's molecules held out to validate")
    test_fraction: float = Field(0.1, ge=0, lt=1, description="part of train's molecules held out to test")
    split_seed: int = Field(0, description="another seed gives another split")
    max_line_bytes: int = Field(MAX_LINE_BYTES, ge=1, description="longer lines are refused")


@dataclass(frozen=True, slots=True)
class Compound:
    """A molecule of RDKit, the string it was read from, its number where one is known, and its line (from 1)."""

    smiles: str
    molecule: Any
    target: float | None
    line: int


def molecule_set(config: MoleculesConfig) -> DataSet[Compound]:
    """The molecules of a recipe with their numbers; equal strings come into the same split."""
    return DataSet(
        config,
        lambda split, _: _scan(resolve(getattr(config, split)), config, required=True),
        lambda item: Pair(item.smiles, str(item.target), item.line),
        Nouns("molecules", "number"),
        report=None,
    )


def read_strings(path: Path, config: MoleculesConfig) -> Iterator[Compound]:
    """The molecules of a file to predict for: a table with their column, or one string a line without a heading.

    Raises: DataError naming file and line.
    """
    return strict(_scan(path, config, required=False))


def compound(smiles: str) -> Compound:
    """The molecule of a string by itself. Raises: SmilesError."""
    return Compound(smiles.strip(), parse_smiles(smiles), None, 1)


def odd(compounds: Sequence[Compound]) -> list[str]:
    """What is odd about molecules, to be told."""
    stereo = sum(not {*"@/\\"}.isdisjoint(item.smiles) for item in compounds)
    notes = [f"{stereo:,} molecules have marks of stereochemistry, which the model does not see"] if stereo else []
    again = len(compounds) - len({item.smiles for item in compounds})
    notes += [f"{again:,} molecules are given again; those of one string stay in one part"] if again else []
    parts = sum("." in item.smiles for item in compounds)
    return notes + ([f"{parts:,} molecules are of several parts (.)"] if parts else [])


def atom_features(molecule: Any) -> Float[np.ndarray, "atoms features"]:
    """What a model is told of each atom.

    Columns of 0 or 1: the element, the atoms next to it (0 to 5), the hydrogens (0 to 4), aromatic, in a ring; then the
    bonds of order 1, 2, 3 and 1.5 that it has, and its charge.

    >>> atom_features(parse_smiles("C=O")).shape == (2, NUM_FEATURES)
    True
    """
    rows = []
    for atom in molecule.GetAtoms():
        symbol = atom.GetSymbol()
        row = _one_of(ELEMENTS.index(symbol) if symbol in ELEMENTS else len(ELEMENTS), len(ELEMENTS) + 1)
        row += _one_of(min(atom.GetDegree(), _NEIGHBOURS), _NEIGHBOURS + 1)
        row += _one_of(min(atom.GetTotalNumHs(), _HYDROGENS), _HYDROGENS + 1)
        orders = Counter(bond.GetBondTypeAsDouble() for bond in atom.GetBonds())
        row += [float(atom.GetIsAromatic()), float(atom.IsInRing()), *(float(orders[order]) for order in _ORDERS)]
        rows.append([*row, float(atom.GetFormalCharge())])
    return np.array(rows, np.float32)


def atom_counts(compounds: Sequence[Compound]) -> Float[np.ndarray, "molecules features"]:
    """The sum over a molecule's atoms of their features: counts of elements, neighbours, hydrogens, bonds."""
    rows = [atom_features(item.molecule).sum(0) for item in compounds]
    return np.array(rows, np.float64).reshape(len(compounds), NUM_FEATURES)


def bond_orders(molecule: Any) -> dict[tuple[int, int], float]:
    """The order of each bond, by its two atoms: 1, 2, 3, 4, or 1.5 if it is aromatic."""
    return {(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()): bond.GetBondTypeAsDouble() for bond in molecule.GetBonds()}


def drawing_of(molecule: Any) -> Float[np.ndarray, "atoms 2"]:
    """Where chemists draw each atom, by RDKit: angles of 120 degrees, rings as polygons; right and downwards.

    >>> propane = drawing_of(parse_smiles("CCC"))
    >>> bool(abs(np.linalg.norm(propane[0] - propane[2]) - 3**0.5 * np.linalg.norm(propane[0] - propane[1])) < 1e-3)
    True
    """
    import rdkit.Chem.rdDepictor

    flat = rdkit.Chem.Mol(molecule)
    rdkit.Chem.rdDepictor.Compute2DCoords(flat, canonOrient=True)
    spots: np.ndarray = np.array(flat.GetConformer().GetPositions())[:, :2]
    return spots * [1, -1]


def bond_edges(molecule: Any) -> Int[np.ndarray, "two edges"]:
    pairs = np.array(list(bond_orders(molecule)), np.int64).reshape(-1, 2).T
    return np.concatenate((pairs, pairs[::-1]), axis=1)


def _scan(path: Path, config: MoleculesConfig, *, required: bool) -> Iterator[Compound | BadLine]:
    table = table_of(path, config.max_line_bytes, "data.smiles_column and data.target_column")
    names = heading(path, table)
    # one string a line, without a heading
    bare = not required and len(names) == 1 and config.smiles_column not in names
    keys: list[Key] = [0 if bare else config.smiles_column, *([config.target_column] if required else [])]
    for row in scan_rows(path, table, keys):
        if isinstance(row, BadLine):
            yield row
        else:
            yield _read(path, row.line, *(row.cells[key].strip() for key in keys))


def _read(path: Path, line: int, smiles: str, number: str | None = None) -> Compound | BadLine:
    try:
        molecule = parse_smiles(smiles)
        target = None if number is None else number_of(number, partial(BadLine, str(path), line, "number"))
    except SmilesError as error:
        shown = smiles if len(smiles) <= 40 else f"{smiles[:40]}..."
        return BadLine(str(path), line, "SMILES", f"'{shown}', {error}")
    except BadLine as fault:
        return fault
    return Compound(smiles, molecule, target, line)


def _one_of(place: int, count: int) -> list[float]:
    return [float(place == number) for number in range(count)]
