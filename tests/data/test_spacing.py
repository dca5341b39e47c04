"""Spacing is learned and applied: each habit comes back."""

import pytest

from headwise.data.cutting import Spacing


def pieces(text, tokens):
    found, place = [], 0
    for token in tokens.split():
        place = text.index(token, place)
        found.append((token, (place, place + len(token))))
        place += len(token)
    return found


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Oui, toi !", "Oui , toi !"),
        ("yes , you .", "yes , you ."),
        ("a (b) c", "a ( b ) c"),
        ('he said "go now" to me', 'he said " go now " to me'),
        ('" pre " split', '" pre " split'),
        ("« non », dit-il", "« non » , dit-il"),
        ("wait... what?!", "wait . . . what ? !"),
        ("this - that", "this - that"),
        ("it costs $5 or 5%", "it costs $ 5 or 5 %"),
    ],
)
def test_what_was_learned_comes_back(text, tokens):
    assert Spacing.learn([pieces(text, tokens)]).join(tokens.split()) == text


def test_majority_wins():
    spaced, glued = pieces("a !", "a !"), pieces("a!", "a !")
    assert Spacing.learn([spaced, spaced, glued]).join(["b", "!"]) == "b !"
    assert Spacing.learn([spaced, glued, glued]).join(["b", "!"]) == "b!"


def test_marks_never_seen_beside_words_follow_english():
    rule = Spacing.learn([pieces(".", "."), pieces("(", "(")])
    assert rule.join(["(", "a", "."]) == "(a."


def test_marks_side_by_side():
    rule = Spacing.learn([pieces("a ?! b ! ?", "a ? ! b ! ?")])
    assert rule.join(["c", "?", "!"]) == "c ?!"
    assert rule.join(["c", "!", "?"]) == "c ! ?"


def test_an_empty_text_and_a_lone_quote():
    assert Spacing().join([]) == ""
    assert Spacing(quotes='"').join(["a", '"', "b", '"', '"', "c"]) == 'a "b" "c'
