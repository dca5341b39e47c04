"""A classifier of images applied: pictures by path, files of many, options, scores, where it looks."""

import json

import numpy as np
import pytest
import torch
from pictures import encoded, idx, npz

from headwise.config import Config, build
from headwise.errors import ConfigError, DataError, Unsupported
from headwise.records import record
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig
from headwise.tasks.images.image_classify import Known, Recogniser, build_image_classifier
from headwise.tasks.images.images import ImagesConfig
from headwise.tasks.images.pixels import Image, Shape

CLASSES = ["ant", "bee", "cat\x1b"]
VIT = {"kind": "vit", "patch": 2, "d_model": 8, "d_ff": 11, "num_heads": 2, "encoder_layers": 2}
SAGAN = {"kind": "attention_cnn", "width": 8, "stages": 2, "attention_after": 1}


class Holder(Config):
    model: ImageEncoderConfig


def recogniser(model=VIT, shape=(6, 4, 1), **data):
    torch.manual_seed(0)
    config = build(Holder, {"model": model}, "recipe").model
    constants = [0.4] * shape[2], [0.2] * shape[2]
    built = build_image_classifier(config, Augmentation(1, flip=True), constants, shape, 3).eval()
    known = Known(classes=CLASSES, shape=Shape(*shape), mean=constants[0], deviation=constants[1], frequent="bee")
    return Recogniser(built, known, ImagesConfig(train="x", **data))


def images(count=5, shape=(6, 4, 1), labels=("ant", "bee")):
    draws = np.random.default_rng(0)
    return [
        Image(f"{number}.png", draws.integers(0, 256, shape, dtype=np.uint8), labels[number % len(labels)])
        for number in range(count)
    ]


def test_probabilities_are_the_models_and_the_likeliest_comes_first():
    predictor, given = recogniser(), images(131)
    found = predictor.predict(given)
    pixels = torch.from_numpy(np.stack([image.pixels for image in given])).permute(0, 3, 1, 2)
    with torch.no_grad():
        wanted = predictor.model(pixels).softmax(-1)
    for row, shares in zip(wanted, found, strict=True):
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
        assert [shares[name] for name in CLASSES] == pytest.approx(row.tolist(), abs=1e-5)
    assert predictor.predict([]) == []


def test_a_picture_is_named_by_its_path_and_fitted(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(np.full((12, 8, 3), 77, np.uint8)))
    predictor = recogniser()
    (direct,) = predictor.predict([Image("x", np.full((6, 4, 1), 77, np.uint8))])
    assert predictor.predict(str(path)) == [pytest.approx(direct)]
    assert predictor.predict([str(path)]) == [pytest.approx(direct)]
    assert predictor.predict([predictor.parse(str(path))]) == [pytest.approx(direct)]
    # what waits takes the memory of what the model reads
    sizes = {
        one.shape
        for one in (predictor.parse(str(path)), predictor.opened(path.read_bytes(), "a"), *predictor.read(path))
    }
    assert sizes == {predictor.known.shape}
    (read,) = predictor.read(path)
    assert predictor.predict([read]) == [pytest.approx(direct)]
    predictor.data = predictor.data.model_copy(update={"max_bytes": 9})
    with pytest.raises(DataError, match=r"a\.png: has [\d,]+ bytes, more than 9; split it, or raise data.max_bytes"):
        predictor.parse(str(path))
    with pytest.raises(DataError, match=r"gone\.png: no such file"):
        predictor.parse(str(tmp_path / "gone.png"))
    with pytest.raises(DataError, match="x: 6 channels, the model reads 1"):
        predictor.predict([Image("x", np.zeros((6, 4, 6), np.uint8))])


def test_files_of_many_images_are_read_without_labels(tmp_path):
    pixels = np.stack([image.pixels[..., 0] for image in images(3)])
    (tmp_path / "three.idx").write_bytes(idx(pixels))
    (tmp_path / "three.npz").write_bytes(npz(images=pixels))
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(encoded(pixels[number]))
    (tmp_path / "three.csv").write_text("path\n0.png\n1.png\n2.png\n")
    # what the recipe says of its own files is of those alone
    predictor = recogniser(format="folder")
    found = [predictor.predict(list(predictor.read(tmp_path / f"three.{kind}"))) for kind in ("idx", "npz", "csv")]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 3
    (tmp_path / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"three.csv:3: .*1.png: is empty"):
        list(predictor.read(tmp_path / "three.csv"))


