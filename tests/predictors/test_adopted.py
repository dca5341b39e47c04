"""Hugging Face models from folders: their weights are their own eager ones; nothing else is fetched or run."""

import json
import re
import shutil
import socket
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

transformers = pytest.importorskip("transformers")

from adopted_models import made  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

from headwise.cli.main import main  # noqa: E402
from headwise.errors import CheckpointError, ConfigError, Unsupported  # noqa: E402
from headwise.explorer.traces import traced  # noqa: E402
from headwise.predictors.adopted import Adopted  # noqa: E402
from headwise.predictors.saved import saved  # noqa: E402
from headwise.predictors.token_labels import texts, texts_alone  # noqa: E402
from headwise.service.loaded import load_runs  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXT = "the cat <mask> on the mat ."
SAID = {
    "BertForMaskedLM": ("encoder", ["encoder self"]),
    "DistilBertForTokenClassification": ("encoder", ["distilbert self"]),
    "GPT2LMHeadModel": ("decoder", ["transformer self"]),
    "T5ForConditionalGeneration": ("encoder-decoder", ["encoder self", "decoder self", "decoder cross"]),
    "MarianMTModel": ("encoder-decoder", ["encoder self", "decoder self", "decoder cross"]),
    "BloomForCausalLM": ("decoder", ["transformer self"]),
    "DebertaV2ForMaskedLM": ("encoder", ["encoder self"]),
}

