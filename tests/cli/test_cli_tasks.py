"""Every task goes through the same verbs: train, resume, predict, evaluate; one from outside of the package too."""

import json
import re
import textwrap

import pytest
from tiny import CLASSES, NUMBERS, TAGGED, TEXT, TRAINING

OUTSIDE = '''
"""A task of somebody else: the sum of numbers between spaces."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from headwise.config import Config, DataFile
from headwise.data.sources import shuffled
from headwise.predictors.predictor import Predictor
from headwise.tasks.task import Assets, Metric, Task


class Sums(Config):
    train: DataFile


@dataclass
class Rows:
    numbers: torch.Tensor
    sums: torch.Tensor
    indices: list

    @property
    def num_tokens(self):
        return len(self.sums)

    def to(self, device):
        return replace(self, numbers=self.numbers.to(device), sums=self.sums.to(device))


class Summing(Task):
    """Adds two numbers."""

    name = "summing"
    config_type = Sums
    metrics = (Metric("mse", "low"),)

    @classmethod
    def prepare(cls, config):
        return Assets({}, {"train": cls.examples(config, "train"), "valid": cls.examples(config, "valid")})

    @classmethod
    def examples(cls, config, split):
        rows = [[float(part) for part in line.split()] for line in Path(config.train).read_text().splitlines()]
        return rows[::2] if split == "train" else rows[1::2]

    def build(self):
        return nn.Linear(2, 1)

    def source(self, split, limits):
        rows = (self.assets.data or {}).get(split)
        if not rows:
            return None

        def collate(indices):
            numbers = torch.tensor([rows[index] for index in indices])
            return Rows(numbers, numbers.sum(1), indices)

        return shuffled(len(rows), 4, collate, seed=limits.seed, shuffle=split == "train")

    def loss(self, model, batch):
        return (model(batch.numbers).squeeze(1) - batch.sums).square().sum()

    def measure(self, model, batches):
        pairs = [(self.loss(model, batch).item(), batch.num_tokens) for batch in batches]
        return {"error": sum(error for error, _ in pairs), "count": sum(count for _, count in pairs)}

    def summarise(self, stats):
        return {"mse": stats["error"] / stats["count"]}

    def samples(self, model):
        return [f"1 + 2 = {model(torch.tensor([1.0, 2.0])).item():.1f}"]

    def predictor(self, model):
        return Adder(model)


class Adder(Predictor):
    def __init__(self, model):
        self.model = model

    def parse(self, text):
        return [float(part) for part in text.split()]

    def read(self, path):
        return map(self.parse, path.read_text().splitlines())

    @torch.no_grad()
    def predict(self, items, options=None):
        return self.model(torch.tensor(items)).squeeze(1).tolist()

    def write(self, item, output, form, options=None):
        return [f"{output:.3f}"]

    def scores_of(self, examples, options=None):
        errors = [abs(found - sum(item)) for item, found in zip(examples, self.predict(examples), strict=True)]
        return {"mae": float(np.mean(errors))}
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = [{"words": ["the", "cat", "sees", str(n)], "tags": ["D", "N", "V", "C"]} for n in range(60)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(sentence) + "\n" for sentence in sentences))
    (tmp_path / "text.txt").write_text("a cat and a dog and a cat .\n" * 40)
    reviews = "".join(f'"a {word}, {n}",{word},{n}\n' for n in range(30) for word in ("good", "bad"))
    (tmp_path / "reviews.csv").write_text("text,label,stars\n" + reviews)
    (tmp_path / "sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
    (tmp_path / "summing_outside.py").write_text(textwrap.dedent(OUTSIDE))
    own = 'task = "summing_outside:Summing"\ntrain = "sums.txt"\n' + TRAINING.replace("max_steps = 3", "max_steps = 30")
    for name, recipe in {
        "tag": TAGGED,
        "text": TEXT,
        "classes": CLASSES,
        "numbers": NUMBERS,
        "sums": own + 'monitor = "mse"\n',
    }.items():
        (tmp_path / f"{name}.toml").write_text(recipe)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "given", "scores"),
    [
        ("tag", "the cat sees 7", {"accuracy", "macro_f1"}),
        ("text", "a cat", {"loss", "perplexity", "bits_per_char"}),
        ("classes", "a good, bad", {"accuracy", "macro_f1", "baselines", "comparison", "per_class"}),
        ("numbers", "a good, bad", {"mae", "rmse", "r2", "baselines", "comparison"}),
        ("sums", "1 2", {"mae"}),
    ],
)
def test_train_resume_predict_and_evaluate(headwise, folder, name, given, scores):
    run = folder / "run"
    code, out, err = headwise("train", f"{name}.toml", "--run-folder", run, "--trust")
    assert code == 0, err
    assert f"trained: {run}" in out
    more = 33 if name == "sums" else 5
    assert headwise("train", f"{name}.toml", f"training.max_steps={more}", "--run-folder", run)[0] == 0
    assert f"after {more} steps" in (run / "log.txt").read_text()
    length = ["--max-len", 7] if name == "text" else []
    code, out, err = headwise("predict", run, given, *length)
    assert (code, err) == (0, ""), err
    assert out.strip()
    (folder / "in.txt").write_text(f"{given}\n{given}\n")
    if name == "sums":
        assert headwise("predict", run, "--file", "in.txt")[1] == 2 * out
    code, out, err = headwise("evaluate", run, "--json")
    assert (code, err) == (0, ""), err
    assert scores <= set(json.loads(out))
    assert headwise("predict", run, given, "--beam", 2)[0] == (0 if name == "text" else 2)


def test_the_comparison_with_baselines_is_printed_and_in_json(headwise, folder):
    run, slow = folder / "run", ["training.learning_rate=1e-9", "data.valid_fraction=0.4", "data.test_fraction=0.4"]
    code, out, err = headwise("train", "classes.toml", *slow, "--run-folder", run)
    assert code == 0, err
    assert re.search(r"^against: .*: worse than TF-IDF and logistic regression \(100.0 %\)$", out, re.M)
    code, out, err = headwise("evaluate", run)
    assert (code, err) == (0, "")
    assert "accuracy of TF-IDF and logistic regression │ 1.00" in out
    sentence = out.splitlines()[-1]
    assert re.fullmatch(r"warning: accuracy .* %: worse than TF-IDF and logistic regression \(100.0 %\)", sentence)
    found = json.loads(headwise("evaluate", run, "--json")[1])
    comparison = found["comparison"]
    assert (comparison["verdict"], comparison["baseline_value"]) == ("worse", 1.0)
    assert sentence == f"warning: {comparison['text']}"
    assert set(found["baselines"]) == {"majority", "TF-IDF and logistic regression"}
    # two runs are compared with one another
    assert "baselines" not in json.loads(headwise("evaluate", run, "--against", run, "--json")[1] or "{}")


def test_what_a_task_does_not_have_is_said(headwise, folder):
    run = folder / "run"
    assert headwise("train", "tag.toml", "--run-folder", run)[0] == 0
    code, _, err = headwise("predict", run, "a", "--top-k", 3)
    assert (code, err) == (2, "error: this model has no option --top-k: remove it\n")
    code, _, err = headwise("predict", run, "a", "--stop", ".")
    assert (code, err) == (2, "error: this model has no option --stop: remove it\n")
    code, _, err = headwise("explain", run, "the cat")
    assert code == 2
    assert "this model has no attention to look at" in err
    (folder / "pairs.tsv").write_text("a\tb\n")
    code, _, err = headwise("align", run, "pairs.tsv")
    assert (code, err) == (2, "error: this model writes no translation, so it gives no alignments\n")
    code, _, err = headwise("evaluate", run, "--columns", 0, 1)
    assert code == 2
    assert "data.columns" in err


def test_data_that_moved_is_the_same_data_and_other_data_is_not(headwise, folder):
    run = folder / "run"
    assert headwise("train", "text.toml", "--run-folder", run)[0] == 0
    (folder / "text.txt").rename(folder / "moved.txt")
    moved = ["text.toml", "data.train=moved.txt", "training.max_steps=5", "--run-folder", run]
    assert headwise("train", *moved)[0] == 0
    assert str(folder) not in (run / "README.md").read_text()
    (folder / "moved.txt").write_text("something else .\n" * 40)
    code, _, err = headwise("train", *moved)
    assert code == 3
    assert "the data has changed since this run began: train" in err


@pytest.mark.parametrize(("name", "file"), [("tag", "train.jsonl"), ("text", "text.txt"), ("classes", "reviews.csv")])
def test_a_file_of_its_own_is_scored(headwise, folder, name, file):
    assert headwise("train", f"{name}.toml", "--run-folder", folder / "run")[0] == 0
    # what the model was trained on need not be there any more
    (folder / file).rename(folder / f"other-{file}")
    code, out, err = headwise("evaluate", folder / "run", "--data", f"other-{file}", "--json")
    assert (code, err) == (0, ""), err
    assert json.loads(out)["examples"] in (60, 40)


def test_a_task_of_somebody_else_need_not_say_where_it_looks(headwise, folder):
    assert headwise("train", "sums.toml", "--run-folder", folder / "run", "--trust")[0] == 0
    code, _, err = headwise("explain", folder / "run", "1 2")
    assert code == 2
    assert "this model does not say where it looks; headwise.record(model) gives its attention, if any" in err


def test_a_continuation_is_looked_at_and_ends_where_it_is_told(headwise, folder):
    assert headwise("train", "text.toml", "--run-folder", folder / "run")[0] == 0
    code, out, err = headwise("explain", folder / "run", "a cat", "--target", " and", "--table")
    assert (code, err) == (0, "")
    assert "a cat →  and" in out
    assert "decoder.blocks.0.self_attention, mean of 2 heads: what each token looks at" in out
    code, out, err = headwise("predict", folder / "run", "a zcat", "--max-len", 40, "--stop", r"\n", "--json")
    assert (code, err) == (
        0, "warning: 1 of 6 characters was never seen in training, or too rarely to be learned: z\n"
    )  # fmt: skip
    assert "\n" not in json.loads(out)["continuations"][0]["text"]


def test_texts_of_a_table_are_classified_and_looked_at(headwise, folder):
    assert headwise("train", "classes.toml", "--run-folder", folder / "run")[0] == 0
    code, out, _ = headwise("predict", folder / "run", "reviews.csv", "--json")
    assert code == 0
    first = json.loads(out.splitlines()[0])
    assert first["text"] == "a good, 0"
    assert first["label"] == next(iter(first["probabilities"]))
    code, out, err = headwise("explain", folder / "run", "a good, bad", "--table")
    assert (code, err) == (0, "")
    assert "pooling, its only head: what each token looks at" in out
    (folder / "reviews.csv").write_text("text,label\na,b,c\n")
    code, _, err = headwise("evaluate", folder / "run")
    assert code == 3
    assert "reviews.csv:2: 3 columns, the first line has 2; put a text with a delimiter in quotes; correct these" in err
    assert "/reviews.csv --kind labelled` lists it all" in err
