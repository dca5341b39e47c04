"""Every recipe that ships runs from end to end, on its own data where that is there."""

from pathlib import PurePath

import pytest

from headwise.cli.main import main
from headwise.config import value_of
from headwise.errors import DataError
from headwise.training import recipes, smoke
from headwise.training.recipe import read_recipe


def test_the_settings_of_a_smoke_run_give_way_to_those_of_the_user():
    recipe = smoke.shorten("phrasebook", ["training.valid_limit=5", "data.limit=50"])
    training = recipe.training
    assert (training.max_steps, training.max_epochs, training.valid_limit) == (3, 0, 5)
    assert recipe.data.limit == 50
    # the model is that of the recipe
    assert recipe.model == recipes.read("phrasebook", []).model


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(recipes.shipped()))
def test_a_recipe_runs(name, tmp_path, monkeypatch, untyped):
    """What is made is made here; what is fetched has to be there."""
    path = str(value_of(read_recipe(recipes.find(name)), "data.train"))
    if path.startswith("synthetic/"):
        monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
        command = ["data", "make", PurePath(path).parent.name, "--count", "400"]
        if name == "retrieval":
            # drawn from texts, which are fetched or are the user's
            for number in range(8):
                (tmp_path / f"{number}.txt").write_text(f"{number} words of a text. " * 40)
            command += ["--source", str(tmp_path)]
        assert main(command) == 0
    try:
        recipe = smoke.shorten(name, [])
    except DataError as error:
        pytest.skip(str(error))
    scores = smoke.smoke(recipe, tmp_path / "run")
    assert scores
