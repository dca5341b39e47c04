"""Encoders of transformers with their heads: imported they compute and learn as there, and they come back."""

import json
import random
import shutil

import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from their_models import ENCODERS, HEADS, LABELS, WORDS, edited, encoder  # noqa: E402

import headwise  # noqa: E402
from headwise.exchange import huggingface  # noqa: E402
from headwise.exchange.tokens import as_json  # noqa: E402
from headwise.records import record  # noqa: E402
from headwise.tasks.text.words import collate_words, encode_words  # noqa: E402
from headwise.training.loading import recipe_of  # noqa: E402
from headwise.training.recipe import flattened, read_recipe  # noqa: E402
from headwise.training.start import Start  # noqa: E402
from headwise.training.train import train  # noqa: E402

CASES = [(name, task) for name in ENCODERS for task in HEADS]
# each family once and each task; the other pairs take seconds in all
QUICK = {"bert": "classify", "roberta": "tag", "modernbert": "regress"}
MARKED = [
    pytest.param(*case, marks=[] if QUICK.get(case[0], "masked-lm") == case[1] else pytest.mark.slow) for case in CASES
]


class Folders(dict):
    """For each family and task, made when first asked for: their model, tokenizer and folder, the run it became."""

    def __init__(self, place):
        super().__init__()
        self._place = place

    def __missing__(self, case):
        folder, run = (self._place / f"{'-'.join(case)}{end}" for end in ("", "-run"))
        model, words = encoder(folder, *case)
        Start.read(folder).publish(run)
        self[case] = (type(model).from_pretrained(folder, attn_implementation="eager").eval(), words, folder, run)
        return self[case]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return Folders(tmp_path_factory.mktemp("encoders"))


def texts(count):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]


def computed(predictor, task, words, model):
    """Ours and theirs for 60 texts, padded: logits and the attention of every layer."""
    items = texts(60)
    if task == "tag":
        sentences = [text.split() for text in items]
        read = words(sentences, is_split_into_words=True, return_tensors="pt", padding=True)
        rows = encode_words(sentences, predictor.tokenizer)
        batch = collate_words(rows, range(len(sentences)))
        assert batch.tokens.shape == read["input_ids"].shape
        arguments = (batch.tokens, batch.pieces)
        firsts = [
            [
                next(place for place, own in enumerate(read.word_ids(row)) if own == word)
                for word in range(len(sentence))
            ]
            for row, sentence in enumerate(sentences)
        ]
    else:
        read = words(items, return_tensors="pt", padding=True)
        lens = read["attention_mask"].sum(1)
        arguments = (read["input_ids"], lens)
        if task == "masked-lm":
            arguments += (read["attention_mask"].flatten().nonzero()[:, 0],)
    with torch.inference_mode(), record(predictor.model) as trace:
        ours = predictor.model(*arguments)
    with torch.inference_mode():
        theirs = model(input_ids=read["input_ids"], attention_mask=read["attention_mask"], output_attentions=True)
    logits = theirs.logits
    if task == "masked-lm":
        logits = logits.flatten(0, 1)[arguments[2]]
    if task == "tag":
        ours = torch.cat([ours[row, : len(places)] for row, places in enumerate(firsts)])
        logits = torch.cat([logits[row, places] for row, places in enumerate(firsts)])
    return ours, logits, trace, theirs.attentions, read["attention_mask"]


@pytest.mark.parametrize(("name", "task"), MARKED)
def test_logits_and_weights_are_those_of_transformers(folders, name, task):
    model, words, _, run = folders[name, task]
    predictor = headwise.load(run)
    ours, logits, trace, attentions, keep = computed(predictor, task, words, model)
    torch.testing.assert_close(ours, logits, rtol=0, atol=1e-5)
    assert logits.abs().max() > 0.1
    for layer, weights in enumerate(attentions):
        own = trace[f"encoder.encoder.blocks.{layer}.self_attention"].weights()
        real = keep[:, None, :, None] * keep[:, None, None, :]
        torch.testing.assert_close(own * real, weights * real, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "task"), MARKED)
