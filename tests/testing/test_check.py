"""`headwise check`: what is tried, what is printed, and what cannot be tried."""

import re
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from headwise.cli.check import check
from headwise.errors import ConfigError
from headwise.testing import resolve, targets

pytestmark = pytest.mark.usefixtures("untyped")

app = typer.Typer()
app.command()(check)
app.command("other")(lambda: None)

PAGE = Path(__file__).parents[2] / "docs" / "check.md"

MINE = """
import torch
from headwise import Mechanism
from headwise.attention.masks import Causal, Window
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import TopK
from headwise.attention.scores import GAT, ScaledDot
from headwise.positions.alibi import Alibi
class Mine(torch.nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.inner = Scored()
    def forward(self, query, key, value, *, mask=None):
        from headwise import attend
        return attend(query, key, value, mask=mask)
class Needs(Mechanism):
    def __init__(self, rank):
        super().__init__()
    def compute(self, call):
        return call.value
class Empty(torch.nn.Module):
    pass
made = Mine(4)
number = 3
window, scored, top, slopes = Window(1, 1), ScaledDot(), TopK(2), Alibi(4)
def unscaled(query, key, value):
    return (query @ key.mT).softmax(-1) @ value
def flat(query, key, value):
    return unscaled(query, key, value).flatten(2)
def pair(query, key, value):
    return value, value
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "attention_of_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["check", *arguments])
    return result.exit_code, result.stdout


@pytest.mark.parametrize("attribute", ["Mine", "made"])
def test_something_of_the_users_own(folder, attribute):
    code, out = run(f"attention_of_mine:{attribute}", "--only", "definition,support,bias", "--quick")
    assert code == 0
    assert "states no facts: it is tried as softmax attention by its definition" in out
    assert re.search(r"definition +equals the definition, .* holds +in \d+ cases\n", out)
    assert re.search(r"support .* holds ", out)
    assert re.search(r"bias .* does not apply +it takes no bias on scores\n", out)
    assert out.endswith("\n2 hold, 0 fail, 1 do not apply\n")


def test_a_failure_is_shown_with_its_smallest_example(folder):
    threads = torch.get_num_threads()
    code, out = run("attention_of_mine:unscaled", "--only", "definition")
    assert code == 1
    assert torch.get_num_threads() == threads
    assert re.search(r"definition .* fails +see below\n", out)
    assert re.search(r"\ndefinition: equals the definition.*\n  output differs by [\d.]+ at \(0, 0, \d, \d\): ", out)
    assert "\n  in the case: Case(query_len=2, key_len=3)\n" in out
    assert out.endswith("\n0 hold, 1 fail, 0 do not apply\n")


@pytest.mark.parametrize(
    ("target", "id"),
    [
        ("linear", "weights"),
        ("causal", "told"),
        ("rotary", "padding"),
        ("top_k:2", "weights"),
        ("entmax:1.3", "weights"),
        ("normalizers.relu", "empty"),
        ("additive", "definition"),
        ("attention_of_mine:window", "predicate"),
        ("attention_of_mine:Causal", "told"),
        ("attention_of_mine:scored", "definition"),
        ("attention_of_mine:GAT", "definition"),
        ("attention_of_mine:top", "weights"),
        ("attention_of_mine:Alibi", "beyond"),
        ("attention_of_mine:slopes", "padding"),
    ],
)
def test_what_is_registered_and_parts_of_a_users_own(folder, target, id):
    code, out = run(target, "--only", id, "--quick")
    assert code == 0, out
    assert "1 hold, 0 fail, 0 do not apply" in out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing_here:Mine", r"no module 'nothing_here' here \(.*\) or installed"),
        ("attention_of_mine:Mime", "unknown attribute of module 'attention_of_mine': 'Mime'; did you mean 'Mine'"),
        ("attention_of_mine:Needs", "cannot be built: TypeError: .*'rank'; a classmethod sized"),
        ("attention_of_mine:Empty", r"fails for query, key and value of .*NotImplementedError"),
        ("attention_of_mine:number", "is int, which cannot be called with query, key and value"),
        ("attention_of_mine:flat", r"fails for .* = \(2, 2, 3, 4\): ShapeError: it returns shape \(2, 2, 15\); .* is"),
        ("attention_of_mine:pair", "ShapeError: it returns tuple, no tensor"),
        ("liniar", "unknown target 'liniar'; did you mean 'linear'\\?; a thing of your own is named module:attribute"),
        ("recurrent.linear", "unknown target 'recurrent.linear'"),
    ],
)
def test_what_cannot_be_tried(folder, target, message):
    with pytest.raises(ConfigError, match=message):
        resolve(target)


def test_an_unknown_invariant():
    result = CliRunner().invoke(app, ["check", "linear", "--only", "hiden"])
    assert str(result.exception).startswith("unknown invariant 'hiden'; did you mean 'hidden'?")


def test_a_name_of_several_things(monkeypatch):
    monkeypatch.setitem(targets.scores.SCORES, "linear", targets.scores.SCORES["dot"])
    with pytest.raises(ConfigError, match=r"write mechanisms.linear or scores.linear"):
        resolve("linear")
    assert resolve("scores.linear").name == "linear"


def test_the_page_runs_and_names_every_invariant(tmp_path, monkeypatch):
    """The file that the page shows is certified in the way that the page shows; its table names what is tried."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for name, block in zip(("my_module", "test_mine"), blocks, strict=True):
        (tmp_path / f"{name}.py").write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    space: dict[str, object] = {}
    exec(blocks[1], space)
    space["test_it_keeps_its_promises"]()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == {
        one.id for target in ("scored", "causal", "rotary") for one in targets_of(target)
    }


def targets_of(target):
    from headwise.testing import invariants

    return invariants(target)
