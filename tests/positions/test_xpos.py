"""Rotary positions that fade with distance."""

import cmath

import pytest
import torch
from relative_loops import WIDTH, assert_equal, by_pairs, tensors

from headwise.errors import ConfigError, ShapeError
from headwise.positions.rotary import Rotary
from headwise.positions.xpos import Xpos


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("start", [0, 3])
def test_the_definition_pair_by_pair(start, layout):
    """Sun et al. 2022: the real part of q conj(k) e^(i theta n) z^(n / scale_base), summed over pairs of columns."""
    query, key, value = inputs = tensors()
    position = Xpos(WIDTH, scale_base=2.0, layout=layout)

    def numbers(vector):
        pairs = vector.unflatten(-1, (2, 2))
        return torch.complex(*(pairs.unbind(1) if layout == "interleaved" else pairs.unbind(0)))

    def score(b, h, i, j):
        distance = i + start - j
        factors = [
            cmath.exp(1j * distance / 10000 ** (2 * c / WIDTH)) * ((c / 2 + 0.4) / 1.4) ** (distance / 2.0)
            for c in range(2)
        ]
        both = numbers(query[b, h, i]) * numbers(key[b, h, j]).conj() * torch.tensor(factors, dtype=torch.complex128)
        return both.real.sum() / WIDTH**0.5

    assert_equal(position, inputs, start, by_pairs(value, score))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_as_x_transformers_for_a_whole_input():
    """It counts from the middle of the input: scores are the same, queries and keys are not."""
    query, key = torch.randn(2, 3, 700, 8), torch.randn(2, 3, 700, 8)
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    frequencies, scale = x_transformers.RotaryEmbedding(8, use_xpos=True).forward_from_seq_len(700)
    other = [x_transformers.apply_rotary_pos_emb(x, frequencies, s) for x, s in ((query, scale), (key, 1 / scale))]
    position = Xpos(8)
    found = position.rotate(query, 0) @ position.rotate_keys(key, 0).mT
    torch.testing.assert_close(found.tril(), (other[0] @ other[1].mT).tril(), rtol=1e-4, atol=1e-3)


def test_a_slow_fade_is_rotary():
    heads = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    for hook in ("rotate", "rotate_keys"):
        found = getattr(Xpos(8, scale_base=1e15), hook)(heads, 5)
        torch.testing.assert_close(found, Rotary(8).rotate(heads, 5), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 4123), (torch.float32, 35852), (torch.bfloat16, 35850)])
def test_as_far_as_the_type_reaches(dtype, limit):
    heads, position = torch.ones(1, 1, 1, 4, dtype=dtype), Xpos(4)
    assert position.rotate_keys(heads, limit - 1).isfinite().all()
    with pytest.raises(ShapeError, match=rf"position {limit} is beyond the {limit} that xpos has in {dtype}"):
        position.rotate_keys(heads, limit)


def test_ids_in_place_of_a_start():
    heads, position = torch.randn(2, 3, 4, 8), Xpos(8)
    ids = torch.tensor([[[7, 8, 9, 10]], [[0, 1, 2, 3]]])
    found = position.rotate_keys(heads, ids)
    torch.testing.assert_close(found[:1], position.rotate_keys(heads[:1], 7))
    torch.testing.assert_close(found[1:], position.rotate_keys(heads[1:], 0))


def test_what_it_cannot_be():
    with pytest.raises(ConfigError, match="xpos positions need an even head_dim, got 5"):
        Xpos(5)
    with pytest.raises(ConfigError, match=r"xpos needs scale_base \(0.0\) and gamma \(0.4\) above 0"):
        Xpos(4, scale_base=0.0)
    with pytest.raises(ShapeError, match="xpos positions of width 4 meet heads of width 6"):
        Xpos(4).rotate(torch.ones(1, 1, 2, 6), 0)
