"""Token embeddings: lookup, scale, position, dropout and the message for a token that is none."""

import pytest
import torch
from devices import DEVICE, not_simulated, on_the_host
from torch.nn import functional as F

from headwise.errors import DataError
from headwise.layers.embeddings import TokenEmbedding
from headwise.positions.none import NoPosition
from headwise.positions.sinusoidal import Sinusoidal, sinusoids


def embedding(vocab=11, width=4, position=None, dropout=0.0):
    torch.manual_seed(3)
    return TokenEmbedding(vocab, width, position or NoPosition(), dropout)


def test_lookup_is_the_product_with_one_hot_rows():
    table = embedding(11, 5)
    tokens = torch.tensor([[0, 10, 3], [7, 7, 1]])
    one_hot = F.one_hot(tokens, 11).float()
    torch.testing.assert_close(table(tokens), one_hot @ table.weight * 5**0.5, rtol=0, atol=1e-7)


def test_course_example():
    table = embedding(8, 4)
    embedded = table(torch.tensor([[2, 5, 7], [1, 3, 4]]))
    assert embedded.shape == (2, 3, 4)
    # the factor sqrt(d) is 2
    assert torch.equal(embedded[0, 0], 2 * table.weight[2])
    assert torch.equal(embedded[1, 2], 2 * table.weight[4])


def test_position_is_added_to_the_scaled_rows():
    table = embedding(11, 6, Sinusoidal(6))
    tokens = torch.tensor([[4, 0, 9]])
    added = table(tokens, start=5) - table.weight[tokens] * 6**0.5
    torch.testing.assert_close(added[0], sinusoids(3, 6, 5).float().to(DEVICE), rtol=0, atol=1e-6)


def test_gradient_reaches_the_rows_used():
    table = embedding(7, 4)
    table(torch.tensor([[2, 2, 5]])).sum().backward()
    counts = torch.tensor([0, 0, 2, 0, 0, 1, 0]) * 2.0
    assert torch.equal(table.weight.grad, counts[:, None].expand(7, 4))


def test_dropout_is_on_embedding_and_position_in_training():
    table = embedding(11, 64, Sinusoidal(64), dropout=0.5)
    tokens = torch.randint(11, (3, 7))
    quiet = table.eval()(tokens)
    assert torch.equal(quiet, table(tokens))
    loud = table.train()(tokens)
    kept = loud != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(loud[kept], quiet[kept] * 2)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[1, 2, 3], [4, 99, 5]], "token 99 at row 1, position 1 is outside the vocabulary of 11"),
        ([[-3, 2]], "token -3 at row 0, position 0 is outside the vocabulary of 11"),
        ([[1, 11]], "token 11 at row 0, position 1 is outside the vocabulary of 11"),
    ],
)
@on_the_host("a GPU ends the process")
def test_token_outside_the_vocabulary(tokens, message):
    with pytest.raises(DataError, match=message):
        embedding()(torch.tensor(tokens))


def test_no_tokens():
    assert embedding()(torch.empty(0, 3, dtype=torch.int64)).shape == (0, 3, 4)
    assert "vocab_size=11, d_model=4" in repr(embedding())


@not_simulated("it has no autocast")
def test_type_follows_bfloat16_products_alone():
    table, tokens = embedding(), torch.tensor([[2, 5]])
    for low, expected in ((torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32)):
        with torch.autocast(DEVICE, low):
            assert table(tokens).dtype == expected
    assert table(tokens).dtype == torch.float32
    with torch.device("meta"):
        assert embedding()(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, 4)
