"""Every example in a docstring runs and says what the docstring says."""

import doctest
import importlib
import pkgutil

import pytest

import headwise

MODULES = sorted(info.name for info in pkgutil.walk_packages(headwise.__path__, "headwise."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, untyped):
    module = importlib.import_module(name)
    # names of the module are known to its examples, as in pytest's own runner
    failed, _ = doctest.testmod(module, raise_on_error=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_main_things_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    shown = {
        example.name
        for name in MODULES
        for example in finder.find(importlib.import_module(name), name)
        if example.examples
    }
    for name in (
        "headwise.attention.attend",
        "headwise.attention.masks.mask.Mask",
        "headwise.attention.mechanisms.scored.Scored",
        "headwise.layers.attention.MultiHeadAttention",
        "headwise.layers.feed_forward.FeedForward",
        "headwise.layers.loss.vocabulary_loss",
        "headwise.records.Trace",
        "headwise.config.override",
    ):
        assert name in shown
