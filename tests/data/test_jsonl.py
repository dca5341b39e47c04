"""Objects of JSON lines: what no text can hold is refused wherever it stands."""

import pytest

from headwise.data.jsonl import parse_object
from headwise.errors import DataError


@pytest.mark.parametrize(
    "text",
    [r'{"a": "x\ud800"}', r'{"a": [{"b": [1, "x\ud800"]}]}', r'{"a": {"x\uD800": 1}}', r'{"a": "x\ud800\ud83d"}'],
)
def test_half_a_surrogate_pair_is_refused_in_every_field(text):
    with pytest.raises(DataError, match=r"lone surrogate U\+D800 at character 2 is no character"):
        parse_object(text)


def test_a_whole_pair_is_a_character():
    assert parse_object(r'{"a": ["\ud83d\ude00", "\u00e9"]}') == {"a": ["😀", "é"]}
