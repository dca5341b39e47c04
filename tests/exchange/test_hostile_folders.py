"""Folders that are damaged or that want something: refused by name; nothing is run or allocated."""

import contextlib
import json
import os
import tracemalloc

import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from their_models import FAMILIES, edited, encoder, made, picture_reader  # noqa: E402

from headwise.errors import CheckpointError, HeadwiseError, Unsupported  # noqa: E402
from headwise.training.start import Start  # noqa: E402


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    made(folder, "marian")
    return folder


# families of other shapes: a folder, its largest size in config.json, and one of its tensors
OTHERS = {
    "bert": ("hidden_size", "bert.encoder.layer.0.output.dense.weight"),
    "roberta": ("hidden_size", "roberta.encoder.layer.0.output.dense.weight"),
    "distilbert": ("dim", "distilbert.transformer.layer.0.ffn.lin1.weight"),
    "vit": ("hidden_size", "vit.encoder.layer.0.output.dense.weight"),
    "t5": ("d_model", "encoder.block.0.layer.1.DenseReluDense.wi.weight"),
    "modernbert": ("hidden_size", "model.layers.0.mlp.Wo.weight"),
    "gemma2": ("hidden_size", "model.layers.0.mlp.down_proj.weight"),
    "opt": ("hidden_size", "model.decoder.layers.0.fc1.weight"),
}


@pytest.fixture(scope="module")
def other_folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("others")
    for name in OTHERS:
        if name == "vit":
            picture_reader(place / name)
        elif name in FAMILIES:
            made(place / name, name)
        else:
            encoder(place / name, name, "classify")
        Start.read(place / name)
    return place


@pytest.fixture(params=OTHERS)
def other(request, other_folders, tmp_path):
    for path in (other_folders / request.param).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return (tmp_path, *OTHERS[request.param])


def test_damage_is_named_in_other_families(other):
    folder, width, name = other
    before = (folder / "model.safetensors").read_bytes()
    for change, message in (
        (lambda tensors: tensors.pop(name), "is missing"),
        (lambda tensors: tensors.update({name: torch.zeros(3, 5)}), r"has shape \[3, 5\]"),
        (lambda tensors: tensors.update({name: tensors[name] * torch.inf}), "holds NaN"),
        (lambda tensors: tensors.update({"surprise": torch.zeros(2)}), "without a counterpart here: 'surprise'"),
    ):
        tensors_of(folder, change)
        with pytest.raises((CheckpointError, Unsupported), match=message):
            Start.read(folder)
        (folder / "model.safetensors").write_bytes(before)
    settings = json.loads((folder / "config.json").read_bytes())
    layers = next(key for key in settings if key.endswith("_layers"))
    for values, message in (
        ({width: 10**9}, "d_model|shape|word_embed_proj_dim"),
        ({width: "18"}, f"{width}|word_embed"),
        ({width: None}, f"{width}|word_embed"),
        ({layers: 2.5}, layers),
        ({layers: 10**9}, "1,000,000,000 layers"),
        ({"auto_map": {"AutoModel": "modeling.Evil"}}, "auto_map names code"),
        ({"architectures": ["EvilModel"]}, "architectures = 'EvilModel'"),
        ({"surprise": 1}, "surprise"),
    ):
        edited(folder, **values)
        tracemalloc.start()
        try:
            with pytest.raises(HeadwiseError, match=message):
                Start.read(folder)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()
        (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.slow
def test_any_value_of_any_key_is_read_or_refused_by_name(other):
    folder, _, _ = other
    settings = json.loads((folder / "config.json").read_bytes())
    tracemalloc.start()
    try:
        for key in settings:
            for value in ({"a": 1}, [1, 2], [[]], "x", 0, True, 10**12, float("inf")):
                (folder / "config.json").write_text(json.dumps(settings | {key: value}))
                with contextlib.suppress(HeadwiseError):
                    Start.read(folder)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("t5", "num_heads", 10**12, r"says model\.num_heads = 1000000000000; no tensor has such a side"),
        ("t5", "d_ff", 0, r"says model\.d_ff = 0"),
        ("t5", "feed_forward_proj", [], "feed_forward_proj = "),
        ("gemma2", "max_position_embeddings", [1, 2], "max_position_embeddings = "),
        ("gemma2", "head_dim", {"a": 1}, "head_dim = "),
        ("bert", "architectures", [[]], "architectures = "),
    ],
)
def test_sizes_and_kinds_are_checked_before_anything_follows_from_them(
    other_folders, tmp_path, name, key, value, message
):
    for path in (other_folders / name).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    edited(tmp_path, **{key: value})
    with pytest.raises(HeadwiseError, match=message):
        Start.read(tmp_path)


