"""The mode of a model while it answers."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model is in `eval()` inside, and behind it in the mode that it was in, errors or not.

    >>> model = nn.Dropout().train()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
