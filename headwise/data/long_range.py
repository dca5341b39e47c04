"""Drawn problems with long inputs: nested lists, pairs to recall, what is repeated, and a needle among other words."""

import random
from statistics import median

from headwise.data.synthetic import UNTAGGED, Problem

_OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
_CLOSE = "]"
# of the smallest list, and how often something in a list is a list of its own
_SMALLEST, _NESTED = 4, 0.25
_KEYS = [f"k{number}" for number in range(128)]


def _listops(numbers: random.Random, length: int, letters: list[str], depth: int) -> tuple[str, str]:
    text, value = _list(numbers, length, depth)
    return " ".join(text), str(value)


def _list(numbers: random.Random, length: int, depth: int) -> tuple[list[str], int]:
    """A list of so many symbols with brackets, at most so deep, and its value."""
    operator, room = numbers.choice(_OPERATORS), length - 2
    text, values = [operator], list[int]()
    while room:
        # the first of two or more leaves room for another
        most = min(room - (not values), max(_SMALLEST, room // 2))
        if depth > 1 and most >= _SMALLEST and numbers.random() < _NESTED:
            inner, value = _list(numbers, numbers.randint(_SMALLEST, most), depth - 1)
            text += inner
        else:
            value = numbers.randrange(10)
            inner = [str(value)]
            text += inner
        values.append(value)
        room -= len(inner)
    return [*text, _CLOSE], _value(operator, values)


def _value(operator: str, values: list[int]) -> int:
    if operator == "[SM":
        return sum(values) % 10
    if operator == "[MED":
        return int(median(values))
    return min(values) if operator == "[MIN" else max(values)


def _mqar(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """So many pairs of a key and a letter, then every key once more in another order, whose tag is its letter."""
    keys = numbers.sample(_KEYS, min(length, len(_KEYS)))
    values = {key: numbers.choice(letters) for key in keys}
    queried = numbers.sample(keys, len(keys))
    words = [word for key in keys for word in (key, values[key])]
    return " ".join([*words, *queried]), " ".join([UNTAGGED] * len(words) + [values[key] for key in queried])


def _repeat(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """Letters that come again and again after a period that each row draws; a tag is the next letter, once it is known.

    A period is from a sixth to a half of the row, and at most as long as there are letters: none is in it twice.
    """
    longest = min(length // 2, len(letters))
    period = numbers.randint(min(max(2, length // 6), longest), longest)
    once = numbers.sample(letters, period)
    row = [once[place % period] for place in range(length + 1)]
    return " ".join(row[:length]), " ".join([UNTAGGED] * period + row[period + 1 :])


def _needle(numbers: random.Random, length: int, letters: list[str]) -> tuple[str, str]:
    """Letters and digits, among them a key with a digit after it, and the key again at the end, whose tag is the digit.

    Other keys have digits too, so that the key has to be compared: one for each 16 symbols.
    """
    words = [numbers.choice([*letters, str(numbers.randrange(10))]) for _ in range(length)]
    pairs = max(1, length // 16)
    keys = numbers.sample(_KEYS, min(pairs, len(_KEYS)))
    # places of two symbols each, so that no pair is within another
    places = numbers.sample(range((length - 1) // 2), len(keys))
    for key, place in zip(keys, places, strict=True):
        words[2 * place : 2 * place + 2] = [key, str(numbers.randrange(10))]
    words[-1] = keys[0]
    answer = words[2 * places[0] + 1]
    return " ".join(words), " ".join([UNTAGGED] * (length - 1) + [answer])


LISTOPS = Problem("what nested lists of digits come to", ("text", "label"), (4, 64), _listops, amount=(1, 4))
MQAR = Problem("the letter that stood after each key", None, (2, 16), _mqar, tagged=True)
REPEAT = Problem("the letter that came after this one before", None, (4, 48), _repeat, tagged=True)
NEEDLE = Problem("the digit that stood after the key", None, (4, 64), _needle, tagged=True)
