"""Classification of texts on tiny data: from files to batches, losses, scores, run folders and back to a classifier."""

import csv

import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks import registry
from headwise.tasks.task import Assets, Given
from headwise.tasks.text_labels.classify import Classify

MODEL = {"kind": "window", "d_model": 12, "d_ff": 17, "radius": 1, "dropout": 0.0}
SUBJECTS, GOOD, BAD = ["film", "plot", "cast", "end"], ["fine", "great", "fun"], ["dull", "bad", "weak"]


def reviews():
    """Texts in which "not" before an adjective turns its sense round."""
    rows = []
    for subject in SUBJECTS:
        for turned in ("", "not "):
            rows += [(f"the {subject} is {turned}{word}", "no" if turned else "yes") for word in GOOD]
            rows += [(f"the {subject} is {turned}{word}", "yes" if turned else "no") for word in BAD]
    return rows


@pytest.fixture
def files(tmp_path):
    with (tmp_path / "train.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *reviews()])
    held_out = [("this plot is fine", "yes"), ("odd", "maybe"), reviews()[0], ("not weak", "yes")]
    (tmp_path / "valid.tsv").write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in held_out))
    return tmp_path


@pytest.fixture
def make(files):
    def made(data=None, **fields):
        values = {
            "data": {"train": str(files / "train.csv"), "valid_fraction": 0.2, "test_fraction": 0.1} | (data or {}),
            "tokenizer": {"kind": "word", "vocab_size": 40},
            "model": MODEL,
        }
        return task_of("classify", values | fields)

    return made


@pytest.fixture
def with_valid(make, files):
    def made(**fields):
        data = {"valid": str(files / "valid.tsv"), "test_fraction": 0.0}
        return make(fields.pop("data", data), **fields)

    return made


def examples_of(task, split):
    return task.assets.data[split].examples


def test_is_found_by_name():
    assert registry.task_type("classify") is Classify


def test_equal_texts_are_in_one_part(make, files):
    with (files / "train.csv").open("a") as stream:
        stream.writelines(f"the {subject}  is fine,no\n" for subject in SUBJECTS)
    task = make()
    parts = [{item.text for item in found.examples} for found in task.assets.data.values()]
    assert sum(map(len, parts)) == len(reviews())
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert make({"valid_fraction": 0.0}).source("valid", Limits(99)) is None
    assert len(examples_of(make({"limit": 20, "test_fraction": 0.0, "valid_fraction": 0.0}), "train")) == 20


def test_notes_tell_baseline_overlap_and_what_training_lacks(with_valid, files):
    task = with_valid()
    assert task.classes == {"no": 24, "yes": 24}
    assert task.assets.notes == (
        "valid: 1 of 4 held-out texts are in the training part, 1 with the same labels: line 4",
        "valid: always saying 'no', the most frequent class, is right for 0.0% of 4 texts",
        "valid: classes that training lacks, so that they cannot be got right: maybe (1)",
    )
    assert list(task.assets.digests) == ["train", "valid"]
    (files / "train.csv").write_text("text,label\na b c,1\nd,1\ne,2\n")
    notes = with_valid(
        data={"train": str(files / "train.csv"), "max_len": 2, "test_fraction": 0.0, "valid_fraction": 0}
    )
    assert notes.assets.notes == (
        "train: classes with a single text: '2' (line 4)",
        "train: of 1 of 3 texts only the first 2 tokens are read",
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1\nb,1\n", "every text of the training part has the label '1': nothing to learn"),
        ("a,x\nb,y\nc,z\n", "every text of the training part has a label of its own, such as 'x'; name the column or"),
    ],
)
def test_labels_that_teach_nothing_are_refused(make, files, rows, message):
    (files / "train.csv").write_text("text,label\n" + rows)
    with pytest.raises(DataError, match=message):
        make({"valid_fraction": 0.0, "test_fraction": 0.0})


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_over_texts_whose_class_is_known(with_valid, smoothing):
    task = with_valid(label_smoothing=smoothing)
    model, batch = built_of(task).double().eval(), batch_of(task, "valid")
    odds = model(batch.tokens, batch.lens).log_softmax(-1)
    total, known = 0.0, 0
    for row, number in enumerate(batch.indices):
        label = examples_of(task, "valid")[number].label
        if label in task.classes:
            gold = odds[row, list(task.classes).index(label)]
            total, known = total - (1 - smoothing) * gold - smoothing * odds[row].mean(), known + 1
    torch.testing.assert_close(task.loss(model, batch), total, rtol=1e-12, atol=1e-12)
    assert (known, batch.num_tokens) == (3, 4)
    if not smoothing:
        assert scores_of(task, model, "valid")["loss"] == pytest.approx(float(total.detach()) / known)


