"""Images in the explorer: examples by number, files that are sent, numbers equal to those of `headwise explain`."""

import base64
import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from serving_runs import task_run

from headwise.explain.attribution import rollout_within
from headwise.explorer.api import add_explorer
from headwise.explorer.inputs import BODY_BYTES
from headwise.service.app import create_app
from headwise.service.limits import Limits
from headwise.service.loaded import load_runs
from headwise.tasks.images.picture_files import decode, encode
from headwise.training.loading import examples

VIT, CAPTION, SEGMENT = "image-classify-patches", "caption-attention-over-a-map", "image-segment-patches"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    names = ("image-classify, patches", "caption, attention over a map")
    return load_runs([task_run(tmp_path_factory.mktemp("images"), name) for name in names], files=True)


@pytest.fixture
def labelling(tmp_path):
    """A run that says what each pixel is, and a client of it."""
    runs = load_runs([task_run(tmp_path, "image-segment, patches")], files=True)
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as found:
        yield runs, found


@pytest.fixture
def client(runs):
    app = create_app(runs, Limits(body_bytes=BODY_BYTES), more=[add_explorer])
    with TestClient(app, base_url="http://127.0.0.1:8000") as found:
        yield found


def traced(client, **asked):
    answer = client.post("/api/v1/traces", json=asked)
    assert answer.status_code == 201, answer.text
    return answer.json()


def part(client, told, name, **asked):
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/{name}", params=asked)
    assert answer.status_code == 200, answer.text
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def first(runs, name):
    run = runs[name]
    return run.predictor, run.predictor.input_of(examples(run.folder, "test")[0])


def test_examples_have_numbers_titles_and_labels(client):
    for name in (VIT, CAPTION):
        told = client.get("/api/v1/examples", params={"model": name}).json()
        assert told["input"] == "image"
        assert all(one["title"].endswith(".png") for one in told["examples"])
    assert {one["label"] for one in client.get(f"/api/v1/examples?model={VIT}").json()["examples"]} <= {
        "rows",
        "columns",
    }
    models = {one["name"]: one["input"] for one in client.get("/api/v1/meta").json()["models"]}
    assert models == {VIT: "image", CAPTION: "image"}


def test_a_page_opens_on_a_picture_that_the_model_gets_right(client):
    told = client.get(f"/api/v1/examples?model={VIT}").json()
    labels = [one["label"] for one in told["examples"]]
    answers = [traced(client, model=VIT, example=at)["output"].split()[0] for at in range(min(16, len(labels)))]
    right = [at for at, answer in enumerate(answers) if answer == labels[at]]
    assert (told["opens"], told["right"]) == ((right[0], True) if right else (0, False))


def test_the_map_of_the_class_token_is_that_of_explain(client, runs):
    predictor, image = first(runs, VIT)
    told = traced(client, model=VIT, example=0)
    explained = predictor.explain(image)
    assert (told["source"], told["output"]) == (explained.source, explained.output)
    assert told["places"] == {"kind": "image", "shape": [8, 8, 1], "covered": [8, 8], "chosen": 0}
    (group,) = told["groups"]
    axis = told["axes"][group["name"]]
    assert axis["keys"] == axis["queries"] == {"kind": "patches", "grid": [2, 2], "before": 1}
    row = part(client, told, "row", group=group["name"], q=0)
    for layer, found in zip(group["layers"], row, strict=True):
        np.testing.assert_allclose(found, explained.layers[layer].weights[:, 0], atol=1e-6)
    np.testing.assert_array_equal(part(client, told, "image"), explained.draw.pixels)
    mean = part(client, told, "mean", group=group["name"])
    whole = np.stack([part(client, told, "matrix", layer=group["layers"][0], head=h) for h in range(group["heads"])])
    np.testing.assert_allclose(mean[0], whole.astype(float).mean(1), atol=2e-3)


def test_rollout_goes_through_all_layers():
    random = np.random.default_rng(0)
    layers = [random.dirichlet(np.ones(5), (3, 5)) for _ in range(3)]
    found = np.eye(5)
    for weights in layers:
        found = (0.5 * sum(weights) / 3 + 0.5 * np.eye(5)) @ found
    np.testing.assert_allclose(rollout_within(layers), found)
    np.testing.assert_allclose(rollout_within(layers).sum(-1), 1.0)


