"""Embeddings and the vocabulary loss through a compiler, once for all lengths: the same numbers."""

import pytest
import torch
from test_embeddings import embedding
from test_loss import EXACT, agree, expected, inputs

from headwise.layers.loss import vocabulary_loss
from headwise.positions.sinusoidal import Sinusoidal


def test_embeddings_compiled_for_any_length():
    table = embedding(11, 6, Sinusoidal(6))
    compiled = torch.compile(table, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (3, 5):
        tokens = torch.randint(11, (2, length))
        torch.testing.assert_close(compiled(tokens), table(tokens))


# what PyTorch's compiler itself does with a gradient of one's own
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_loss_compiled_for_any_number_of_tokens():
    run = torch.compile(vocabulary_loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (5, 13):
        *tensors, targets = inputs(rows)
        agree(run(*tensors, targets, 0.1), expected(*tensors, targets, 0.1), tensors, **EXACT)
