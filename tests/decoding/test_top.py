import numpy as np
import pytest
import torch
from devices import seeded
from hypothesis import given
from hypothesis import strategies as st

from headwise.decoding.top import BLOCK, argmax, continuations, top

SIZES = [2, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 29 * BLOCK + 13, 61 * BLOCK]


def sorted_by_hand(row: list[float], k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda column: (-row[column], column))[:k]


@pytest.mark.parametrize("vocab", SIZES)
@pytest.mark.parametrize("levels", [0, 2, 5])
@pytest.mark.parametrize("k", [1, 2, 7, 11])
def test_top_and_argmax_take_the_lowest_of_equals(vocab, levels, k):
    generator = seeded(vocab + levels)
    rows = torch.randn(3, vocab, generator=generator)
    if levels:
        rows = (rows * levels / 3).round()
    k = min(k, vocab)
    values, columns = top(rows, k)
    expected = [sorted_by_hand(row, k) for row in rows.tolist()]
    assert columns.tolist() == expected
    torch.testing.assert_close(values, rows.gather(1, torch.tensor(expected)), rtol=0, atol=0)
    assert argmax(rows).tolist() == [row[0] for row in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data())
def test_continuations_equal_a_sort_of_everything(dtype, data):
    sentences, beams = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    vocab = data.draw(st.sampled_from(SIZES[:-1]))
    k = data.draw(st.integers(1, 2 * beams))
    levels = data.draw(st.sampled_from([0, 3]))
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    scale = data.draw(st.sampled_from([1e-8, 1.0, 50.0]))
    numbers = -np.abs(random.normal(size=(sentences * beams, vocab))) * scale
    if levels:
        numbers = -random.integers(0, levels, size=numbers.shape).astype(float)
    numbers[random.random(numbers.shape) < data.draw(st.sampled_from([0.0, 0.3, 0.99]))] = -np.inf
    # rows that are level up to less than fp32 can tell must still come in their order
    spread = data.draw(st.sampled_from([10.0, 1e-3, 1e-6, 1e-8]))
    totals = -10 - np.abs(random.normal(size=(sentences, beams))) * spread
    totals[random.random(totals.shape) < 0.2] = -np.inf
    log_probs = torch.from_numpy(numbers).to(dtype)
    found, rows, tokens = continuations(log_probs, totals, k)
    flat = totals.reshape(-1, 1) + log_probs.double().numpy()
    for sentence in range(sentences):
        mine = flat[sentence * beams : (sentence + 1) * beams].ravel().tolist()
        expected = [place for place in sorted_by_hand(mine, k) if mine[place] > -np.inf]
        places = ((rows[sentence] - sentence * beams) * vocab + tokens[sentence])[: len(expected)]
        assert places.tolist() == expected
        assert found[sentence, : len(expected)].tolist() == [mine[place] for place in expected]
        assert (found[sentence, len(expected) :] == -np.inf).all()
        assert (tokens[sentence, len(expected) :] == -1).all()
        assert (rows[sentence] // beams == sentence).all()


@pytest.mark.parametrize("vocab", SIZES)
def test_argmax_wherever_it_is(vocab):
    columns = sorted({0, vocab // 2, max(0, vocab - 14), vocab - 2, vocab - 1})
    rows = torch.zeros(len(columns), vocab)
    rows[range(len(columns)), columns] = 1.0
    assert argmax(rows).tolist() == columns
    assert top(rows, 1)[1].squeeze(1).tolist() == columns


def test_top_never_takes_minus_infinity():
    rows = torch.full((2, 40 * BLOCK), float("-inf"))
    rows[0, 77] = 1.0
    values, columns = top(rows, 3)
    assert values.tolist() == [[1.0, float("-inf"), float("-inf")], [float("-inf")] * 3]
    assert columns[0, 0] == 77
