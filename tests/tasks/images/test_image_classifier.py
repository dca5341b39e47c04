"""Classifiers of images by every encoder: shapes, the formula of patches, fields, gradients, what does not fit."""

import pytest
import torch
from torch import nn

from headwise.config import Config, build
from headwise.errors import ConfigError
from headwise.records import record
from headwise.tasks.images.encoders import Augmentation, ImageEncoderConfig, MapAttention, field_of
from headwise.tasks.images.image_classify import ImageClassifier, build_image_classifier


class Holder(Config):
    model: ImageEncoderConfig


BLOCKS = {"d_model": 12, "d_ff": 13, "num_heads": 3, "encoder_layers": 1, "dropout": 0.0}
CONVOLUTIONS = {"width": 8, "stages": 2, "dropout": 0.0}
MODELS = {
    "cls": {"kind": "vit", "patch": 2, **BLOCKS},
    "mean": {"kind": "vit", "patch": 2, "pooling": "mean", **BLOCKS},
    "relative_2d": {"kind": "vit", "patch": 2, "pooling": "mean", "position": "relative_2d", **BLOCKS},
    "sinusoidal_2d": {"kind": "vit", "patch": 2, "position": "sinusoidal_2d", **BLOCKS},
    "rotary": {"kind": "vit", "patch": 2, "position": "rotary", **BLOCKS, "d_model": 24},
    "shaw": {"kind": "vit", "patch": 2, "position": "shaw", **BLOCKS},
    "linformer": {"kind": "vit", "patch": 2, "mechanism": "linformer", "position": "learned", **BLOCKS},
    "cosine": {"kind": "vit", "patch": 2, "score": "cosine", "normalizer": "entmax:1.3", **BLOCKS},
    "pixels": {"kind": "pixels", "sequence": {"kind": "attention", "mechanism": "linear", **BLOCKS}},
    "pixels rnn": {"kind": "pixels", "sequence": {"kind": "rnn", "d_model": 5, "hidden_dim": 7}},
    "cnn": {"kind": "cnn", **CONVOLUTIONS},
    "cnn none": {"kind": "cnn", "norm": "none", "blocks": 2, **CONVOLUTIONS},
    "attention_cnn": {"kind": "attention_cnn", **CONVOLUTIONS},
    "attention_cnn heads": {
        "kind": "attention_cnn",
        "reduction": 2,
        "num_heads": 2,
        "position": "relative_2d",
        "attention_after": 1,
        "score": "additive",
        "normalizer": "sparsemax",
        **CONVOLUTIONS,
    },
    "attention_cnn linear": {"kind": "attention_cnn", "reduction": 2, "mechanism": "linear", **CONVOLUTIONS},
}
SIZES = (6, 8, 3)


def classifier(name, sizes=SIZES, **fields):
    torch.manual_seed(0)
    config = build(Holder, {"model": MODELS[name] | fields}, "recipe").model
    constants = [0.5] * sizes[2], [0.25] * sizes[2]
    return build_image_classifier(config, Augmentation(0, flip=False), constants, sizes, 5)


def pixels(batch=3, sizes=SIZES):
    torch.manual_seed(1)
    return torch.randint(0, 256, (batch, sizes[2], *sizes[:2]), dtype=torch.uint8)


