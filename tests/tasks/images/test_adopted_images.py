"""Vision models of transformers: they look where their own eager ones look, over the picture as they read it."""

import base64
import io
import json

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from adopted_models import made, processor  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from PIL import Image  # noqa: E402

from headwise.errors import CheckpointError, ConfigError, Unsupported  # noqa: E402
from headwise.explorer.api import add_explorer  # noqa: E402
from headwise.explorer.traces import traced  # noqa: E402
from headwise.service.app import create_app  # noqa: E402
from headwise.service.loaded import adopted_run, load_runs  # noqa: E402
from headwise.tasks.images.adopted import AdoptedImages  # noqa: E402
from headwise.tasks.images.picture_files import encode  # noqa: E402

transformers.logging.set_verbosity_error()
# what stands before the patches: a class token, and one of distillation
VISION = {"ViTForImageClassification": 1, "DeiTForImageClassificationWithTeacher": 2, "ViTModel": 1}
PIXELS = np.random.default_rng(3).integers(0, 256, (20, 31, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("vision")
    return {name: made(place / name, name) for name in VISION}


@pytest.mark.parametrize("name", VISION)
def test_uploaded_pictures_are_looked_at_as_by_the_eager_model(folders, name):
    model = getattr(transformers, name).from_pretrained(folders[name], attn_implementation="eager").eval()
    values = processor()(Image.fromarray(PIXELS), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        exact = model(values, output_attentions=True)
    runs = load_runs([], [folders[name]])
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/v1/meta").json()["models"][0]["input"] == "image"
        file = base64.b64encode(encode(PIXELS)).decode()
        trace = client.post("/api/v1/traces", json={"model": name, "file": file}).json()
        image = np.load(io.BytesIO(client.get(f"/api/v1/traces/{trace['trace_id']}/image").content))
    (group,) = trace["groups"]
    run = runs[name]
    looked = traced(run, run.predictor.opened(encode(PIXELS), "it"), None, "it")
    for number, layer in enumerate(group["layers"]):
        np.testing.assert_allclose(looked.weights(layer), exact.attentions[number][0].numpy(), atol=1e-5)
    before = VISION[name]
    assert group["keys"][: before + 2] == ["class"] * before + ["1,1", "1,2"]
    assert trace["axes"][group["name"]]["keys"] == {"kind": "patches", "grid": [4, 4], "before": before}
    assert trace["places"]["chosen"] == 0
    if name == "ViTModel":
        assert trace["output"] == ""
    else:
        share, label = exact.logits[0].softmax(-1).max(-1)
        named, probability = trace["output"].split()
        assert named == f"LABEL_{int(label)}"
        assert float(probability) == pytest.approx(float(share), abs=5e-3)
    # what was normalized is shown as it was before
    resized = np.asarray(Image.fromarray(PIXELS).resize((16, 16), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(image - resized).max() <= 1


def test_a_vision_model_in_memory_and_a_picture_of_a_file(folders, tmp_path):
    name = "ViTForImageClassification"
    model = transformers.ViTForImageClassification.from_pretrained(folders[name])
    predictor = adopted_run(model, processor()).predictor
    (tmp_path / "grey.png").write_bytes(encode(PIXELS[..., 0]))
    path = str(tmp_path / "grey.png")
    (output,) = predictor.predict(path)
    explanation = predictor.explain(path)
    assert (explanation.source, explanation.output) == ("grey.png", output)
    assert json.loads(predictor.write(predictor.parse(path), output, "json")[0]) == {"input": path, "output": output}
    assert explanation.page() is not None
    with pytest.raises(ConfigError, match="with its image processor"):
        AdoptedImages.of(model, None)
    with pytest.raises(ConfigError, match="leave the target out"):
        predictor.explain(path, "cat")


def test_vision_models_that_cannot_be_shown_are_refused(folders, tmp_path):
    folder = made(tmp_path / "vit", "ViTModel")
    model = transformers.ViTModel.from_pretrained(folder)
    with pytest.raises(Unsupported, match="more than 4,096 pixels a side"):
        AdoptedImages("vit", model, processor().__class__(size={"height": 10**6, "width": 16}))
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config\.json"):
        AdoptedImages.at(folder)
    with pytest.raises(Unsupported, match="reads no pictures"):
        AdoptedImages.at(made(tmp_path / "bert", "BertModel"))
