"""A decoder over the places of an image: which states are its memory, and that each position sees no later one."""

import pytest
import torch

from headwise.config import build
from headwise.models.transformer_config import DecoderConfig
from headwise.tasks.images.caption import build_captioner
from headwise.tasks.images.encoders import Augmentation, CnnConfig, PatchConfig, PixelConfig

SIZES = {"d_model": 12, "d_ff": 7, "num_heads": 3, "dropout": 0.0}
VIT = build(PatchConfig, {**SIZES, "encoder_layers": 1, "patch": 2}, "encoder")
DECODER = build(DecoderConfig, {**SIZES, "num_layers": 2}, "model")
ENCODERS = {
    "vit": VIT,
    "cnn": build(CnnConfig, {"width": 4, "stages": 2}, "encoder"),
    "pixels": build(PixelConfig, {"sequence": {"kind": "token", "d_model": 5, "d_ff": 5}}, "encoder"),
}
SHAPE = (6, 10, 3)


def made(encoder=VIT):
    torch.manual_seed(0)
    return build_captioner(encoder, DECODER, Augmentation(0, flip=False), ([0.5] * 3, [0.3] * 3), SHAPE, 11).eval()


@pytest.mark.parametrize("name", list(ENCODERS))
def test_the_vector_of_an_image_is_made_of_its_places(name):
    encoder = made(ENCODERS[name]).encoder.encoder
    x = torch.randn(2, 3, *SHAPE[:2])
    places = encoder.places(x)
    rows, columns = ENCODERS[name].map(SHAPE)
    assert encoder.map == (rows, columns)
    assert places.shape == (2, rows * columns, encoder.width)
    if not encoder.class_tokens:
        torch.testing.assert_close(places.mean(1), encoder(x))


def test_places_are_the_patches_without_the_class_token():
    encoder = made().encoder.encoder
    kept = {}
    encoder.encoder.register_forward_hook(lambda module, inputs, output: kept.update(states=output.states))
    x = torch.randn(2, 3, *SHAPE[:2])
    torch.testing.assert_close(encoder.places(x), kept["states"][:, 1:], rtol=0, atol=0)


def test_a_position_sees_the_image_and_no_later_token():
    model = made()
    pixels, lens = torch.randint(0, 256, (2, 3, *SHAPE[:2]), dtype=torch.uint8), torch.tensor([15, 15])
    tokens = torch.tensor([[1, 5, 6], [1, 7, 8]])
    whole = model(pixels, lens, tokens)
    torch.testing.assert_close(model(pixels, lens, tokens[:, :2]), whole[:, :2])
    changed = pixels.clone()
    changed[0, :, 0, 0] += 100
    other = model(changed, lens, tokens)
    assert not torch.allclose(other[0, 0], whole[0, 0], atol=1e-5)
    torch.testing.assert_close(other[1], whole[1])


def test_step_by_step_is_all_at_once():
    model = made()
    pixels, lens = torch.randint(0, 256, (2, 3, *SHAPE[:2]), dtype=torch.uint8), torch.tensor([15, 15])
    tokens = torch.tensor([[1, 5, 6], [1, 7, 8]])
    cache = model.decoder.start(model.encoder(pixels, lens), lens)
    steps = torch.stack([model.decoder.step(column, cache) for column in tokens.T], 1)
    torch.testing.assert_close(steps, model(pixels, lens, tokens), rtol=1e-4, atol=1e-5)
