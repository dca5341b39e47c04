"""A service over small trained runs, asked without a network."""

import json

import pytest
from asking_client import client_of

import headwise
from headwise.service.loaded import load_runs

TRAINING = {"max_steps": 3, "baseline_cpu_s": 0, "batch_tokens": 64, "validate_every_epochs": 0, "warmup_steps": 1}
WORDS = {"kind": "word"}
RECIPES = {
    "german": {
        "task": "translate",
        "data": {"train": "pairs.tsv"},
        "tokenizer": {**WORDS, "joint": False},
        "model": {
            "kind": "transformer",
            "d_model": 8,
            "d_ff": 8,
            "num_heads": 2,
            "encoder_layers": 1,
            "decoder_layers": 1,
        },
        "decoding": {"max_len": 9},
        "film": {"every": 1},
    },
    "mood": {
        "task": "classify",
        "data": {"train": "moods.csv"},
        "tokenizer": WORDS,
        "pooling": {"kind": "attention"},
        "model": {"kind": "token", "d_model": 8, "d_ff": 8},
    },
    "text": {
        "task": "language-model",
        "length": 16,
        "data": {"train": "text.txt"},
        "tokenizer": {"kind": "char"},
        "model": {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1},
        "decoding": {"method": "greedy", "max_len": 12},
    },
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A run folder for each recipe."""
    place = tmp_path_factory.mktemp("served")
    pairs = [f"{a} and {b} .\t{b} und {a} ." for a in "abcdef" for b in "ghijk"]
    (place / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    moods = [f"the film is {word} {n},{label}" for n in range(12) for word, label in (("good", "yes"), ("bad", "no"))]
    (place / "moods.csv").write_text("text,label\n" + "\n".join(moods) + "\n")
    (place / "text.txt").write_text("".join(f"{'abc' * (1 + n % 3)} has {n % 7}.\n" for n in range(60)))
    for name, recipe in RECIPES.items():
        data = {"train": str(place / recipe["data"]["train"])}
        headwise.train({**recipe, "data": data, "training": TRAINING}, place / name)
    return [place / name for name in RECIPES]


@pytest.fixture(scope="session")
def runs(folders):
    return load_runs(folders)


@pytest.fixture
def client(runs):
    with client_of(runs) as found:
        yield found


@pytest.fixture
def ask(client):
    """Asks a verb: (status, the answer as JSON)."""

    def send(verb, content=None, headers=None, **values):
        body = json.dumps(values) if content is None else content
        kind = {"Content-Type": "application/json", **(headers or {})}
        answer = client.post(f"/api/v1/{verb}", content=body, headers=kind)
        return answer.status_code, answer.json()

    return send
