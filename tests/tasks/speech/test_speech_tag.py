"""Labels of frames: every encoder, losses, scores, answers in seconds, the parameters of a window, what is refused."""

import json

import numpy as np
import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of
from sounds import RATE, TONES, listed, timed, tone, wave
from torch.nn import functional as F

from headwise.data.sources import Limits
from headwise.errors import ConfigError, DataError
from headwise.records import record
from headwise.tasks.speech.encoders import FrameWindowConfig
from headwise.tasks.speech.models import FramesConfig, build_frame_tagger
from headwise.tasks.speech.speech_tag import SpeechTag

SIZES = {"d_model": 8, "dropout": 0.0}
BLOCKS = {**SIZES, "d_ff": 8, "num_heads": 2, "encoder_layers": 1}
KINDS = {
    "conformer": {**BLOCKS, "kernel": 3, "window": 3},
    "attention": BLOCKS,
    "rnn": {**SIZES, "hidden_dim": 5},
    "cnn": {**SIZES, "num_layers": 1},
    "window": {**SIZES, "d_ff": 8, "radius": 5},
    "mlp": {"hidden": [8], "dropout": 0.0},
    "token": {**SIZES, "d_ff": 8},
}


@pytest.fixture
def make(tmp_path):
    timed(tmp_path, 40)

    def made(kind="conformer", data=None, frames=None, **fields):
        data = {"train": str(tmp_path / "timed.csv"), "marks_key": "marks", **(data or {})}
        data = {"valid_fraction": 0.2, "test_fraction": 0.0, **data}
        frames = {"bands": 6, **(frames or {})}
        return task_of("speech-tag", {"data": data, "frames": frames, "model": {"kind": kind, **KINDS[kind]}, **fields})

    return made


def said(found):
    return [mark.label for mark in found.marks]


