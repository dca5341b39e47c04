"""`headwise check`: what is tried, what is printed, and what cannot be tried."""

import re

import pytest
import torch
import typer
from headwise.certify import resolve
from typer.testing import CliRunner

from headwise.cli.check import check
from headwise.errors import ConfigError

app = typer.Typer()
app.command()(check)
app.command("other")(lambda: None)

RIGHT = """
import torch
from headwise.attention.mechanisms.scored import Scored
class Mine(torch.nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.width = head_dim
    def forward(self, query, key, value, *, mask=None):
        return Scored()(query, key, value, mask=mask)
class Sized(Mine):
    @classmethod
    def sized(cls, *, head_dim, num_heads, max_len, dropout):
        return cls(head_dim)
    def __init__(self, size):
        super().__init__(size)
class Needs(torch.nn.Module):
    def __init__(self, rank, beta, dropout=0.0):
        super().__init__()
class Breaks(torch.nn.Module):
    def __init__(self):
        raise ValueError("no luck")
class Empty(torch.nn.Module):
    pass
made = Mine(4)
number = 3
def unscaled(query, key, value):
    key, value = (t.repeat_interleave(query.shape[1] // key.shape[1], 1) for t in (key, value))
    return (query @ key.mT).softmax(-1) @ value
def flat(query, key, value):
    return unscaled(query, key, value).flatten(2)
def pair(query, key, value):
    return value, value
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "attention_of_mine.py").write_text(RIGHT)
    (tmp_path / "attention_that_fails.py").write_text("1 / 0")
    (tmp_path / "attention_that_needs.py").write_text("import a_module_that_is_not_there")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["check", *arguments])
    return result.exit_code, result.stdout


@pytest.mark.parametrize("attribute", ["Mine", "Sized", "made"])
def test_something_of_the_users_own(folder, attribute):
    code, out = run(f"attention_of_mine:{attribute}", "--only", "A1,A12,A8", "--quick")
    assert code == 0
    assert "states no facts: it is tried as softmax attention by its definition" in out
    assert re.search(r"A1 +equals the definition in float64 +holds +in \d+ cases\n", out)
    assert re.search(r"A12 .* holds ", out)
    assert re.search(r"A8 .* does not apply +it takes no bias on scores\n", out)
    assert out.endswith("\n2 hold, 0 fail, 1 do not apply\n")


def test_a_failure_is_shown_with_its_smallest_example(folder):
    threads = torch.get_num_threads()
    code, out = run("attention_of_mine:unscaled", "--only", "A1")
    assert code == 1
    assert torch.get_num_threads() == threads
    assert re.search(r"A1 .* fails +see below\n", out)
    assert re.search(r"\nA1 equals the definition in float64\n  output differs by [\d.]+ at \(0, 0, \d, \d\): ", out)
    assert (
        "\n  in the case: batch 1, heads 1, query_len 2, key_len 3, head_dim 4, mask none, float64, eval, seed 0\n"
        in out
    )
    assert out.endswith("\n0 hold, 1 fail, 0 do not apply\n")


def test_what_is_registered():
    code, out = run("linear", "--only", "A10", "--quick")
    assert code == 0
    assert out.startswith("linear: sum_j (phi(q) . phi(k_j)) v_j")
    assert run("causal", "--only", "N1")[0] == 0
    assert run("rotary", "--only", "P2")[0] == 0
    assert run("top_k:2", "--only", "A2", "--quick")[0] == 0
    assert run("normalizers.relu", "--only", "strips", "--quick")[0] == 0
    assert run("additive", "--only", "A1", "--quick")[0] == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing_here:Mine", r"no module 'nothing_here' here \(.*\) or installed"),
        ("attention_of_mine:Mime", "unknown attribute of module 'attention_of_mine': 'Mime'; did you mean 'Mine'"),
        ("attention_of_mine:", "is not module:attribute, such as my_module:MyAttention"),
        ("attention_that_fails:Mine", "module 'attention_that_fails' fails when it is imported: ZeroDivisionError"),
        ("attention_that_needs:Mine", "needs 'a_module_that_is_not_there', which is not installed"),
        ("attention_of_mine:Needs", "Needs needs rank, beta: give it a classmethod sized"),
        ("attention_of_mine:Breaks", "cannot be built: ValueError: no luck"),
        ("attention_of_mine:Empty", r"has no forward\(query, key, value\)"),
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
    result = CliRunner().invoke(app, ["check", "linear", "--only", "A99"])
    assert str(result.exception).startswith("unknown invariant 'A99'; did you mean 'A")


def test_a_name_of_several_things(monkeypatch):
    from headwise.certify import targets

    monkeypatch.setitem(targets.normalizers.NORMALIZERS, "linear", targets.normalizers.relu)
    with pytest.raises(ConfigError, match=r"write mechanisms.linear or normalizers.linear"):
        resolve("linear")
    assert resolve("normalizers.linear").name == "linear"


def test_things_of_a_users_own_family(folder):
    (folder / "parts_of_mine.py").write_text(
        "from headwise.attention.masks import Window, Causal\n"
        "from headwise.attention.scores import ScaledDot, GAT\n"
        "from headwise.attention.normalizers import ReLU, TopK\n"
        "from headwise.positions.alibi import Alibi\n"
        "window, scored, top = Window(1, 1), ScaledDot(), TopK(2)\n"
        "slopes = Alibi(4)\n"
    )
    for name, id in (
        ("window", "N1"),
        ("Causal", "N4"),
        ("scored", "A1"),
        ("GAT", "A1"),
        ("ReLU", "A2"),
        ("top", "A2"),
        ("Alibi", "P3"),
        ("slopes", "P3"),
    ):
        assert run(f"parts_of_mine:{name}", "--only", id, "--quick")[0] == 0, name


def test_a_plain_function_is_not_blamed_for_heads_it_does_not_group(folder):
    (folder / "plainly.py").write_text(
        "def mine(query, key, value):\n    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value\n"
    )
    code, out = run("plainly:mine", "--quick")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert "it takes as many heads of key and value as of the query" in lines["A16"]
    assert all(" holds " in lines[name] for name in ("A6", "A7", "A9", "A10", "A22", "A25"))
