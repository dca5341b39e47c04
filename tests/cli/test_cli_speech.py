"""Speech from the command line: init, train, predict, evaluate, explain; and what is refused."""

import json

import pytest
from sounds import listed, timed

SHORT = ["training.max_steps=2", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "model.encoder_layers=1", "frames.bands=6"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, 30)
    timed(tmp_path, 30)
    return tmp_path


@pytest.mark.parametrize("task", ["speech-classify", "transcribe"])
def test_from_a_list_to_answers(headwise, folder, task):
    code, out, err = headwise("init", task, *SHORT, "--data", "list.csv")
    assert (code, err) == (0, "")
    assert f"{task}; conformer of 1 layers, 8 wide; at most 2 steps" in out
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    code, out, err = headwise("predict", "run", "0.wav", "1.wav", "--json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["path"] for line in out.splitlines()] == ["0.wav", "1.wav"]
    code, out, err = headwise("evaluate", "run", "--data", "list.csv", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out).keys() >= ({"accuracy", "macro_f1"} if task == "speech-classify" else {"wer", "cer"})
    if task == "speech-classify":
        code, out, err = headwise("explain", "run", "0.wav")
        assert (code, err) == (0, "")
        assert (folder / "figures" / "attention.png").stat().st_size > 1000
    (folder / "bad.wav").write_bytes(b"RIFF")
    code, _, err = headwise("predict", "run", "bad.wav")
    assert code == 3
    assert "bad.wav: is no WAV or FLAC file; " in err


def test_labels_of_frames_from_a_list_to_labels_again(headwise, folder):
    keys = ["data.marks_key=marks"]
    code, out, err = headwise("init", "speech-tag", *SHORT, *keys, "--data", "timed.csv")
    assert (code, err) == (0, "")
    assert "speech-tag; conformer of 1 layers, 8 wide; at most 2 steps" in out
    code, out, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    code, out, err = headwise("predict", "run", "two0.wav")
    assert (code, err) == (0, "")
    starts, ends, labels = zip(*(line.split("\t") for line in out.splitlines()), strict=True)
    assert (starts[0], ends[-1]) == ("0.000", "0.110")
    assert (starts[1:], set(labels) <= {"low", "high"}) == (ends[:-1], True)
    code, out, err = headwise("evaluate", "run", "--data", "timed.csv", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out).keys() >= {"accuracy", "macro_f1", "baselines"}
    code, out, err = headwise("explain", "run", "two0.wav")
    assert (code, err) == (0, "")
    assert (folder / "figures" / "attention.png").stat().st_size > 1000
    (folder / "two3.txt").write_text("0 1\n")
    code, _, err = headwise("train", "recipe.toml", "--run-folder", "other")
    assert code == 3
    assert "timed.csv:5: " in err
    assert "two3.txt:1: '0 1' is not start, end and label; put tabs between them; " in err


def test_a_text_by_attention_from_a_list_to_answers(headwise, folder):
    output = ["output.kind=attention", "output.decoder.d_model=8", "output.decoder.d_ff=8", "units=word"]
    output += ["output.decoder.num_heads=2", "output.decoder.num_layers=1", "output.decoding.max_len=4"]
    code, _, err = headwise("init", "transcribe", *SHORT, *output, "--data", "list.csv")
    assert (code, err) == (0, "")
    recipe = (folder / "recipe.toml").read_text()
    # sections inside a section, each key with its description
    assert "[output.decoder]  # what writes the text\nd_model = 8  # width of the embeddings" in recipe
    code, _, err = headwise("train", "recipe.toml", "--run-folder", "run")
    assert code == 0, err
    code, out, err = headwise("predict", "run", "0.wav", "1.wav", "--json", "--beam", "2")
    assert (code, err) == (0, "")
    assert [json.loads(line)["path"] for line in out.splitlines()] == ["0.wav", "1.wav"]
    code, out, err = headwise("evaluate", "run", "--data", "list.csv", "--json")
    assert json.loads(out).keys() >= {"wer", "cer", "exact"}
    code, out, err = headwise("explain", "run", "0.wav", "--target", "low high")
    assert (code, err) == (0, "")
    assert "<eos>" in out
