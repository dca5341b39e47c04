"""Finished runs made by hand, as `headwise.training.ledger.account` reads them."""

import datetime
from pathlib import Path

from headwise.training import recipes
from headwise.training.ledger import Account
from headwise.training.recipe import read_recipe


def account(name, seed, score, *settings, recipe="odd", baselines=None, **scores):
    baselines = {"majority": {"accuracy": 0.25}} if baselines is None else baselines
    ended, spent = datetime.date(2026, 11, 22), 10.0 + 2 * seed
    read = read_recipe(recipes.find(recipe), [f"seed={seed}", *settings])
    scores = {"accuracy": score, "loss": 0.1} | scores
    folder = Path("/somewhere", name)
    return Account(folder, read, scores, baselines, "test", 1000, 250, spent, 9516, ended, "A processor", "0.1", "a1")