def test_answers_are_written_as_text_and_as_json():
    predictor, output = recogniser(), {"cat\x1b": 0.5, "ant": 0.3, "bee": 0.2}
    item = images(1)[0]
    assert predictor.write(item, output, "text") == ["cat\\x1b\t0.5000"]
    two = predictor.options({"n_best": 2})
    assert predictor.write(item, output, "text", two) == [
        "cat\\x1b\t0.5000",
        "ant\t0.3000",
    ]
    (line,) = predictor.write(item, output, "json")
    assert json.loads(line) == {"image": "0.png", "label": "cat\x1b", "probability": 0.5}
    (line,) = predictor.write(item, output, "json", 2)
    assert json.loads(line)["probabilities"] == {"cat\x1b": 0.5, "ant": 0.3}
    with pytest.raises(ConfigError, match="this model has no option --beam: remove it"):
        predictor.options({"n_best": 2, "beam_size": 3})


def test_scores_name_each_class_and_the_pairs_that_are_confused(monkeypatch):
    predictor = recogniser()
    said = ["ant", "bee", "bee", "ant", "bee", "bee"]
    gold = ["ant", "ant", "ant", "bee", "bee", "dog"]
    monkeypatch.setattr(predictor, "predict", lambda items, options=None: [{name: 1.0} for name in said])
    images = [Image("x", np.zeros((6, 4, 1), np.uint8), label) for label in gold]
    scores = predictor.evaluate(images)
    assert scores["accuracy"] == pytest.approx(2 / 6)
    # ant 2*1/(2+3), bee 2*1/(4+2), dog 0
    assert scores["macro_f1"] == pytest.approx((0.4 + 1 / 3 + 0) / 3)
    (baseline,) = predictor.baselines(images)
    assert baseline.scores["accuracy"] == pytest.approx(3 / 6)
    assert scores["per_class"].startswith("ant precision 0.500 recall 0.333 F1 0.400 (3), bee ")
    assert scores["confused"] == "ant as bee (2), bee as ant (1), dog as bee (1)"


def test_scores_need_images_and_labels():
    with pytest.raises(DataError, match="there is nothing to score"):
        recogniser().evaluate([])
    with pytest.raises(DataError, match=r"b: has no label to compare with; give every image its class"):
        recogniser().evaluate([*images(2), Image("b", np.zeros((6, 4, 1), np.uint8))])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_the_pooling_looks_at_is_shown(pooling):
    predictor, image = recogniser({**VIT, "pooling": pooling}), images(1)[0]
    found = predictor.explain(image)
    assert (found.source, found.draw.grid) == ("0.png", (3, 2))
    assert found.row_error < 1e-5
    assert found.layer_name(-1) == "encoder.encoder.blocks.1.self_attention"
    (label, share), *_ = predictor.predict([image])[0].items()
    assert found.output == f"{label} {share:.2f}"
    pixels = torch.from_numpy(image.pixels).permute(2, 0, 1)[None]
    with torch.no_grad(), record(predictor.model) as trace:
        predictor.model(pixels)
    whole = trace["encoder.encoder.blocks.1.self_attention"].weights()[0]
    wanted = whole[:, 0] if pooling == "cls" else whole.mean(1)
    np.testing.assert_allclose(found.weights(-1, heads=1), wanted[1:2], atol=1e-6)
    assert found.layers[found.layer_name(0)].keys[-1] == "2,1"


def test_a_map_of_a_residual_network_is_shown_too():
    found = recogniser(SAGAN).explain(images(1)[0])
    assert found.draw.grid == (6, 4)
    assert list(found.layers) == ["encoder.stages.1.attention"]


def test_a_model_without_attention_says_so():
    predictor = recogniser({"kind": "cnn", "width": 2, "stages": 2})
    with pytest.raises(Unsupported, match=r"no attention to look at; .* an image classifier with model.kind=vit"):
        predictor.explain(images(1)[0])
    with pytest.raises(ConfigError, match="the class of an image cannot be given here"):
        predictor.explain(images(1)[0], "ant")
