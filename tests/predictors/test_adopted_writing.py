"""Models of transformers write what their own `generate` writes, and look where it looks, step by step."""

import base64
import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")

from adopted_models import made, tokenizer  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402

from headwise.errors import ConfigError  # noqa: E402
from headwise.explorer.api import add_explorer  # noqa: E402
from headwise.predictors.adopted import Adopted  # noqa: E402
from headwise.predictors.drafting import Follower  # noqa: E402
from headwise.predictors.saved import saved  # noqa: E402
from headwise.service.app import create_app  # noqa: E402
from headwise.service.loaded import LoadedRun, load_runs  # noqa: E402

transformers.logging.set_verbosity_error()

TEXTS = ["the cat sat on the mat .", "a big red dog", "log"]
READS = ["T5ForConditionalGeneration", "MarianMTModel", "BartForConditionalGeneration"]
WRITERS = ["GPT2LMHeadModel", "LlamaForCausalLM", "OPTForCausalLM", "Gemma3ForCausalLM", *READS]
WRITERS += ["GPTJForCausalLM", "BloomForCausalLM", "MptForCausalLM", "FalconForCausalLM"]
RULES = [
    {},
    {"forced_bos_token_id": 7, "forced_eos_token_id": 2},
    {"eos_token_id": [2, 9, 12], "min_length": 9},
    {"bad_words_ids": [[6], [7, 8]], "repetition_penalty": 1.4},
    {"suppress_tokens": [2, 5], "begin_suppress_tokens": [6, 7, 8], "no_repeat_ngram_size": 2},
    {"eos_token_id": None, "decoder_start_token_id": 4, "min_new_tokens": 3},
]

# the writer that is tried under each rule at once; the others wait for `make test-all`
ALL_RULES = ("MarianMTModel",)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("writers")
    return {name: made(place / name, name) for name in WRITERS}


def loaded(models, name, rules=None):
    """An eager model and its predictor, under these rules."""
    kind = getattr(transformers, name)
    both = [kind.from_pretrained(models[name], attn_implementation="eager").eval() for _ in range(2)]
    for model in both:
        for key, value in (rules or {}).items():
            setattr(model.generation_config, key, value)
    return both[0], Adopted.of(both[1], tokenizer())


def generated(model, texts, **options):
    words = tokenizer()
    words.padding_side = "right" if model.config.is_encoder_decoder else "left"
    batch = words(texts, return_tensors="pt", padding=True)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    most = 64 if model.config.is_encoder_decoder else 24
    return inputs, model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=min(most, 30), **options)


def cut(row, start, ends):
    """The tokens of an output up to its end."""
    row = row[start:].tolist()
    return row[: next((place + 1 for place, token in enumerate(row) if token in ends), len(row))]


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        pytest.param(name, rules, marks=[pytest.mark.slow] if rules and name not in ALL_RULES else [])
        for name in WRITERS
        for rules in RULES
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "none",
)
def test_greedy_search_is_that_of_generate(models, name, rules):
    eager, predictor = loaded(models, name, rules)
    # that length counts padding too
    batches = [[text] for text in TEXTS] if "min_length" in rules else [TEXTS]
    rows = [(inputs, row) for inputs, found in (generated(eager, texts) for texts in batches) for row in found]
    reads = eager.config.is_encoder_decoder
    ends = eager.generation_config.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else ends
    options = predictor.options({"max_len": 30 if reads else 24})
    for text, (inputs, row) in zip(TEXTS, rows, strict=True):
        (output,) = predictor.outputs(text, options)
        tokens = cut(row, 1 if reads else inputs["input_ids"].shape[1], ends)
        assert output.tokens == tokens[: len(tokens) - (tokens[-1] in ends)]
        assert output.finished == (tokens[-1] in ends)


