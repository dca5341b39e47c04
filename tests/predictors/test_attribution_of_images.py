"""Attribution to the patches of an image: gradients against Captum, occlusion and rollout as loops."""

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation, InputXGradient, IntegratedGradients

from headwise.predictors.attribution.attribute import attribute
from headwise.tasks.images.encoders import Augmentation, PatchConfig
from headwise.tasks.images.image_classify import Known, Recogniser, build_image_classifier
from headwise.tasks.images.images import ImagesConfig
from headwise.tasks.images.pixels import Image

# rows and columns of patches of 2 x 2 pixels
GRID = (3, 5)


@pytest.fixture(scope="module", params=["cls", "mean"])
def recogniser(request):
    torch.manual_seed(1)
    config = PatchConfig(d_model=8, d_ff=11, num_heads=2, encoder_layers=2, patch=2, pooling=request.param)
    model = build_image_classifier(config, Augmentation(0, flip=False), ([0.4, 0.6], [0.2, 0.3]), (6, 10, 2), 3)
    known = Known(shape=(6, 10, 2), mean=[0.4, 0.6], deviation=[0.2, 0.3], classes=["a", "b", "c"], frequent="a")
    return Recogniser(model.eval(), known, ImagesConfig(train="x.npz"))


@pytest.fixture(scope="module")
def image():
    return Image("x.png", np.random.default_rng(2).integers(0, 255, (6, 10, 2), dtype=np.uint8), None)


def standardized(recogniser, image):
    return recogniser.model.standardized(torch.from_numpy(image.pixels).permute(2, 0, 1)[None])


def logits(recogniser):
    model = recogniser.model
    return lambda x: model.head(model.encoder(x)).log_softmax(-1)


def patches():
    """The number of the patch of each pixel."""
    return np.arange(15).reshape(GRID).repeat(2, 0).repeat(2, 1)


@pytest.mark.parametrize("method", ["gradient", "integrated", "occlusion"])
def test_patches_count_as_captum_says(recogniser, image, method):
    x, mask = standardized(recogniser, image), torch.from_numpy(patches())[None, None]
    attribution = attribute(recogniser, image, method)
    target = int(recogniser.model.head(recogniser.model.encoder(x)).argmax())
    if method == "occlusion":
        expected = FeatureAblation(logits(recogniser)).attribute(x, target=target, feature_mask=mask)[0, 0]
        expected = [float(expected[patches() == patch][0]) for patch in range(15)]
    else:
        options = {"n_steps": 50, "method": "riemann_middle"} if method == "integrated" else {}
        kind = IntegratedGradients if options else InputXGradient
        pixels = kind(logits(recogniser)).attribute(x.requires_grad_(), target=target, **options)[0].sum(0).detach()
        expected = [float(pixels[torch.from_numpy(patches() == patch)].sum()) for patch in range(15)]
    np.testing.assert_allclose(attribution.signed[method][0], expected, atol=1e-5)
    assert attribution.layers[method].keys[6] == "1,1"


def test_rollout_is_of_the_query_that_reads_the_image(recogniser, image):
    x, tokens = standardized(recogniser, image), 15 + recogniser.model.encoder.class_tokens
    weights = []
    mechanisms = [block.self_attention.mechanism for block in recogniser.model.encoder.encoder.blocks]
    handles = [
        mechanism.register_forward_hook(lambda module, inputs, output: weights.append(module.weights(inputs[0])[0]))
        for mechanism in mechanisms
    ]
    with torch.no_grad():
        recogniser.model.encoder(x)
    for handle in handles:
        handle.remove()
    first, second = ((table.mean(0).numpy() + np.eye(tokens)) / 2 for table in weights)
    product = second @ first
    (layer,) = attribute(recogniser, image, "rollout").layers.values()
    expected = product[0] if recogniser.model.encoder.class_tokens else product.mean(0)
    np.testing.assert_allclose(layer.weights[0, 0], expected, atol=1e-5)


@pytest.mark.parametrize("method", ["norms", "alti", "integrated", "lens"])
def test_maps_are_drawn_over_the_picture(recogniser, image, method, tmp_path):
    attribution = attribute(recogniser, image, method)
    page = attribution.page()
    titles = [axes.get_title() for axes in page.axes]
    assert ("image" in titles) == (method != "lens")
    assert attribution.write(tmp_path)[0].is_file()
