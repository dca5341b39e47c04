import pytest

from headwise import textbook
from headwise.textbook.newer import INSTEAD


@pytest.mark.parametrize("name", ["Module", "Trainer", "MTFraEng", "TransformerEncoderBlock"])
def test_a_name_of_the_newer_edition_says_what_to_use(name):
    with pytest.raises(AttributeError, match=f"^{name} is of the newer edition; use "):
        getattr(textbook, name)


def test_another_name_is_of_other_pages():
    with pytest.raises(AttributeError, match="train_ch3"):
        textbook.train_ch3  # noqa: B018


def test_nothing_that_is_here_is_called_missing():
    assert not set(INSTEAD) & set(textbook.__all__)


def test_pyplot_is_there():
    from matplotlib import pyplot

    assert textbook.plt is pyplot
