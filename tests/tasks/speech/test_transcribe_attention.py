"""Transcription by a decoder with attention: losses with and without CTC, places, search, where units look."""

import pytest
import torch
from life import batch_of, built_of, fitted, restored, scores_of, task_of
from sounds import listed
from torch.nn import functional as F

from headwise.data.sources import Limits
from headwise.decoding.search import DecodingConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks.speech.models import filled
from headwise.tasks.speech.transcribe import Transcribe
from headwise.tasks.task import Assets

BLOCK = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.0}
CONFORMER = {"kind": "conformer", **BLOCK, "encoder_layers": 1, "kernel": 3}


@pytest.fixture
def make(tmp_path):
    listed(tmp_path, 40, silence=0.05)

    def made(data=None, decoder=None, model=None, frames=None, units="word", beam=1, **output):
        data = {"train": str(tmp_path / "list.csv"), "valid_fraction": 0.2, "test_fraction": 0.0, **(data or {})}
        decoder = {**BLOCK, "num_layers": 1, **(decoder or {})}
        return task_of(
            "transcribe",
            {
                "data": data,
                "frames": {"bands": 6, **(frames or {})},
                "model": {**CONFORMER, **(model or {})},
                "units": units,
                "beam": beam,
                "output": {"kind": "attention", "decoder": decoder, "decoding": {"max_len": 6}, **output},
            },
        )

    return made


