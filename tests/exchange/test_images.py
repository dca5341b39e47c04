"""Classifiers of images of transformers: imported they compute and learn as there, and they come back."""

import json
import shutil

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from their_models import CLASSES, PROCESSOR, edited, picture_reader  # noqa: E402

import headwise  # noqa: E402
from headwise.errors import CheckpointError  # noqa: E402
from headwise.exchange import huggingface  # noqa: E402
from headwise.exchange.tokens import as_json  # noqa: E402
from headwise.records import record  # noqa: E402
from headwise.training.loading import recipe_of  # noqa: E402
from headwise.training.recipe import flattened, read_recipe  # noqa: E402
from headwise.training.start import Start  # noqa: E402
from headwise.training.train import train  # noqa: E402

KINDS = {"vit": ("ViT", (10, 15)), "deit": ("DeiT", (10, 10))}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each family their model, their folder and the run that it became."""
    place, models = tmp_path_factory.mktemp("images"), {}
    for name, (kind, size) in KINDS.items():
        model = picture_reader(place / name, kind, size)
        Start.read(place / name).publish(place / f"{name}-run")
        models[name] = (model, place / name)
    return models


def run_of(folder):
    return folder.with_name(f"{folder.name}-run")


@pytest.mark.parametrize("name", KINDS)
def test_logits_and_weights_are_those_of_transformers(folders, name, tmp_path):
    model, folder = folders[name]
    predictor = headwise.load(run_of(folder))
    height, width, _ = predictor.known.shape
    pixels = np.random.default_rng(0).integers(0, 256, (60, height, width, 3), dtype=np.uint8)
    mean, deviation = (np.array(PROCESSOR[key]) for key in ("image_mean", "image_std"))
    values = torch.tensor((pixels / 255 - mean) / deviation, dtype=torch.float32).permute(0, 3, 1, 2)
    with torch.inference_mode(), record(predictor.model) as trace:
        ours = predictor.model(torch.from_numpy(pixels).permute(0, 3, 1, 2))
    with torch.inference_mode():
        theirs = model(values, output_attentions=True)
    torch.testing.assert_close(ours, theirs.logits, rtol=0, atol=1e-5)
    for layer, weights in enumerate(theirs.attentions):
        own = trace[f"encoder.encoder.blocks.{layer}.self_attention"].weights()
        torch.testing.assert_close(own, weights, rtol=0, atol=1e-5)
    Image.fromarray(pixels[0]).save(tmp_path / "image.png")
    (odds,) = predictor.predict([str(tmp_path / "image.png")])
    expected = dict(zip(CLASSES, theirs.logits[0].softmax(-1).tolist(), strict=True))
    assert odds == pytest.approx(expected, abs=1e-5)
    assert predictor.explain(str(tmp_path / "image.png")).layers


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_back_is_the_same(folders, name, tmp_path):
    model, folder = folders[name]
    run = run_of(folder)
    start, known = Start.read(run), headwise.load(run).known
    exported = huggingface.write(flattened(recipe_of(run)), start.tensors, (), known.classes, known.model_dump())
    assert exported.family.name == name
    assert exported.tensors.keys() == load_file(folder / "model.safetensors").keys()
    again = tmp_path / "again"
    again.mkdir()
    save_file(exported.tensors, again / "model.safetensors", {"format": "pt"})
    for file, content in {**exported.files, "config.json": as_json(exported.config)}.items():
        (again / file).write_bytes(content)
    back = Start.read(again)
    assert all(torch.equal(back.tensors[key], start.tensors[key]) for key in start.tensors)
    assert json.loads(back.files["images.json"]) == json.loads(start.files["images.json"])
    other = type(model).from_pretrained(again).eval()
    pixels = torch.randn(2, 3, *known.shape[:2])
    with torch.inference_mode():
        torch.testing.assert_close(other(pixels).logits, model(pixels).logits, rtol=0, atol=1e-5)


def test_the_middle_of_a_picture_is_read_as_there(tmp_path):
    """As DeiT: stretched by cubic interpolation, then cut."""
    model = picture_reader(tmp_path / "theirs", "DeiT", (10, 10))
    keys = {"resample": 3, "do_center_crop": True, "size": {"height": 15, "width": 13}, "crop_size": 10}
    edited(tmp_path / "theirs", "preprocessor_config.json", **keys, image_processor_type="DeiTImageProcessor")
    start = Start.read(tmp_path / "theirs")
    start.publish(tmp_path / "run")
    predictor = headwise.load(tmp_path / "run")
    processor = transformers.DeiTImageProcessorPil.from_pretrained(tmp_path / "theirs")
    draw = np.random.default_rng(0)
    for size in ((40, 31), (10, 10), (15, 13), (7, 9)):
        picture = Image.fromarray(draw.integers(0, 256, (*size, 3), dtype=np.uint8))
        picture.save(tmp_path / "image.png")
        bytes_there = processor(picture, return_tensors="np", do_rescale=False, do_normalize=False)["pixel_values"]
        (image,) = predictor.inputs([str(tmp_path / "image.png")])
        # both round between the directions of a stretch; Pillow in its own whole numbers
        assert np.abs(image.pixels.transpose(2, 0, 1) - bytes_there[0].astype(int)).max() <= 1
        assert (image.pixels.transpose(2, 0, 1) == bytes_there[0]).mean() > 0.95
        with torch.inference_mode():
            logits = model(torch.tensor(processor(picture, return_tensors="np")["pixel_values"])).logits
        expected = dict(zip(CLASSES, logits[0].softmax(-1).tolist(), strict=True))
        assert predictor.predict([str(tmp_path / "image.png")])[0] == pytest.approx(expected, abs=2e-2)
        assert predictor.predict([image]) == predictor.predict([str(tmp_path / "image.png")])
    known = predictor.known
    exported = huggingface.write(
        flattened(recipe_of(tmp_path / "run")), start.tensors, (), known.classes, known.model_dump()
    )
    values = json.loads(exported.files["preprocessor_config.json"])
    assert (values["size"], values["crop_size"]) == ({"height": 15, "width": 13}, {"height": 10, "width": 10})
    assert (values["resample"], values["do_center_crop"]) == (3, True)
    keys = {"train": "data", "valid_fraction": 0.2}
    kept = Start.read(tmp_path / "run").settings(tmp_path / "run", keys)["data"]
    assert (kept["fit"], kept["crop_from"], kept["resample"]) == ("crop", [15, 13], "cubic")


def test_older_folders_of_deit_say_their_class_alone(folders, tmp_path):
    shutil.copytree(folders["deit"][1], tmp_path / "copy")
    path = tmp_path / "copy" / "preprocessor_config.json"
    old = {"feature_extractor_type": "DeiTFeatureExtractor", "size": 12, "crop_size": 10}
    path.write_text(json.dumps(old | {key: PROCESSOR[key] for key in ("image_mean", "image_std")}))
    data = Start.read(tmp_path / "copy").recipe.data
    assert (data.fit, data.crop_from, data.resample) == ("crop", (12, 12), "cubic")


@pytest.mark.parametrize("labels", [["dog", "owl"], ["dog", "emu"]])
def test_fine_tuning_lowers_the_loss(folders, labels, tmp_path):
    folder, draw = folders["vit"][1], np.random.default_rng(0)
    for number, label in enumerate(labels):
        (tmp_path / "data" / label).mkdir(parents=True)
        for image in range(20):
            pixels = draw.integers(0, 100, (10, 15, 3)) + 150 * number
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "data" / label / f"{image}.png")
    keys = {"train": str(tmp_path / "data"), "valid_fraction": 0.2, "test_fraction": 0.0}
    values = {"task": "image-classify", "seed": 0, **Start.read(folder).settings(folder, keys)}
    values["training"] |= {"max_steps": 20, "validate_every": 10, "learning_rate": 3e-3, "schedule": "constant"}
    values["training"] |= {"warmup_share": 0.0, "warmup_steps": 0, "baseline_cpu_s": 0}
    events = []
    train(read_recipe(values), tmp_path / "run", on_event=events.append)
    losses = [event["metrics"]["loss"] for event in events if event["event"] == "validation"]
    assert losses[-1] < losses[0]
    known = headwise.load(tmp_path / "run").known
    assert known.classes == (CLASSES if labels == ["dog", "owl"] else labels)
    assert known.mean == PROCESSOR["image_mean"]
    notes = "\n".join(note for event in events for note in event.get("notes", []))
    assert ("new: head" in notes) == ("emu" in labels)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("preprocessor_config.json", "crop_size", {"height": 9}),
        ("preprocessor_config.json", "resample", 4),
        ("preprocessor_config.json", "size", {"height": 9, "width": 9}),
        ("preprocessor_config.json", "size", {"shortest_edge": 9}),
        ("preprocessor_config.json", "rescale_factor", 1.0),
        ("preprocessor_config.json", "image_std", [0.5, 0.0, 0.5]),
        ("preprocessor_config.json", "image_mean", [0.5]),
        ("preprocessor_config.json", "surprise", 1),
        ("config.json", "qkv_bias", False),
        ("config.json", "patch_size", [5, 3]),
        ("config.json", "image_size", "10"),
        ("config.json", "hidden_act", "tanh"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_key(folders, tmp_path, file, key, value):
    shutil.copytree(folders["vit"][1], tmp_path / "copy")
    edited(tmp_path / "copy", file, **{key: value})
    with pytest.raises(headwise.Unsupported, match=key):
        Start.read(tmp_path / "copy")


def test_a_folder_without_a_processor_is_refused(folders, tmp_path):
    shutil.copytree(folders["vit"][1], tmp_path / "copy")
    (tmp_path / "copy" / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config\.json"):
        Start.read(tmp_path / "copy")
