"""A recipe from end to end in seconds: three steps on a part of its data, validation, loading, test."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwise.errors import DataError
from headwise.training import recipes
from headwise.training.loading import examples, load
from headwise.training.recipe import Recipe
from headwise.training.train import train

EXAMPLES = 8
_LIMIT = 300
_SETTINGS = (
    "training.max_steps=3",
    "training.max_epochs=0",
    "training.max_cpu_s=0",
    "training.max_minutes=0",
    "training.warmup_steps=1",
    "training.warmup_share=0",
    "training.validate_every=2",
    "training.validate_every_epochs=0",
    # scores after three steps need no baselines
    "training.baseline_cpu_s=0",
    f"training.valid_limit={EXAMPLES}",
)


def shorten(name: str, overrides: Sequence[str]) -> Recipe:
    """The recipe of this path or name with three steps, and its first 300 examples where its data has a limit.

    A log that is split by time is read completely.

    Raises: ConfigError: for wrong keys or values; DataError: if a data file is nowhere.

    >>> recipe = shorten("phrasebook", ["training.max_steps=5"])
    >>> recipe.training.max_steps, recipe.data.limit
    (5, 300)
    """
    data = getattr(recipes.read(name, overrides), "data", None)
    # the first examples of a log that is split by time are all training data
    unlimited = data is None or "limit" not in type(data).model_fields or bool(getattr(data, "valid_from", ()))
    limit = [] if unlimited else [f"data.limit={_LIMIT}"]
    return recipes.read(name, [*_SETTINGS, *limit, *overrides])


def smoke(recipe: Recipe, folder: Path) -> Mapping[str, float]:
    """Trains into a folder, loads the run, and scores it on eight examples of its test data, or else of training.

    A recipe that passes works in full, except for memory and time; the scores have no meaning.
    """
    run = train(recipe, folder, resume="never")
    try:
        scored = examples(run.folder, "test", {})
    except DataError:
        # a recipe may train on all of its data
        scored = examples(run.folder, "train", {})
    scores = load(run.folder).evaluate(scored[:EXAMPLES])
    return {metric: value for metric, value in scores.items() if not isinstance(value, str)}