TASKS = {
    "BertForMaskedLM": "masked-lm",
    "DistilBertForTokenClassification": "tag",
    "GPT2LMHeadModel": "language-model",
    "T5ForConditionalGeneration": "write",
    "MarianMTModel": "write",
    "BloomForCausalLM": "language-model",
    "DebertaV2ForMaskedLM": "masked-lm",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("adopted")
    return {name: made(place / name, name) for name in SAID}


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    def refused(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


def eager(folder, name, one, tokens, before):
    """The weights of transformers' own path, by the kind of the layers."""
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        inputs = one.inputs(tokens, before)
        found = model(*inputs, output_attentions=True)
    if not before:
        return list(found.attentions)
    pairs = zip(found.decoder_attentions, found.cross_attentions, strict=True)
    return [*found.encoder_attentions, *(weights for pair in pairs for weights in pair)]


@pytest.mark.parametrize("name", SAID)
def test_weights_are_those_of_the_model_itself(folders, name):
    (run,) = load_runs([], [folders[name]]).values()
    one, target = run.predictor.saved, None if SAID[name][0] == "encoder" else "a big dog"
    trace = traced(run, TEXT, target)
    assert (run.task, one.kind, [group.name for group in trace.groups]) == (TASKS[name], *SAID[name])
    tokens, before = one.tokens(TEXT), ()
    if one.kind == "decoder":
        tokens = [*tokens, *one.tokens(target, alone=False)]
    elif one.kind == "encoder-decoder":
        before = [one.start(), *one.tokens(target)][:-1]
        assert trace.group("decoder cross").queries == ["<s>", "a", "big", "dog", "</s>"]
        assert trace.group("decoder self").queries[1:] == ["<s>", "a", "big", "dog"]
    assert trace.groups[0].keys == ["<s>", "the", "cat", "<mask>", "on", "the", "mat", ".", "</s>"] + (
        ["a", "big", "dog"] if one.kind == "decoder" else []
    )
    exact = eager(folders[name], name, one, tokens, before)
    layers = trace.trace.names()
    assert len(exact) == len(layers)
    for layer, weights in zip(layers, exact, strict=True):
        np.testing.assert_allclose(trace.weights(layer), weights[0].numpy(), atol=1e-5)
        assert run.steps(run.items([TEXT])[0], target, layer, 0)


def test_what_a_model_says(folders, tmp_path):
    filler, tagger, writer = (
        Adopted(saved(folders[name]))
        for name in ("BertForMaskedLM", "DistilBertForTokenClassification", "GPT2LMHeadModel")
    )
    (text,) = filler.predict([TEXT])
    words = text.split()
    assert (words[:2], words[3:], len(words)) == (["the", "cat"], ["on", "the", "mat", "."], 7)
    assert filler.predict(["the cat"]) == [""]
    assert set(tagger.predict("the cat")[0].split()) <= {"LABEL_0", "LABEL_1"}
    assert len(tagger.predict("the cat")[0].split()) == 4
    assert writer.write("a", "b\n", "text") == ["b\\n"]
    assert json.loads(writer.write("a", "b", "json")[0]) == {"input": "a", "output": "b"}
    # as many as the model has places for
    assert len(writer.outputs("cat " * 34, writer.options({"min_len": 9, "max_len": 12}))[0].tokens) == 4
    with pytest.raises(ConfigError, match="an encoder writes nothing"):
        filler.explain(TEXT, "x")
    with pytest.raises(ConfigError, match="there are 41 tokens"):
        writer.explain(TEXT, "cat " * 32)
    with pytest.raises(ConfigError, match="there are 42 tokens, and the model reads 40"):
        writer.parse("cat " * 40)
    with pytest.raises(Unsupported, match="not scored"):
        filler.evaluate([TEXT])


@pytest.mark.parametrize("name", list(SAID))
def test_tokens_know_their_words(folders, name):
    one = saved(folders[name])
    tokens = one.tokens(TEXT)
    words, special = one.words(tokens)
    assert special == [place for place, token in enumerate(tokens) if token in one.tokenizer.all_special_ids]
    assert [place for place, word in enumerate(words) if word < 0] == special
    texts = {}
    for place, word in enumerate(words):
        texts.setdefault(word, []).append(tokens[place])
    texts.pop(-1, None)
    assert list(texts) == list(range(len(texts)))
    said = "".join(one.text(part).replace(" ", "") for part in texts.values())
    assert said == TEXT.replace("<mask>", "").replace(" ", "")


def test_bytes_are_shown_as_characters(tmp_path):
    one = saved(made(tmp_path / "bytes", "GPT2LMHeadModel", byte_level=True))
    assert one.labels(one.tokens("a b\n")) == ["<s>", "a", "\u2581", "b", "\n", "</s>"]
    assert one.labels(one.tokens("é")) == ["<s>", "é(1/2)", "é(2/2)", "</s>"]
    assert one.labels(one.tokens("你😀")) == [
        "<s>", *(f"你({part}/3)" for part in (1, 2, 3)), *(f"😀({part}/4)" for part in (1, 2, 3, 4)), "</s>"
    ]  # fmt: skip
    # of a character that is cut off there are only bytes
    assert one.labels(one.tokens("é")[:2]) == ["<s>", "\ufffd"]


def test_labels_of_bytes_reach_traces_and_saved_pages(tmp_path):
    folder = made(tmp_path / "bytes", "GPT2LMHeadModel", byte_level=True)
    (run,) = load_runs([], [folder]).values()
    (group,) = (trace := traced(run, "é", None)).groups
    assert group.queries[:4] == ["<s>", "é(1/2)", "é(2/2)", "</s>"]
    assert trace.steps(group.layers[0], 0).keys == group.keys
    assert "é(1/2)" in run.predictor.explain("é").table()


def test_byte_fallback_is_read_too():
    backend = Tokenizer(models.BPE({"▁a": 0, "<0xC3>": 1, "<0xA9>": 2}, []))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    assert texts(words, [0, 1, 2]) == ["▁a", "é(1/2)", "é(2/2)"]


def test_positions_that_begin_late_are_refused(tmp_path):
    one = Adopted(saved(made(tmp_path / "roberta", "RobertaForMaskedLM")))
    assert one.predict("cat " * 37) == [""]
    with pytest.raises(ConfigError, match="there are 40 tokens, and the model reads 39"):
        one.explain("cat " * 38)


def test_layers_that_are_passed_twice_have_their_rows_twice(tmp_path):
    (run,) = load_runs([], [made(tmp_path / "albert", "AlbertForMaskedLM")]).values()
    (group,) = traced(run, "the cat", None).groups
    assert group.queries == [f"{time} {word}" for time in (0, 1) for word in ("<s>", "the", "cat", "</s>")]
    assert group.keys == ["<s>", "the", "cat", "</s>"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("DebertaForMaskedLM", r"DebertaForMaskedLM: DebertaForMaskedLM computes its attention by itself"),
        ("BartModel", "BartModel reads and writes, and has no head"),
        ("ViTModel", "ViTModel reads no text"),
    ],
)
def test_models_that_cannot_be_looked_at_are_refused(tmp_path, name, message):
    with pytest.raises(Unsupported, match=message):
        saved(made(tmp_path / name, name))


def changed(folder, file="config.json", **values):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def pickled(folder):
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def indexed(folder, name):
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "part.safetensors", "b": name}})
    )