def test_the_loss_is_the_mean_of_both_by_their_weight(make):
    task = make({"concatenate": [2, 3]}, label_smoothing=0.1, ctc_weight=0.25)
    model, batch = built_of(task).eval(), batch_of(task)
    assert batch.num_tokens == sum(len(label.split()) + 1 for label in batch.labels)
    ids, written, heard = task.way.tokenizer, 0.0, 0.0
    for row, label in enumerate(batch.labels):
        # each recording alone, filled up to whole places by its last frame
        frames = batch.frames[row, : batch.lens[row]]
        frames = torch.cat([frames, frames[-1:]])[None, : (len(frames) + 1) // 2 * 2]
        places = torch.tensor([frames.shape[1] // 2])
        tokens = ids.encode(label)
        logits = model(frames, places, torch.tensor([[ids.bos_id, *tokens]]))[0]
        written += F.cross_entropy(logits, torch.tensor([*tokens, 2]), reduction="sum", label_smoothing=0.1)
        odds = model.encoder.units(model.encoder(frames, places).states).log_softmax(-1)
        lens = torch.tensor([len(tokens)])
        heard += F.ctc_loss(odds.transpose(0, 1), torch.tensor([tokens]), places, lens, reduction="sum")
    torch.testing.assert_close(task.loss(model, batch), 0.75 * written + 0.25 * heard, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        scores = task.summarise(task.measure(model, [batch]))
    # in validation the likelihood is the decoder's alone
    plain = make({"concatenate": [2, 3]}, label_smoothing=0.0, ctc_weight=0.0)
    assert [name for name, _ in built_of(plain).named_parameters() if "units" in name] == []
    bare = built_of(plain).eval()
    bare.load_state_dict({name: value for name, value in model.state_dict().items() if "units" not in name})
    assert scores["loss"] == pytest.approx(float(plain.loss(bare, batch).detach()) / batch.num_tokens, rel=1e-4)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_recordings_are_filled_up_to_whole_places(make, factor):
    frames, lens = torch.arange(35.0).view(1, 7, 5).repeat(2, 1, 1), torch.tensor([7, 5])
    full, places = filled(frames, lens, factor)
    assert places.tolist() == [-(-7 // factor), -(-5 // factor)]
    for row, length in enumerate(lens.tolist()):
        for at in range(full.shape[1]):
            assert torch.equal(full[row, at], frames[row, min(at, length - 1)])
    # so the encoder counts as many places as the decoder looks at
    model = built_of(make(frames={"subsampling": factor})).eval()
    frames = torch.randn(2, 7, 6)
    full, places = filled(frames, lens, factor)
    states, counted = model.encoder.listener(full, places * factor)
    assert counted.tolist() == places.tolist()
    alone, place = filled(frames[1:, :5], lens[1:], factor)
    torch.testing.assert_close(model.encoder(alone, place).states[0], states[1, : int(place)])


def test_scores_are_those_of_the_predictor(make):
    task = make({"concatenate": [2, 3], "held_out_passes": 2}, decoding={"method": "greedy", "max_len": 6})
    model = fitted(task, 6, Limits(200))
    examples = Transcribe.examples(task.config, "valid")
    predictor = restored(task, model)
    told, scores = predictor.evaluate(examples), scores_of(task, model, tokens=50)
    assert {name: scores[name] for name in ("wer", "cer")} == pytest.approx(
        {name: told[name] for name in ("wer", "cer")}
    )
    assert len(task.samples(model)) == 4
    beam = predictor.options({"beam_size": 3})
    assert beam.decoding == DecodingConfig(method="beam", beam_size=3, max_len=6)
    assert len(predictor.predict(examples, beam)) == len(examples)
    with pytest.raises(ConfigError, match="a transcriber writes one text: remove --n-best"):
        predictor.options({"n_best": 2})
    with pytest.raises(ConfigError, match="this model has no option --stop"):
        predictor.options({"stop": "x"})


@pytest.mark.slow
def test_tones_are_written_by_a_decoder(make):
    task = make({"concatenate": [1, 3]}, model={"d_model": 16, "d_ff": 32, "kernel": 5})
    model = fitted(task, 150, Limits(400), 1e-2)
    assert scores_of(task, model, tokens=50)["wer"] < 15


@pytest.mark.parametrize("width", [8, 12])
def test_every_unit_looks_at_places(make, width):
    task = make({"concatenate": [2, 3]}, decoder={"d_model": width, "num_layers": 2})
    predictor, example = task.predictor(built_of(task).eval()), Transcribe.examples(task.config, "valid")[0]
    found = predictor.explain(example, target="low high")
    assert found.output == "low high"
    layers = [found.layers[name] for name in found.shown()]
    places = -(-(len(example.samples) // 16) // 2)
    assert [layer.kind for layer in layers] == ["cross", "cross"]
    assert {layer.weights.shape for layer in layers} == {(2, 3, places)}
    assert layers[0].queries == ["low", "high", "<eos>"]
    assert found.row_error < 1e-5
    assert len(found.page().axes) >= 2
    with pytest.raises(ConfigError, match="'low strange' has units the model does not know; write it with others"):
        predictor.explain(example, target="low strange")
    # nothing is a text too: its end looks somewhere
    assert predictor.explain(example, target="").layers[found.shown()[0]].queries == ["<eos>"]


def test_what_stands_between_texts_is_a_unit(make):
    ids = make({"concatenate": [2, 3]}, units="char").way.tokenizer
    assert ids.unk_id not in ids.encode("low high")
    assert ids.decode(ids.encode("low high")) == "low high"
    assert ids.unk_id in make(units="char").way.tokenizer.encode("low high")


def test_what_does_not_fit_is_refused(make, tmp_path):
    with pytest.raises(ConfigError, match=r"beam .3. is for output.kind ctc; set output.decoding.beam_size to 3"):
        make(beam=3)
    with pytest.raises(ConfigError, match=r"output.decoder.memory_len .5. is for long texts"):
        make(decoder={"position": "shaw", "memory_len": 5}).build()
    with pytest.raises(ConfigError, match=r"up to 7 units need as many places, but the decoder has a table of 6"):
        make(decoder={"position": "learned", "max_len": 6})
    with pytest.raises(ConfigError, match=r"texts of up to 8 units .* set output.decoder.max_len to at least 8"):
        make({"concatenate": [1, 4]}, decoder={"position": "learned", "max_len": 7})
    make({"concatenate": [1, 4]}, decoder={"position": "learned", "max_len": 8})
    task = make()
    with pytest.raises(CheckpointError, match=r"tokenizer.json is missing from the run folder"):
        Transcribe(task.config, Assets({"speech.json": task.assets.files["speech.json"]}))
    (tmp_path / "valid.csv").write_text("path,label\n0.wav,low\n1.wav,strange\n")
    notes = make({"valid": str(tmp_path / "valid.csv")}).assets.notes
    assert "valid: 1 texts have words that training lacks; they cannot be written" in notes


@pytest.mark.parametrize(("method", "told"), [("greedy", False), ("beam", True)])
def test_that_validation_is_greedy_is_said_where_the_recipe_says_otherwise(make, method, told):
    notes = " ".join(make(decoding={"max_len": 6, "method": method}).assets.notes)
    assert (f"write as output.decoding.method says ({method})" in notes, "greedy search" in notes) == (told, told)
