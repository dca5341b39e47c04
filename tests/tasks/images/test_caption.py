"""Captions of drawn shapes and stripes: batches, losses, scores against several references, what a run keeps."""

import json

import numpy as np
import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of
from pictures import npz

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks.images.caption import Caption
from headwise.tasks.images.captions import captions_of
from headwise.tasks.images.shapes import draw
from headwise.tasks.task import Assets, Given

SIZES = {"d_model": 16, "d_ff": 16, "num_heads": 2, "dropout": 0.0}
VIT = {"kind": "vit", "patch": 8, "pooling": "mean", "encoder_layers": 1, **SIZES}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    drawn = [draw(number, 16) for number in range(60)]
    texts = [[one.caption, "two shapes" if number % 3 else ""] for number, one in enumerate(drawn)]
    (folder / "train.npz").write_bytes(npz(images=np.stack([one.pixels for one in drawn]), captions=np.array(texts)))
    return folder


@pytest.fixture
def make(files):
    def made(encoder=VIT, data=None, model=None, **fields):
        data = {"train": str(files / "train.npz"), "valid_fraction": 0.2, "test_fraction": 0.0, **(data or {})}
        values = {
            "data": data,
            "encoder": encoder,
            "model": {"kind": "decoder", "num_layers": 1, **SIZES, **(model or {})},
            "tokenizer": {"kind": "word"},
            "decoding": {"method": "greedy", "max_len": 12},
        }
        return task_of("caption", values | fields)

    return made


def test_a_batch_has_the_image_and_tokens_of_each_caption(make):
    task = make()
    found = task.split("train")
    batch = batch_of(task, limits=Limits(1, sentences=1000))
    assert sorted(batch.indices) == list(range(len(found.targets)))
    for row, example in enumerate(batch.indices):
        image = found.of[example]
        assert torch.equal(batch.src[row].permute(1, 2, 0), torch.from_numpy(found.images.pixels[image]))
        text = task.tokenizer.decode(batch.tgt_out[row].tolist())
        assert text in captions_of(found.images.labels[image])
    assert batch.src_lens.unique().tolist() == [4]
    assert batch.references == []
    assert len(found.targets) == sum(len(captions_of(label)) for label in found.images.labels)


def test_an_image_is_scored_once_against_all_its_captions(make):
    task = make()
    found = task.split("valid")
    for limits in (Limits(1, sentences=1000), Limits(1, sentences=1)):
        rows = [(batch, row) for batch in task.source("valid", limits).once() for row in range(len(batch.indices))]
        scored = {batch.indices[row]: batch.references[row] for batch, row in rows if batch.references[row]}
        images = [found.of[example] for example in scored]
        assert sorted(images) == list(range(len(found.images)))
        assert all(found.images.labels[found.of[at]] == "\n".join(texts) for at, texts in scored.items())


def test_scores_are_those_of_the_predictor(make):
    task = make()
    model = built_of(task).eval()
    scores = scores_of(task, model)
    told = task.predictor(model).evaluate(Caption.examples(task.config, "valid"))
    assert {name: told[name] for name in scores} == pytest.approx(scores, rel=1e-5)
    assert "nrefs:var" in told["bleu_signature"]
    # two words have no four in a row
    found = baselines_of(task, model, Caption.examples(task.config, "valid"))
    assert (task.seen.frequent, found) == ("two shapes", {"most frequent caption": {"bleu": 0.0}})


@pytest.mark.slow
def test_captions_are_learned_by_heart(make):
    task = make(data={"limit": 3, "valid_fraction": 0.0})
    model = fitted(task, 25, Limits(1, sentences=6))
    images = list(task.split("train").images.images())
    texts = [found[0].text for found in task.predictor(model).predict(images)]
    right = sum(text in captions_of(image) for text, image in zip(texts, images, strict=True))
    assert right == 3


def test_pixels_beside_an_image_say_nothing_and_its_own_do(make):
    task = make()
    model, images = built_of(task).eval(), list(task.split("train").images.images())[:3]
    captioner = task.predictor(model)
    batch = captioner._batch(images, [[4, 5]] * 3)
    alone = captioner._batch(images[1:2], [[4, 5]])
    torch.testing.assert_close(
        model(batch.src, batch.src_lens, batch.tgt_in)[1:2],
        model(alone.src, alone.src_lens, alone.tgt_in),
        rtol=1e-5,
        atol=1e-6,
    )
    other = captioner._batch(images[2:3], [[4, 5]])
    assert not torch.allclose(
        model(alone.src, alone.src_lens, alone.tgt_in), model(other.src, other.src_lens, other.tgt_in), atol=1e-4
    )