@pytest.mark.parametrize("factor", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_neighbours_change_nothing_whatever_listens(make, kind, factor):
    if kind == "mlp" and factor > 1:
        pytest.skip("it reads frames as they are")
    task = make(kind, frames={"subsampling": factor})
    model, batch = built_of(task).eval(), batch_of(task)
    together = model(batch.frames, batch.lens)
    assert together.shape == (*batch.frames.shape[:2], 2)
    here = torch.arange(batch.frames.shape[1]) < batch.lens[:, None]
    poisoned = torch.where(here[..., None], batch.frames, 1e3)
    torch.testing.assert_close(model(poisoned, batch.lens)[here], together[here])
    for row in (0, len(batch.indices) - 1):
        length = batch.lens[row : row + 1]
        alone = model(batch.frames[row : row + 1, : int(length)], length)[0]
        torch.testing.assert_close(alone, together[row, : int(length)])
        # frames of one place have one answer
        torch.testing.assert_close(alone, alone[torch.arange(len(alone)) // factor * factor])


def test_a_second_has_a_hundred_labels(make, tmp_path):
    predictor = make("mlp").predictor(built_of(make("mlp")).eval())
    (tmp_path / "long.wav").write_bytes(wave(tone(200, 5.0)))
    (found,) = predictor.predict([str(tmp_path / "long.wav")])
    assert (len(found.labels), found.seconds) == (500, 0.01)
    assert found.marks[0].start == 0
    assert found.marks[-1].end == pytest.approx(5.0)


def test_a_window_of_eleven_frames_has_a_thousandth_of_a_percent_of_all_frames_at_once():
    # 39 numbers a frame, 48 labels: the window of the course notes, and all of 1,000 frames to 1,000 labels
    constants = [0.0] * 39, [1.0] * 39
    window = FrameWindowConfig(radius=5, hidden=[])
    model = build_frame_tagger(window, FramesConfig(bands=39, subsampling=1), constants, 48)
    assert [tuple(weight.shape) for weight in model.parameters()] == [(48, 11 * 39), (48,)]
    assert model.labeller.head.weight.numel() == 11 * 39 * 48 == 20_592
    with torch.device("meta"):
        whole = torch.nn.Linear(1000 * 39, 1000 * 48, bias=False)
    assert whole.weight.numel() == 1_872_000_000
    # it is those weights and no others
    frames = torch.randn(1, 20, 39)
    rows = F.pad(frames[0], (0, 0, 5, 5)).unfold(0, 11, 1).mT.flatten(1)
    wanted = rows @ model.labeller.head.weight.T + model.labeller.head.bias
    torch.testing.assert_close(model.eval()(frames, torch.tensor([20]))[0], wanted)


def test_the_loss_is_the_cross_entropy_of_labelled_frames(make, tmp_path):
    (tmp_path / "two0.txt").write_text("0 0.03 low\n0.05 0.08 strange\n")
    (tmp_path / "valid.csv").write_text("path,marks\ntwo0.wav,two0.txt\ntwo1.wav,two1.txt\n")
    (tmp_path / "timed.csv").write_text((tmp_path / "timed.csv").read_text().replace("two0.wav,two0.txt\n", ""))
    task = make(data={"valid": str(tmp_path / "valid.csv")}, label_smoothing=0.1)
    model, batch = built_of(task).eval(), batch_of(task, "valid")
    row = batch.indices.index(0)
    assert batch.targets[row].tolist()[:11] == [1] * 3 + [-1] * 2 + [2] * 3 + [-1] * 3
    assert batch.num_tokens == 6 + int(batch.lens[1 - row])
    known = (batch.targets >= 0) & (batch.targets < 2)
    logits = model(batch.frames, batch.lens)[known]
    wanted = F.cross_entropy(logits, batch.targets[known], reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(task.loss(model, batch), wanted)
    assert "valid: 5 of 25 frames have no label; set data.rest to one" in task.assets.notes
    assert any("labels that training lacks, " in note and "strange (" in note for note in task.assets.notes)
    with torch.no_grad():
        stats = task.measure(model, [batch])
    assert stats["known"] == int(known.sum())
    assert sum(value for name, value in stats.items() if name.startswith("gold")) == 20
    rested = make(data={"valid": str(tmp_path / "valid.csv"), "rest": "low"})
    assert batch_of(rested, "valid").num_tokens == 11 + int(batch.lens[1 - row])


def test_scores_are_those_of_the_predictor(make):
    task = make(data={"concatenate": [2, 3], "held_out_passes": 2})
    model = fitted(task, 6, Limits(200))
    examples = SpeechTag.examples(task.config, "valid")
    assert 4 <= len(examples[0].marks) <= 6
    told, scores = restored(task, model).evaluate(examples), scores_of(task, model, tokens=50)
    for name in ("accuracy", "macro_f1"):
        assert told[name] == pytest.approx(scores[name])
    frames = [label for one in examples for label in _frames(one)]
    most = max(frames.count(label) for label in frames)
    assert baselines_of(task, model, examples)["majority"]["accuracy"] == pytest.approx(most / len(frames))
    assert "low precision" in told["per_class"]
    assert len(task.samples(model)) == 4
    assert "gives each frame of 10 ms one of 2 labels" in task.card(scores)


def _frames(one):
    """The label of the middle of every frame, by a loop."""
    found = []
    for frame in range(len(one.samples) // (RATE // 100)):
        (label,) = [mark.label for mark in one.marks if mark.start <= (frame + 0.5) / 100 < mark.end]
        found.append(label)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conformer", "mlp"])
def test_tones_are_found_in_time(make, tmp_path, kind):
    task = make(kind, data={"concatenate": [1, 3]})
    model = fitted(task, 60, Limits(400), 1e-2)
    assert scores_of(task, model)["accuracy"] > 0.9
    sound = np.concatenate([tone(TONES[name], 0.2) for name in ("low", "high", "low")])
    (tmp_path / "three.wav").write_bytes(wave(sound))
    (found,) = task.predictor(model).predict(str(tmp_path / "three.wav"))
    assert said(found) == ["low", "high", "low"]
    assert [mark.start for mark in found.marks] == pytest.approx([0, 0.2, 0.4], abs=0.021)


def test_answers_can_be_read_as_labels_again(make, tmp_path):
    task = make("mlp")
    predictor = task.predictor(built_of(task).eval())
    (item,) = predictor.read(tmp_path / "two1.wav")
    (found,) = predictor.predict([item])
    text = predictor.write(item, found, "text")
    assert [line.split("\t")[2] for line in text] == said(found)
    (tmp_path / "two1.txt").write_text("\n".join(text))
    (tmp_path / "again.csv").write_text("path,marks\ntwo1.wav,two1.txt\n")
    again = make("mlp", data={"valid": str(tmp_path / "again.csv")})
    assert predictor.evaluate(SpeechTag.examples(again.config, "valid"))["accuracy"] == 1.0
    (line,) = predictor.write(item, found, "json")
    assert json.loads(line)["marks"] == [[pytest.approx(m.start), pytest.approx(m.end), m.label] for m in found.marks]


@pytest.mark.parametrize("factor", [1, 4])
def test_what_frames_look_at_is_told_by_stretch(make, factor):
    task = make(frames={"subsampling": factor})
    model = fitted(task, 10)
    predictor, one = task.predictor(model), SpeechTag.examples(task.config, "valid")[0]
    found = predictor.explain(one)
    (labels,) = predictor.predict([one])
    places = -(-len(labels.labels) // factor)
    (name,) = found.shown()
    layer = found.layers[name]
    assert layer.queries == [f"{mark.label} {mark.start:.2f} s" for mark in labels.marks]
    assert layer.weights.shape == (2, len(labels.marks), places)
    # the first row is the mean of the rows of its frames' places
    (batch,) = predictor.batches(one)
    with torch.no_grad():
        with record(model) as trace:
            model(batch.frames, batch.lens)
        rows = trace[trace.names()[0]].weights()[0].double()
    first = len([frame for frame in range(len(labels.labels)) if frame * 0.01 < labels.marks[0].end - 1e-9])
    wanted = rows[:, torch.arange(first) // factor].mean(1)
    np.testing.assert_allclose(layer.weights[:, 0], wanted, rtol=1e-5, atol=1e-7)
    assert found.layers["output"].weights.shape == (1, len(labels.marks), 2)
    upper, lower, strip = found.page().axes[:3]
    assert upper.get_xlim() == lower.get_xlim() == strip.get_xlim()
    odds = found.page("output").axes[1].images[0].get_array()
    np.testing.assert_allclose(odds, predictor.probabilities([one])[0].T, rtol=1e-6)


def test_a_model_without_attention_shows_probabilities(make):
    task = make("mlp")
    found = task.predictor(built_of(task).eval()).explain(SpeechTag.examples(task.config, "valid")[0])
    assert list(found.layers) == found.shown() == ["output"]
    assert found.lines()[0] == "output: the likeliest tags"


def test_what_cannot_be_is_refused(make, tmp_path):
    with pytest.raises(ConfigError, match=r'model.kind = "mlp" reads frames as they are; leave out frames.subsampling'):
        make("mlp", frames={"subsampling": 2})
    task = make("mlp")
    predictor = task.predictor(built_of(task).eval())
    with pytest.raises(ConfigError, match="leave the target out"):
        predictor.explain(str(tmp_path / "two1.wav"), "low")
    with pytest.raises(DataError, match="there is nothing to score"):
        predictor.evaluate([])
    with pytest.raises(DataError, match=r"two1.wav: has no labels in time to compare with"):
        predictor.evaluate([predictor.parse(str(tmp_path / "two1.wav"))])
    for file in tmp_path.glob("two*.txt"):
        file.write_text("0 0.001 low\n")
    with pytest.raises(DataError, match="there is nothing to score: no frame has a label"):
        predictor.evaluate(SpeechTag.examples(task.config, "valid"))
    with pytest.raises(DataError, match=r"timed.csv: no frame has a label: there is nothing to learn"):
        make("mlp")
    for file in tmp_path.glob("two*.txt"):
        file.write_text("0 0.1 low\n")
    with pytest.raises(DataError, match="all frames are of one class, 'low'"):
        make("mlp")
    listed(tmp_path, 40)
    classes = make("mlp", {"train": str(tmp_path / "list.csv"), "marks_key": None, "classes": ["low", "high", "hum"]})
    assert classes.known.outputs == ["low", "high", "hum"]
