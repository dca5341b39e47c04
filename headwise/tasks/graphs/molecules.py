"""Molecules with a number each: SMILES, options, tables, and the features of atoms and bonds."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from headwise.config import Config, DataFile
from headwise.data.bad_lines import BadLine, BadLines, BadRule
from headwise.data.files import MAX_LINE_BYTES, require_file
from headwise.data.tables import Key, heading, scan_rows
from headwise.errors import DataError
from headwise.tasks.graphs.graph_files import table_of

_SYMBOLS = (
    "HHeLiBeBCNOFNeNaMgAlSiPSClArKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrKrRbSrYZrNbMoTcRuRhPdAgCdInSnSbTeIXeCsBa"
    "LaCePrNdPmSmEuGdTbDyHoErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoAtRnFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLrRfDbSgBh"
    "HsMtDsRgCnNhFlMcLvTsOg"
)
PERIODIC_TABLE = tuple(re.findall("[A-Z][a-z]?", _SYMBOLS))
# elements that may stand without brackets, and their usual valences: the smallest that holds the bonds fills with H
_VALENCES = {"B": (3,), "C": (4,), "N": (3, 5), "O": (2,), "P": (3, 5), "S": (2, 4, 6)}
_VALENCES |= dict.fromkeys(("F", "Cl", "Br", "I"), (1,))
_BRACKET = re.compile(
    r"(?P<isotope>[0-9]{1,3})?(?P<symbol>se|as|te|[bcnops]|[A-Z][a-z]?|\*)"
    r"(?P<stereo>@(?:TH[12]|AL[12]|SP[123]|TB[0-9]{1,2}|OH[0-9]{1,2}|@)?)?(?P<hydrogens>H[0-9]?)?"
    r"(?P<charge>\+[0-9]{1,2}|-[0-9]{1,2}|\++|-+)?(?P<number>:[0-9]{1,4})?"
)
_BARE = re.compile(r"Cl|Br|[BCNOPSFI]|[bcnops]|\*")
_RING = re.compile(r"[0-9]|%[0-9][0-9]|%\([0-9]{1,5}\)")
_BONDS = {"-": 1.0, "=": 2.0, "#": 3.0, "$": 4.0, ":": 1.5, "/": 1.0, "\\": 1.0}
AROMATIC = 1.5


class SmilesError(DataError):
    """A string is no SMILES: `position` (from 1) is where, `what` says why and what to do."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(f"position {position}: {what}")
        self.position, self.what = position, what


@dataclass(frozen=True, slots=True)
class Atom:
    """An atom: its element (`*` for any), and what is bound to it besides other atoms.

    Args:
        hydrogens: that are no atoms of their own: those in its brackets, or what its valence leaves.
        isotope: mass number; 0 where none is given.
        position: in the string, from 1.
    """

    element: str
    aromatic: bool = False
    charge: int = 0
    hydrogens: int = 0
    isotope: int = 0
    position: int = 1
    bracket: bool = False


@dataclass(frozen=True, slots=True)
class Bond:
    """A bond of two atoms, by their numbers; its order is 1, 2, 3, 4, or 1.5 if it is aromatic."""

    first: int
    second: int
    order: float
    in_ring: bool


@dataclass(frozen=True, slots=True)
class Molecule:
    """What a SMILES string says; `stereo`: it has marks of stereochemistry, which are not read."""

    atoms: tuple[Atom, ...]
    bonds: tuple[Bond, ...]
    stereo: bool


def parse_smiles(text: str) -> Molecule:
    """The molecule of a string; spaces around it are dropped.

    Read are all elements, aromatic and bracket atoms (isotope, hydrogens, charge, atom class), bonds, branches, ring
    closures (also `%nn`) and dots. Marks of stereochemistry (`@`, `/`, `\\`) are checked and left out.

    Raises: SmilesError with the position of what is wrong, from 1.

    >>> ethanol = parse_smiles("CCO")
    >>> [(atom.element, atom.hydrogens) for atom in ethanol.atoms], len(ethanol.bonds)
    ([('C', 3), ('C', 2), ('O', 1)], 2)
    """
    stripped = text.strip()
    reader = _Reader(stripped, len(text) - len(text.lstrip()))
    while reader.place < len(stripped):
        reader.step()
    return reader.finished()


