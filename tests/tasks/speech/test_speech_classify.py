"""Classification of tones: losses, scores, every kind of encoder, what is refused."""

import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of
from sounds import listed, wave
from torch.nn import functional as F

from headwise.data.sources import Limits
from headwise.errors import ConfigError, DataError
from headwise.tasks.speech.speech_classify import SpeechClassify

SIZES = {"d_model": 8, "dropout": 0.0}
BLOCKS = {**SIZES, "d_ff": 8, "num_heads": 2, "encoder_layers": 1}
KINDS = {
    "conformer": {**BLOCKS, "kernel": 3},
    "attention": BLOCKS,
    "rnn": {**SIZES, "hidden_dim": 5},
    "cnn": {**SIZES, "num_layers": 1},
    "window": {**SIZES, "d_ff": 8, "radius": 5},
    "token": {**SIZES, "d_ff": 8},
}


@pytest.fixture
def make(tmp_path):
    listed(tmp_path, 40)

    def made(kind="conformer", data=None, **fields):
        data = {"train": str(tmp_path / "list.csv"), "valid_fraction": 0.2, "test_fraction": 0.0, **(data or {})}
        model = {"kind": kind, **KINDS[kind]}
        return task_of("speech-classify", {"data": data, "frames": {"bands": 6}, "model": model, **fields})

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_whatever_listens(make, kind):
    task = make(kind)
    model, batch = built_of(task).eval(), batch_of(task)
    together = model(batch.frames, batch.lens)
    poisoned = torch.where(torch.arange(batch.frames.shape[1])[:, None] < batch.lens[:, None, None], batch.frames, 1e3)
    torch.testing.assert_close(model(poisoned, batch.lens), together)
    for row in (0, len(batch.indices) - 1):
        length = batch.lens[row : row + 1]
        torch.testing.assert_close(model(batch.frames[row : row + 1, : int(length)], length)[0], together[row])


def test_the_loss_is_the_cross_entropy_of_known_classes(make, tmp_path):
    (tmp_path / "valid.csv").write_text("path,label\n0.wav,low\n1.wav,high\n2.wav,strange\n")
    task = make(data={"valid": str(tmp_path / "valid.csv")}, label_smoothing=0.1)
    model, batch = built_of(task).eval(), batch_of(task, "valid")
    order = sorted(range(3), key=lambda row: batch.indices[row])
    assert [batch.targets[row].item() for row in order] == [1, 0, 2]
    known = [row for row in range(3) if batch.targets[row] < 2]
    wanted = F.cross_entropy(
        model(batch.frames, batch.lens)[known], batch.targets[known, 0], reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(task.loss(model, batch), wanted)
    assert "valid: classes that training lacks, so that they cannot be got right: strange (1)" in task.assets.notes
    assert scores_of(task, model)["accuracy"] <= 2 / 3


@pytest.mark.slow
def test_tones_are_told_apart(make):
    task = make(pooling={"kind": "attention"})
    model = fitted(task, 30, Limits(400), 1e-2)
    assert scores_of(task, model)["accuracy"] > 0.9


def test_scores_are_those_of_the_predictor(make):
    task = make(pooling={"kind": "attention"})
    model = built_of(task).eval()
    scores, predictor = scores_of(task, model), restored(task, model)
    told = predictor.evaluate(SpeechClassify.examples(task.config, "valid"))
    assert told["accuracy"] == pytest.approx(scores["accuracy"])
    found = predictor.explain(SpeechClassify.examples(task.config, "valid")[0])
    assert found.shown() == ["pooling.attention"]
    assert len(task.samples(model)) == 4
    assert "tells 2 classes apart" in task.card(scores)


def test_a_recording_is_no_longer_than_recordings_may_be_however_it_is_named(make, tmp_path):
    task = make()
    predictor = restored(task, built_of(task).eval())
    # of 200 bytes, and two minutes by its header: memory is by seconds
    (tmp_path / "slow.wav").write_bytes(wave([0.5] * 80 + [0.0] * 40, rate=1))
    for read in (
        lambda: predictor.predict([str(tmp_path / "slow.wav")]),
        lambda: [*predictor.read(tmp_path / "slow.wav")],
    ):
        with pytest.raises(DataError, match=r"slow.wav: is 120 s long, more than 60; cut it, or set data.max_seconds"):
            read()


def test_recordings_wait_at_the_rate_of_the_model(make, tmp_path):
    task = make()
    predictor, path = restored(task, built_of(task).eval()), tmp_path / "fast.wav"
    path.write_bytes(wave([0.5, -0.5] * 40_000, rate=80_000))
    rate = predictor.known.rate
    for one in (predictor.parse(str(path)), *predictor.read(path)):
        assert (one.rate, len(one.samples)) == (rate, rate)


def test_what_cannot_be_is_refused(make, tmp_path):
    with pytest.raises(ConfigError, match=r'pooling\.kind = "cls" is for texts'):
        make(pooling={"kind": "cls"})
    with pytest.raises(DataError, match="there is nothing to score"):
        restored(make(), built_of(make())).evaluate([])
    (tmp_path / "list.csv").write_text("path,label\n0.wav,a\n1.wav,a\n2.wav,a\n")
    with pytest.raises(DataError, match="all recordings are of one class, 'a'"):
        make(data={"valid_fraction": 0.0})


def test_the_mean_of_bands_is_a_baseline(make):
    task = make("token")
    examples = task.examples(task.config, "valid")
    ear = task.predictor(built_of(task))
    heard = ear.spectrogram(ear.heard(examples[0]))
    wanted = [*heard.mean(1), *heard.std(1)]
    assert ear.summaries(examples)[0] == pytest.approx(wanted, abs=1e-4)
    found = baselines_of(task, built_of(task), examples)
    # low tones and high ones
    assert found["mean bands and logistic regression"]["accuracy"] == 1.0
