"""Every recipe that ships runs from end to end, on its own data where that is there."""

import pytest

from headwise.errors import DataError
from headwise.training import recipes, smoke


def test_the_settings_of_a_smoke_run_give_way_to_those_of_the_user():
    recipe = smoke.smoked("phrasebook", ["training.valid_limit=5", "data.limit=50"])
    training = recipe.training
    assert (training.max_steps, training.max_epochs, training.valid_limit) == (3, 0, 5)
    assert recipe.data.limit == 50
    # the model is that of the recipe
    assert recipe.model == recipes.read("phrasebook", []).model


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(recipes.shipped()))
def test_a_recipe_runs(name, tmp_path, untyped):
    try:
        recipe = smoke.smoked(name, [])
    except DataError as error:
        pytest.skip(str(error))
    scores = smoke.smoke(recipe, tmp_path / "run")
    assert recipe.training.monitor in scores
