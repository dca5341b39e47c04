import pytest

from headwise.labels import columns, decimals, literal, padded, percent, shorten, significant, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("chez moi", "chez moi"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u2028\u202e", r"\u2028\u202e"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("你好 é e\u0301 😀", "你好 é e\u0301 😀"),
        ("a\u200db", "a\u200db"),
    ],
)
def test_control_characters_are_written_as_escapes(text, shown):
    assert visible(text) == shown
    shown.encode("utf-8")


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("你好", 4), ("e\u0301", 1), ("ｱ", 1), ("Ａ", 2)])
def test_columns_of_a_terminal(text, width):
    assert columns(text) == width


@pytest.mark.parametrize("text", ["Donaudampfschifffahrt", "你好世界你好世界你好世界", "e\u0301" * 30, "a你" * 11])
@pytest.mark.parametrize("limit", [5, 8, 9])
def test_shortened_text_fits_and_keeps_both_ends(text, limit):
    short = shorten(text, limit)
    assert columns(short) <= limit
    head, tail = short.split("…")
    assert text.startswith(head)
    assert text.endswith(tail)


def test_short_text_stays():
    assert shorten("chez moi", 8) == "chez moi"


def test_padding_counts_columns():
    assert padded("你", 4) == "你  "
    assert padded("abc", 2) == "abc"


def test_dollar_signs_start_no_formula():
    assert literal(r"$x$ \$") == r"\$x\$ \\$"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.00"), (1e-9, "<0.01"), (-1e-9, ">-0.01"), (0.9949, "0.99"), (0.9951, ">0.99"), (-0.9951, "<-0.99"),
     (1.0, "1.00"), (1 - 1e-7, "1.00"), (1.004, "1.00"), (12.345, "12.35"), (float("nan"), "nan")],
)  # fmt: skip
def test_a_rounded_number_is_no_bound_that_it_has_not_reached(value, shown):
    assert decimals(value) == shown


def test_other_roundings_have_the_same_bounds():
    assert [percent(share) for share in (0, 0.0004, 0.5, 0.9999, 1)] == ["0%", "<1%", "50%", ">99%", "100%"]
    assert [significant(one, 4) for one in (0.99999, -0.99999, 1, 1e-7, 12.5)] == [
        ">0.9999", "<-0.9999", "1", "1e-07", "12.5"
    ]  # fmt: skip