@pytest.mark.parametrize(
    "encoder",
    [
        VIT | {"pooling": "cls"},
        VIT | {"d_model": 12},
        {"kind": "cnn", "width": 4, "stages": 2},
        {"kind": "pixels", "sequence": {"kind": "window", "d_model": 6, "d_ff": 6, "radius": 1}},
    ],
    ids=["class token", "another width", "cnn", "pixels"],
)
def test_every_encoder_gives_places_that_add_up_to_one(make, encoder):
    task = make(encoder, data={"size": [8, 16]})
    captioner = restored(task, built_of(task).eval())
    image = next(task.split("train").images.images())
    found = captioner.explain(image, target="a red square")
    rows, columns = captioner.model.encoder.encoder.map
    cross = [layer for layer in found.layers.values() if layer.kind == "cross"]
    assert len(cross) == 1
    assert cross[0].weights.shape == (2, 4, rows * columns)
    assert cross[0].queries == ["a", "red", "square", "<eos>"]
    assert found.row_error < 1e-6
    assert found.output == "a red square"


def test_other_images_are_read_with_the_files_of_a_run(make, files):
    task = make()
    again = Caption.prepare_with(task.config, Given(task.assets.files))
    assert again.files == task.assets.files
    config = task.config.model_copy(update={"data": task.config.data.model_copy(update={"size": (8, 8)})})
    with pytest.raises(DataError, match=r"images of 8 x 8 pixels.*run has read 16 x 16.*data.size = \[16, 16\]"):
        Caption.prepare_with(config, Given(task.assets.files))


@pytest.mark.parametrize(
    "change", [lambda seen: [], lambda seen: {**seen, "mean": [0.5]}, lambda seen: {**seen, "frequent": 3}]
)
def test_damaged_files_are_named(make, change):
    task = make()
    seen = json.loads(task.assets.files["images.json"])
    files = {**task.assets.files, "images.json": json.dumps(change(seen)).encode()}
    with pytest.raises(CheckpointError, match=r"images.json: does not tell shape, constants and caption; restore it"):
        Caption(task.config, Assets(files))


def test_what_does_not_fit_is_refused(make):
    with pytest.raises(ConfigError, match="captions of up to 64 tokens take 65 places, but the model has a table"):
        make(model={"position": "learned", "max_len": 20})
    with pytest.raises(ConfigError, match=r"model.memory_len .5. is for long texts; leave it out here"):
        make(model={"position": "shaw", "memory_len": 5}).build()
    with pytest.raises(DataError, match=r"every caption is longer than data.max_len; raise it"):
        make(data={"max_len": 1})
    notes = make(data={"max_len": 7}).assets.notes
    assert any("captions are longer than max_len 7" in note for note in notes)


def test_options_that_mean_nothing_are_refused_and_scores_are_written(make):
    task = make()
    captioner = task.predictor(built_of(task).eval())
    image = next(task.split("train").images.images())
    for name in ("stop", "alignments"):
        with pytest.raises(ConfigError, match=f"captions of images have no --{name}"):
            captioner.options({name: True})
    options = captioner.options({"n_best": 2, "scores": True})
    (found,) = captioner.predict([image], options)
    lines = captioner.write(image, found, "text", options)
    assert [line.split("\t")[1] for line in lines] == [one.text for one in found]
    assert json.loads(captioner.write(image, found, "json")[0])["image"] == image.name


def test_samples_and_card(make):
    task = make(num_shown=2)
    lines = task.samples(built_of(task).eval())
    assert len(lines) == 2
    assert "  →  " in lines[0]
    assert "reads images of 16 x 16 pixels of 3 channels" in task.card({"bleu": 12.345})
    assert "bleu 12.35" in task.card({"bleu": 12.345})


def test_examples_without_captions_cannot_be_scored(make):
    task = make()
    captioner, image = task.predictor(built_of(task).eval()), next(task.split("train").images.images())
    with pytest.raises(DataError, match="has no caption to compare with; give every image one"):
        captioner.evaluate([type(image)(image.name, image.pixels)])
    with pytest.raises(DataError, match="there is nothing to score"):
        captioner.evaluate([])
