"""`headwise config`: every key, its type, default and meaning; the page made of it; a task from outside."""

import importlib.util
import json
from pathlib import Path

import pytest

from headwise.problems import keys
from headwise.tasks import registry
from headwise.training.recipe import read_recipe, recipe_type
from headwise.training.reference import entries

TOOL = Path(__file__).parents[2] / "tools" / "config_docs.py"

OUTSIDE = """
from typing import Literal
from pydantic import Field
from headwise.config import Config
from headwise.tasks.task import Task


class SummingConfig(Config):
    file: str = Field(description="numbers to add")
    size: Literal[3, 5] = Field(3, description="how many")


class Summing(Task):
    name = "summing"
    config_type = SummingConfig


# only its keys are read
Summing.__abstractmethods__ = frozenset()
"""


@pytest.mark.parametrize("task", registry.task_names())
def test_every_key_is_there_with_a_description(task):
    found = {f"{entry.section}.{entry.key}".lstrip("."): entry for entry in entries(task)}
    kind = recipe_type(task, registry.task_type(task).config_type)
    assert set(found) == {key.name for key in keys(kind)}
    # model.max_len and the like: a key without words explains nothing
    assert [name for name, entry in found.items() if not entry.description and name != "task"] == []


def test_types_and_defaults_are_those_of_toml(headwise):
    code, out, err = headwise("config", "translate", "--section", "training")
    assert (code, err) == (0, "")
    assert out.startswith('[training]\noptimizer = "adamw"  ("adamw" | "adam" | "sgd")\n    adamw runs as one fused')
    assert "learning_rate = 0.001  (number, above 0)\n" in out
    assert "betas = [0.9, 0.98]  (list of 2: number)\n" in out
    assert 'trackers = []  (list of "tensorboard" | "wandb" | "mlflow" | "trackio")\n' in out
    assert "compile = false  (true or false)\n" in out
    assert "batch_sentences = none  (whole number, above 0)\n" in out


def test_kinds_of_a_model_stand_apart_and_defaults_of_a_section_count(headwise):
    out = headwise("config", "translate")[1]
    assert '[model]  # kind = "recurrent"\nkind = "recurrent"' in out
    assert 'method = "beam"' in out
    assert "train = required  (text)" in out
    out = headwise("config", "language-model")[1]
    assert 'method = "sample"' in out
    assert 'spaces = "kept"' in out


def test_json_is_alone_on_standard_output(headwise):
    code, out, err = headwise("config", "tag", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["task"] == "tag"
    assert {"section": "data", "kind": "", "key": "column"}.items() <= next(
        entry for entry in found["keys"] if entry["key"] == "column"
    ).items()


def test_a_task_from_outside(headwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "summing_config.py").write_text(OUTSIDE)
    code, out, err = headwise("config", "summing_config:Summing")
    assert (code, err) == (0, "")
    assert "file = required  (text)\n    numbers to add\nsize = 3  (3 | 5)\n    how many\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translat"], "unknown task 'translat'; did you mean 'translate'?"),
        (["translate", "--section", "trainig"], "unknown section 'trainig'; did you mean 'training'?"),
    ],
)
def test_wrong_names(headwise, arguments, message):
    code, out, err = headwise("config", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_the_page_is_what_the_code_says():
    spec = importlib.util.spec_from_file_location("config_docs", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PATH.read_text(encoding="utf-8") == module.page(), "run `make config-docs`"


def recipe(**given):
    values = {
        "task": "translate",
        "data": {"train": "x.tsv"},
        "model": {"kind": "transformer"},
        "training": {},
    }
    return read_recipe({**values, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lr": 1}, "'lr'; did you mean 'training.learning_rate'?"),
        ({"device": "cpu"}, "'device': it belongs in [training]; write 'training.device'"),
        ({"src": "x"}, "'src'; did you mean 'data.train'?"),
        ({"epochs": 1}, "'epochs'; did you mean 'training.max_epochs'?"),
        ({"batch_size": 1}, "'batch_size'; did you mean 'training.batch_tokens'?"),
        ({"max_hours": 1}, "'max_hours'; did you mean 'training.max_minutes'?"),
        ({"hidden_size": 1}, "'hidden_size'; did you mean 'model.d_model' or 'model.hidden_dim'?"),
        ({"model": {"kind": "transformer", "heads": 1}}, "'model.heads'; did you mean 'model.num_heads'?"),
        ({"model": {"kind": "recurrent", "hidden_size": 1}}, "'model.hidden_size'; did you mean 'model.hidden_dim'?"),
        ({"model": {"kind": "recurrent", "layers": 1}}, "'model.layers'; did you mean 'model.num_layers'?"),
        ({"model": {"kind": "transformer", "cell": "gru"}}, "'model.cell': only kind recurrent has it"),
        ({"beam": 3}, "'beam'; did you mean 'decoding.beam_size'?"),
        ({"training": {"optimizer": "adan"}}, "unknown training.optimizer 'adan'; did you mean 'adam'?"),
        ({"training": {"max_steps": "many"}}, "training.max_steps: must be a whole number, not 'many'"),
    ],
)
def test_the_key_that_was_meant_is_named(given, message):
    from headwise.errors import ConfigError

    with pytest.raises(ConfigError) as caught:
        recipe(**given)
    assert message in str(caught.value)


def test_every_synonym_leads_to_a_key():
    from headwise.problems import SYNONYMS

    every = [keys(recipe_type(task, registry.task_type(task).config_type)) for task in registry.task_names()]
    names = {key.name.rpartition(".")[2] for found in every for key in found}
    assert set(SYNONYMS) <= names
