"""Labellers of pixels: any size, the way back to pixels, attention that begins as nothing, what stays the same."""

import pytest
import torch
from torch import nn

from headwise.config import Config, build
from headwise.errors import ConfigError
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig
from headwise.tasks.images.segmenter import Ladder, Patches, Rung, build_segmenter

CNN = {"kind": "cnn", "width": 3, "stages": 3, "dropout": 0.0}
SAGAN = {"kind": "attention_cnn", "width": 8, "stages": 2, "attention_after": 1, "dropout": 0.0}
VIT = {"kind": "vit", "patch": 3, "d_model": 8, "d_ff": 7, "num_heads": 2, "encoder_layers": 1, "dropout": 0.0}
PIXELS = {"kind": "pixels", "sequence": {"kind": "cnn", "d_model": 5}}
STILL = Augmentation(0, flip=False)


class Holder(Config):
    model: ImageEncoderConfig


def made(model, sizes=(12, 9, 1), classes=5, skips=True, augmentation=STILL):
    torch.manual_seed(0)
    config = build(Holder, {"model": model}, "recipe").model
    constants = [0.5] * sizes[2], [0.25] * sizes[2]
    return build_segmenter(config, augmentation, constants, sizes, classes, skips=skips).eval()


def pixels(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


@pytest.mark.parametrize("model", [CNN, {**CNN, "stride": 2}, {**CNN, "norm": "none"}, SAGAN, VIT, PIXELS])
@pytest.mark.parametrize("channels", [1, 3, 4, 6])
def test_every_pixel_has_a_score_of_every_class(model, channels):
    found = made(model, (12, 9, channels))(pixels(2, channels, 12, 9))
    assert found.shape == (2, 5, 12, 9)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("model", [CNN, {**CNN, "stride": 2}, SAGAN])
@pytest.mark.parametrize("size", [(13, 31), (32, 32), (7, 5), (1, 1)])
def test_networks_of_convolutions_read_any_size(model, size):
    assert made(model, (32, 32, 3))(pixels(2, 3, *size)).shape == (2, 5, *size)


@pytest.mark.parametrize("model", [CNN, SAGAN, VIT, PIXELS])
def test_images_side_by_side_do_not_hear_of_each_other(model):
    model, given = made(model), pixels(3, 1, 12, 9)
    together = model(given)
    for number in range(3):
        torch.testing.assert_close(model(given[number : number + 1])[0], together[number], rtol=1e-4, atol=1e-5)


def test_a_vector_of_a_patch_makes_the_scores_of_its_pixels():
    classes, patch = 2, 3
    head = Patches(nn.Identity(), patch)
    given = torch.randn(1, classes * patch**2, 4, 5)
    found = head([given])
    assert found.shape == (1, 2, 12, 15)
    for row in range(12):
        for column in range(15):
            inside = row % patch * patch + column % patch
            wanted = given[0, inside :: patch**2, row // patch, column // patch]
            assert torch.equal(found[0, :, row, column], wanted)


@pytest.mark.parametrize("skips", [False, True])
def test_a_ladder_goes_from_the_coarsest_map_to_the_finest(skips):
    torch.manual_seed(1)
    reduces = [nn.Conv2d(8, 4, 1), nn.Conv2d(4, 2, 1)]
    mixes = [nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)]
    score = nn.Conv2d(2, 5, 1)
    rungs = [Rung(*parts, skips=skips) for parts in zip(reduces, mixes, strict=True)]
    maps = [torch.randn(2, 2, 9, 7), torch.randn(2, 4, 5, 4), torch.randn(2, 8, 3, 2)]
    x = maps[2]
    for reduce, mix, finer in zip(reduces, mixes, (maps[1], maps[0]), strict=True):
        raised = nn.functional.interpolate(reduce(x), finer.shape[2:], mode="bilinear", align_corners=False)
        x = mix(raised + finer * skips).relu()
    torch.testing.assert_close(Ladder(rungs, score)(maps), score(x))


def test_finer_maps_join_where_there_are_skips():
    for skips in (True, False):
        model = made({**CNN, "norm": "none"}, skips=skips)
        given = pixels(1, 1, 12, 9)
        maps = model.encoder.maps(model.standardized(given))
        assert [tuple(found.shape[1:]) for found in maps] == [(3, 12, 9), (6, 6, 5), (12, 3, 3)]
        other = [maps[0] + 1, *maps[1:]]
        assert torch.equal(model.head(maps), model.head(other)) != skips


def test_attention_begins_as_nothing_and_changes_the_map_of_its_stage():
    model, given = made(SAGAN), pixels(2, 1, 12, 9)
    plain = made({**CNN, "width": 8, "stages": 2})
    missing = plain.load_state_dict(
        {
            name.replace("stages.2", "stages.1"): value
            for name, value in model.state_dict().items()
            if not name.startswith("encoder.stages.1.")
        }
    )
    assert missing.missing_keys == []
    torch.testing.assert_close(model(given), plain(given))
    block = model.encoder.stages[1]
    block.gate.gamma.data.fill_(1.0)
    # the map that the ladder gets is the one after the attention
    x = model.standardized(given)
    before = model.encoder.stages[0](model.encoder.stem(x).relu())
    torch.testing.assert_close(model.encoder.maps(x)[0], block(before))
    assert not torch.allclose(model(given), plain(given))
    assert [found.shape[1] for found in model.encoder.maps(model.standardized(given))] == [8, 16]
    model(given).square().sum().backward()
    assert block.gate.gamma.grad.abs() > 0


def test_masks_move_with_their_pictures():
    model = made(CNN, augmentation=Augmentation(3, flip=True)).train()
    masks = pixels(50, 12, 9)
    moved, their = model.moved(masks[:, None], masks)
    assert torch.equal(moved[:, 0], their)
    assert not torch.equal(their, masks)
    model.eval()
    assert torch.equal(model.moved(masks[:, None], masks)[1], masks)


def test_gradients_reach_every_weight():
    for model in (CNN, SAGAN, VIT, PIXELS):
        model = made(model).train()
        for block in (found for found in model.modules() if hasattr(found, "gamma")):
            block.gamma.data.fill_(0.5)
        model(pixels(3, 1, 12, 9)).square().sum().backward()
        # the bias of keys shifts all scores alike; a class token is no place, so that its own output counts nowhere
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name


def test_the_second_stage_needs_an_image_that_is_large_enough():
    with pytest.raises(ConfigError, match=r"an image of 3 x 3 pixels is too small for model\.stages = 3"):
        made(CNN, (3, 3, 1))
