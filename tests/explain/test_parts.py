"""The feed-forward width of a model of another library, read from the shapes beside its attention."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from torch import nn

from headwise import MultiHeadAttention
from headwise.explain.parts import stages_of


def adopted(widths, config, *, first=None):
    """Two blocks of width 6: attention, and layers in a row that lead from and to it over these widths."""
    sides = [6, *widths, 6]
    layers = [nn.Linear(*pair) for pair in pairwise(sides)] if widths else []
    model = nn.Module()
    model.layer = nn.ModuleList(
        nn.ModuleDict(
            {"attention": MultiHeadAttention(6, 2), "network": nn.Sequential(first or nn.Identity(), *layers)}
        )
        for _ in range(2)
    )
    # a wide table of words is no part of a block
    model.words = nn.Embedding(101, 6)
    model.config = SimpleNamespace(**config)
    return model


def width_of(model):
    (stage,) = stages_of(model)
    assert stage["count"] == 2
    attention, *rest = stage["parts"]
    assert (attention["kind"], attention["heads"]) == ("self", 2)
    assert [part["kind"] for part in rest] == ["feed_forward"] * len(rest)
    return [part["width"] for part in rest]


@pytest.mark.parametrize(
    ("widths", "config", "expected"),
    [
        ([13], {"hidden_size": 6, "intermediate_size": 13}, [13]),
        # what is narrower than what it reads is known by its name alone
        ([3], {"hidden_size": 6, "intermediate_size": 3}, [3]),
        ([3], {"hidden_size": 6}, []),
        # the name is not believed where no layer has it
        ([13], {"hidden_size": 6, "intermediate_size": 17}, [13]),
        ([13], {"hidden_size": 6}, [13]),
        ([13, 7], {"hidden_size": 6}, [13]),
        ([], {"hidden_size": 6, "intermediate_size": 13}, []),
        ([13], {}, [13]),
    ],
)
def test_a_block_has_the_width_of_its_feed_forward_network(widths, config, expected):
    assert width_of(adopted(widths, config)) == expected


def test_a_table_within_a_block_is_no_network():
    assert width_of(adopted([], {"hidden_size": 6}, first=nn.Embedding(19, 6))) == []


def test_layers_without_numbered_blocks_have_no_width_of_another_library():
    model = nn.Module()
    model.attention, model.network = MultiHeadAttention(6, 2), nn.Linear(6, 13)
    model.config = SimpleNamespace(hidden_size=6, intermediate_size=13)
    (stage,) = stages_of(model)
    assert [part["kind"] for part in stage["parts"]] == ["self"]