def without(folder, part):
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if part not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (shutil.rmtree, CheckpointError, "is no folder; nothing is downloaded"),
        (lambda one: (one / "config.json").unlink(), CheckpointError, r"has no config\.json"),
        (lambda one: (one / "tokenizer.json").unlink(), CheckpointError, r"has no tokenizer\.json"),
        (lambda one: (one / "tokenizer.json").write_text("{"), CheckpointError, "transformers cannot read it"),
        (lambda one: (one / "config.json").write_text("[]"), CheckpointError, r"config\.json is no object of JSON"),
        (lambda one: (one / "config.json").write_bytes(b"\xff"), CheckpointError, r"config\.json cannot be read"),
        (lambda one: (one / "adapter_config.json").write_text("{}"), CheckpointError, "holds an adapter"),
        (
            lambda one: (one / "model.safetensors").write_bytes(b"0"),
            CheckpointError,
            r"model\.safetensors cannot be read",
        ),
        (lambda one: changed(one, num_labels=10**9), CheckpointError, "says 1,000,000,000 labels; at most 1,000,000"),
        (lambda one: changed(one, num_hidden_layers=10**6), CheckpointError, "says 1,000,000 layers, and there are"),
        (pickled, CheckpointError, r"has no model\.safetensors, and no other weights are read"),
        (lambda one: indexed(one, "../x.safetensors"), CheckpointError, r"names \.\./x\.safetensors"),
        (lambda one: indexed(one, "absent.safetensors"), CheckpointError, r"names absent\.safetensors"),
        (lambda one: without(one, "layer.1.attention"), CheckpointError, r"10 weights of BertForMaskedLM are missing"),
        (lambda one: changed(one, hidden_size=24), CheckpointError, "transformers cannot read it"),
        (lambda one: changed(one, quantization_config={"bits": 4}), Unsupported, "quantized"),
        (lambda one: changed(one, architectures=["AutoModel"]), Unsupported, "names the model 'AutoModel'"),
        (lambda one: changed(one, architectures=[]), Unsupported, "names the model ''"),
        (lambda one: changed(one, model_type=["bert"]), Unsupported, "which transformers does not have"),
        (lambda one: changed(one, transformers_weights="x.bin"), CheckpointError, "names weights by transformers_weig"),
        (lambda one: changed(one, is_encoder_decoder=True), CheckpointError, "gives is_encoder_decoder a value"),
        (lambda one: changed(one, model_type="own", auto_map={"AutoModel": "own.Own"}), Unsupported, "is not run"),
    ],
)
def test_folders_that_hold_something_else_are_refused(folders, tmp_path, harm, error, message):
    folder = shutil.copytree(folders["BertForMaskedLM"], tmp_path / "copy")
    harm(folder)
    with pytest.raises(error, match=message) as told:
        saved(folder)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MarianMTModel"])
def test_what_a_folder_wishes_of_a_search_is_not_heard(folders, tmp_path, name):
    folder = shutil.copytree(folders[name], tmp_path / "copy")
    changed(folder, return_dict=False)
    # the first would be fetched as code
    wishes = {"penalty_alpha": 0.6, "top_k": 4, "stop_strings": ["a"], "return_dict_in_generate": True}
    changed(folder, "generation_config.json", **wishes, min_length=30, guidance_scale=3.0, pad_token_id=-1)
    ours, exact = (Adopted(saved(each)).outputs(TEXT)[0].tokens for each in (folder, folders[name]))
    assert ours == exact
    assert len(exact) > 1
    changed(folder, "generation_config.json", decoder_start_token_id=1000)
    with pytest.raises(CheckpointError, match="decoder_start_token_id is 1000, and the model knows 18 tokens"):
        saved(folder)


def test_what_a_configuration_asks_to_fetch_or_run_is_not(folders, tmp_path):
    folder = shutil.copytree(folders["BertForMaskedLM"], tmp_path / "copy")
    changed(folder, auto_map={"AutoModelForMaskedLM": "own.Own"}, _attn_implementation="somebody/kernels")
    (folder / "own.py").write_text("raise AssertionError('this was run')")
    exact = Adopted(saved(folders["BertForMaskedLM"])).explain(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Adopted(saved(folder)).explain(TEXT)
    for name, layer in found.layers.items():
        np.testing.assert_array_equal(layer.weights, exact.layers[name].weights)


def test_a_tokenizer_of_another_model_is_refused(folders, tmp_path):
    folder = made(tmp_path / "small", "GPT2LMHeadModel", vocab_size=9)
    with pytest.raises(ConfigError, match=r"the tokenizer has token \d+, and the model knows 9 tokens"):
        Adopted(saved(folder)).parse("the big red cat")


def test_the_command_line_and_names(folders, capsys):
    with pytest.raises(ConfigError, match="two runs are called BertForMaskedLM"):
        load_runs([], [folders["BertForMaskedLM"]] * 2)
    assert main(["explore", "--hf", "absent", "--no-browser"]) == 4
    assert "absent is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["byte level", "metaspace"])
def test_trained_tokens_are_shown_as_characters(kind):
    text = "Ein Äpfel café, naïve 你好 😀 und  zwei"
    if kind == "byte level":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    else:
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=60, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
        )
    backend.train_from_iterator([text, "Ein Ei und zwei Äpfel"] * 9, trainer)
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    tokens = words(text)["input_ids"]
    shown = texts(words, tokens)
    assert len(shown) == len(tokens) < len(text.encode())
    assert not set("".join(shown)) & set("ĠÃÄ½ĺ") - set(text)
    joined = re.sub(r"(.)\(1/(\d)\)(?:\1\(\d/\2\))+", r"\1", "".join(shown)).replace("\u2581", " ")
    assert joined.strip() == text
    # each by itself, as they are written
    alone = [texts_alone(words, [token])[0] for token in tokens]
    assert all(part == one or "\ufffd" in one for part, one in zip(shown, alone, strict=True))