def test_what_comes_back_is_the_same(folders, name, task, tmp_path):
    _, _, folder, run = folders[name, task]
    predictor, start = headwise.load(run), Start.read(run)
    tokenizer = predictor.tokenizer.pieces if task == "tag" else predictor.tokenizer
    exported = huggingface.write(flattened(recipe_of(run)), start.tensors, (tokenizer,), LABELS[task])
    assert exported.family.name == name
    before = load_file(folder / "model.safetensors")
    assert exported.tensors.keys() == before.keys()
    for key, tensor in before.items():
        if "position_embeddings" in key:
            kinds = before.get(key.replace("position", "token_type"))
            tensor += 0 if kinds is None else kinds[0]
            tensor[: 2 if "roberta" in name else 0] = 0
        if "token_type" in key:
            # the first is a part of every position, the others are never read
            tensor[:] = 0
        assert torch.equal(exported.tensors[key], tensor), key
    # their program reads it, and we read it as before
    again = tmp_path / "again"
    again.mkdir()
    save_file(exported.tensors, again / "model.safetensors", {"format": "pt"})
    for file, content in exported.files.items():
        (again / file).write_bytes(content)
    (again / "config.json").write_bytes(as_json(exported.config))
    back = Start.read(again)
    assert all(torch.equal(back.tensors[key], start.tensors[key]) for key in start.tensors)
    assert back.files == start.files
    kind = getattr(transformers, f"{ENCODERS[name]}For{HEADS[task]}")
    model, report = kind.from_pretrained(again, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert [*model.config.id2label.values()] == (LABELS[task] or ["LABEL_0", "LABEL_1"])


def write_data(task, folder):
    """Examples of a task that can be learned, as a file."""
    path, items = folder / "data.jsonl", texts(120)
    if task == "masked-lm":
        path = folder / "data.txt"
        path.write_text("".join(f"{text}\n" for text in items))
        return path
    rows = []
    for text in items:
        words = text.split()
        if task == "tag":
            rows.append({"words": words, "tags": ["B-X" if word < "w3" else "O" for word in words]})
        else:
            rows.append(
                {
                    "text": text,
                    "label": float(words[0] < "w3") if task == "regress" else "long" if words[4:] else "short",
                }
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tuned(start, task, data, run, *settings):
    """A run trained for 20 steps from a start: its validations, and what it said at its beginning."""
    values = read_recipe({"task": task, "seed": 0, **start_settings(start, task, data)}, [*TUNING, *settings])
    events = []
    done = train(values, run, on_event=events.append)
    losses = [event["metrics"]["loss"] for event in events if event["event"] == "validation"]
    return losses, "\n".join(note for event in events for note in event.get("notes", [])), done


def start_settings(folder, task, data):
    keys = {"train": str(data), "valid_fraction": 0.2, "test_fraction": 0.0}
    return Start.read(folder, task).settings(folder, keys, task)


TUNING = ["training.max_steps=20", "training.validate_every=10", "training.learning_rate=3e-3"]
TUNING += ["training.batch_tokens=256", "training.schedule=constant", "training.warmup_share=0", "model.dropout=0"]
TUNING += ["training.warmup_steps=0", "training.baseline_cpu_s=0"]


@pytest.mark.parametrize("task", HEADS)
@pytest.mark.parametrize("name", ["bert", "roberta", pytest.param("modernbert", marks=pytest.mark.slow)])
def test_an_encoder_of_masked_words_learns_other_tasks(folders, name, task, tmp_path):
    _, _, folder, run = folders[name, "masked-lm"]
    data = write_data(task, tmp_path)
    losses, notes, done = tuned(folder if name == "bert" else run, task, data, tmp_path / "run")
    assert losses[-1] < losses[0]
    heads = {"masked-lm": "", "tag": "; new: head"}.get(task, "; new: head, pooling")
    assert f"license: not stated){heads}" in notes
    before = Start.read(run).tensors["encoder.encoder.blocks.1.self_attention.output.weight"]
    after = load_file(done.folder / "model.safetensors")["encoder.encoder.blocks.1.self_attention.output.weight"]
    assert 0 < (before - after).abs().max() < 0.3


def test_a_head_stays_where_the_labels_are_the_same(folders, tmp_path):
    _, _, folder, _ = folders["distilbert", "classify"]
    rows = [{"text": text, "label": "good" if "w1" in text else "bad"} for text in texts(60)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notes = tuned(folder, "classify", tmp_path / "data.jsonl", tmp_path / "same", "training.max_steps=1")[1]
    assert "new:" not in notes
    assert list(headwise.load(tmp_path / "same").classes) == ["bad", "fair", "good"]
    (tmp_path / "data.jsonl").write_text((tmp_path / "data.jsonl").read_text().replace("good", "best"))
    notes = tuned(folder, "classify", tmp_path / "data.jsonl", tmp_path / "other", "training.max_steps=1")[1]
    assert notes.count("new: head") == 1
    assert list(headwise.load(tmp_path / "other").classes) == ["bad", "best"]


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_predictions_are_those_of_pipelines(folders, name):
    model, words, _, run = folders[name, "masked-lm"]
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=words, top_k=20)
    predictor = headwise.load(run)
    for text in ("w1 [MASK] w12", "[MASK] w3"):
        rows = pipeline(text.replace("[MASK]", words.mask_token))
        # tokens that stand for no text are no answers here
        expected = [row for row in rows if row["token"] not in words.all_special_ids][:3]
        (filled,) = predictor.predict([text], 3)
        assert list(filled.choices[0].values()) == pytest.approx([row["score"] for row in expected], abs=1e-5)
        assert filled == predictor.predict([text.replace("[MASK]", words.mask_token)], 3)[0]
    model, words, _, run = folders[name, "classify"]
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=words, top_k=None)
    for verdict, rows in zip(headwise.load(run).predict(texts(9)), pipeline(texts(9)), strict=True):
        assert verdict.probabilities == pytest.approx({row["label"]: row["score"] for row in rows}, abs=1e-5)


def test_a_long_text_keeps_its_end(folders):
    model, words, _, run = folders["bert", "classify"]
    text = " ".join(WORDS)
    read = words(text, truncation=True, max_length=48, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**{key: read[key] for key in ("input_ids", "attention_mask")}).logits
    with pytest.warns(UserWarning, match="only their beginnings"):
        logits = headwise.load(run).logits([text])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    with pytest.warns(UserWarning, match="only their beginnings"):
        assert headwise.load(run).explain(text).layers["encoder.encoder.blocks.0.self_attention"].keys[-1] == "[SEP]"


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_long_sentence_is_tagged_in_parts(folders, name):
    predictor = headwise.load(folders[name, "tag"][3])
    with pytest.warns(UserWarning, match="tagged in parts"):
        tags = predictor.tag([" ".join(WORDS * 3)])
    assert len(tags[0]) == len(WORDS) * 3
    assert "w1/" in predictor.explain("w1 w12 w3").output


@pytest.mark.parametrize(
    ("name", "task", "key", "value"),
    [
        ("bert", "classify", "hidden_act", "tanh"),
        ("bert", "masked-lm", "hidden_act", "relu"),
        ("bert", "classify", "position_embedding_type", "relative_key"),
        ("bert", "classify", "is_decoder", True),
        ("bert", "classify", "problem_type", "multi_label_classification"),
        ("bert", "classify", "id2label", {"0": "a", "1": "a", "2": "b"}),
        ("bert", "tag", "id2label", {"0": "a", "2": "b"}),
        ("bert", "tag", "pad_token_id", -4),
        ("bert", "tag", "type_vocab_size", 0),
        ("electra", "tag", "embedding_size", 0),
        ("roberta", "masked-lm", "tie_word_embeddings", False),
        ("modernbert", "masked-lm", "decoder_bias", False),
        ("modernbert", "classify", "classifier_bias", True),
        ("modernbert", "classify", "classifier_activation", "relu"),
        ("modernbert", "classify", "classifier_pooling", "max"),
        ("modernbert", "classify", "hidden_activation", "tanh"),
        ("modernbert", "tag", "local_attention", "4"),
        ("modernbert", "tag", "layer_types", ["full_attention"]),
        ("modernbert", "tag", "rope_parameters", {"full_attention": {"rope_type": "yarn"}}),
        ("modernbert", "tag", "mlp_bias", True),
        ("modernbert", "tag", "global_attn_every_n_layers", 0),
        ("distilbert", "classify", "surprise", 1),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_key(folders, tmp_path, name, task, key, value):
    shutil.copytree(folders[name, task][2], tmp_path / "copy")
    edited(tmp_path / "copy", **{key: value})
    with pytest.raises(headwise.Unsupported, match=key):
        Start.read(tmp_path / "copy")


def test_keys_of_older_modernbert_folders_are_read(folders, tmp_path):
    folder = folders["modernbert", "classify"][2]
    shutil.copytree(folder, tmp_path / "old")
    values = json.loads((folder / "config.json").read_text())
    del values["layer_types"], values["rope_parameters"]
    older = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    (tmp_path / "old" / "config.json").write_text(json.dumps(values | older))
    assert Start.read(tmp_path / "old").recipe == Start.read(folder).recipe


def test_a_new_head_is_that_of_the_family(folders, tmp_path):
    values = start_settings(folders["modernbert", "masked-lm"][2], "classify", write_data("classify", tmp_path))
    assert values["pooling"] == {"transform": "gelu", "transform_bias": False, "transform_norm": True, "kind": "first"}


def test_names_of_older_folders_are_read(folders, tmp_path):
    _, _, folder, run = folders["bert", "masked-lm"]
    shutil.copytree(folder, tmp_path / "old")
    tensors = load_file(folder / "model.safetensors")
    parts = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {"cls.seq_relationship.weight": torch.ones(2, 18), "bert.pooler.dense.bias": torch.ones(18)}
    for name, tensor in tensors.items():
        end = next((part for part in parts if name.endswith(part)), "")
        old[name.removesuffix(end) + parts.get(end, "")] = tensor
    save_file(old, tmp_path / "old" / "model.safetensors", {"format": "pt"})
    before, after = Start.read(run).tensors, Start.read(tmp_path / "old").tensors
    assert all(torch.equal(before[key], after[key]) for key in before)
