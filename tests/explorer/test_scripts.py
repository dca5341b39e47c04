"""The scripts of the explorer keep the rules that keep a browser safe and the code readable."""

import importlib.util
import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("headwise.explorer") / "static"))
PACKAGE = Path(str(files("headwise")))
TOOL = Path(__file__).parents[2] / "tools" / "wheelcheck.py"
SCRIPTS = sorted(STATIC.rglob("*.js"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_a_script_is_typed_short_and_puts_no_markup(path):
    text = path.read_text(encoding="utf-8")
    # tables of words are data
    assert text.startswith("/**" if path.parent.name == "words" and path.stem != "refusals" else "// @ts-check\n/**")
    assert len(text.splitlines()) <= 600
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", text)


def wheelcheck():
    """The tool that looks at the wheel."""
    spec = importlib.util.spec_from_file_location("wheelcheck", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_loaded_from_elsewhere():
    # all that the wheel holds of what a browser reads
    outside = wheelcheck().outside
    found = [path for kind in wheelcheck().KINDS for path in PACKAGE.rglob(f"*{kind}")]
    assert set(SCRIPTS) < set(found)
    for path in found:
        assert not outside(path.read_text(encoding="utf-8")), path
    assert outside('import("https://cdn.example/x.js"); @import "y"; url(z)') == [
        "https://cdn.example/x.js",
        "@import",
        "url(",
    ]
    assert not outside('const SPACE = "http://www.w3.org/2000/svg";')


def test_signals_and_elements_stay_small():
    lines = sum(len((STATIC / "js" / name).read_text().splitlines()) for name in ("store.js", "dom.js"))
    assert lines <= 190


def test_no_rule_of_the_style_sheet_has_two_homes():
    sheets = "".join(path.read_text() for path in sorted((STATIC / "css").glob("*.css")))
    # a comment is no part of the rule below it
    bare = re.sub(r"/\*.*?\*/", "", sheets, flags=re.S)
    style = re.sub(r"@(?:media|container)[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", bare)
    rules = [rule.strip() for rule in re.findall(r"([^{}]+)\{", style)]
    assert len(rules) > 100
    assert {rule for rule in rules if rules.count(rule) > 1} == set()


def test_every_name_of_a_text_is_in_a_table():
    files = [path.read_text(encoding="utf-8") for path in sorted((STATIC / "js" / "words").glob("*.js"))]
    tables = [text.partition("export const WORDS")[2].partition("\n};")[0] for text in files]
    names = [name for table in tables for name in re.findall(r"^  (\w+): \[", table, re.M)]
    # each in two languages
    entries = [entry for table in tables for entry in re.findall(r"^  \w+: \[(.*?)\],$", table, re.M | re.S)]
    texts = [re.sub(r'" \+\s*"', "", entry) for entry in entries]
    assert [text for text in texts if len(re.findall(r'"(?:[^"\\]|\\.)*"', text)) != 2] == []
    known = set(names)
    assert len(known) == len(names), [name for name in known if names.count(name) > 1]
    used = {name for path in SCRIPTS for name in re.findall(r"\bt\(\"(\w+)\"\)", path.read_text(encoding="utf-8"))}
    assert used <= known, used - known
