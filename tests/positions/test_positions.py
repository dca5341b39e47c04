"""The family of positions, and the two small ones: none and learned."""

import pytest
import torch

from headwise import positions
from headwise.attention import attend
from headwise.attention.masks import Padding, Table
from headwise.errors import ConfigError, ShapeError
from headwise.positions.learned import Learned
from headwise.positions.none import NoPosition
from headwise.positions.position import Position
from headwise.positions.sinusoidal import Sinusoidal


def test_the_folder_is_the_registry():
    assert positions.names() == ("learned", "none", "rotary", "sinusoidal")
    assert list(positions.catalogue()) == list(positions.names())
    assert all(positions.catalogue().values())
    with pytest.raises(ConfigError, match="unknown position 'rotery'; did you mean 'rotary'"):
        positions.build("rotery", 8, 4, 5)


@pytest.mark.parametrize("name", ["learned", "none", "rotary", "sinusoidal"])
def test_every_scheme_is_built_for_a_model_and_keeps_shape_and_type(name):
    position = positions.build(name, 12, 4, 31)
    x, heads = torch.randn(2, 5, 12), torch.randn(2, 3, 5, 4)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert position.embed(x.to(dtype), 3).dtype == dtype
        assert position.embed(x.to(dtype), 3).shape == x.shape
        assert position.rotate(heads.to(dtype), 3).dtype == dtype
        assert position.rotate(heads.to(dtype), 3).shape == heads.shape
    assert position.bias(heads, heads, 0) is None
    assert position.acts_in_attention() == (name == "rotary")
    # a scheme either enters the embeddings or the attention
    assert torch.equal(position.embed(x, 3), x) == (name in ("none", "rotary"))
    assert torch.equal(position.rotate(heads, 3), heads) == (name != "rotary")


@pytest.mark.parametrize("name", ["learned", "none", "sinusoidal"])
def test_a_token_later_is_the_token_at_its_place(name):
    position = positions.build(name, 8, 4, 31)
    x = torch.randn(2, 11, 8)
    steps = torch.cat([position.embed(x[:, t : t + 1], t) for t in range(11)], 1)
    assert torch.equal(steps, position.embed(x, 0))


def test_a_scheme_that_adds_to_the_scores_acts_in_attention():
    class Slope(Position):
        @classmethod
        def sized(cls, d_model, head_dim, max_len):
            return cls()

        def bias(self, query, key, start):
            return torch.zeros(1, 1, query.shape[2], key.shape[2])

    assert Slope().acts_in_attention()
    assert not NoPosition().acts_in_attention()


def test_words_alike_are_told_apart_by_position_alone():
    """In "I saw a saw" both words "saw" give the same output without positions, and differ with them."""
    words = torch.randn(3, 8)
    sentence = words[[0, 1, 2, 1]][None]
    for position, same in ((NoPosition(), True), (Sinusoidal(8), False), (Learned(5, 8), False)):
        x = position.embed(sentence, 0).unsqueeze(1)
        output = attend(x, x, x)[0, 0]
        assert torch.equal(output[1], output[3]) == same


@pytest.mark.parametrize("position", [Sinusoidal(8), Learned(16, 8)], ids=["sinusoidal", "learned"])
def test_positions_of_the_tokens_and_not_of_their_places_in_the_row(position):
    """A sentence padded on the left gives what it gives alone, when its tokens are embedded from their own start."""
    sentence = torch.randn(1, 5, 8)
    embedded = position.embed(sentence, 0)[:, None]
    alone = attend(embedded, embedded, embedded)
    junk = torch.full((1, 1, 3, 8), 9.0)
    right, left = torch.cat((embedded, junk), 2), torch.cat((junk, embedded), 2)
    output = attend(right, right, right, mask=Padding(torch.tensor([5])))
    torch.testing.assert_close(output[:, :, :5], alone, rtol=0, atol=1e-5)
    output = attend(left, left, left, mask=Table((torch.arange(8) >= 3).expand(8, 8)))
    torch.testing.assert_close(output[:, :, 3:], alone, rtol=0, atol=1e-5)


def test_learned_positions_are_a_table_that_is_added():
    position = Learned(128, 12)
    assert sum(p.numel() for p in position.parameters()) == 128 * 12
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(position.embed(x, 3), x + position.table[3:8])
    position.embed(x, 3).sum().backward()
    assert position.table.grad[3:8].eq(2).all()
    assert not position.table.grad[:3].any()
    assert not position.table.grad[8:].any()
    # random, small, and different
    assert position.table.std().item() == pytest.approx(0.02, rel=0.1)


def test_a_position_beyond_the_learned_table_is_an_error_and_never_wraps():
    position = Learned(128, 4)
    assert position.embed(torch.zeros(1, 128, 4), 0).shape == (1, 128, 4)
    message = (
        "position 128 is beyond the learned table of 128 positions; shorten the input, train with a larger max_len,"
        " or use sinusoidal or rotary positions"
    )
    for length, start in ((129, 0), (1, 128), (2, 127)):
        with pytest.raises(ShapeError, match=message):
            position.embed(torch.zeros(1, length, 4), start)
