"""A labeller of pixels applied: pictures of any size, files, scores, folders of masks, what a pixel looks at."""

import json

import numpy as np
import pytest
import torch
from pictures import encoded, npz

from headwise.config import Config, build
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.records import record
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig
from headwise.tasks.images.maps import Labelled
from headwise.tasks.images.masks import MasksConfig
from headwise.tasks.images.pixel_labeller import Painted, PixelClasses, PixelLabeller
from headwise.tasks.images.pixels import Image, Shape, adapted
from headwise.tasks.images.segmenter import build_segmenter

CLASSES, LABELS = ["sky", "sea\x1b", "land"], [0, 4, 7]
CNN = {"kind": "cnn", "width": 4, "stages": 2, "dropout": 0.0}
SAGAN = {**CNN, "kind": "attention_cnn", "width": 8, "attention_after": 2}
VIT = {"kind": "vit", "patch": 4, "d_model": 8, "d_ff": 11, "num_heads": 2, "encoder_layers": 2, "dropout": 0.0}
NAMED = ["sky", "1", "2", "3", "sea\x1b", "5", "6", "land"]


class Holder(Config):
    model: ImageEncoderConfig


def labeller(model=CNN, shape=(8, 12, 3), **data):
    config = build(Holder, {"model": model}, "recipe").model
    constants = [0.4] * shape[2], [0.2] * shape[2]

    def built(sizes):
        return build_segmenter(config, Augmentation(1, flip=True), constants, sizes, 3, skips=True)

    torch.manual_seed(0)
    known = PixelClasses(
        classes=CLASSES, labels=LABELS, shape=Shape(*shape), mean=constants[0], deviation=constants[1], frequent=1
    )
    patch = getattr(config, "patch", 1)
    given = MasksConfig(train="x", classes=NAMED, **data)
    return PixelLabeller(built(shape).eval(), known, built, patch, given)


def image(*shape, name="a.png", seed=0, mask=None):
    return Image(name, np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8), mask=mask)


def said_by(model, pixels):
    """The classes of one picture, from the model alone."""
    with torch.no_grad():
        return model(torch.from_numpy(pixels).permute(2, 0, 1)[None]).argmax(1)[0].numpy()


def test_labels_are_those_of_the_likeliest_classes():
    predictor = labeller()
    given = [image(8, 12, 3, seed=seed) for seed in range(3)]
    for one, found in zip(given, predictor.predict(given), strict=True):
        classes = said_by(predictor.model, one.pixels)
        assert found.labels.dtype == np.uint8
        assert found.labels.tolist() == np.array(LABELS)[classes].tolist()
        shares = {CLASSES[number]: (classes == number).mean() for number in range(3)}
        assert found.shares == {name: pytest.approx(share) for name, share in shares.items() if share}
        assert list(found.shares.values()) == sorted(found.shares.values(), reverse=True)
    assert predictor.predict([]) == []


@pytest.mark.parametrize("model", [CNN, SAGAN])
@pytest.mark.parametrize("size", [(9, 13), (32, 5), (4, 4)])
def test_a_size_not_seen_in_training_is_read_as_it_is(model, size):
    predictor, one = labeller(model), image(*size, 3)
    (found,) = predictor.predict([one])
    assert found.labels.shape == size
    assert found.labels.tolist() == np.array(LABELS)[said_by(predictor.model, one.pixels)].tolist()


def test_sizes_may_change_from_picture_to_picture():
    predictor = labeller()
    given = [image(8, 12, 3), image(9, 9, 3), image(8, 12, 3, seed=1), image(8, 12, 1, seed=2)]
    together = predictor.predict(given)
    for one, found in zip(given, together, strict=True):
        assert found.labels.tolist() == predictor.predict(one)[0].labels.tolist()


def test_random_numbers_of_the_caller_stay_as_they_are():
    predictor = labeller()
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    predictor.predict([image(20, 20, 3)])
    assert torch.equal(torch.rand(1), wanted)


def test_patches_of_another_number_are_read_where_positions_are_not_learned():
    predictor = labeller({**VIT, "position": "sinusoidal_2d"})
    whole = image(16, 8, 3)
    (found,) = predictor.predict([whole])
    other = predictor.build(Shape(16, 8, 3))
    other.load_state_dict(predictor.model.state_dict())
    assert found.labels.tolist() == np.array(LABELS)[said_by(other.eval(), whole.pixels)].tolist()
    # sides that are no multiples of a patch are filled up by repeating the edge
    odd = Image("odd", whole.pixels[:13, :6])
    padded = np.pad(odd.pixels, ((0, 3), (0, 2), (0, 0)), "edge")
    (found,) = predictor.predict([odd])
    assert found.labels.tolist() == np.array(LABELS)[said_by(other, padded)[:13, :6]].tolist()


