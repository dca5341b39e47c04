"""`init` for every kind of task, with and without minutes; `train --dry-run`; where overridden runs go."""

import json
import textwrap
import tomllib

import pytest
from test_cli_tasks import OUTSIDE

from headwise.cli import train as train_command
from headwise.training import fitting

SUGGESTING = '''
"""A task that says what init writes for it."""

from summing_outside import Summing

from headwise.data.suggestions import Size, Suggestion


class Fitted(Summing):
    """Adds two numbers, with a recipe of its own."""

    @classmethod
    def suggest(cls, data):
        values = {**data, "training": {"batch_tokens": 4, "max_epochs": 3}}
        sizes = Size({"training.learning_rate": 0.5}, 0), Size({"training.learning_rate": 0.25}, 100)
        return Suggestion(values, "Sums", sizes)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fitting, "TRIAL_S", 0.0)
    monkeypatch.setattr(fitting.runtime, "gigaflops", lambda dtype: 1.0)
    sentences = [{"words": ["the", "cat", "sees", str(n)], "tags": ["D", "N", "V", "C"]} for n in range(60)]
    (tmp_path / "tags.jsonl").write_text("".join(json.dumps(sentence) + "\n" for sentence in sentences))
    (tmp_path / "text.txt").write_text("a cat and a dog and a cat .\n" * 40)
    (tmp_path / "pairs.tsv").write_text("".join(f"one {n}\tun {n}\n" for n in range(60)))
    reviews = "".join(f"{n},a good film {n},{n % 2}\n" for n in range(60))
    (tmp_path / "reviews.csv").write_text("stars,text,label\n" + reviews)
    (tmp_path / "sums.txt").write_text("".join(f"{n % 5} {n % 7}\n" for n in range(40)))
    (tmp_path / "summing_outside.py").write_text(textwrap.dedent(OUTSIDE))
    (tmp_path / "suggesting_outside.py").write_text(SUGGESTING)
    return tmp_path


SMALL = {
    "translate": ["model.d_model=8", "model.num_heads=2", "model.d_ff=8"],
    "tag": ["model.d_model=8", "model.hidden_dim=8"],
    "language-model": ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "length=16"],
    "classify": ["model.d_model=8", "model.hidden_dim=8"],
    "regress": ["model.d_model=8", "model.hidden_dim=8", "data.label_key=stars"],
    "summing_outside:Summing": ["training.monitor=mse"],
    "suggesting_outside:Fitted": ["training.monitor=mse"],
}
FILES = {"translate": "pairs.tsv", "tag": "tags.jsonl", "language-model": "text.txt"}
FILES |= {"classify": "reviews.csv", "regress": "reviews.csv"}


@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("minutes", [[], ["--minutes", "5"]], ids=["plain", "timed"])
def test_init_writes_a_recipe_that_trains(headwise, folder, task, minutes):
    data = FILES.get(task, "sums.txt")
    code, out, err = headwise("init", task, *SMALL[task], "--data", data, *minutes, "--output", "my.toml")
    assert code == 0, err
    assert "next: headwise train my.toml" in out
    written = tomllib.loads((folder / "my.toml").read_text())
    assert written["task"] == task
    assert written.get("data", written)["train"] == data
    if minutes:
        training = written["training"]
        assert (training["max_minutes"], training["schedule"], training["warmup_share"]) == (5.0, "budget", 0.05)
        assert training["precision"] == "fp32"
        assert "passes over the data (fp32)" in err
    code, _, err = headwise("train", "my.toml", "training.max_steps=2", "--run-folder", "run")
    assert code == 0, err


def test_a_task_of_ones_own_says_what_init_writes(headwise, folder):
    code, out, err = headwise("init", "suggesting_outside:Fitted", "--data", "sums.txt", "training.monitor=mse")
    assert code == 0, err
    recipe = (folder / "recipe.toml").read_text()
    assert recipe.startswith("# Sums of sums.txt; train it with: headwise train recipe.toml\n")
    assert tomllib.loads(recipe)["training"] == {"batch_tokens": 4, "max_epochs": 3, "monitor": "mse"}
    assert "at most 3 passes" in out


def test_init_writes_through_a_link(headwise, folder):
    (folder / "link.toml").symlink_to("mine.toml")
    made = ["init", "translate", "--data", "pairs.tsv", "--output", "link.toml", "--force"]
    assert headwise(*made)[0] == 0
    assert headwise(*made)[0] == 0
    assert (folder / "link.toml").is_symlink()
    assert "translate" in (folder / "mine.toml").read_text()


def test_init_names_the_options_of_the_task(headwise, folder):
    code, _, err = headwise("init", "tag", "--data", "tags.jsonl", "--source-key", "en")
    assert (code, err) == (2, "error: task 'tag' has no option --source-key; it has: --data, --valid, --test\n")
    code, _, err = headwise("init", "tag", "--data", "tags.jsonl", "--minutes", "0")
    assert (code, err) == (2, "error: --minutes (0) must be above 0\n")
    code, _, err = headwise("init", "tag", "--data", "nowhere.jsonl")
    assert code == 3
    assert "nowhere.jsonl" in err


def test_lists_stay_on_their_line(headwise, folder):
    given = ['show=["one 3", "one \\"4\\""]', "--columns", 1, 0]
    assert headwise("init", "translate", "--data", "pairs.tsv", *given)[0] == 0
    text = (folder / "recipe.toml").read_text()
    assert tomllib.loads(text)["show"] == ["one 3", 'one "4"']
    assert "columns = [1, 0]  # " in text


def test_a_dry_run_shows_and_writes_nothing(headwise, folder, monkeypatch):
    monkeypatch.setattr("headwise.training.trial.TRIAL_S", 0.0)
    assert headwise("init", "translate", *SMALL["translate"], "--data", "pairs.tsv")[0] == 0
    before = sorted(folder.rglob("*.toml")) + sorted(folder.rglob("*.json*"))
    code, out, err = headwise("train", "recipe.toml", "training.warmup_steps=4000", "data.limit=50", "--dry-run")
    assert (code, err) == (0, "")
    assert "train: 46 examples in 1 batch\n" in out
    assert "total: " in out
    assert "weights, gradients and optimizer: 0 MiB" in out
    assert "the warm-up of 4,000 steps does not end in the " in out
    assert "the run goes to runs/recipe,data.limit=50,training.warmup_steps=4000\n" in out
    assert sorted(folder.rglob("*.toml")) + sorted(folder.rglob("*.json*")) == before
    assert not (folder / "runs").exists()


def test_an_overridden_recipe_has_a_run_folder_of_its_own(headwise, folder):
    assert headwise("init", "summing_outside:Summing", "--data", "sums.txt", "training.monitor=mse")[0] == 0
    limit = "training.max_steps=2"
    assert headwise("train", "recipe.toml", limit)[0] == 0
    code, out, err = headwise("train", "recipe.toml", limit, "training.learning_rate=0.5")
    assert code == 0, err
    assert "trained: runs/recipe,training.learning_rate=0.5 (step 2" in out
    assert "took:    2 steps, " in out
    # a limit alone goes on with the run
    assert headwise("train", "recipe.toml", "training.max_steps=3")[0] == 0
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["recipe", "recipe,training.learning_rate=0.5"]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "r"),
        (["training.max_cpu_s=5", "training.device=cpu"], "r"),
        (["model.b=2", "model.a=1", "model.b=3"], "r,model.a=1,model.b=3"),
    ],
)
def test_names_of_run_folders(overrides, name):
    assert train_command.folder_name("r", overrides) == name


def test_names_of_run_folders_that_are_cut_stay_different():
    paths = [train_command.folder_name("r", [f"data.train={path}"]) for path in ("a/b.tsv", "a:b.tsv", "x" * 300)]
    assert len(set(paths)) == 3
    assert paths[0].startswith("r,data.train=a_b.tsv,")
    assert all("/" not in path and len(path) < 120 for path in paths)


@pytest.mark.parametrize(
    ("source", "target", "minutes"),
    [
        ("\U0001f600\u200d\U0001f469 ", "e\u0301\u0301a\u0300 ", ()),
        ("we go on and on ", "on va ", ("--minutes", "0.1")),
    ],
    ids=["joiners and marks", "long lines"],
)
def test_init_keeps_what_its_data_holds(headwise, folder, source, target, minutes):
    times = 200 if minutes else 3
    lines = [f"{source * (times + n % 3)}\t{target * (times + n % 4)}\n" for n in range(12)]
    (folder / "odd.tsv").write_text("".join(lines), encoding="utf-8")
    code, _, err = headwise(
        "init", "translate", "--data", "odd.tsv", *minutes, *SMALL["translate"], "--output", "o.toml"
    )
    assert code == 0, err
    written = tomllib.loads((folder / "o.toml").read_text())
    assert written["training"]["batch_tokens"] > max(
        written["data"][f"max_{side}_len"] for side in ("source", "target")
    )
