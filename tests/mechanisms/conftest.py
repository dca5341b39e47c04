"""Tests give a mechanism its tensors; it is called with the `Call` that they make."""

import pytest
from torch import nn

from headwise.attention.call import Call
from headwise.attention.mechanisms.mechanism import Mechanism


@pytest.fixture(autouse=True)
def _tensors_make_a_call(monkeypatch):
    def called(self, first, *rest, **options):
        call = first if isinstance(first, Call) else Call(first, *rest, **options)
        return nn.Module.__call__(self, call)

    def weights(self, query, key, **options):
        return self.weights(Call(query, key, key, **options))

    monkeypatch.setattr(Mechanism, "__call__", called)
    monkeypatch.setattr(Mechanism, "effective_weights", weights, raising=False)