def test_links_and_headers_are_refused_in_other_families(other):
    folder, _, _ = other
    (folder / "model.safetensors").rename(folder / "elsewhere")
    os.symlink(folder / "elsewhere", folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*is a link"):
        Start.read(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes((1 << 32).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="a header of 4,294,967,296 bytes"):
        Start.read(folder)


@pytest.fixture
def folder(sound, tmp_path):
    for path in sound.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def tensors_of(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_a_sound_folder_is_read(folder):
    assert Start.read(folder).recipe.task == "translate"


NAME = "model.encoder.layers.0.fc1.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(NAME), f"'{NAME}' is missing"),
        (lambda tensors: tensors.update({NAME: torch.zeros(3, 5)}), rf"'{NAME}' has shape \[3, 5\]"),
        (lambda tensors: tensors.update({NAME: tensors[NAME] * torch.nan}), f"'{NAME}' holds NaN"),
        (lambda tensors: tensors.update({NAME: tensors[NAME].to(torch.int32)}), f"'{NAME}' has type I32"),
        (lambda tensors: tensors.update({"surprise": torch.zeros(2)}), "without a counterpart here: 'surprise'"),
        (
            lambda tensors: tensors.update({"lm_head.weight": torch.ones(53, 18)}),
            "without a counterpart here: 'lm_head.weight'",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(folder, change, message):
    tensors_of(folder, change)
    with pytest.raises((CheckpointError, Unsupported), match=message):
        Start.read(folder)


def test_half_precision_is_read_as_it_is(folder):
    before = Start.read(folder).tensors
    tensors_of(folder, lambda tensors: tensors.update({key: value.bfloat16() for key, value in tensors.items()}))
    after = Start.read(folder).tensors
    assert all(torch.equal(after[key], before[key].bfloat16().float()) for key in before)


@pytest.mark.parametrize("length", [1 << 32, (1 << 64) - 1, 0])
def test_a_header_longer_than_the_file_takes_no_memory(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            Start.read(folder)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_header_of_four_gigabytes_that_is_there_is_not_read(folder):
    with open(folder / "model.safetensors", "wb") as file:
        file.write((1 << 32).to_bytes(8, "little"))
        # a hole, which takes no room
        file.truncate((1 << 32) + 100)
    with pytest.raises(CheckpointError, match="a header of 4,294,967,296 bytes"):
        Start.read(folder)


@pytest.mark.parametrize("offsets", [[0, 1 << 40], [-4, 0], [0.0, 4.0], [0], "ab"])
def test_entries_outside_the_file_are_refused(folder, offsets):
    header = json.dumps({"a": {"dtype": "F32", "shape": [1 << 38], "data_offsets": offsets}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError, match="entry of 'a' does not fit"):
        Start.read(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "generation_config.json"])
def test_a_link_is_refused(folder, name):
    (folder / name).rename(folder / "elsewhere")
    os.symlink(folder / "elsewhere", folder / name)
    with pytest.raises(CheckpointError, match=rf"{name}.*is a link.*cp -rL"):
        Start.read(folder)


def test_pickled_weights_are_refused_with_two_lines_that_convert_them(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is pickled") as refusal:
        Start.read(folder)
    assert len(str(refusal.value).splitlines()) == 3
    assert "save_pretrained" in str(refusal.value)
    assert not os.path.exists("pwned")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"auto_map": {"AutoModel": "modeling.Evil"}}, "auto_map names code"),
        ({"model_type": "evil"}, "model_type = 'evil'"),
        ({"architectures": ["EvilModel"]}, "architectures = 'EvilModel'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"encoder_layers": 10**9}, "1,000,000,000 layers"),
        ({"d_model": 10**9}, "d_model|shape"),
        ({"vocab_size": 10**12, "decoder_vocab_size": 10**12}, "1000000000000 tokens"),
        ({"d_model": "18"}, "d_model"),
        ({"d_model": None}, "d_model"),
        ({"max_position_embeddings": -1}, "max_"),
    ],
)
def test_what_a_configuration_wants_is_refused(folder, keys, message):
    (folder / "modeling.py").write_text("raise SystemExit('run')")
    edited(folder, **keys)
    with pytest.raises(HeadwiseError, match=message):
        Start.read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_files_that_are_no_json_objects_are_named(folder, name, text):
    (folder / name).write_text(text)
    with pytest.raises(HeadwiseError, match=name):
        Start.read(folder)


@pytest.mark.parametrize(
    "values", [{"model": None}, {"model": {"type": "WordLevel"}}, {"pre_tokenizer": {"type": "Evil"}}]
)
def test_a_damaged_tokenizer_is_named(folder, values):
    edited(folder, "tokenizer.json", **values)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Start.read(folder)