@pytest.mark.parametrize("name", WRITERS)
def test_each_step_looks_where_the_eager_model_looks(models, name):
    eager, predictor = loaded(models, name, {"min_new_tokens": 6})
    _, expected = generated(eager, TEXTS[:1], output_attentions=True, return_dict_in_generate=True)
    steps = expected.cross_attentions if eager.config.is_encoder_decoder else expected.attentions
    draft = predictor.draft(TEXTS[0])
    (output,) = predictor.outputs(TEXTS[0], predictor.options({"max_len": 12}))
    follower = Follower(draft)
    assert follower.kind == ("cross" if eager.config.is_encoder_decoder else "self")
    for place in range(len(output.tokens[:6])):
        looked = follower.look(np.array([output.tokens[:place]], dtype=np.int64).reshape(1, place))
        rows = [layer[0, :, -1] for layer in steps[place]]
        # a sliding window has lost its first keys
        exact = torch.stack([F.pad(row, (max(each.shape[1] for each in rows) - row.shape[1], 0)) for row in rows])
        torch.testing.assert_close(looked.weights[0], exact, rtol=0, atol=1e-5)
        # what the model itself says, before any rule
        assert looked.log_probs.exp().sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MarianMTModel"])
def test_beams_of_the_search_are_the_models_own(models, name):
    _, predictor = loaded(models, name)
    (best, *others) = predictor.outputs(TEXTS[0], predictor.options({"n_best": 3, "max_len": 5}))
    assert len(others) == 2
    assert best.score >= others[0].score >= others[1].score
    # forced decoding of the same tokens gives the same log-probability
    draft = predictor.draft(TEXTS[0])
    follower, total = Follower(draft), 0.0
    tokens = [*best.tokens, *([2] if best.finished else [])]
    for place, token in enumerate(tokens):
        looked = follower.look(np.array([tokens[:place]], dtype=np.int64).reshape(1, place))
        total += float(looked.log_probs[0, token])
    assert best.log_prob == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "T5ForConditionalGeneration"])
def test_the_explorer_streams_it(models, name):
    runs = load_runs([], [models[name]])
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        asked = {"model": name, "text": TEXTS[0], "max_new": 5, "force": [7, 6], "beam": 2}
        answer = client.post("/api/v1/generate", json=asked)
        start, *steps, end = [json.loads(line) for line in answer.text.splitlines()]
        known = client.get("/api/v1/tokens", params={"model": name, "begins": "ma"}).json()
        trace = client.post("/api/v1/traces", json={"model": name, "text": TEXTS[0]}).json()
    assert (start["start"]["heads"], len(start["start"]["layers"])) == (4, 2)
    assert start["start"]["axes"]["src"] == ["<s>", *TEXTS[0].split(), "</s>"]
    cross = steps[0]["step"]["cross"]
    weights = np.frombuffer(base64.b64decode(cross["b64"]), cross["dtype"]).reshape(cross["shape"])
    np.testing.assert_allclose(weights.sum(-1).astype(float), 1.0, atol=2e-3)
    assert [beam["text"] for beam in steps[0]["step"]["beams"]] == ["cat"]
    best = end["end"]["hypotheses"][0]
    assert best["tokens"][:2] == [7, 6]
    assert best["text"] == end["end"]["output"]
    assert end["end"]["trace_id"]
    assert [one["text"] for one in known["tokens"]] == ["mat"]
    (predictor,) = (run.predictor for run in runs.values())
    assert trace["output"].strip() == predictor.outputs(TEXTS[0])[0].text.strip()


def test_rules_of_a_folder_are_heard(models, tmp_path):
    folder = made(tmp_path / "marian", "MarianMTModel")
    free = Adopted(saved(folder)).outputs(TEXTS[0])[0].tokens
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bad_words_ids": [[free[0]]], "num_beams": 4}))
    assert free[0] not in Adopted(saved(folder)).outputs(TEXTS[0])[0].tokens


