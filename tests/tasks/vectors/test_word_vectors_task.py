"""Word vectors of a small grammar: words of one kind come close; what is told of the text, what is refused."""

import json
import math

import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks import registry
from headwise.tasks.task import Assets, Given
from headwise.tasks.text import grammar
from headwise.tasks.vectors.word_tests import WordLabel, probe
from headwise.tasks.vectors.word_vectors import WordVectorsTask


@pytest.fixture
def make(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(grammar.sentences(300)) + "\n")

    def made(data=None, tokenizer=None, **fields):
        values = {"data": {"train": str(tmp_path / "text.txt")} | (data or {})}
        values |= {"tokenizer": {"min_frequency": 1} | (tokenizer or {})}
        return task_of("word-vectors", values | fields)

    return made


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_words_of_one_kind_come_closer(make, kind):
    task = make(model={"kind": kind, "embed_dim": 12}, context={"subsample": 0.0, "window": 2})
    nothing = scores_of(task, built_of(task))["loss"]
    assert nothing == pytest.approx(6 * 0.6931, abs=0.15)
    model = fitted(task, 60, Limits(80), 5e-2)
    lexicon = task.predictor(model)
    same = []
    for words in grammar.KINDS.values():
        for word in words:
            near = list(lexicon.predict([lexicon.parse(word)])[0].neighbours)[: len(words) - 1]
            same += [other in words for other in near]
    # by chance one in seven
    assert sum(same) / len(same) > 0.8
    assert scores_of(task, model)["loss"] < nothing - 1
    kinds = {word: kind for kind, words in grammar.KINDS.items() for word in words}
    found = probe(model.words.weight[[lexicon.number(word) for word in kinds]], list(kinds.values()))
    assert found.accuracy > found.control + 0.2


def test_evaluate_says_what_measure_says_and_reads_tests(make, tmp_path):
    (tmp_path / "labels.tsv").write_text("cat\tN\ndog\tN\neats\tV\n")
    task = make()
    model = built_of(task).eval()
    told = task.predictor(model).evaluate(task.examples(task.config, "valid"))
    found = baselines_of(task, model, task.examples(task.config, "valid"))
    assert found == {"vectors of zeros": {"loss": pytest.approx(6 * math.log(2))}}
    assert told == pytest.approx(scores_of(task, model))
    other = make({"test": str(tmp_path / "labels.tsv"), "test_kind": "labels"})
    assert other.examples(other.config, "test")[0] == WordLabel("cat", "N", 1)
    # the end of the text is held out as if there were no file
    assert other.source("test", Limits(99)) is not None
    with pytest.raises(ConfigError, match=r'data.test_kind is "labels": name the file with data.test, or --data FILE'):
        task.examples(make({"test_kind": "labels"}).config, "test")


def test_what_is_told_of_the_text(make):
    notes = make(tokenizer={"min_frequency": 40}, model={"embed_dim": 8}).assets.notes
    assert notes[0].endswith("words that occur at least 40 times")
    assert "running words" in notes[1]
    assert "% of them left out as too rare" in notes[1]
    assert "0.0%" not in notes[1]
    # 8.33 ln V
    wanted = "model.embed_dim is 8; the rule 8.33 ln V (Su Jianlin 2020, kexue.fm/archives/7695) asks for"
    assert any(note.startswith(wanted) for note in notes)
    assert not any("8.33" in note for note in make(model={"embed_dim": 100}).assets.notes)


def test_windows_are_drawn_from_the_seed_of_the_run_and_held_out_ones_are_not(make):
    task = make()
    one, two = (batch_of(task, "train", Limits(50, seed=seed)) for seed in (1, 2))
    assert one.indices != two.indices
    held = [batch_of(task, "valid", Limits(50, seed=seed)) for seed in (1, 2)]
    assert torch.equal(held[0].outputs, held[1].outputs)


def test_what_is_shown_and_written_on_the_card(make):
    task = make(show=["cat - dog + hay", "yak"])
    model = built_of(task)
    assert task.samples(model)[1] == "yak → unknown: yak"
    assert task.samples(model)[0].startswith("cat - dog + hay → ")
    assert len(make().samples(model)) == 5
    assert "for 34 words" in task.card({"loss": 1.5})


def test_a_run_goes_on_with_its_words_and_counts(make, tmp_path):
    task = make()
    (tmp_path / "text.txt").write_text("a yak eats the cat\n" * 40)
    again = WordVectorsTask.prepare_with(task.config, Given(task.assets.files))
    assert again.files == task.assets.files
    assert registry.task_type("word-vectors") is WordVectorsTask


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", ["classify", "regress"])
def test_texts_start_from_vectors(tmp_path, name, frozen):
    (tmp_path / "vectors.txt").write_text("cat 0.1 -2 3.5\neats 1e-3 0 7\n")
    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "".join(f"cat eats {n}\t{n % 2}\n" for n in range(20)))
    values = {
        "data": {"train": str(tmp_path / "texts.tsv"), "valid_fraction": 0.0, "test_fraction": 0.0},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "token", "d_model": 3, "d_ff": 2},
        "vectors": {"file": str(tmp_path / "vectors.txt"), "frozen": frozen},
    }
    task = task_of(name, values)
    model = built_of(task)
    (note,) = task.initialise(model, 0)
    assert "vectors.txt: vectors of 3 numbers for 2 of 22 types" in note
    (cat,) = task.tokenizer.encode("cat")
    assert model.embedding.weight[cat].tolist() == pytest.approx([0.1, -2, 3.5])
    task.loss(model, batch_of(task)).backward()
    assert (model.embedding.weight.grad is None) == frozen
    other = task_of(name, values | {"model": {"kind": "token", "d_model": 5, "d_ff": 2}})
    with pytest.raises(ConfigError, match=r"has vectors of 3 numbers, the model's embeddings have 5"):
        other.initialise(built_of(other), 0)


@pytest.mark.parametrize("content", ["{}", "[1]", "[", '["a"]', "null"])
def test_damaged_counts_are_named(make, content):
    task = make()
    files = {**task.assets.files, "counts.json": content.encode()}
    with pytest.raises(CheckpointError, match=r"counts.json: not the counts of 38 tokens; restore it from a copy"):
        WordVectorsTask(task.config, Assets(files))
    files["counts.json"] = json.dumps([-1] * 38).encode()
    with pytest.raises(CheckpointError, match=r"counts\.json"):
        WordVectorsTask(task.config, Assets(files))


def test_what_is_refused(make):
    with pytest.raises(ConfigError, match=r'word vectors are of words: set tokenizer\.kind to "word"'):
        make(tokenizer={"kind": "bpe"})
    with pytest.raises(
        DataError, match=r"text.txt: no word of the text is frequent enough: lower tokenizer.min_frequency"
    ):
        make(tokenizer={"min_frequency": 4000})