@pytest.mark.parametrize("position", ["learned", "relative_2d"])
def test_learned_positions_refuse_other_sizes_by_name(position):
    predictor = labeller({**VIT, "position": position, "pooling": "mean"})
    predictor.predict([image(8, 12, 3)])
    # another grid, and one of as many patches in other rows
    for height, width in ((15, 8), (12, 8)):
        message = (
            rf"a\.png: {height} x {width} pixels cannot be read: encoder\..* is learned for each place of 8 x 12; g"
        )
        with pytest.raises(DataError, match=message):
            predictor.predict([image(height, width, 3)])


def test_a_picture_that_is_too_small_is_refused_by_name():
    with pytest.raises(DataError, match=r"a\.png: 1 x 1 pixels cannot be read: an image of 1 x 1 pixels is too small"):
        labeller().predict([image(1, 1, 3)])
    with pytest.raises(DataError, match=r"a\.png: 6 channels, the model reads 3"):
        labeller().predict([image(8, 12, 6)])


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_with_a_size_in_the_recipe_answers_have_the_size_of_the_picture(fit):
    predictor, one = labeller(size=[8, 12], fit=fit), image(16, 12, 3)
    (found,) = predictor.predict([one])
    assert found.labels.shape == (16, 12)
    read = np.array(LABELS)[said_by(predictor.model, adapted(one, Shape(8, 12, 3), fit))]
    # 16 x 12 is halved to 8 x 6, which stands in the middle
    inside = read[:, 3:9].repeat(2, 1) if fit == "pad" else read
    assert found.labels.tolist() == inside.repeat(2, 0).tolist()


def test_pictures_are_named_by_paths_with_or_without_masks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, predictor = image(8, 12, 3), labeller()
    (tmp_path / "a.png").write_bytes(encoded(one.pixels))
    (tmp_path / "m.png").write_bytes(encoded(np.full((8, 12), 7, np.uint8)))
    (wanted,) = predictor.predict([one])
    assert predictor.predict("a.png")[0].labels.tolist() == wanted.labels.tolist()
    both = predictor.parse('{"path": "a.png", "mask": "m.png"}')
    assert (both.mask == 7).all()
    assert predictor.parse('{"path": "a.png"}').mask is None
    for text in ('{"mask": "m.png"}', "{", '{"path": 3}', "{" * 9999):
        with pytest.raises(DataError, match=r'give a path, or JSON such as \{"path": "a.png", "mask": "b.png"\}'):
            predictor.parse(text)
    (tmp_path / "both.npz").write_bytes(npz(images=np.stack([one.pixels] * 2)))
    (tmp_path / "list.csv").write_text("path,mask\na.png,gone.png\na.png,gone.png\n")
    for name in ("both.npz", "list.csv"):
        assert [found.labels.tolist() for found in predictor.predict(list(predictor.read(tmp_path / name)))] == [
            wanted.labels.tolist()
        ] * 2
    with pytest.raises(DataError, match=r"gone\.png: no such file"):
        predictor.parse("gone.png")
    (tmp_path / "list.csv").write_text("path\ngone.png\n")
    with pytest.raises(DataError, match=r"list\.csv:2: .*gone\.png: no such file"):
        list(predictor.read(tmp_path / "list.csv"))


def test_answers_are_written_as_text_as_json_and_as_pictures():
    predictor, one = labeller(), image(2, 3, 3)
    output = Painted(np.array([[0, 4, 4], [4, 4, 7]], np.uint8), {"sea\x1b": 4 / 6, "sky": 1 / 6, "land": 1 / 6})
    assert predictor.write(one, output, "text") == ["sea\\x1b 0.6667\tsky 0.1667\tland 0.1667"]
    (line,) = predictor.write(one, output, "json")
    assert json.loads(line) == {"image": "a.png", "height": 2, "width": 3, "shares": output.shares}
    from headwise.tasks.images.mask_pictures import decode_mask

    assert predictor.ending == ".png"
    content = predictor.file_of(one, output)
    assert decode_mask(content, "x", predictor.legend).tolist() == output.labels.tolist()
    coloured = labeller().file_of(one, output)
    assert coloured == content
    with pytest.raises(ConfigError, match="this model has no option --n-best"):
        predictor.options({"n_best": 2})


def test_scores_are_over_all_pixels_of_all_pictures(monkeypatch):
    predictor = labeller()
    said = [[0, 0, 4, 4], [7, 7, 0, 0]]
    gold = [[0, 4, 4, -1], [7, 0, 0, 5]]
    found = [Painted(np.array([row], np.uint8), {}) for row in said]
    monkeypatch.setattr(predictor, "predict", lambda items, options=None: found)
    examples = [image(1, 4, 3, mask=np.array([row], np.int16)) for row in gold]
    scores = predictor.evaluate(examples)
    # right: 0 twice, 4 once, 7 once; of 7 pixels that count
    assert scores["pixel_accuracy"] == pytest.approx(4 / 7)
    # unions: 0: 3 gold + 4 said - 2; 4: 2 + 1 - 1; 7: 1 + 2 - 1; what training lacks: 1
    assert scores["mean_iou"] == pytest.approx((2 / 5 + 1 / 2 + 1 / 2 + 0) / 4)
    # every pixel is said to be label 0, of which three of seven are
    (baseline,) = predictor.baselines(examples)
    assert baseline.scores == pytest.approx({"pixel_accuracy": 3 / 7, "mean_iou": 3 / 7 / 4})
    assert scores["iou_of_each"] == (
        "sky 0.4000 (3), sea\x1b 0.5000 (2), land 0.5000 (1), labels that training lacks 0.0000 (1)"
    )
    assert scores["confused"] == (
        "sky for land 1 (33.3%), sea\x1b for sky 1 (50.0%), labels that training lacks for sky 1 (100.0%)"
    )