def test_a_file_that_is_sent_is_read_as_one_of_the_disk(client, runs, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (11, 9, 3), dtype=np.uint8)
    data = encode(pixels)
    told = traced(client, model=VIT, file=base64.b64encode(data).decode())
    explained = runs[VIT].predictor.explain(decode(data, "sent"))
    assert told["output"] == explained.output
    np.testing.assert_array_equal(part(client, told, "image"), explained.draw.pixels)


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({}, 422, "give one of"),
        ({"text": "a.png", "example": 0}, 422, "give one of"),
        ({"text": "/etc/passwd"}, 422, "no path is taken"),
        ({"example": 99}, 404, "there is no example 99"),
        ({"example": -1}, 422, "example"),
        ({"file": "no base64!"}, 422, "no base64"),
        ({"file": base64.b64encode(b"GIF89a").decode()}, 422, "a GIF file"),
        ({"file": base64.b64encode(b"\x89PNG\r\n").decode()}, 422, "damaged or cut off"),
        ({"file": "A" * (12 << 20)}, 413, "larger than"),
    ],
)
def test_what_is_no_picture_is_refused(client, asked, status, says):
    answer = client.post("/api/v1/traces", json={"model": VIT, **asked})
    assert answer.status_code == status
    assert says in answer.json()["detail"]


def test_no_path_is_taken_by_any_route(client):
    for verb, body in (("predict", {"texts": ["/etc/passwd"]}), ("trace", {"text": "/etc/passwd"})):
        answer = client.post(f"/api/v1/{verb}", json={"model": CAPTION, **body})
        assert answer.status_code == 422
        assert "no path is taken" in answer.json()["detail"]


def test_words_look_at_the_places_of_the_map(client, runs):
    predictor, image = first(runs, CAPTION)
    told = traced(client, model=CAPTION, example=0)
    explained = predictor.explain(image)
    axes = {group["name"]: told["axes"][group["name"]] for group in told["groups"]}
    cross = next(name for name in axes if "cross" in name)
    rows, columns = explained.draw.grid
    assert axes[cross]["keys"] == {"kind": "patches", "grid": [rows, columns], "before": 0}
    assert axes[cross]["queries"] == {"kind": "tokens"}
    own = next(name for name in axes if axes[name]["queries"]["kind"] == "patches")
    # attention inside the encoder may be over a finer map than the words look at
    assert axes[own]["queries"]["grid"] == list(predictor.model.encoder.encoder.grid)
    group = next(group for group in told["groups"] if group["name"] == cross)
    row = part(client, told, "row", group=cross, q=1)
    for layer, found in zip(group["layers"], row, strict=True):
        np.testing.assert_allclose(found, explained.layers[layer].weights[:, 1], atol=1e-6)
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/rollout", params={"group": cross})
    assert answer.status_code == 422


@pytest.mark.slow
def test_the_pixel_in_the_middle_is_the_query_of_a_labeller(labelling):
    runs, client = labelling
    predictor, image = first(runs, SEGMENT)
    told = traced(client, model=SEGMENT, example=0)
    explained = predictor.explain(image)
    (group,) = told["groups"]
    row = part(client, told, "row", group=group["name"], q=told["places"]["chosen"])
    for layer, found in zip(group["layers"], row, strict=True):
        np.testing.assert_allclose(found, explained.layers[layer].weights[:, 0], atol=1e-6)


def test_labels_of_pixels_are_told_with_those_that_are_true(labelling):
    runs, client = labelling
    predictor, image = first(runs, SEGMENT)
    told = traced(client, model=SEGMENT, example=0)
    names = [name for name, _ in told["places"]["classes"]]
    assert names[:-1] == predictor.known.classes
    assert all(colour.startswith("#") and len(colour) == 7 for _, colour in told["places"]["classes"])
    said, true = part(client, told, "labels")
    (painted,) = predictor.predict([image])
    np.testing.assert_array_equal(np.array(predictor.known.labels)[said], painted.labels)
    counts = (image.mask != 9) & (image.mask >= 0)
    assert counts.any()
    np.testing.assert_array_equal(np.array([*predictor.known.labels, -1])[true[counts]], image.mask[counts])
    assert (true[~counts] == 255).all()
    # a picture that is sent has no mask
    told = traced(client, model=SEGMENT, file=base64.b64encode(encode(image.pixels[..., 0])).decode())
    assert part(client, told, "labels").shape == (1, *said.shape)


def test_a_run_without_labels_of_pixels_says_so(client):
    told = traced(client, model=VIT, example=0)
    assert "classes" not in told["places"]
    answer = client.get(f"/api/v1/traces/{told['trace_id']}/labels")
    assert (answer.status_code, "no labels of pixels" in answer.json()["detail"]) == (422, True)
