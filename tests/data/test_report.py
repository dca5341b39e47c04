"""The data report and the suggestions made from it, on sets small enough to count by hand."""

import subprocess
import sys

import pytest

from headwise.data.readers import Pair
from headwise.data.report import embedding_size, measure, report
from headwise.errors import DataError
from headwise.tasks.translation.suggestions import suggest


def pairs_of(*sides):
    return [Pair(source, target, line) for line, (source, target) in enumerate(sides, start=1)]


SMALL = pairs_of(
    ("go .", "va !"),
    ("go .", "va !"),
    ("go .", "pars !"),
    ("i'm home .", "je suis chez moi ."),
    ("да\u200b", ""),
    ("", "x"),
)


def test_counts():
    found = report(SMALL)
    assert found.pairs == 6
    assert found.duplicates == 1
    assert found.ambiguous == 1
    assert found.most_translations == 2
    assert found.source.running_words == 10
    assert found.source.cutoffs[0].vocabulary == 5
    assert found.target.words.maximum == 5
    assert found.source.empty_lines == (6,)
    assert found.target.empty_lines == (5,)


def test_coverage_and_vocabulary_by_frequency():
    cutoffs = report(SMALL).source.cutoffs
    assert [(c.frequency, c.vocabulary) for c in cutoffs] == [(1, 5), (2, 2), (3, 2), (5, 0)]
    # "go" three times and "." four times, of ten
    assert [c.coverage for c in cutoffs] == pytest.approx([1.0, 0.7, 0.7, 0.0])


def test_scripts_and_hidden_characters():
    found = report(SMALL)
    assert found.source.scripts == pytest.approx({"Latin": 12 / 14, "Cyrillic": 2 / 14})
    assert found.source.hidden == {"U+200B ZERO WIDTH SPACE": 1}
    assert found.target.hidden == {}


def test_unknown_rate_of_held_out_pairs():
    found = report(pairs_of(("a a b", "x"), ("c", "x")), held_out=pairs_of(("a b d d", "x"), ("c", "y")))
    # of five words: d d unknown; with two occurrences asked for, a alone is known
    assert [c.unknown for c in found.source.cutoffs] == pytest.approx([0.4, 0.8, 1.0, 1.0])
    assert found.target.cutoffs[0].unknown == 0.5
    assert str(found.overlap) == "1 of 2 held-out sources are in the training part, 0 with the same translation: line 2"


def test_unknown_rate_without_held_out_pairs():
    many = pairs_of(*[(f"word{n} the", f"mot{n} le") for n in range(997)])
    found = report(many)
    assert found.overlap is None
    assert found.source.cutoffs[0].unknown == pytest.approx(0.5)
    assert report(SMALL[:1]).source.cutoffs[0].unknown in (None, 0.0, 1.0)


def test_outliers_of_the_length_ratio():
    usual = [("a word or two", "un mot ou deux")] * 11
    found = report(pairs_of(*usual, ("short", "a very " * 11), ("no", "non, pas"), ("quite long text " * 3, "x")))
    assert found.outlier_lines == (14, 12)
    assert found.outliers == 2


def test_padding_waste_is_less_with_buckets():
    sizes = [1 + 37 * n % 31 for n in range(2003)]
    found = report(pairs_of(*[("w " * size, "v " * size) for size in sizes]))
    assert found.waste_bucketed < 0.1 < 0.3 < found.waste_unbucketed


def test_sentences_longer_than_a_batch():
    assert report(pairs_of(("w " * 5_000, "v"))).waste_bucketed == 0.0


@pytest.mark.parametrize(("vocabulary", "width"), [(100_000, 95.9), (5_000_000, 128.5), (10_000, 76.7), (1, 0.0)])
def test_embedding_hint_is_the_natural_logarithm(vocabulary, width):
    assert embedding_size(vocabulary) == pytest.approx(width, abs=0.05)


