"""SMILES: formulas of known molecules, bonds and rings, and every malformed string refused at its place."""

import random
from collections import Counter

import pytest

from headwise.tasks.graphs.molecules import PERIODIC_TABLE, SmilesError, _ring_bonds, parse_smiles

# the formulas of these molecules as any table of chemistry has them
FORMULAS = {
    "C": "C H4",
    "CCO": "C2 H6 O",
    "CC(=O)Oc1ccccc1C(=O)O": "C9 H8 O4",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C": "C8 H10 N4 O2",
    "Cn1cnc2c1c(=O)n(c(=O)n2C)C": "C8 H10 N4 O2",
    "c1cc[nH]c1": "C4 H5 N",
    "c1ccncc1": "C5 H5 N",
    "c1ccoc1": "C4 H4 O",
    "c1ccsc1": "C4 H4 S",
    "c1ccccc1c1ccccc1": "C12 H10",
    "c1ccc2ccccc2c1": "C10 H8",
    "OS(=O)(=O)O": "H2 O4 S",
    "CS(C)=O": "C2 H6 O S",
    "OP(O)(O)=O": "H3 O4 P",
    "C[N+](=O)[O-]": "C H3 N O2",
    "CN(=O)=O": "C H3 N O2",
    "[Na+].[Cl-]": "Cl Na",
    "[NH4+]": "H4 N",
    "[2H]O[2H]": "H2 O",
    "N#N": "N2",
    "[C-]#[O+]": "C O",
    "BrC(Cl)(F)I": "Br C Cl F I",
    "OB(O)O": "B H3 O3",
    "N[C@@H](C)C(=O)O": "C3 H7 N O2",
    "F/C=C/F": "C2 F2 H2",
    "C1CCCCC1": "C6 H12",
    "C%12CCCCC%12": "C6 H12",
    "C%(123)CCCCC%(123)": "C6 H12",
    "C=1CCCCC1": "C6 H10",
    "C12CC1C2": "C4 H6",
    "[CH3:7][CH2-]": "C2 H5",
    "[Fe+3]": "Fe",
    "[se]1cccc1": "C4 H4 Se",
    "*C": "* C H3",
    " CC ": "C2 H6",
}


def formula(molecule):
    counts = Counter(atom.element for atom in molecule.atoms)
    counts["H"] += sum(atom.hydrogens for atom in molecule.atoms)
    return " ".join(f"{element}{'' if n == 1 else n}" for element, n in sorted(counts.items()) if n)


@pytest.mark.parametrize("smiles", FORMULAS)
def test_formulas(smiles):
    assert formula(parse_smiles(smiles)) == FORMULAS[smiles]


def test_bonds_orders_and_rings():
    found = parse_smiles("CC#Cc1ccccc1C=O")
    orders = Counter((bond.order, bond.in_ring) for bond in found.bonds)
    assert orders == {(1.0, False): 3, (3.0, False): 1, (1.5, True): 6, (2.0, False): 1}
    spiro = parse_smiles("C1CC12CC2C")
    assert [(bond.first, bond.second) for bond in spiro.bonds if not bond.in_ring] == [(4, 5)]
    # of two aromatic rings the bond between them is none of a ring
    assert Counter(bond.order for bond in parse_smiles("c1ccccc1c1ccccc1").bonds) == {1.5: 12, 1.0: 1}
    assert parse_smiles("C.C").bonds == ()
    # a ring closure over a dot is a bond
    assert len(parse_smiles("C1.C1").bonds) == 1


def test_bonds_of_rings_are_those_that_can_be_left_out():
    generator = random.Random(7)
    for _ in range(200):
        atoms = generator.randint(1, 9)
        pairs = [(a, b) for b in range(atoms) for a in range(b) if generator.random() < 0.25]
        found = _ring_bonds(atoms, pairs)
        for pair in pairs:
            groups = [{atom} for atom in range(atoms)]
            for a, b in pairs:
                if (a, b) != pair:
                    one, two = (next(group for group in groups if end in group) for end in (a, b))
                    groups = [group for group in groups if group not in (one, two)] + [one | two]
            assert (pair in found) == any(set(pair) <= group for group in groups), (pairs, pair)


