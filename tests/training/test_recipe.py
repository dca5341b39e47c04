"""Recipes: what is read, what is refused and how it is told, which differences matter."""

import pytest
from training_toy import recipe

from headwise.config import to_toml
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks import registry
from headwise.training.recipe import (
    MAY_CHANGE,
    FilmConfig,
    Recipe,
    TrainingConfig,
    as_recipe,
    differences,
    parse_recipe,
    read_recipe,
)


def test_a_recipe_has_the_fields_of_its_task(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('task = "toy"\nseed = 4\nwidth = 7\n[training]\nmax_steps = 9\n')
    made = read_recipe(path, ["training.max_steps=11", "dropout=0.0"])
    assert isinstance(made, Recipe)
    assert (made.task, made.seed, made.training.max_steps) == ("toy", 4, 11)
    assert (made.width, made.dropout) == (7, 0.0)


def test_resolved_and_back():
    made = read_recipe(recipe(width=7))
    again = parse_recipe(to_toml(made).encode(), "config.toml")
    assert differences(made, again) == {}
    assert as_recipe(made) is made
    assert differences(made, as_recipe(made, ["width=9", "training.clip_norm=3.0"])) == {
        "width": (7, 9),
        "training.clip_norm": (1.0, 3.0),
    }
    assert as_recipe(recipe(width=7)) == made


def test_every_field_says_what_it_is():
    for kind in (Recipe, TrainingConfig, FilmConfig):
        for name, field in kind.model_fields.items():
            assert field.description, name
    sections = {"training": TrainingConfig, "film": FilmConfig}
    known = {f"{section}.{name}" for section, kind in sections.items() for name in kind.model_fields}
    assert known >= MAY_CHANGE


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r'^recipe: task is missing; write task = "...", one of: '),
        ({"task": "toyy"}, r"^unknown task 'toyy'; "),
        (recipe(widht=3), r"^recipe: unknown key 'widht'; did you mean 'width'\?"),
        (recipe({"max_stepz": 3}), r"unknown key 'training.max_stepz'; did you mean 'training.max_steps'\?"),
        (recipe({"learning_rate": 0}), r"training.learning_rate: must be above 0, not 0"),
        (recipe({"max_steps": 0}), "training never ends: set max_steps, max_epochs, max_cpu_s or max_minutes"),
        (
            recipe({"schedule": "cosine", "max_steps": 0, "max_epochs": 1}),
            "schedule 'cosine' needs max_steps, where it",
        ),
        (recipe({"schedule": "linear", "max_steps": 0, "max_epochs": 1}), "schedule 'linear' needs max_steps"),
        (
            recipe({"schedule": "noam", "warmup_share": 0.1}),
            "schedule 'noam' counts its warm-up in warmup_steps; leave",
        ),
        (recipe({"schedule": "noam", "warmup_steps": 0}), "schedule 'noam' needs warmup_steps of at least 1"),
        (
            recipe({"schedule": "noam"}),
            r"training.schedule 'noam' needs training.noam_width: there is no model.d_model",
        ),
        (recipe({"betas": [0.9, 1.0]}), r"betas \(0.9, 1.0\) must be at least 0 and below 1"),
    ],
)
def test_wrong_recipes_are_told_by_their_keys(values, message):
    with pytest.raises(ConfigError, match=message):
        read_recipe(values)


def test_noam_takes_the_width_of_the_model(monkeypatch):
    from training_toy import ToyTask

    from headwise.config import Config

    class Model(Config):
        d_model: int = 12

    class WithModel(Config):
        model: Model = Model()

    monkeypatch.setattr(ToyTask, "config_type", WithModel)
    assert read_recipe(recipe({"schedule": "noam"})).training.noam_width == 12
    assert read_recipe(recipe({"schedule": "noam", "noam_width": 5})).training.noam_width == 5


def test_a_config_file_that_is_none():
    for data in (b"\xff", b"[", b'task = "toy"\nwidht = 3'):
        with pytest.raises(CheckpointError, match=r"^config.toml: "):
            parse_recipe(data, "config.toml")


def test_the_folder_is_the_registry():
    assert "task" not in registry.task_names()
    with pytest.raises(ConfigError, match="unknown task 'registry'"):
        registry.task_type("registry")