def test_an_encoder_writes_nothing(tmp_path):
    predictor = Adopted(saved(made(tmp_path / "bert", "BertForMaskedLM")))
    with pytest.raises(ConfigError, match="no option --max-len"):
        predictor.options({"max_len": 3})
    for refused in (predictor.writes, lambda: predictor.draft("the cat")):
        with pytest.raises(Exception, match="does not write token by token"):
            refused()


TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'robot' %}{{ raise_exception('no robots') }}{% endif %}"
    "<s> {{ message.content }} </s>{% endfor %}{% if add_generation_prompt %} <s> big{% endif %}"
)


@pytest.fixture
def chat(models):
    model = transformers.LlamaForCausalLM.from_pretrained(models["LlamaForCausalLM"])
    words = tokenizer()
    words.chat_template = TEMPLATE
    return Adopted.of(model, words)


def test_a_chat_template_writes_messages(chat):
    wrapped = ["<s>", "the", "cat", "</s>", "<s>", "big"]
    messages = [{"role": "user", "content": "the cat"}]
    for item in ("the cat", messages, json.dumps(messages)):
        explanation = chat.explain(item, "dog")
        assert explanation.tokens[0].labels == [*wrapped, "dog"]
        assert explanation.tokens[0].special == [0, 3, 4]
        assert explanation.source == (item if isinstance(item, str) else json.dumps(messages))
    # as `generate` of the rendered messages
    row = chat.saved.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    expected = chat.model.generate(
        row["input_ids"], attention_mask=row["attention_mask"], do_sample=False, max_new_tokens=24
    )
    (output,) = chat.outputs("the cat")
    assert output.tokens == cut(expected[0], row["input_ids"].shape[1], [2])[: len(output.tokens)]
    assert len(output.tokens) + output.finished == len(cut(expected[0], row["input_ids"].shape[1], [2]))
    plain = chat.explain(chat.prompt("the cat", chat=False), "dog")
    assert plain.tokens[0].labels == ["<s>", "the", "cat", "</s>", "dog"]
    with pytest.raises(ConfigError, match="no robots"):
        chat.explain([{"role": "robot", "content": "hm"}])
    chat.saved.tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="has no chat template"):
        chat.explain(messages)


def test_requests_say_whether_the_template_is_used(chat):
    runs = {"chat": LoadedRun("chat", "adopted", chat)}
    with TestClient(create_app(runs, more=[add_explorer]), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/v1/meta").json()["models"][0]["chat"]
        traces = [
            client.post("/api/v1/traces", json={"text": "the cat", **how}).json() for how in ({}, {"chat": False})
        ]
        answer = client.post("/api/v1/generate", json={"text": "the cat", "chat": False, "max_new": 2})
        read = next(json.loads(line) for line in answer.text.splitlines())["start"]["axes"]["src"]
    assert traces[0]["groups"][0]["queries"][:6] == ["<s>", "the", "cat", "</s>", "<s>", "big"]
    assert traces[1]["groups"][0]["queries"][:4] == read == ["<s>", "the", "cat", "</s>"]
    assert traces[0]["trace_id"] != traces[1]["trace_id"]


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "T5ForConditionalGeneration"])
def test_forced_tokens_come_before_the_rules(models, name):
    _, predictor = loaded(models, name, {"forced_bos_token_id": 7, "suppress_tokens": [5, 9]})
    (output,) = predictor.outputs("log", predictor.options({"max_len": 8, "prefix": [5, 6]}))
    assert output.tokens[:2] == [5, 6]
    assert not {5, 9} & set(output.tokens[2:])


def test_what_a_model_keeps_of_a_pass_can_be_trained_with(models):
    _, predictor = loaded(models, "LlamaForCausalLM")
    inner = predictor.model.model

    def keep(module, inputs, output):
        module.register_buffer("kept", 2 * output.last_hidden_state, persistent=False)

    inner.register_forward_hook(keep)
    predictor.outputs("log", predictor.options({"max_len": 2}))
    assert not inner.kept.is_inference()