def test_lengths():
    found = measure(range(1, 101))
    assert (found.minimum, found.median, found.p95, found.maximum, found.mean) == (1, 50, 95, 100, 50.5)
    assert sum(count for _, count in found.histogram) == 100
    assert found.histogram[-1][0] == 100
    assert measure([7]).histogram[-1] == (7, 1)
    assert measure([0, 0]).histogram == ((0, 2),)
    assert measure([1] * 997 + [10_000]).histogram[-1] == (10_000, 1)


def test_text():
    text = str(report(SMALL, held_out=SMALL[:1]))
    for part in (
        "pairs                    6",
        "repeated pairs           1",
        "sources, several targets 1 (up to 2)",
        "odd length ratio         0",
        "held-out pairs           1 of 1 held-out sources are in the training part",
        "  characters   min 0, median 4, mean ",
        "    seen 2+ times: 2 words, 70.0 % of running words; 0.0 % of held-out words are unknown",
        "  embedding    at least 13 wide by the rule 8.33 ln V",
        "  scripts      Latin 85.7 %, Cyrillic 14.3 %",
        "  empty        1: line 6",
        "  hidden       U+200B ZERO WIDTH SPACE: 1",
    ):
        assert part in text
    assert "no letters" in str(report(pairs_of(("1", "2"))))
    assert "lines 14, 12" not in text


def test_nothing_to_report():
    with pytest.raises(DataError, match="no sentence pairs to report on"):
        report([])
    with pytest.raises(DataError, match="no sentence pairs to fit a recipe to"):
        suggest([])


def english(count):
    return pairs_of(*[(f"the word{n} is here", f"le mot{n} est ici maintenant") for n in range(count)])


def test_small_sets_get_words_and_a_small_model():
    found = suggest(english(997))
    assert found["tokenizer"]["kind"] == "word"
    assert found["tokenizer"]["vocab_size"] == 2000
    assert not found["tokenizer"]["joint"]
    assert [found["model"][key] for key in ("d_model", "d_ff", "encoder_layers", "dropout")] == [128, 256, 2, 0.2]
    assert found["data"]["max_target_len"] == 16
    assert found["training"]["batch_tokens"] == 512


def test_larger_sets_get_joint_pieces():
    found = suggest(english(20_011))
    assert found["tokenizer"] == {
        "kind": "bpe",
        "vocab_size": 8000,
        "joint": True,
        "min_frequency": 1,
        "lowercase": False,
        "split_punctuation": True,
    }
    assert found["model"]["decoder_layers"] == 4
    assert found["training"]["batch_tokens"] == 2048


def test_scripts_decide_what_is_shared():
    russian = pairs_of(*[(f"word{n} here", f"слово{n} тут") for n in range(3_001)])
    assert suggest(russian)["tokenizer"]["kind"] == "bpe"
    assert not suggest(russian)["tokenizer"]["joint"]
    chinese = pairs_of(*[("go home", "回家吧")] * 11)
    assert suggest(chinese)["tokenizer"]["kind"] == "unigram"
    assert not suggest(chinese)["tokenizer"]["joint"]


def test_limits_keep_nearly_all_pairs_and_fit_the_batch():
    found = suggest([*english(499), Pair("w " * 900, "v " * 900, 500)])
    limits = found["data"]
    assert limits["max_source_len"] % 16 == 0
    assert found["training"]["batch_tokens"] > limits["max_target_len"]


@pytest.mark.parametrize(("count", "width"), [(1, 128), (60_001, 256)])
def test_the_model_grows_with_the_set(count, width):
    pair = Pair("a b", "c d", 1)
    assert suggest([pair] * count)["model"]["d_model"] == width


def test_reading_and_reporting_need_no_torch():
    program = (
        "import sys, headwise.data.report, headwise.data.suggestions, headwise.data.splits, headwise.data.tokenizers"
    )
    subprocess.run([sys.executable, "-c", f"{program}; assert 'torch' not in sys.modules"], check=True)


def test_text_gives_shares_in_percent():
    found = report(pairs_of(*[("w " * size, "v") for size in (3, 1)]))
    # 5 and 3 tokens with their end where 10 are padded, 2 and 2 where 4 are
    assert found.waste_bucketed == pytest.approx(1 - 12 / 14)
    assert "padding in batches       14.3 % by length buckets, " in str(found)