@pytest.mark.parametrize("name", MODELS)
def test_logits_of_an_image_do_not_depend_on_its_neighbours(name):
    model = classifier(name).eval()
    assert isinstance(model, ImageClassifier)
    together = model(pixels())
    assert together.shape == (3, 5)
    alone = torch.cat([model(pixels()[row : row + 1]) for row in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_learns(name):
    model = classifier(name).train()
    with torch.no_grad():
        # what begins at zero has nothing behind it that learns before it does
        for module in model.modules():
            if hasattr(module, "gamma"):
                module.gamma.fill_(1.0)
            if isinstance(module, nn.BatchNorm2d):
                module.weight.fill_(1.0)
    torch.nn.functional.cross_entropy(model(pixels(7)), torch.arange(7) % 5).backward()
    still = [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # a softmax does not change when all keys move alike
    assert all("projection.bias" in key for key in still)


def test_a_patch_is_projected_as_a_row_of_its_pixels():
    model = classifier("cls").eval().double()
    x = torch.randn(2, 3, 6, 8, dtype=torch.double)
    convolution = model.encoder.projection
    made = convolution(x).flatten(2).mT
    for row in range(3):
        for column in range(4):
            patch = x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten(1)
            wanted = patch @ convolution.weight.flatten(1).T + convolution.bias
            torch.testing.assert_close(made[:, 4 * row + column], wanted)
    assert (model.encoder.grid, model.encoder.class_tokens) == ((3, 4), 1)
    assert model.encoder.position.table.shape == (12, 12)
    bound = (6 / (12 + 12)) ** 0.5
    assert convolution.weight.abs().max() <= bound
    assert not convolution.bias.any()


def test_the_class_token_is_the_result_and_the_first_token():
    model = classifier("cls").eval()
    with record(model) as trace:
        model(pixels())
    (name,) = trace.names()
    assert trace[name].weights().shape == (3, 3, 13, 13)
    seen = []
    handle = model.encoder.encoder.register_forward_hook(lambda module, given, output: seen.append(output.states))
    found = model.encoder(model.standardized(pixels()))
    handle.remove()
    torch.testing.assert_close(found, seen[0][:, 0])


def test_positions_on_a_grid_know_its_rows():
    model = classifier("relative_2d")
    layer = model.encoder.encoder.blocks[0].self_attention
    assert (layer.position.height, layer.position.width) == (3, 4)
    assert classifier("sinusoidal_2d").encoder.position.width == 4
    # without a position the order of patches is lost, with one it counts
    for name, same in (("none", True), ("learned", False), ("sinusoidal_2d", False), ("relative_2d", False)):
        turned = classifier("mean", position=name).eval()
        flipped = pixels().unflatten(3, (4, 2)).flip(3).flatten(3, 4)
        assert torch.allclose(turned(pixels()), turned(flipped), atol=1e-5) == same


def test_the_map_that_is_attended_to():
    model = classifier("attention_cnn")
    assert [isinstance(stage, MapAttention) for stage in model.encoder.stages] == [False, False, True]
    assert model.encoder.grid == (3, 4)
    assert model.encoder.receptive_field is None
    assert classifier("attention_cnn heads").encoder.grid == (6, 8)
    layer = model.encoder.stages[2].attention
    assert (layer.head_dim, layer.value_dim, layer.mechanism.score.scale) == (2, 2, 1.0)


@pytest.mark.parametrize(("stages", "blocks", "stride"), [(2, 1, 1), (2, 2, 1), (3, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("norm", ["batch", "none"])
def test_the_receptive_field_is_what_a_place_sees(stages, blocks, stride, norm):
    sizes = (61, 61, 1)
    model = classifier("cnn", sizes, stages=stages, blocks=blocks, stride=stride, norm=norm, width=2).eval().double()
    for convolution in model.modules():
        if isinstance(convolution, nn.Conv2d):
            nn.init.ones_(convolution.weight)
        if hasattr(convolution, "gamma"):
            nn.init.ones_(convolution.gamma)
        if isinstance(convolution, nn.BatchNorm2d):
            nn.init.ones_(convolution.weight)
    x = torch.ones(1, 1, *sizes[:2], dtype=torch.double, requires_grad=True)
    maps = []
    handle = model.encoder.stages[-1].register_forward_hook(lambda module, given, output: maps.append(output))
    model.encoder(x)
    handle.remove()
    middle = maps[0].shape[2] // 2
    maps[0][0, 0, middle, middle].backward()
    rows = x.grad[0, 0].any(1).nonzero().flatten()
    assert int(rows[-1] - rows[0]) + 1 == model.encoder.receptive_field


def test_the_field_of_convolutions_of_stride_one_is_that_of_the_notes():
    # three layers of size 3: 3, 5, 7; two of size 5: 5, 9
    assert [field_of([(3, 1)] * layers) for layers in (1, 2, 3)] == [3, 5, 7]
    assert [field_of([(5, 1)] * layers) for layers in (1, 2, 3)] == [5, 9, 13]


def test_a_branch_begins_at_zero_with_and_without_norm():
    for norm in ("batch", "none"):
        for block in classifier("cnn", norm=norm).encoder.stages[0]:
            assert not block.second(torch.randn(2, 8, 6, 8)).any()
    assert not any(isinstance(part, nn.BatchNorm2d) for part in classifier("cnn none").modules())


@pytest.mark.parametrize("sizes", [(6, 8, 1), (6, 8, 3), (6, 8, 4), (6, 8, 6), (12, 4, 2), (4, 4, 1)])
@pytest.mark.parametrize("name", ["cls", "pixels rnn", "cnn", "attention_cnn"])
def test_any_channels_and_sizes(name, sizes):
    assert classifier(name, sizes).eval()(pixels(2, sizes)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("cls", {"patch": 4}, r"model.patch \(4\) must divide the image of 6 x 8 pixels; .* data.size to 8 and 8"),
        ("cls", {"position": "relative_2d"}, 'there is none to a class token; set model.pooling = "mean"'),
        ("cls", {"mechanism": "retention"}, "mechanism 'retention' cannot let an encoder see later tokens"),
        ("cnn", {"stages": 4}, r"too small for model.stages = 4 .* the last map is 1 x 1; use fewer stages"),
        ("attention_cnn", {"attention_after": 3}, r"attention_after \(3\) is beyond the 2 stages"),
        ("attention_cnn", {"reduction": 32}, r"the 16 channels of stage 2 divided by reduction \(32\) must be a mult"),
        ("attention_cnn", {"num_heads": 3}, r"reduction \(8\) must be a multiple of num_heads \(3\)"),
        ("attention_cnn", {"mechanism": "retention"}, "'retention' sees no later places; an image needs one that does"),
        ("attention_cnn", {"mechanism": "linear", "score": "cosine"}, "belong to mechanism 'scored', not to 'linear'"),
        ("attention_cnn", {"mechanism": "linear", "position": "t5"}, "'t5' cannot act inside mechanism 'linear'"),
        ("attention_cnn", {"position": "learned"}, "position 'learned' cannot act inside mechanism 'scored'; use 'no"),
        ("attention_cnn", {"score": "dotted"}, "unknown score 'dotted'; did you mean 'dot'"),
    ],
)
def test_what_does_not_fit_is_refused(name, fields, message):
    with pytest.raises(ConfigError, match=message):
        classifier(name, **fields)
