"""Language models of transformers: imported they compute, write and learn as there, and they come back bit by bit."""

import json
import random
import shutil

import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402
from their_models import DECODERS, EOS, WORDS, edited, made  # noqa: E402

import headwise  # noqa: E402
from headwise.decoding.search import DecodingConfig  # noqa: E402
from headwise.exchange import huggingface  # noqa: E402
from headwise.records import record  # noqa: E402
from headwise.training.loading import recipe_of  # noqa: E402
from headwise.training.recipe import flattened  # noqa: E402
from headwise.training.start import Start  # noqa: E402


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each family their model, their tokenizer, their folder and the run that it became."""
    place = tmp_path_factory.mktemp("decoders")
    made_models = {}
    for name in DECODERS:
        model, words = made(place / name, name)
        Start.read(place / name).publish(place / f"{name}-run")
        made_models[name] = (model, words, place / name, place / f"{name}-run")
    return made_models


def texts(count):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


@pytest.mark.parametrize("name", DECODERS)
def test_logits_and_weights_are_those_of_transformers(folders, name):
    model, words, folder, run = folders[name]
    predictor = headwise.load(run)
    tokens = words(texts(60), return_tensors="pt", padding=True, padding_side="right")["input_ids"]
    with torch.inference_mode(), record(predictor.model) as trace:
        logits = predictor.model(tokens)
    eager = type(model).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.inference_mode():
        expected = eager(input_ids=tokens, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=1e-5)
    assert logits.abs().max() > 1
    for layer, weights in enumerate(expected.attentions):
        ours = trace[f"decoder.blocks.{layer}.self_attention"].weights()
        torch.testing.assert_close(ours, weights, rtol=0, atol=1e-5)


@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("name", DECODERS)
def test_it_writes_what_generate_writes(folders, name, beams):
    model, words, _, run = folders[name]
    predictor, prompts = headwise.load(run), texts(60)
    words.padding_side = "left"
    read = words(prompts, return_tensors="pt", padding=True)
    options = {"early_stopping": True, "num_beams": beams} if beams > 1 else {}
    kept = {key: read[key] for key in ("input_ids", "attention_mask")}
    rows = model.generate(**kept, do_sample=False, max_new_tokens=9, pad_token_id=0, **options)
    rows = [row[read["input_ids"].shape[1] :] for row in rows.tolist()]
    config = DecodingConfig(method="beam" if beams > 1 else "greedy", beam_size=beams, max_len=9)
    outputs = [continuations[0].tokens for continuations in predictor.predict(prompts, config)]
    assert outputs == [row[: row.index(EOS)] if EOS in row else row for row in rows]


@pytest.mark.parametrize("name", DECODERS)
def test_tensors_come_back_bit_by_bit(folders, name):
    _, _, folder, run = folders[name]
    predictor, start = headwise.load(run), Start.read(run)
    exported = huggingface.write(flattened(recipe_of(run)), start.tensors, (predictor.tokenizer,))
    before = load_file(folder / "model.safetensors")
    assert exported.family.name == name.partition("-")[0]
    assert exported.tensors.keys() == before.keys()
    if name == "opt":
        # two rows in front are never read
        before["model.decoder.embed_positions.weight"][:2] = 0
    assert all(torch.equal(exported.tensors[key], before[key]) for key in before)


def test_keys_of_older_gemma_folders_are_read(folders, tmp_path):
    folder = folders["gemma3_text"][2]
    shutil.copytree(folder, tmp_path / "old")
    values = json.loads((folder / "config.json").read_text())
    del values["layer_types"], values["rope_parameters"]
    older = {"sliding_window_pattern": 3, "rope_theta": 1e3, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    (tmp_path / "old" / "config.json").write_text(json.dumps(values | older | {"rope_local_base_freq": 1e4}))
    assert Start.read(tmp_path / "old").recipe == Start.read(folder).recipe


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("llama", "sliding_window", 8),
        ("mistral", "sliding_window", 0),
        ("mistral-windowed", "layer_types", ["full_attention", "sliding_attention"]),
        ("mistral", "hidden_act", "gelu"),
        ("mistral", "rope_parameters", {"rope_type": "yarn", "factor": 2.0}),
        ("mistral", "rope_parameters", {"rope_theta": -1.0}),
        ("mistral", "rope_theta", -1),
        ("mistral", "eos_token_id", -4),
        ("mistral", "pad_token_id", True),
        ("qwen3-windowed", "layer_types", ["sliding_attention"]),
        ("qwen3-windowed", "layer_types", ["chunked_attention", "sliding_attention"]),
        ("gemma2", "query_pre_attn_scalar", 0),
        ("gemma2", "attn_logit_softcapping", -1.0),
        ("gemma2", "final_logit_softcapping", "5"),
        ("gemma2", "use_bidirectional_attention", True),
        ("gemma2", "attention_bias", True),
        ("gemma2", "sliding_window", 4.0),
        ("gemma2", "rope_parameters", {"rope_type": "yarn"}),
        ("gemma3_text", "attn_logit_softcapping", 50.0),
        ("gemma3_text", "rope_parameters", {"chunked_attention": {}}),
        ("gemma3_text", "rope_parameters", {"full_attention": {"rope_type": "dynamic"}}),
        ("gemma3_text", "sliding_window_pattern", 0),
        ("gemma3_text", "surprise", 1),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_key(tmp_path, name, key, value):
    made(tmp_path, name)
    edited(tmp_path, **{key: value})
    with pytest.raises(headwise.Unsupported, match=key):
        Start.read(tmp_path)