def test_atoms_know_what_brackets_say():
    atom = parse_smiles("[13CH2-2]").atoms[0]
    assert (atom.isotope, atom.hydrogens, atom.charge, atom.aromatic, atom.position) == (13, 2, -2, False, 1)
    assert [a.charge for a in parse_smiles("[Cu++].[O--].[Cl-].[Ti+4]").atoms] == [2, -2, -1, 4]
    assert [a.position for a in parse_smiles(" CCl.[Na+]").atoms] == [2, 3, 6]
    assert len(PERIODIC_TABLE) == len(set(PERIODIC_TABLE)) == 118


@pytest.mark.parametrize(
    ("smiles", "stereo"), [("CC", False), ("C[C@H](N)O", True), ("F/C=C\\F", True), ("[Pt@SP1](F)(F)(F)F", True)]
)
def test_stereo_marks_are_noticed(smiles, stereo):
    assert parse_smiles(smiles).stereo == stereo


@pytest.mark.parametrize(
    ("smiles", "position", "what"),
    [
        ("", 1, "the string is empty"),
        ("   ", 4, "the string is empty"),
        ("CXC", 2, "'X' is no atom, bond, branch or ring closure; write other elements in brackets"),
        ("Na", 2, "'a' is no atom"),
        ("C C", 2, "' ' is no atom"),
        ("C\u00e9", 2, "'\u00e9' is no atom"),
        ("C\u0661", 2, "is no atom"),
        ("CC(C", 3, "the branch is not closed"),
        ("CC)C", 3, "closes no branch"),
        ("C()C", 2, "an empty branch"),
        ("(C)C", 1, "'(' without an atom before it"),
        ("CC=", 3, "a bond leads to no atom"),
        ("=CC", 1, "a bond without an atom before it"),
        ("C==C", 3, "two bonds in a row"),
        ("C(=)C", 3, "a bond leads to no atom"),
        ("C=.C", 2, "a bond leads to no atom"),
        ("C.", 2, "nothing follows the dot"),
        (".C", 1, "'.' without an atom before it"),
        ("C..C", 3, "'.' without an atom before it"),
        ("C.=C", 3, "a bond without an atom before it"),
        ("C1CC", 2, "ring 1 is not closed"),
        ("1CC1", 1, "a ring closure without an atom before it"),
        ("C11", 3, "an atom is bound to itself"),
        ("C12CC12", 7, "two atoms are bound twice"),
        ("C1C1", 4, "two atoms are bound twice"),
        ("C=1CCCC#1", 9, "ring 1 opens with '=' and closes with '#'"),
        ("C%1CC%1", 2, "%nn needs two digits"),
        ("[CH4", 1, "the bracket is not closed"),
        ("C[Xx]", 2, "'[Xx]' is no atom"),
        ("C[]", 2, "'[]' is no atom"),
        ("[C+-]", 1, "'[C+-]' is no atom"),
        ("[HC]", 1, "'[HC]' is no atom"),
        ("C]", 2, "']' is no atom"),
        ("CC(C)(C)(C)C", 2, "C has bonds of order 5 together, more than 4"),
        ("C=O=C", 3, "O has bonds of order 4 together, more than 2"),
        ("FCF.FF=F", 6, "F has bonds of order 3 together, more than 1"),
        ("Ccc", 2, "aromatic 'c' is in no ring"),
        ("C1CC1c", 6, "aromatic 'c' is in no ring"),
    ],
)
def test_malformed_strings_are_refused_at_their_place(smiles, position, what):
    with pytest.raises(SmilesError) as error:
        parse_smiles(smiles)
    assert (error.value.position, what in error.value.what) == (position, True), str(error.value)
    assert str(error.value).startswith(f"position {position}: ")


def test_long_strings_need_no_recursion():
    assert len(parse_smiles("C" * 2_000).atoms) == 2_000
    assert len(parse_smiles("C(" * 1_500 + "C" + ")" * 1_500).atoms) == 1_501
