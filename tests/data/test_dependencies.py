"""Dependencies of CoNLL-U: what is read, and what is refused with its line."""

import pytest

from headwise.data.dependencies import Parsed, read_dependencies
from headwise.errors import DataError


def row(number, word, head, relation):
    return "\t".join([str(number), word, "_", "_", "_", "_", str(head), relation, "_", "_"])


GOOD = "\n".join(
    ["# text = The dog slept", row(1, "The", 2, "det"), row(2, "dog", 3, "nsubj:pass"), row(3, "slept", 0, "root"), ""]
)


def test_heads_count_from_0_and_relations_are_those_of_every_language(tmp_path):
    path = tmp_path / "a.conllu"
    extra = "\n".join([row("1-2", "Gib's", "_", "_"), row(1, "Gib", 0, "root"), row(2, "'s", 1, "obj"), ""])
    path.write_text(f"{GOOD}\n{extra}", encoding="utf-8")
    assert list(read_dependencies(path)) == [
        Parsed(("The", "dog", "slept"), (1, 2, -1), ("det", "nsubj", "root"), 2),
        Parsed(("Gib", "'s"), (-1, 0), ("root", "obj"), 6),
    ]


def test_an_empty_file_has_no_sentence(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text("\n\n")
    assert list(read_dependencies(path)) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(1, "The", 9, "det"), "'9' is no word of this sentence"),
        (row(1, "The", "_", "det"), "'_' is no word of this sentence"),
        (row(1, "The", -1, "det"), "'-1' is no word of this sentence"),
        ("1 The", "columns are separated by tabs"),
        (row(2, "The", 0, "root"), "word 2 where word 1 is due"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "a.conllu"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"a\.conllu:1: .*{message}"):
        list(read_dependencies(path))
