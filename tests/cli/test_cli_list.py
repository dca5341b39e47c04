import importlib.util
import json
from pathlib import Path

import pytest

from headwise.cli.list import CATALOGUE, FAMILIES


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("mechanisms", ["scored"]),
        ("scores", ["dot", "scaled_dot", "bilinear", "additive"]),
        ("normalizers", ["softmax", "relu", "sigmoid"]),
        ("masks", ["causal", "padding", "window", "table"]),
        ("positions", ["none", "sinusoidal", "learned", "rotary"]),
        ("kernels", ["plain", "fused"]),
        ("tasks", ["translate"]),
        ("recipes", ["phrasebook", "bahdanau-fra-eng", "multi30k-tiny"]),
    ],
)
def test_a_family_lists_its_names_with_a_line_each(headwise, family, names):
    code, out, err = headwise("list", family)
    assert (code, err) == (0, "")
    head, *entries = out.splitlines()
    assert head == family
    listed = {line.split()[0]: line.split()[1:] for line in entries}
    assert set(names) <= set(listed)
    assert all(listed.values())


def test_everything_is_listed_without_an_argument(headwise):
    code, out, _ = headwise("list")
    assert code == 0
    assert [line for line in out.splitlines() if not line.startswith(" ")] == list(FAMILIES)


def test_an_unknown_family_is_named(headwise):
    code, _, err = headwise("list", "kernls")
    assert code == 2
    assert err == "error: unknown family 'kernls'; did you mean 'kernels'?\n"


def test_json_has_every_name_and_what_is_known_of_it(headwise):
    code, out, err = headwise("list", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == list(FAMILIES)
    assert set(found["mechanisms"]["scored"]) >= {"line", "formula", "paper"}
    assert list(json.loads(headwise("list", "tasks", "--json")[1])) == ["tasks"]


def test_the_file_is_what_the_code_says():
    path = Path(__file__).parents[2] / "tools" / "catalogue.py"
    spec = importlib.util.spec_from_file_location("catalogue", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert CATALOGUE.read_text(encoding="utf-8") == module.catalogue(), "run `make config-docs`"
