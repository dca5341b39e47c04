"""Files that word vectors are tested on, good and hostile."""

import gzip

import pytest

from headwise.errors import DataError
from headwise.tasks.vectors.word_tests import Question, WordLabel, WordPair, read_tests

CONLLU = """# text = The dogs sleep
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdogs\tdog\tNOUN\tNNS\tNumber=Plur\t3\tnsubj\t_\t_
3\tsleep\tsleep\tVERB\tVBP\tNumber=Plur|Tense=Pres\t0\troot\t_\t_

1\tsleep\tsleep\tNOUN\tNN\tNumber=Sing\t0\troot\t_\t_
2\tsleep\tsleep\tVERB\tVBP\tNumber=Plur|Tense=Pres\t1\tdep\t_\t_
"""


@pytest.fixture
def file(tmp_path):
    def made(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return made


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "cat\tdog\t7.35\nsun\tbook\t-1e-2\n"),
        # WordSim-353 and SimLex-999 have a line of names, the latter more columns
        ("a.csv", "Word 1,Word 2,Human (mean)\r\ncat,dog,7.35\r\nsun, book ,-1e-2"),
        ("a.txt", "\ufeffword1\tword2\tPOS\tSimLex999\tSD\ncat\tdog\tN\t7.35\t1\n\nsun\tbook\tN\t-1e-2\t2\n"),
        ("a.tsv.gz", gzip.compress(b"cat\tdog\t7.35\nsun\tbook\t-1e-2\n", mtime=0)),
    ],
)
def test_pairs(file, name, content):
    pairs = read_tests(file(name, content), "similarity")
    assert [(pair.first, pair.second, pair.score) for pair in pairs] == [("cat", "dog", 7.35), ("sun", "book", -0.01)]
    assert isinstance(pairs[0], WordPair)


def test_questions(file):
    found = read_tests(
        file("q.txt", ": capital-common-countries\nAthens Greece Oslo Norway\n: \na b c d\n"), "analogies"
    )
    assert found[0] == Question("Athens", "Greece", "Oslo", "Norway", "capital-common-countries", 2)
    assert found[1].section == ""


def test_labels(file):
    assert read_tests(file("l.tsv", "dogs\tplural noun\ncat\tsingular\ndogs\tplural noun\n"), "labels") == [
        WordLabel("dogs", "plural noun", 1),
        WordLabel("cat", "singular", 2),
    ]
    path = file("l.conllu", CONLLU)
    found = {(one.word, one.label): (one.count, one.line) for one in read_tests(path, "labels")}
    assert found == {
        ("The", "DET"): (1, 2),
        ("dogs", "NOUN"): (1, 2),
        ("sleep", "VERB"): (2, 2),
        ("sleep", "NOUN"): (1, 6),
    }
    of_number = {(one.word, one.label): one.count for one in read_tests(path, "labels", "Number")}
    assert of_number == {("dogs", "Plur"): 1, ("sleep", "Plur"): 2, ("sleep", "Sing"): 1}
    with pytest.raises(DataError, match=r"l.conllu: no words with a Gender in it"):
        read_tests(path, "labels", "Gender")


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("similarity", "", r"f.tsv: no pairs of words in it"),
        ("similarity", "cat\tdog\n", r"f.tsv:1: 2 columns; a pair is two words and a number between tabs"),
        (
            "similarity",
            "a\tb\tscore\nc\td\tmuch\n",
            r"f.tsv:2: no number behind the two words; write one, such as 7.35",
        ),
        ("similarity", "a\tb\t1\nc\td\tnan\n", r"f.tsv:2: 'nan' is no number; write it with digits and a point"),
        ("similarity", "a\tb\t1\nc\td\t1_0\n", r"f.tsv:2: '1_0' is no number"),
        ("similarity", "a\tb\t1\nc\td\t١\n", r"f.tsv:2: '١' is no number"),
        ("similarity", "a\tb\t1\nc\td\t" + "9" * 400 + "\n", r"f.tsv:2: '9{20}' is no number"),
        ("similarity", "a\tb\t1\nc\td\t2\t3\n", r"f.tsv:2: 4 columns, the first line has 3"),
        ("similarity", "a\t\t1\n", r"f.tsv:1: '' is not one word"),
        ("similarity", "New York\tb\t1\n", r"f.tsv:1: 'New York' is not one word"),
        ("similarity", b"a\tb\t1\n\xe9\tb\t1\n", r"f.tsv:2: byte 6 \(0xe9\) is not UTF-8"),
        ("analogies", ": only a section\n", r"f.tsv: no questions in it"),
        ("analogies", "a b c\n", r"f.tsv:1: 3 words; a question has four, such as: Athens Greece Oslo Norway"),
        ("analogies", "a b c d e\n", r"f.tsv:1: 5 words"),
        ("analogies", b"\xff\xfea\x00\n", r"f.tsv:1: .* UTF-16 text"),
        ("labels", "cat noun\n", r"f.tsv:1: 1 columns; write a word, a tab and its label"),
        ("labels", "cat\t\n", r"f.tsv:1: the label of 'cat' is empty; write one or remove the line"),
        ("labels", "cat\tN\na\tD\ncat\tV\n", r"f.tsv:3: 'cat' is V here and N in line 1; give each word one label"),
        ("labels", "a\x00\tN\n", r"f.tsv:1: NUL byte"),
        ("labels", "x" * (1 << 18) + "yz\tN\n", r"f.tsv:1: the line is longer than 262,144 bytes"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(file, kind, content, message):
    with pytest.raises(DataError, match=message):
        read_tests(file("f.tsv", content), kind)


def test_conllu_faults_are_those_of_its_reader(file):
    with pytest.raises(DataError, match=r"l.conllu:2: 9 columns, CoNLL-U has 10"):
        read_tests(file("l.conllu", CONLLU.replace("det\t_\t_", "det\t_")), "labels")
    with pytest.raises(DataError, match=r"missing.tsv: no such file"):
        read_tests(file("a.tsv", "").with_name("missing.tsv"), "labels")
