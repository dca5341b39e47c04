"""Configuration: overrides, TOML, and errors that name the key, its place and the nearest one that exists."""

import tomllib
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from headwise.config import Config, build, override, read_toml, to_toml
from headwise.errors import ConfigError


class Small(Config):
    kind: Literal["small"] = "small"
    width: int = Field(3, ge=1)


class Large(Config):
    kind: Literal["large"] = "large"
    width: int = 5
    depth: int = 7
    share: float | None = None


class Inner(Config):
    rate: float = 0.5
    names: list[str] = Field(default=[])
    learning_rate: float = 0.1
    norm: Literal["pre", "post"] = "pre"
    pair: tuple[int, int] = (1, 2)


class Outer(Config):
    title: str = "none"
    inner: Inner = Inner()
    model: Annotated[Small | Large, Field(discriminator="kind")] = Small()
    maybe: Inner | None = None


class Checked(Config):
    heads: int = 2

    def model_post_init(self, context: object) -> None:
        if 64 % self.heads:
            raise ConfigError(f"heads ({self.heads}) must divide 64")


def test_overrides_are_read_as_toml_or_text():
    values = {"model": {"width": 4, "kind": "large"}, "title": "old"}
    settings = ["model.width=8", "model.share=0.25", "inner.rate = 1e-3", "title=new words", 'inner.names=["a", "b"]']
    settings += ["a.b.c=true", "empty=", "equation=a=b", "quoted='7'"]
    assert override(values, settings) == {
        "model": {"width": 8, "kind": "large", "share": 0.25},
        "inner": {"rate": 1e-3, "names": ["a", "b"]},
        "title": "new words",
        "a": {"b": {"c": True}},
        "empty": "",
        "equation": "a=b",
        "quoted": "7",
    }
    # what was given stays as it was
    assert values == {"model": {"width": 4, "kind": "large"}, "title": "old"}


def test_later_overrides_win():
    assert override({}, ["a.b=1", "a.b=2", "a.c=3"]) == {"a": {"b": 2, "c": 3}}


@pytest.mark.parametrize("setting", ["width", "=3", ".width=3", "model..width=3", "model.=3", ""])
def test_what_is_no_override(setting):
    with pytest.raises(ConfigError, match=r"section.key=value"):
        override({}, [setting])


def test_override_below_a_value():
    with pytest.raises(ConfigError, match=r"'title.x=3'"):
        override({"title": "old"}, ["title.x=3"])


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.integers() | st.booleans() | st.text()))
def test_override_of_nothing_is_a_copy(values):
    assert override({"section": values}, []) == {"section": values}


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_an_override(whole, real):
    assert override({}, [f"a={whole}", f"b={real!r}"]) == {"a": whole, "b": real}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["lr=1"], "place: unknown key 'lr'; did you mean 'inner.learning_rate' or 'maybe.learning_rate'?"),
        (["model.depht=1", "model.kind=large"], "place: unknown key 'model.depht'; did you mean 'model.depth'?"),
        (["model.depth=1", "model.kind=small"], "place: unknown key 'model.depth': only kind large has it"),
        (["rate=1"], "place: unknown key 'rate': it belongs in [inner] or [maybe]; write 'inner.rate' or 'maybe.rate'"),
        (["learning_rat=1"], "place: unknown key 'learning_rat'; did you mean 'inner.learning_rate'?"),
        (["inner.norm=pr"], "place: unknown inner.norm 'pr'; did you mean 'pre'?"),
        (["inner.pair=[1]"], "place: inner.pair: has too few entries"),
        (["inner.pair=[1, 2, 3]"], "place: inner.pair: must have at most 2 entries, not [1, 2, 3]"),
        (["inner.pair=1.5"], "place: inner.pair: must be a list, such as [1, 2], not 1.5"),
        (["model.kind=small", "model.width=many"], "place: model.width: must be a whole number, not 'many'"),
        (["model.kind=small", "model.width=1.5"], "place: model.width: must be a whole number, not 1.5"),
        (["title=true"], "place: title: must be text, not true"),
        (["titel=x"], "place: unknown key 'titel'; did you mean 'title'?"),
        (["inner.rates=1"], "place: unknown key 'inner.rates'; did you mean 'inner.rate'?"),
        (["maybe.nams=1"], "place: unknown key 'maybe.nams'; did you mean 'maybe.names'?"),
        (["model.kind=large", "model.dept=1"], "place: unknown key 'model.dept'; did you mean 'model.depth'?"),
        # the keys of another kind of model do not count
        (["model.kind=small", "model.dept=1"], "place: unknown key 'model.dept'; did you mean 'model.width'?"),
        (
            ["model.kind=small", "model.xyz_xyz_xyz=1"],
            "place: unknown key 'model.xyz_xyz_xyz'; known: model.kind, model.width",
        ),
        (["zzz=1"], "place: unknown key 'zzz'; known: inner, maybe, model, title"),
        (["model.kind=lagre"], "place: unknown model.kind 'lagre'; did you mean 'large'?"),
        (["model.kind=tiny"], "place: unknown model.kind 'tiny'; known: large, small"),
        (["model.width=3"], "place: model.kind: missing; give one of large, small"),
        (["model=3"], "place: model: is a section with keys of its own, not 3"),
        (["inner=3"], "place: inner: is a section with keys of its own, not 3"),
        (
            ["model.kind=small", "model.width=0"],
            "place: model.width: must be 1 or more, not 0",
        ),
        (
            ["inner.rate=x"],
            "place: inner.rate: must be a number, not 'x'",
        ),
        (["inner.rate=nan"], "place: inner.rate: must be a finite number, not nan"),
        (["inner.names=[1]"], "place: inner.names.0: must be text, not 1"),
        (
            ["inner.rate=x", "titel=y"],
            "place: inner.rate: must be a number, not 'x'; unknown key 'titel'; did you mean 'title'?",
        ),
    ],
)
def test_errors_are_located_and_name_the_nearest(settings, message):
    with pytest.raises(ConfigError) as caught:
        build(Outer, override({}, settings), "place")
    assert str(caught.value) == message


def test_a_configurations_own_check_is_located():
    with pytest.raises(ConfigError, match=r"^recipe.toml: heads \(6\) must divide 64$"):
        build(Checked, {"heads": 6}, "recipe.toml")


def test_missing_values():
    class Needs(Config):
        path: str
        inner: Inner

    with pytest.raises(ConfigError, match=r"^place: path: missing, and there is no default; set it; inner: missing, "):
        build(Needs, {}, "place")


def test_valid_values_become_frozen_models():
    made = build(Outer, {"model": {"kind": "large", "depth": 3}, "inner": {"names": ["a"]}}, "place")
    assert made.model == Large(depth=3)
    assert made.inner.names == ["a"]
    with pytest.raises(ValidationError, match="frozen"):
        made.title = "other"


def test_toml_round_trip(tmp_path):
    made = build(
        Outer, {"model": {"kind": "large", "depth": 3}, "title": 'quote " and ü', "inner": {"rate": 1e-9}}, "place"
    )
    text = to_toml(made)
    # a key without a value is left out
    assert "maybe" not in text
    assert "share" not in text
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    assert read_toml(path) == tomllib.loads(text)
    assert build(Outer, read_toml(path), "place") == made


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"none.toml: .*`headwise list recipes`"):
        read_toml(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = 1\nb = = 2\n")
    with pytest.raises(ConfigError, match=r"broken.toml: .*line 2, column 5"):
        read_toml(broken)
    broken.write_bytes(b"a = '\xff'\n")
    with pytest.raises(ConfigError, match=r"broken.toml: .*utf-8"):
        read_toml(broken)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