@dataclass
class _Reader:
    """A string and how far it is read: atoms and bonds so far, and what is still open.

    Bonds are (first, second, mark, place); a mark is empty where none is written.
    """

    text: str
    offset: int
    place: int = 0
    atoms: list[Atom] = field(default_factory=list)
    bonds: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    branches: list[tuple[int, int]] = field(default_factory=list)
    rings: dict[int, tuple[int, str, int]] = field(default_factory=dict)
    last: int | None = None
    mark: str = ""
    stereo: bool = False

    def step(self) -> None:
        """Reads what stands at the present place."""
        letter = self.text[self.place]
        if letter == "[" or _BARE.match(self.text, self.place):
            self.atom()
        elif _RING.match(self.text, self.place):
            self.ring()
        elif letter in _BONDS:
            self.bond(letter)
        elif letter in "().":
            self.joint(letter)
        else:
            what = "%nn needs two digits" if letter == "%" else f"'{letter}' is no atom, bond, branch or ring closure"
            hint = "; write other elements in brackets, such as [Na]" if letter.isalpha() else ""
            self.fail(self.place, what + hint)

    def atom(self) -> None:
        found = self._bracket() if self.text[self.place] == "[" else self._bare()
        self.atoms.append(found)
        if self.last is not None:
            self.join(self.last, len(self.atoms) - 1, self.mark, self.place)
        elif self.mark:
            self.fail(self.place, "a bond without an atom before it")
        self.last, self.mark = len(self.atoms) - 1, ""

    def ring(self) -> None:
        start, match = self.place, _RING.match(self.text, self.place)
        assert match is not None
        self.place = match.end()
        if self.last is None:
            self.fail(start, "a ring closure without an atom before it")
        number = int(match[0].strip("%()"))
        if number not in self.rings:
            self.rings[number] = (self.last, self.mark, start)
        else:
            other, mark, _ = self.rings.pop(number)
            if mark and self.mark and _BONDS[mark] != _BONDS[self.mark]:
                self.fail(start, f"ring {number} opens with '{mark}' and closes with '{self.mark}'; write one of them")
            self.join(other, self.last, self.mark or mark, start)
        self.mark = ""

    def bond(self, letter: str) -> None:
        if self.mark:
            self.fail(self.place, "two bonds in a row")
        if self.last is None:
            self.fail(self.place, "a bond without an atom before it")
        self.stereo |= letter in "/\\"
        self.mark, self.place = letter, self.place + 1

    def joint(self, letter: str) -> None:
        if self.mark or self.last is None:
            what = "a bond leads to no atom" if self.mark else f"'{letter}' without an atom before it"
            self.fail(self.place - bool(self.mark), what)
        if letter == "(":
            self.branches.append((self.last, self.place))
            if self.text[self.place + 1 : self.place + 2] == ")":
                self.fail(self.place, "an empty branch; write an atom in it or leave it out")
        elif letter == ".":
            self.last = None
        elif not self.branches:
            self.fail(self.place, "')' closes no branch")
        else:
            self.last = self.branches.pop()[0]
        self.place += 1

    def join(self, first: int, second: int, mark: str, place: int) -> None:
        pair = (min(first, second), max(first, second))
        if first == second or pair in self.bonds:
            self.fail(place, "an atom is bound to itself" if first == second else "two atoms are bound twice")
        self.bonds[pair] = (mark, place)

    def finished(self) -> Molecule:
        """The molecule, once everything is read."""
        end = max(0, len(self.text) - 1)
        if not self.atoms:
            self.fail(0, "the string is empty; write a SMILES")
        if self.mark or self.last is None:
            self.fail(end, "a bond leads to no atom" if self.mark else "nothing follows the dot")
        if self.branches:
            self.fail(self.branches[-1][1], "the branch is not closed; write ')'")
        for number, (_, _, place) in self.rings.items():
            self.fail(place, f"ring {number} is not closed")
        rings = _ring_bonds(len(self.atoms), list(self.bonds))
        bonds = [self._bond(pair, mark, pair in rings) for pair, (mark, _) in self.bonds.items()]
        inside = {atom for pair in rings for atom in pair}
        orders: list[list[float]] = [[] for _ in self.atoms]
        for bond in bonds:
            orders[bond.first].append(bond.order)
            orders[bond.second].append(bond.order)
        for number, atom in enumerate(self.atoms):
            if atom.aromatic and number not in inside:
                self.fail(atom.position - 1 - self.offset, f"aromatic '{atom.element.lower()}' is in no ring")
        atoms = [self._filled(atom, found) for atom, found in zip(self.atoms, orders, strict=True)]
        return Molecule(tuple(atoms), tuple(bonds), self.stereo)

    def fail(self, place: int, what: str) -> NoReturn:
        raise SmilesError(place + 1 + self.offset, what)

    def _bare(self) -> Atom:
        match = _BARE.match(self.text, self.place)
        assert match is not None
        at, self.place = self.place, match.end()
        return Atom(match[0].capitalize(), match[0].islower(), position=at + 1 + self.offset)

    def _bracket(self) -> Atom:
        at, end = self.place, self.text.find("]", self.place)
        if end < 0:
            self.fail(at, "the bracket is not closed; write ']'")
        match = _BRACKET.fullmatch(self.text, at + 1, end)
        if match is None or match["symbol"].capitalize() not in (*PERIODIC_TABLE, "*"):
            shown = self.text[at : end + 1]
            self.fail(at, f"'{shown[:20]}' is no atom; inside brackets stand isotope, element, @, H, charge, :class")
        self.place, self.stereo = end + 1, self.stereo or match["stereo"] is not None
        charge, hydrogens, symbol = match["charge"] or "", match["hydrogens"] or "", match["symbol"]
        number = int(charge) if charge[1:].isdecimal() else charge.count("+") - charge.count("-")
        found = Atom(symbol.capitalize(), symbol.islower(), number, position=at + 1 + self.offset, bracket=True)
        return replace(found, hydrogens=int(hydrogens[1:] or bool(hydrogens)), isotope=int(match["isotope"] or 0))

    def _bond(self, pair: tuple[int, int], mark: str, in_ring: bool) -> Bond:
        both = self.atoms[pair[0]].aromatic and self.atoms[pair[1]].aromatic
        order = _BONDS[mark] if mark else AROMATIC if both and in_ring else 1.0
        return Bond(*pair, order, in_ring)

    def _filled(self, atom: Atom, orders: Sequence[float]) -> Atom:
        """The atom with the hydrogens that its valence leaves; an aromatic one gives an electron to its ring."""
        if atom.bracket or atom.element == "*":
            return atom
        used = sum(1 if order == AROMATIC else int(order) for order in orders)
        valences = _VALENCES[atom.element]
        if atom.aromatic:
            return replace(atom, hydrogens=max(0, valences[0] - used - 1))
        room = [valence for valence in valences if valence >= used]
        if not room:
            what = f"{atom.element} has bonds of order {used} together, more than {valences[-1]}; mend or bracket it"
            self.fail(atom.position - 1 - self.offset, what)
        return replace(atom, hydrogens=room[0] - used)


