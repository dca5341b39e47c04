"""Bad lines: told all at once, or skipped and counted, in each kind of data."""

import os

import pytest

from headwise.data.bad_lines import BadLine, BadLines, strict
from headwise.data.inspection import guess
from headwise.errors import DataError
from headwise.tasks import registry
from headwise.tasks.language.language_model import LanguageModel, LanguageModelConfig
from headwise.tasks.tagging.tag import Tag, TagConfig
from headwise.tasks.text.plain import TextConfig, portions
from headwise.tasks.text.tagged import TaggedConfig, read_words, scan_tagged
from headwise.tasks.translation.data import DataConfig, pair_set

PAIRS = b"a\tb\nno tab\nc\t\n\xff\td\ne\tf\n" + b"x" * 99 + b"\ng\th\ni\tj\tk\n"
BAD_TAGS = "1\tI\t_\tPRON\t_\t_\t_\t_\t_\t_\n2\tsee\t_\tVERB\n\n1\tGo\t_\tVERB\t_\t_\t_\t_\t_\t_\n\n2\tx\n"


def write(tmp_path, data, name="x.tsv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def config(path, **options):
    return DataConfig(train=path, valid_fraction=0, test_fraction=0, max_line_bytes=50, **options)


def test_stop_tells_the_first_bad_lines_and_what_to_do(tmp_path):
    path = write(tmp_path, PAIRS)
    with pytest.raises(DataError) as caught:
        pair_set(config(path)).read()
    assert str(caught.value) == (
        f"{path}:2: 1 column, expected source TAB target; {path}:3: the target is empty; fill it or remove the line; "
        f"{path}:4: byte 14 (0xff) is not UTF-8: perhaps Latin-1; convert it with `iconv -f WINDOWS-1252 -t UTF-8`; "
        f'and 2 more; correct these lines, or skip them with data.bad_lines = "skip"; '
        f"`headwise data report {path}` lists it all"
    )


def test_advice_is_written_as_in_a_recipe(tmp_path):
    with pytest.raises(DataError, match=r"source and target; set data.columns = \[0, 1\]; correct"):
        pair_set(config(write(tmp_path, b"a\tb\tc\n"))).read()
    path = write(tmp_path, b'{"en": "a", "fr": "b"}\n', "x.jsonl")
    with pytest.raises(DataError, match=r'set data\.source_key = "en", data.target_key = "fr"; correct'):
        pair_set(config(path)).read()


def test_skip_counts_by_kind(tmp_path):
    found = pair_set(config(write(tmp_path, PAIRS), bad_lines="skip")).read()
    assert [(pair.source, pair.line) for pair in found.examples["train"]] == [("a", 1), ("e", 5), ("g", 7)]
    assert found.skipped == {
        "train": "5 bad lines skipped: columns 2 (lines 2, 8), empty side 1 (line 3), encoding 1 (line 4), "
        "length 1 (line 6)"
    }


def test_nothing_but_bad_lines_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no sentence pairs in it; 1 bad line skipped: columns 1"):
        pair_set(config(write(tmp_path, b"a\n"), bad_lines="skip")).read()


def test_two_parallel_files_stay_aligned(tmp_path):
    source, target = write(tmp_path, b"a\n\xff\nc\nd\n", "s"), write(tmp_path, b"A\nB\n\n" + b"D" * 60 + b"\n", "t")
    found = pair_set(config(source, train_target=target, bad_lines="skip")).read()
    assert [(pair.source, pair.target) for pair in found.examples["train"]] == [("a", "A")]
    assert found.skipped["train"].startswith("3 bad lines skipped")


def test_the_limit_counts_good_pairs(tmp_path):
    found = pair_set(config(write(tmp_path, PAIRS), bad_lines="skip", limit=2)).read()
    assert [pair.source for pair in found.examples["train"]] == ["a", "e"]


def test_a_line_after_one_that_is_too_long_is_whole(tmp_path):
    path = write(tmp_path, b"a\tb\n" + b"x" * 999 + b"\r\nc\td\n\xe9\n")
    with pytest.raises(DataError, match=r":2: the line is longer than 50 bytes.*:4: byte 1,009 \(0xe9\)"):
        pair_set(config(path)).read()


def test_a_bad_line_costs_its_sentence_of_conllu(tmp_path):
    path = write(tmp_path, BAD_TAGS, "x.conllu")
    found = list(scan_tagged(path, TaggedConfig(train=path)))
    assert [(item.line, isinstance(item, BadLine)) for item in found] == [(2, True), (4, False), (6, True)]
    with pytest.raises(BadLine, match=r":2: 4 columns, CoNLL-U has 10"):
        list(strict(scan_tagged(path, TaggedConfig(train=path))))


def test_tags_are_skipped_in_a_recipe(tmp_path):
    path = write(tmp_path, BAD_TAGS + "\n" + BAD_TAGS.replace("Go", "Stay"), "x.conllu")
    data = {"train": path, "valid_fraction": 0, "test_fraction": 0}
    given = {"tokenizer": {"kind": "word"}, "model": {"kind": "token"}}
    found = Tag.prepare(TagConfig(data={**data, "bad_lines": "skip"}, **given))
    assert [sentence.words for sentence in found.data["train"].sentences] == [("Go",), ("Stay",)]
    assert "train: 4 bad lines skipped: columns 4 (lines 2, 6, 9, 13)" in found.notes
    with pytest.raises(DataError, match=r'or skip them with data\.bad_lines = "skip"'):
        Tag.prepare(TagConfig(data=data, **given))


def test_bad_lines_of_a_text_are_left_out(tmp_path):
    path = write(tmp_path, b"one\n\xff\ntwo\nthree\n" * 9, "x.txt")
    with pytest.raises(DataError, match="and 6 more; correct"):
        portions(TextConfig(train=path))
    found = portions(TextConfig(train=path, bad_lines="skip", valid_fraction=0.3, test_fraction=0.3))
    assert "".join(line for part in found.values() for line in part.lines()) == "one\ntwo\nthree\n" * 9
    given = {"tokenizer": {"kind": "char"}, "model": {"d_model": 8, "num_heads": 2}, "length": 4}
    assets = LanguageModel.prepare(LanguageModelConfig(data={"train": path, "bad_lines": "skip"}, **given))
    assert f"{path}: 9 bad lines skipped: encoding 9 (lines 2, 6, 10, 14, 18, ...)" in assets.notes


@pytest.mark.parametrize("read", [lambda path: pair_set(config(path)).read(), lambda p: portions(TextConfig(train=p))])
def test_a_pipe_is_refused_where_files_are_read_twice(tmp_path, read):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    with pytest.raises(DataError, match="pipe: is a pipe or a device, but read more than once; write it to"):
        read(path)


@pytest.mark.parametrize(
    "look",
    [
        lambda path: guess(path, registry.data_kinds().values()),
        lambda path: list(read_words(path, TaggedConfig(train=path))),
    ],
)
def test_a_pipe_is_refused_where_its_first_line_says_what_it_is(tmp_path, look):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a pipe or a device"):
        look(path)


def test_no_bad_lines_say_nothing():
    assert BadLines().note() == ""
    BadLines().settle("stop")


def test_case_alone_makes_no_other_source_where_the_tokenizer_lowers_it(tmp_path):
    lines = [f"{text}\tx {n}\n" for n in range(200) for text in (f"Go {n}", f"go {n}", f"GO {n}")]
    data = DataConfig(train=write(tmp_path, "".join(lines)), valid_fraction=0.3, test_fraction=0.3)

    def parts(lowercase):
        found = pair_set(data, lowercase=lowercase).read()
        return [{pair.source.lower() for pair in part} for _, part in found]

    assert parts(False)[0] & parts(False)[2]
    train, valid, test = parts(True)
    assert not train & valid
    assert not (train | valid) & test
    own = write(tmp_path, "go 3\ty\n", "test.tsv")
    overlaps = pair_set(data.model_copy(update={"test": own, "valid_fraction": 0.0}), lowercase=True).read().overlaps
    assert overlaps["test"].source_lines == (1,)
