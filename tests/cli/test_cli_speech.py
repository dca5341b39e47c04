"""Speech from the command line: init, train, predict, evaluate, explain; and what is refused."""

import json

import pytest
from sounds import listed

SHORT = ["training.max_steps=2", "training.max_epochs=0", "training.schedule=constant", "training.warmup_share=0"]
SHORT += ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "model.encoder_layers=1", "frames.bands=6"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, 30)
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
    assert "bad.wav: is no WAV file; convert it to WAV, for example with ffmpeg" in err
