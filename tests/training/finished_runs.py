"""Rows of finished runs made by hand, as `headwise.training.ledger.account` makes them."""

import datetime
from pathlib import Path

from headwise.training import recipes
from headwise.training.ledger import row_of
from headwise.training.recipe import read_recipe


def account(name, seed, score, *settings, recipe="odd", baselines=None, scores=None, **more):
    baselines = {"majority": {"accuracy": 0.25}} if baselines is None else baselines
    read = read_recipe(recipes.find(recipe), [f"seed={seed}", *settings])
    scores = scores or {"accuracy": score, "loss": 0.1} | more
    facts = {"part": "test", "examples": 1000, "steps": 250, "cpu_s": 10.0 + 2 * seed, "parameters": 9516}
    facts |= {"ended": datetime.date(2026, 11, 22), "processor": "A processor", "version": "0.1", "digest": "a1"}
    return row_of(Path("/somewhere", name), read, scores, baselines, **facts)
