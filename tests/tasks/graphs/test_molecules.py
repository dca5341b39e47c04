"""Molecules: read by RDKit or refused, alone and in tables; the features of their atoms and bonds."""

import sys
from collections import Counter

import pytest

from headwise.config import build
from headwise.errors import ConfigError, DataError
from headwise.tasks.graphs.molecules import (
    NUM_FEATURES,
    MoleculesConfig,
    SmilesError,
    atom_features,
    bond_edges,
    bond_orders,
    molecule_set,
    odd,
    parse_smiles,
    read_strings,
)

# the formulas of these molecules as any table of chemistry has them
FORMULAS = {
    "CC(=O)Oc1ccccc1C(=O)O": "C9 H8 O4",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C": "C8 H10 N4 O2",
    "C[N+](=O)[O-]": "C H3 N O2",
    "[Na+].[Cl-]": "Cl Na",
    "[2H]O[2H]": "H2 O",
    "C%12CCCCC%12": "C6 H12",
    "N[C@@H](C)C(=O)O": "C3 H7 N O2",
    "*C": "* C H3",
    " CC ": "C2 H6",
}


def formula(molecule):
    counts = Counter(atom.GetSymbol() for atom in molecule.GetAtoms())
    counts["H"] += sum(atom.GetTotalNumHs() for atom in molecule.GetAtoms())
    return " ".join(f"{element}{'' if n == 1 else n}" for element, n in sorted(counts.items()) if n)


@pytest.mark.parametrize("smiles", FORMULAS)
def test_formulas(smiles):
    assert formula(parse_smiles(smiles)) == FORMULAS[smiles]


@pytest.mark.parametrize(
    ("smiles", "position"),
    [
        ("", None),
        ("   ", None),
        ("CXC", 2),
        ("C C", 2),
        # RDKit reads one atom of these
        ("C\u00e9", 2),
        ("C\nC", 2),
        ("CC(C", 3),
        ("CC)C", 3),
        ("C1CC", None),
        ("C[Xx]", 3),
        ("C[N](C)(C)(C)C", None),
        ("Ccc", None),
        ("c1cccc1", None),
        ("C" * 5_001, None),
    ],
)
def test_malformed_strings_are_refused_where_rdkit_says(smiles, position, capfd):
    with pytest.raises(SmilesError) as error:
        parse_smiles(smiles)
    assert str(error.value).startswith(f"position {position}: ") == (position is not None)
    assert len(str(error.value)) < 80
    # nothing of RDKit's own log
    assert capfd.readouterr() == ("", "")


def test_long_nested_and_contradictory_strings_are_read_silently(capfd):
    assert parse_smiles("C" * 5_000).GetNumAtoms() == 5_000
    assert parse_smiles("C(" * 1_600 + "C" + ")" * 1_600).GetNumAtoms() == 1_601
    # RDKit warns of marks that contradict each other
    assert parse_smiles("F/C(/Cl)=C(/F)/Cl").GetNumAtoms() == 6
    assert capfd.readouterr() == ("", "")


def test_one_molecule_written_in_two_ways_has_the_same_features():
    for first, second in (("CN(=O)=O", "C[N+](=O)[O-]"), ("C1=CC=CC=C1", "c1ccccc1")):
        assert sorted(atom_features(parse_smiles(first)).tolist()) == sorted(
            atom_features(parse_smiles(second)).tolist()
        )


def test_without_rdkit_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ConfigError, match=r"headwise\[molecules\]"):
        parse_smiles("C")


@pytest.fixture
def table(tmp_path):
    def made(text, **fields):
        path = tmp_path / "m.csv"
        path.write_text(text)
        return path, build(MoleculesConfig, {"train": str(path), **fields}, "data")

    return made


