"""Transcription of tones: losses, scores, texts that do not fit, units, what is told."""

import json

import pytest
import torch
from life import batch_of, built_of, fitted, restored, scores_of, task_of
from sounds import listed

from headwise import metrics
from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks.speech.transcribe import Transcribe
from headwise.tasks.speech.transcriber import Units
from headwise.tasks.task import Assets

CONFORMER = {
    "kind": "conformer",
    "d_model": 8,
    "d_ff": 8,
    "num_heads": 2,
    "encoder_layers": 1,
    "dropout": 0.0,
    "kernel": 3,
}


@pytest.fixture
def make(tmp_path):
    # without silence two tones of one kind would be one
    listed(tmp_path, 40, silence=0.05)

    def made(data=None, **fields):
        data = {"train": str(tmp_path / "list.csv"), "valid_fraction": 0.2, "test_fraction": 0.0, **(data or {})}
        return task_of(
            "transcribe", {"data": data, "frames": {"bands": 6}, "model": CONFORMER, "units": "word", **fields}
        )

    return made


def test_the_loss_is_that_of_all_paths(make):
    task = make({"concatenate": [2, 3]})
    model, batch = built_of(task).eval(), batch_of(task)
    total = 0.0
    for row in range(len(batch.indices)):
        logits, places = model(batch.frames[row : row + 1, : batch.lens[row]], batch.lens[row : row + 1])
        log_probs, units = logits[0].double().log_softmax(-1), batch.targets[row, : batch.target_lens[row]].tolist()
        total -= forward(log_probs[: int(places[0])].tolist(), units)
    assert float(task.loss(model, batch).detach()) == pytest.approx(total, rel=1e-5)


def forward(log_probs, units):
    """log p(units), by the forward sums of Graves et al. 2006, eq. 6 to 8, in plain numbers."""
    labels = [0]
    for unit in units:
        labels += [unit, 0]
    odds = [[2.718281828459045**value for value in row] for row in log_probs]
    alpha = [odds[0][label] if at < 2 else 0.0 for at, label in enumerate(labels)]
    for row in odds[1:]:
        before = alpha
        alpha = []
        for at, label in enumerate(labels):
            total = before[at] + (before[at - 1] if at else 0.0)
            if at > 1 and label and label != labels[at - 2]:
                total += before[at - 2]
            alpha.append(total * row[label])
    return float(torch.tensor(sum(alpha[-2:]), dtype=torch.float64).log())


def test_texts_that_do_not_fit_or_are_unknown_give_nothing(make):
    task = make()
    batch = batch_of(task)
    model = built_of(task)
    few = type(batch)(
        batch.indices[:3],
        batch.frames[:3, :4],
        torch.tensor([4, 4, 4]),
        # equal units need a blank between them, and unit 3 is none
        torch.tensor([[1, 1], [1, 3], [2, -1]]),
        torch.tensor([2, 2, 1]),
        ["low low", "low strange", "high"],
    )
    one = type(batch)([2], few.frames[2:], few.lens[2:], few.targets[2:, :1], few.target_lens[2:], ["high"])
    loss = task.loss(model, few)
    assert torch.isfinite(loss)
    torch.testing.assert_close(loss, task.loss(model, one))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    with torch.no_grad():
        stats = task.measure(model.eval(), [few])
    assert (stats["units"], stats["words"]) == (1, 5)


def test_texts_too_short_are_told(make, tmp_path):
    text = (tmp_path / "list.csv").read_text().replace("low", "low low low low low low low low low low")
    (tmp_path / "list.csv").write_text(text)
    notes = make().assets.notes
    assert any("recordings are too short for their texts; they are not in the loss" in note for note in notes)
    (tmp_path / "list.csv").write_text(
        "path,label\n" + "\n".join(f"{n}.wav,' '" for n in range(40)).replace("' '", '"."')
    )
    assert make(units="char").known.outputs == ["."]


