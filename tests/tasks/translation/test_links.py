import pytest

from headwise.errors import DataError
from headwise.tasks.translation.alignment import GoldLinks, read_links


def test_a_line_of_links_for_each_pair(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-1 2p3\n\n4?5 4-5 4p5\n")
    assert read_links(path) == [
        GoldLinks(frozenset({(0, 1)}), frozenset({(0, 1), (2, 3)})),
        GoldLinks(frozenset(), frozenset()),
        GoldLinks(frozenset({(4, 5)}), frozenset({(4, 5)})),
    ]
    assert read_links(path, reverse=True)[0] == GoldLinks(frozenset({(1, 0)}), frozenset({(1, 0), (3, 2)}))


@pytest.mark.parametrize("text", ["0:1", "a-1", "0-", "0-1,2-3", "-1-2", "1234567-0"])
def test_what_is_no_link_is_named_with_its_line(tmp_path, text):
    path = tmp_path / "gold"
    path.write_text(f"0-0\n1-1 {text}\n")
    with pytest.raises(DataError, match=rf"gold:2: '{text}' is no link; write 0-1 \(sure\) or 0p1 \(possible\)"):
        read_links(path)