def test_molecules_with_their_numbers(table):
    _, config = table('name,smiles,logS\n"a, b",CCO ,-1.5\nx,c1ccccc1,2e0\n', target_column="logS")
    found, bad = molecule_set(config).read_file("train")
    assert [(item.smiles, item.molecule.GetNumAtoms(), item.target, item.line) for item in found] == [
        ("CCO", 3, -1.5, 2), ("c1ccccc1", 6, 2.0, 3)
    ]  # fmt: skip
    assert bad.total == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.csv: there is nothing in it"),
        ("smiles,target\n", "m.csv: no molecules in it"),
        ("smile,target\nC,1\n", r"m.csv:1: no column is named 'smiles', but 'smile', .* data.smiles_column"),
        ("smiles,logS\nC,1\n", r"m.csv:1: no column is named 'target', .* data.target_column"),
        ("smiles,target\nC1CC,1\n", "m.csv:2: 'C1CC', "),
        ("smiles,target\n,1\n", "m.csv:2: '', "),
        ("smiles,target\nC,one\n", r"m.csv:2: 'one' is no number; write it with digits and a point"),
        ("smiles,target\nC,\n", r"m.csv:2: the number is empty; write one"),
        ("smiles,target\nC,nan\n", r"m.csv:2: 'nan' is no number"),
        ("smiles,target\nC,1_0\n", r"m.csv:2: '1_0' is no number"),
        ("smiles,target\nC,inf\n", r"m.csv:2: 'inf' is no number"),
        ("smiles,target\nC\n", r"m.csv:2: 1 column, the first line has 2"),
        ('smiles,target\n"C,1\n', r"m.csv:2: a quote opens in this row"),
        ("smiles,smiles\nC,C\n", r"m.csv:1: (two columns are named 'smiles'|no column is named 'target')"),
    ],
)
def test_bad_tables_are_refused_by_line(table, text, message):
    with pytest.raises(DataError, match=message):
        molecule_set(table(text)[1]).read_file("train")


def test_bad_molecules_are_skipped_and_counted(table):
    text = "smiles,target\nC,1\nC(,2\nCC,x\nCCC,3\nC\n"
    found, bad = molecule_set(table(text, bad_lines="skip")[1]).read_file("train")
    assert [item.smiles for item in found] == ["C", "CCC"]
    assert bad.note() == "3 bad lines skipped: SMILES 1 (line 3), number 1 (line 4), columns 1 (line 6)"


def test_files_to_predict_for_need_no_numbers(table):
    assert [item.smiles for item in read_strings(*table("smiles,target\nC,\nCC,x\n"))] == ["C", "CC"]
    assert [item.smiles for item in read_strings(*table("C\n\nCC\n"))] == ["C", "CC"]
    with pytest.raises(DataError, match=r"m.csv:2: 'C\(', position 2: "):
        list(read_strings(*table("C\nC(\n")))
    with pytest.raises(DataError, match=r"m.csv:1: no column is named 'smiles'"):
        list(read_strings(*table("C,1\n")))


def test_what_is_odd_is_told(table):
    _, config = table("smiles,target\nC[C@H](N)O,1\nC.C,1\nC.C,2\nCC,2\n")
    found, _ = molecule_set(config).read_file("train")
    assert odd(found) == [
        "1 molecules have marks of stereochemistry, which the model does not see",
        "1 molecules are given again; those of one string stay in one part",
        "2 molecules are of several parts (.)",
    ]
    assert odd(found[3:]) == []


def test_features_of_atoms():
    molecule = parse_smiles("C[N+](=O)[O-].c1cc[nH]c1.[Xe]")
    rows = atom_features(molecule)
    assert rows.shape == (10, NUM_FEATURES)
    names = ["C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si", "H", "other"]
    names += [f"next {n}" for n in range(6)] + [f"hydrogens {n}" for n in range(5)] + ["aromatic", "ring"]
    names += ["single", "double", "triple", "aromatic bonds", "charge"]
    told = [{name: value for name, value in zip(names, row, strict=True) if value} for row in rows.tolist()]
    assert told[0] == {"C": 1, "next 1": 1, "hydrogens 3": 1, "single": 1}
    assert told[1] == {"N": 1, "next 3": 1, "hydrogens 0": 1, "single": 2, "double": 1, "charge": 1}
    assert told[3] == {"O": 1, "next 1": 1, "hydrogens 0": 1, "single": 1, "charge": -1}
    assert told[7] == {"N": 1, "next 2": 1, "hydrogens 1": 1, "aromatic": 1, "ring": 1, "aromatic bonds": 2}
    assert told[9] == {"other": 1, "next 0": 1, "hydrogens 0": 1}
    assert bond_orders(parse_smiles("CC=O")) == {(0, 1): 1, (1, 2): 2}
    assert bond_edges(parse_smiles("CC=O")).tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert bond_edges(parse_smiles("C")).shape == (2, 0)
