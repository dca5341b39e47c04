"""Encoder-decoders of transformers: imported they compute, write and learn as there, and they come back bit by bit."""

import random

import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from their_models import BOS, EOS, TRANSLATORS, WORDS, edited, made  # noqa: E402

import headwise  # noqa: E402
from headwise.decoding.search import DecodingConfig  # noqa: E402
from headwise.exchange import huggingface  # noqa: E402
from headwise.records import record  # noqa: E402
from headwise.runs.weights import ties  # noqa: E402
from headwise.training.loading import recipe_of  # noqa: E402
from headwise.training.recipe import flattened, read_recipe  # noqa: E402
from headwise.training.start import Start  # noqa: E402
from headwise.training.train import train  # noqa: E402


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each family their model, their tokenizer, their folder and the run that it became."""
    place = tmp_path_factory.mktemp("translators")
    made_models = {}
    for name in TRANSLATORS:
        model, words = made(place / name, name)
        Start.read(place / name).publish(place / f"{name}-run")
        made_models[name] = (model, words, place / name, place / f"{name}-run")
    return made_models


def texts(count=60, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_logits_are_those_of_transformers(folders, name):
    model, words, _, run = folders[name]
    predictor, sources = headwise.load(run), texts()
    batch = predictor.batch(sources, sources[::-1])
    theirs = words(sources, return_tensors="pt", padding=True)
    assert theirs["input_ids"].tolist() == batch.src.tolist()
    with torch.inference_mode():
        keep = {"attention_mask": theirs["attention_mask"]}
        expected = model(input_ids=batch.src, decoder_input_ids=batch.tgt_in, **keep).logits
        logits = predictor.model(batch.src, batch.src_lens, batch.tgt_in)
    real = torch.arange(logits.shape[1]) < batch.tgt_lens[:, None]
    torch.testing.assert_close(logits[real], expected[real], rtol=0, atol=1e-5)
    assert expected[real].abs().max() > 1


@pytest.mark.parametrize(
    ("beams", "stopping"),
    [(1, "full"), (4, "full"), *(pytest.param(4, kind, marks=pytest.mark.slow) for kind in ("estimate", "bound"))],
)
@pytest.mark.parametrize("name", TRANSLATORS)
def test_it_writes_what_generate_writes(folders, name, beams, stopping):
    model, words, _, run = folders[name]
    predictor, sources = headwise.load(run), texts()
    early = {"full": True, "estimate": False, "bound": "never"}[stopping] if beams > 1 else False
    theirs = words(sources, return_tensors="pt", padding=True)
    rows = model.generate(**theirs, num_beams=beams, do_sample=False, max_new_tokens=17, early_stopping=early)
    method = {"method": "beam" if beams > 1 else "greedy", "beam_size": beams, "stopping": stopping}
    config = DecodingConfig(max_len=17, max_len_a=0, max_len_b=17, **method)
    outputs = [n_best[0].tokens for n_best in predictor.n_best(sources, config)]
    expected = [row[1 : row.index(EOS, 1) if EOS in row[1:] else None] for row in rows.tolist()]
    assert outputs == expected
    # in the strictest search some go on after others have ended
    assert (beams, stopping) != (4, "full") or len({len(row) for row in outputs}) > 1
    if name == "bart":
        assert all(row[0] == BOS for row in outputs)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_record_shows_where_it_looks(folders, name):
    model, words, _, run = folders[name]
    eager = type(model).from_pretrained(folders[name][2], attn_implementation="eager").eval()
    predictor, sources = headwise.load(run), texts(3)
    batch = predictor.batch(sources, sources)
    with torch.inference_mode(), record(predictor.model) as trace:
        predictor.model(batch.src, batch.src_lens, batch.tgt_in)
    theirs = words(sources, return_tensors="pt", padding=True)["attention_mask"]
    with torch.inference_mode():
        output = eager(
            input_ids=batch.src, attention_mask=theirs, decoder_input_ids=batch.tgt_in, output_attentions=True
        )
    for layer, expected in enumerate(output.cross_attentions):
        weights = trace[f"decoder.blocks.{layer}.cross_attention"].weights()
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_tensors_come_back_bit_by_bit(folders, name):
    _, _, folder, run = folders[name]
    predictor = headwise.load(run)
    tied = ties(predictor.model)
    tensors = {key: tensor for key, tensor in predictor.model.state_dict().items() if key not in tied}
    source, target = predictor.source_tokenizer, predictor.target_tokenizer
    assert target is source.target
    exported = huggingface.write(flattened(recipe_of(run)), tensors, (source,))
    before = load_file(folder / "model.safetensors")
    assert exported.family.name == name.partition("-")[0]
    for key, tensor in before.items():
        if key.endswith("embed_positions.weight") and name.startswith("bart"):
            # two rows in front are never read
            tensor[:2] = 0
        assert torch.equal(exported.tensors[key], tensor), key


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sinusoids_that_are_rounded_there_are_computed_here(folders, tmp_path, dtype):
    type(folders["pegasus"][0]).from_pretrained(folders["pegasus"][2], dtype=dtype).save_pretrained(tmp_path / "half")
    folders["pegasus"][1].save_pretrained(tmp_path / "half")
    before, after = Start.read(folders["pegasus"][2]).tensors, Start.read(tmp_path / "half").tensors
    assert all(torch.equal(after[key], before[key].to(dtype).float()) for key in before)
    tensors = load_file(tmp_path / "half" / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"][3] += 0.1
    save_file(tensors, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    with pytest.raises(headwise.Unsupported, match=r"'model\.encoder\.embed_positions\.weight'"):
        Start.read(tmp_path / "half")


def test_a_start_of_another_shape_is_refused_by_key(folders, tmp_path):
    run = folders["marian"][3]
    start = Start.read(run)
    data = {"train": "headwise:phrasebook.en-fr.tsv"}
    values = {"task": "translate", "seed": 0, **start.settings(run, data)}
    recipe = read_recipe(values, ["model.num_heads=2"])
    with pytest.raises(headwise.ConfigError, match=r"model\.num_heads is 3 there and 2 here"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("marian", "encoder_layerdrop", 0.1),
        ("marian", "activation_function", "tanh"),
        ("marian", "surprise", 1),
        ("marian", "repetition_penalty", 1.3),
        ("marian", "encoder_attention_heads", 2),
        ("marian", "is_decoder", True),
        ("marian", "tie_word_embeddings", False),
        ("marian", "forced_eos_token_id", 7),
        ("t5", "feed_forward_proj", "gated-tanh"),
        ("t5", "dense_act_fn", "gelu"),
        ("t5", "is_gated_act", True),
        ("t5", "relative_attention_num_buckets", 7),
        ("t5", "relative_attention_num_buckets", 1 << 40),
        ("t5", "relative_attention_max_distance", "10"),
        ("t5", "tie_word_embeddings", 3),
        ("t5", "scale_decoder_outputs", 0.5),
        ("t5", "surprise", 1),
        ("t5", "num_decoder_layers", "2"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_key(tmp_path, name, key, value):
    made(tmp_path, name)
    generation = key in ("repetition_penalty", "forced_eos_token_id")
    edited(tmp_path, "generation_config.json" if generation else "config.json", **{key: value})
    with pytest.raises(headwise.Unsupported, match=f"{key}|decoder_attention_heads"):
        Start.read(tmp_path)
