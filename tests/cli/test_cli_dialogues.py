"""Dialogues from the command line: init, train, resume, predict, evaluate, explain; and what is refused."""

import json

import pytest

from headwise.tasks.translation.talk import dialogue

SHORT = ["training.max_steps=3", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "decoding.max_len=4"]
CONTEXT = "my name is ben ||| hello ben ||| what is my name ?"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"turns": dialogue(number)}) for number in range(60)]
    (tmp_path / "talks.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_from_dialogues_to_answers(headwise, folder):
    code, _, err = headwise("init", "dialogue", *SHORT, "--data", "talks.jsonl")
    assert (code, err) == (0, "")
    recipe = (folder / "recipe.toml").read_text()
    assert 'train = "talks.jsonl"  # JSON lines or TSV, a dialogue a line' in recipe
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    assert " dialogues" in (folder / "run" / "log.txt").read_text()
    assert headwise("train", "recipe.toml", "training.max_steps=5", "--run-folder", "run")[0] == 0
    code, out, err = headwise("predict", "run", "--text", CONTEXT, "--text", "i like tea")
    assert (code, err) == (0, "")
    answers = out.splitlines()
    assert len(answers) == 2
    turns = CONTEXT.split(" ||| ")
    (folder / "contexts.jsonl").write_text(json.dumps({"turns": turns}) + '\n{"turns": ["i like tea"]}\n')
    (folder / "contexts.tsv").write_text("\t".join(turns) + "\ni like tea\n")
    (folder / "contexts.txt").write_text(CONTEXT + "\ni like tea\n")
    for name in ("contexts.jsonl", "contexts.tsv", "contexts.txt"):
        code, out, err = headwise("predict", "run", name)
        assert (code, out.splitlines()) == (0, answers), err
    code, out, _ = headwise("predict", "run", "-", "--json", "--n-best", 2, stdin=f"{CONTEXT}\n".encode())
    assert code == 0
    said = json.loads(out)
    assert said["turns"] == turns
    assert len(said["answers"]) == 2
    code, out, err = headwise("evaluate", "run", "--data", "talks.jsonl", "--json")
    assert (code, err) == (0, "")
    assert {"bleu", "chrf", "loss", "perplexity", "distinct1", "distinct2"} <= set(json.loads(out))
    code, out, err = headwise("explain", "run", CONTEXT)
    assert (code, err) == (0, "")
    assert out.startswith(f"{CONTEXT} → ")
    assert (folder / "figures" / "attention.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alone", "talks.jsonl:1: not valid JSON"),
        ('{"turns": ["alone"]}', "talks.jsonl:1: nothing in it answers a turn before it; give two turns or more"),
        ('{"turn": ["a", "b"]}', "talks.jsonl:1: missing field 'turns'"),
        ("", "talks.jsonl: no dialogues in it"),
    ],
)
def test_faults_of_data_end_with_their_line_and_what_to_do(headwise, folder, text, message):
    (folder / "talks.jsonl").write_text(text)
    code, _, err = headwise("init", "dialogue", "--data", "talks.jsonl")
    assert code == 3
    assert message in err
    assert len(err.splitlines()) == 1
