"""Inverted attention: the definition in loops, hidden keys, what it refuses."""

import math

import mechanism_checks as checks
import pytest
import torch
from mechanism_checks import run

from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.inverted import Inverted
from headwise.errors import Unsupported


@pytest.mark.parametrize("lens", [(7, 7, 7), (4, 7, 0)])
def test_the_definition_in_loops(lens):
    """Locatello et al. 2020, eq. 1 and 2: a softmax for each key, then each query's shares over their sum."""
    query, key, value = inputs = checks.tensors(5, 7)
    rows = []
    for n in range(3):
        for h in range(4):
            columns = []
            for j in range(lens[n]):
                products = torch.stack([query[n, h, i] @ key[n, h // 2, j] / math.sqrt(6) for i in range(5)])
                columns.append(products.softmax(0))
            for i in range(5):
                shares = [column[i] for column in columns]
                weighted = [share * value[n, h // 2, j] for j, share in enumerate(shares)]
                rows.append(sum(weighted) / sum(shares) if shares else torch.zeros(5).double())
    expected = torch.stack(rows).unflatten(0, (3, 4, 5))
    output = run(Inverted(), *inputs, mask=Padding(torch.tensor(lens)))
    checks.same_with_gradients(output, expected, inputs)
    checks.weights_are_the_function(Inverted(), inputs)


def test_a_padded_sentence_is_the_sentence_alone():
    checks.padding_is_absence(Inverted(), 7, [7, 3, 1])
    checks.no_key_gives_zero(Inverted(), 7)


def test_later_keys_cannot_be_hidden():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(Unsupported, match="Inverted cannot honour the mask Causal; it honours padding of keys"):
        run(Inverted(), x, x, x, mask=Causal())