def _ring_bonds(atoms: int, bonds: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """The bonds that are part of a ring: those on the chains that close one (Schmidt 2013, arXiv:1209.0700)."""
    near: list[list[int]] = [[] for _ in range(atoms)]
    for first, second in bonds:
        near[first].append(second)
        near[second].append(first)
    order, before = _walked(near)
    rank = {atom: place for place, atom in enumerate(order)}
    closing = [
        (atom, other) for atom in order for other in near[atom] if rank[other] > rank[atom] and before[other] != atom
    ]
    found, seen = set(), set()
    for atom, other in closing:
        seen.add(atom)
        found.add((min(atom, other), max(atom, other)))
        while other not in seen:
            seen.add(other)
            above = before[other]
            found.add((min(other, above), max(other, above)))
            other = above
    return found


def _walked(near: list[list[int]]) -> tuple[list[int], list[int]]:
    """The atoms in the order of a walk into the depth, and the atom that each was reached from; -1 for none."""
    order: list[int] = []
    before = [-2] * len(near)
    stack = [(atom, -1) for atom in reversed(range(len(near)))]
    while stack:
        atom, source = stack.pop()
        if before[atom] == -2:
            before[atom] = source
            order.append(atom)
            stack += [(other, atom) for other in near[atom]]
    return order, before


# elements that have a column of their own, in this order; all others share one
ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si", "H")
_NEIGHBOURS, _HYDROGENS = 5, 4
_ORDERS = (1.0, 2.0, 3.0, AROMATIC)
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
    """A molecule, the string it was read from, its number where one is known, and the line (from 1) it stands in."""

    smiles: str
    molecule: Molecule
    target: float | None
    line: int


def read_compounds(path: Path, config: MoleculesConfig) -> tuple[list[Compound], BadLines]:
    """The molecules of a table with their numbers, and its bad lines. Raises: DataError naming file and line."""
    require_file(path)
    bad = BadLines()
    found = list(bad.good(_scan(path, config, required=True)))
    if config.bad_lines == "stop" and bad.total:
        raise next(line for kept in bad.first.values() for line in kept)
    if not found:
        raise DataError(f"{path}: no molecules in it")
    return found, bad


def read_strings(path: Path, config: MoleculesConfig) -> Iterator[Compound]:
    """The molecules of a file to predict for: a table with their column, or one string a line without a heading.

    Raises: DataError naming file and line.
    """
    for item in _scan(path, config, required=False):
        if isinstance(item, BadLine):
            raise item
        yield item


def compound(smiles: str) -> Compound:
    """The molecule of a string by itself. Raises: SmilesError."""
    return Compound(smiles.strip(), parse_smiles(smiles), None, 1)


def odd(compounds: Sequence[Compound]) -> list[str]:
    """What is odd about molecules, to be told."""
    stereo = sum(item.molecule.stereo for item in compounds)
    notes = [f"{stereo:,} molecules have marks of stereochemistry, which are not read"] if stereo else []
    again = len(compounds) - len({item.smiles for item in compounds})
    notes += [f"{again:,} molecules are given again; those of one string stay in one part"] if again else []
    parts = sum("." in item.smiles for item in compounds)
    return notes + ([f"{parts:,} molecules are of several parts (.)"] if parts else [])


def atom_features(molecule: Molecule) -> Float[np.ndarray, "atoms features"]:
    """What a model is told of each atom.

    Columns of 0 or 1: the element, the atoms next to it (0 to 5), the hydrogens (0 to 4), aromatic, in a ring; then the
    bonds of order 1, 2, 3 and 1.5 that it has, and its charge.

    >>> atom_features(parse_smiles("C=O")).shape == (2, NUM_FEATURES)
    True
    """
    bonds: list[list[float]] = [[] for _ in molecule.atoms]
    ringed = set()
    for bond in molecule.bonds:
        for end in (bond.first, bond.second):
            bonds[end].append(bond.order)
            ringed |= {end} if bond.in_ring else set()
    rows = []
    for number, atom in enumerate(molecule.atoms):
        orders = Counter(bonds[number])
        place = ELEMENTS.index(atom.element) if atom.element in ELEMENTS else len(ELEMENTS)
        row = _one_of(place, len(ELEMENTS) + 1)
        row += _one_of(min(len(bonds[number]), _NEIGHBOURS), _NEIGHBOURS + 1)
        row += _one_of(min(atom.hydrogens, _HYDROGENS), _HYDROGENS + 1)
        row += [float(atom.aromatic), float(number in ringed)]
        rows.append([*row, *(float(orders[order]) for order in _ORDERS), float(atom.charge)])
    return np.array(rows, np.float32)


def atom_counts(compounds: Sequence[Compound]) -> Float[np.ndarray, "molecules features"]:
    """The sum over a molecule's atoms of their features: counts of elements, neighbours, hydrogens, bonds."""
    rows = [atom_features(item.molecule).sum(0) for item in compounds]
    return np.array(rows, np.float64).reshape(len(compounds), NUM_FEATURES)


def bond_edges(molecule: Molecule) -> Int[np.ndarray, "two edges"]:
    """The bonds as edges in both directions."""
    pairs = np.array([(bond.first, bond.second) for bond in molecule.bonds], np.int64).reshape(-1, 2).T
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
            yield _read(path, row.line, [row.cells[key].strip() for key in keys], (0, 1 if required else None))


def _read(path: Path, line: int, cells: list[str], places: tuple[int, int | None]) -> Compound | BadLine:
    smiles, target = cells[places[0]], None
    try:
        molecule = parse_smiles(smiles)
    except SmilesError as error:
        shown = smiles if len(smiles) <= 40 else f"{smiles[:40]}..."
        return BadLine(str(path), line, "SMILES", f"'{shown}', {error}")
    if places[1] is not None:
        cell = cells[places[1]]
        try:
            target = math.nan if "_" in cell else float(cell)
        except ValueError:
            target = math.nan
        if not abs(target) < math.inf:
            return BadLine(str(path), line, "number", f"'{cell[:20]}' is no number; write the one to predict")
    return Compound(smiles, molecule, target, line)


def _one_of(place: int, count: int) -> list[float]:
    return [float(place == number) for number in range(count)]