def test_scores_are_those_of_the_classifier(with_valid):
    task = with_valid()
    model = built_of(task).eval()
    scores, told = scores_of(task, model, "valid"), task.predictor(model).evaluate(examples_of(task, "valid"))
    assert list(scores) == [metric.name for metric in task.metrics]
    assert {name: told[name] for name in scores} == pytest.approx(scores)


def test_other_data_is_read_with_the_files_of_a_run(make, files):
    task = make({"valid_fraction": 0.0, "test_fraction": 0.0})
    (files / "train.csv").write_text("text,label\nthe film is odd,no\nnew words,yes\n")
    again = Classify.prepare_with(task.config, Given(task.assets.files))
    assert again.files == task.assets.files
    assert len(again.data["train"].examples) == 2
    (files / "train.csv").write_text("text,label\na,no\nb,odd\n")
    with pytest.raises(
        DataError, match=r"train.csv:3: label 'odd' is not one of the 2 that the run began with; take su"
    ):
        Classify.prepare_with(task.config, Given(task.assets.files))


def test_skipped_lines_of_examples_are_warned_of(make, files):
    (files / "more.csv").write_text("text,label\na,no\nb\n")
    config = make({"test": str(files / "more.csv"), "bad_lines": "skip"}).config
    with pytest.warns(UserWarning, match=r"more.csv: 1 bad line skipped: columns 1 \(line 3\)"):
        assert [item.text for item in Classify.examples(config, "test")] == ["a"]
    assert len(Classify.examples(config, "train")) > 20


def test_samples_are_those_named_or_the_first(make):
    lines = make(show=["fine", ""]).samples(built_of(make()).eval())
    assert [line.split(" → ")[0] for line in lines] == ["fine", ""]
    task = make(num_shown=2)
    assert [line.split(" → ")[0] for line in task.samples(built_of(task).eval())] == [
        item.text for item in examples_of(task, "valid")[:2]
    ]


def test_files_restore_a_classifier(make):
    task = make()
    assert sorted(task.assets.files) == ["classes.json", "tokenizer.json"]
    model, texts = built_of(task).eval(), ["the film is fine", "zzz", ""]
    assert restored(task, model).classify(texts) == task.predictor(model).classify(texts)
    assert "gives each text one of 2 classes" in Classify(task.config, Assets(task.assets.files)).card({})


@pytest.mark.parametrize("data", [b"[]", b"{", b"{}", b'{"a": "b"}'])
def test_damaged_files_are_named(make, data):
    task = make()
    with pytest.raises(
        CheckpointError, match=r"classes.json: not a table of classes; restore it from a copy of the run"
    ):
        Classify(task.config, Assets({**task.assets.files, "classes.json": data}))


def test_texts_longer_than_a_table_of_positions_are_refused(make):
    small = {"kind": "attention", "d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "position": "learned"}
    with pytest.raises(
        ConfigError, match=r"take 513 places, but the model has a table of 512: set model.max_len to at"
    ):
        make({"max_len": 512}, model=small, pooling={"kind": "cls"})
    make({"max_len": 512}, model=small)
    make({"max_len": 999}, model=small | {"position": "rotary"})


@pytest.mark.parametrize("radius", [0, 1])
def test_context_tells_what_not_turns_round(make, radius):
    task = make({"valid_fraction": 0.3, "test_fraction": 0.0}, model=MODEL | {"radius": radius})
    accuracy = scores_of(task, fitted(task, 60), "valid")["accuracy"]
    assert accuracy == 1.0 if radius else accuracy < 0.9


def test_words_and_pairs_of_words_are_a_baseline(make):
    task = make()
    found = baselines_of(task, built_of(task), task.assets.data["train"].examples)
    # "not" turns the sense of the word behind it: a pair of words says so
    assert found["TF-IDF and logistic regression"]["accuracy"] == 1.0
    assert found["majority"]["accuracy"] < 0.6