def test_a_picture_that_keeps_its_size_has_no_more_pixels_than_asked_for():
    predictor, wide, large = labeller(), image(8, 1 << 15, 3), image(8, (1 << 15) + 4, 3, name="large.png")
    predictor.predict([wide])
    with pytest.raises(DataError, match=r"large\.png: 262,176 pixels.* 262,144.*--max-pixels"):
        predictor.explain(large)
    with pytest.raises(DataError, match=r"large\.png: 262,176 pixels.* 262,144.*--max-pixels"):
        predictor.predict([wide, large])
    (output,) = predictor.predict(large, predictor.options({"max_pixels": 1 << 19}))
    assert output.labels.shape == (8, (1 << 15) + 4)
    assert labeller(size=[8, 12]).predict(large)[0].labels.shape == (8, (1 << 15) + 4)


def test_scores_need_pictures_masks_and_pixels_that_count():
    predictor = labeller()
    for examples in ([], [image(8, 12, 3, mask=np.full((8, 12), -1, np.int16))]):
        with pytest.raises(DataError, match="there is nothing to score"):
            predictor.evaluate(examples)
    with pytest.raises(DataError, match=r"a\.png: has no mask to compare with; give every picture one"):
        predictor.evaluate([image(8, 12, 3)])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_a_pixel_looks_at_is_that_of_its_patch(pooling):
    predictor = labeller({**VIT, "position": "sinusoidal_2d", "pooling": pooling})
    one = image(8, 12, 3)
    found = predictor.explain(one, "5,9")
    assert isinstance(found, Explanation)
    pixels = torch.from_numpy(one.pixels).permute(2, 0, 1)[None]
    with torch.no_grad(), record(predictor.model) as trace:
        predictor.model(pixels)
    name = "encoder.encoder.blocks.1.self_attention"
    # the patch of row 1 and column 2 of 2 x 3, after the class token
    query = int(pooling == "cls") + 1 * 3 + 2
    wanted = trace[name].weights()[0, :, query]
    np.testing.assert_allclose(found.layers[name].weights[:, 0], wanted, atol=1e-6)
    placed = found.draw.placed(found.layers[name].weights)
    np.testing.assert_allclose(placed.reshape(2, -1), wanted[:, int(pooling == "cls") :], atol=1e-6)
    said = CLASSES[said_by(predictor.model, one.pixels)[5, 9]]
    assert (found.source, found.output) == ("a.png", f"{said} at 5,9")
    assert found.layers[name].queries == ["pixel 5,9"]
    assert found.row_error < 1e-5


def test_the_attention_of_a_map_is_that_of_the_place_under_a_pixel_in_any_size():
    predictor, one = labeller(SAGAN), image(10, 6, 3)
    found = predictor.explain(one, "9,0")
    # halved once: 5 x 3 places; the pixel stands over the first of the last row
    assert found.draw.grid == (5, 3)
    pixels = torch.from_numpy(one.pixels).permute(2, 0, 1)[None]
    with torch.no_grad(), record(predictor.model) as trace:
        predictor.model(pixels)
    (name,) = found.layers
    np.testing.assert_allclose(found.weights(name)[0], trace[name].weights()[0].mean(0)[12], atol=1e-6)


def test_a_model_without_attention_shows_what_it_says(tmp_path):
    predictor = labeller()
    mask = np.full((8, 12), 4, np.int16)
    mask[0, 0] = -1
    found = predictor.explain(image(8, 12, 3, mask=mask))
    assert isinstance(found, Labelled)
    (wanted,) = predictor.predict([image(8, 12, 3)])
    assert found.lines()[: len(wanted.shares)] == str(wanted).split("\t")
    assert found.draw.truth[0, 0] == 255
    assert (found.draw.truth.ravel()[1:] == 1).all()
    assert [path.name for path in found.write(tmp_path, ("png", "svg"))] == ["labels.png", "labels.svg"]


@pytest.mark.parametrize("pixel", ["8,0", "0,12", "1", "a,b", "1,2,3", "-1,0", "9" * 30 + ",1"])
def test_a_pixel_that_is_not_there_is_refused(pixel):
    with pytest.raises(ConfigError, match="is not there; give its row and column from 0, such as 3,5, of 8 x 12"):
        labeller().explain(image(8, 12, 3), pixel)