def test_scores_are_those_of_the_predictor(make):
    task = make({"concatenate": [2, 3], "held_out_passes": 2}, beam=3)
    model = fitted(task, 6, Limits(200))
    examples = Transcribe.examples(task.config, "valid")
    told = restored(task, model).evaluate(examples)
    scores = scores_of(task, model, tokens=50)
    assert {name: scores[name] for name in ("wer", "cer")} == pytest.approx(
        {name: told[name] for name in ("wer", "cer")}
    )
    assert 2 <= len(examples[0].label.split()) <= 3
    # as the command line calls it
    assert task.predictor(model).options({"beam_size": 7}) == 7
    with pytest.raises(ConfigError, match="this model has no option --method"):
        task.predictor(model).options({"method": "greedy"})
    assert len(task.samples(model)) == 4
    assert "writes them down in 2 words" in task.card(scores)


@pytest.mark.slow
def test_tones_are_written_down(make):
    task = make({"concatenate": [1, 3]}, model={**CONFORMER, "d_model": 16, "d_ff": 32, "kernel": 5})
    model = fitted(task, 60, Limits(400), 1e-2)
    assert scores_of(task, model, tokens=50)["wer"] < 10
    example = next(one for one in Transcribe.examples(task.config, "valid") if len(set(one.label.split())) == 2)
    (layer,) = task.predictor(model).explain(example).layers.values()
    assert layer.queries == example.label.split()
    # tones are heard in their order
    centres = (layer.weights[0] * torch.arange(layer.weights.shape[-1]).numpy()).sum(-1)
    assert (centres[1:] > centres[:-1]).all()


def test_a_text_is_found_in_a_recording(make):
    task = make({"concatenate": [2, 3]})
    predictor, example = task.predictor(built_of(task).eval()), Transcribe.examples(task.config, "valid")[0]
    found = predictor.explain(example, target="low high")
    assert (found.output, found.layers["output"].queries) == ("low high", ["low", "high"])
    assert found.row_error < 1e-9
    for target in ("low strange", "low " * 50):
        with pytest.raises(ConfigError, match="has units the model does not know, or too many"):
            predictor.explain(example, target=target)
    with pytest.raises(ConfigError, match="nothing was heard; give the text that is said as target"):
        predictor.explain(example, target="")


def test_units_are_words_or_characters():
    words, chars = Units(["one", "two"], words=True), Units([" ", "a", "b"], words=False)
    assert (words.encode("two  one three"), words.decode([2, 2, 1])) == ([2, 1, 3], "two two one")
    assert (chars.encode("a  bc"), chars.decode([1, 2, 1, 1, 3, 1])) == ([2, 1, 3, 4], "a b")


def test_error_rates():
    assert metrics.error_rate([[]], [["a", "b"]]) == 100.0
    assert metrics.edit_distance("abc", "") == metrics.edit_distance("", "abc") == 3
    assert metrics.edit_distance("abcd", "bcde") == 2
    assert metrics.edit_distance("ab", "ba") == 2


def test_wrong_configurations_and_damaged_files_are_named(make):
    with pytest.raises(ConfigError, match=r"concatenate \[3, 2\] must be the fewest"):
        make({"concatenate": [3, 2]})
    task = make()
    known = json.loads(task.assets.files["speech.json"])
    for change in (
        {"outputs": []},
        {"outputs": [1]},
        {"rate": 3},
        {"mean": [1.0]},
        {"deviation": [0.0] * 6},
        {"more": 1},
    ):
        with pytest.raises(
            CheckpointError, match=r"speech.json: does not tell outputs, rate and constants; restore it"
        ):
            Transcribe(task.config, Assets({"speech.json": json.dumps(known | change).encode()}))


def test_nothing_to_learn_is_told(make, tmp_path):
    (tmp_path / "list.csv").write_text("path,label\n0.wav,a\n")
    with pytest.raises(DataError, match="leaves none for"):
        make({"valid_fraction": 0.9})
