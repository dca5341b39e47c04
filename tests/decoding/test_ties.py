"""Equal totals of different hypotheses: the first hypothesis comes first, whatever the numbers of its tokens are."""

import numpy as np
import pytest
import torch

from headwise.decoding.top import BLOCK, continuations


@pytest.mark.parametrize("vocab", [5, BLOCK + 7])
def test_among_equal_totals_the_first_row_comes_before_the_lower_token(vocab):
    log_probs = torch.full((3, vocab), -9.0)
    # row 0 with its last token, row 1 with token 1, row 2 with token 0 all reach -3
    log_probs[0, vocab - 1], log_probs[1, 1], log_probs[2, 0] = -2.0, -1.0, -3.0
    totals, rows, tokens = continuations(log_probs, np.array([[-1.0, -2.0, 0.0]]), 3)
    assert totals.tolist() == [[-3.0, -3.0, -3.0]]
    assert rows.tolist() == [[0, 1, 2]]
    assert tokens.tolist() == [[vocab - 1, 1, 0]]
