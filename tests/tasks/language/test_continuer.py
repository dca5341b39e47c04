"""A language model that writes on: every way to decode, prompts of any length, and the scores of a text."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, QuotingWarning, Unsupported
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer_config import DecoderConfig
from headwise.records import record
from headwise.tasks.language.language_model import Continuer

LINES = ["the cat sat on the mat.", "", "a  dog; a mat."]
TEXT = "".join(f"{line}\n" for line in LINES)
PROMPTS = ["the cat", "a", "", "the dog", "sat on"]


def continuer(length=29, decoding=None, **options):
    torch.manual_seed(3)
    letters = Tokenizer.train([TEXT], TokenizerConfig(kind="char", spaces="kept"))
    sizes = {"d_model": 12, "d_ff": 23, "num_heads": 3, "num_layers": 2, "position": "rotary"} | options
    config = DecoderConfig(**sizes)
    model = build_decoder(config, letters.vocab_size).double().eval()
    with torch.no_grad():
        # far from uniform, so that the likeliest token is clear
        model.output.weight.mul_(3.0)
    decoding = decoding or DecodingConfig(method="greedy", max_len=8)
    return Continuer(model, letters, decoding, length, config.places())


def full(made, prompt, steps):
    """Greedy continuation by full passes."""
    tokens = [*made.tokenizer.encode("\n"), *made.tokenizer.encode(prompt)]
    begun = len(tokens)
    for _ in range(steps):
        with torch.no_grad():
            logits = made.model(torch.tensor([tokens]))[0, -1]
        logits[:4] = float("-inf")
        tokens.append(int(logits.argmax()))
    return tokens[begun:]


@pytest.mark.parametrize("options", [{}, {"position": "alibi"}, {"position": "none", "mechanism": "retention"}])
def test_prompts_of_any_length_are_continued_as_by_full_passes(options):
    made = continuer(**options)
    wanted = [full(made, prompt, 8) for prompt in PROMPTS]
    for decoding in (None, DecodingConfig(method="beam", beam_size=1, max_len=8)):
        found = made.predict(PROMPTS, decoding)
        assert [one[0].tokens for one in found] == wanted
        assert [one[0].text for one in found] == [made.tokenizer.decode(tokens) for tokens in wanted]


def test_a_beam_finds_no_less_than_greedy_search_and_its_scores_are_those_of_full_passes():
    made = continuer()
    beams = made.predict(PROMPTS, DecodingConfig(method="beam", beam_size=4, n_best=2, max_len=8))
    for prompt, best, greedy in zip(PROMPTS, beams, made.predict(PROMPTS), strict=True):
        assert len(best) == 2
        assert best[0].log_prob >= greedy[0].log_prob - 1e-9
        tokens = torch.tensor([[*made.tokenizer.encode("\n" + prompt), *best[0].tokens]])
        with torch.no_grad():
            odds = made.model(tokens[:, :-1]).log_softmax(-1)
        gold = odds.gather(-1, tokens[:, 1:, None])[0, -8:].sum().item()
        assert best[0].log_prob == pytest.approx(gold, abs=1e-6)


def test_samples_are_drawn_anew_for_each_prompt_from_one_seeded_stream():
    config = DecodingConfig(method="sample", max_len=12, num_samples=2, temperature=2.0)
    made = continuer()
    torch.manual_seed(7)
    first, second = (made.predict(["a"] * 4, config) for _ in range(2))
    written = [one.text for found in first + second for one in found]
    assert len(set(written)) > 12
    again = continuer()
    torch.manual_seed(7)
    assert again.predict(["a"] * 4, config) == first
    sharp = made.predict(PROMPTS, DecodingConfig(method="sample", max_len=8, top_k=1))
    assert [one[0].tokens for one in sharp] == [one[0].tokens for one in made.predict(PROMPTS)]


def test_options_reach_the_search():
    made = continuer()
    options = made.options({"max_len": 15, "no_repeat_ngram": 1})
    assert (options.decoding.method, options.decoding.max_len) == ("greedy", 15)
    for found in made.predict(PROMPTS, options):
        assert len(set(found[0].tokens)) == len(found[0].tokens)
    assert made.options({}) is None
    with pytest.raises(ConfigError, match="max_len_a is for outputs with a source; max_len alone"):
        made.options({"max_len_a": 2.0})
    with pytest.raises(ConfigError, match="--beam-sise"):
        made.options({"beam_sise": 2})


def test_a_continuation_ends_before_a_text_to_stop_at():
    made = continuer()
    whole = made.predict(PROMPTS)
    stop = whole[0][0].text[3:5]
    assert len(stop) == 2
    told = made.options({"stop": stop})
    for one, cut in zip(whole, made.predict(PROMPTS, told), strict=True):
        text = one[0].text.split(stop)[0]
        assert cut[0].text == text
        kept = len(text) + len(stop) if stop in one[0].text else len(one[0].tokens)
        assert cut[0].tokens == one[0].tokens[:kept]
    assert made.predict(PROMPTS, made.options({"stop": "no such text"})) == whole
    with pytest.raises(ConfigError, match="--stop is empty; give the text that ends a continuation"):
        made.options({"stop": ""})


def test_one_text_is_one_prompt_and_unknown_characters_are_counted():
    made = continuer()
    assert made.predict("the cat") == made.predict(["the cat"])
    found = made.unknown(["the ox", "Zoo"])
    assert (found.count, found.total, found.examples) == (2, 9, ("x", "Z"))
    assert str(found).startswith("2 of 9 characters were never seen in training")
    assert made.evaluate(LINES)["unseen"] == 0.0


def test_what_a_continuation_looks_at_is_seen():
    made = continuer()
    found = made.explain("the cat")
    (one,) = made.predict("the cat")
    assert (found.source, found.output) == ("the cat", one[0].text)
    layer = found.layers["decoder.blocks.1.self_attention"]
    assert layer.queries == layer.keys == [*"\nthe cat", *one[0].text]
    assert (layer.causal, layer.weights.shape) == (True, (3, 16, 16))
    tokens = torch.tensor([made.tokenizer.encode("\na cat on")])
    with record(made.model) as trace:
        made.model(tokens)
    given = made.explain("a cat", " on").layers["decoder.blocks.1.self_attention"]
    np.testing.assert_allclose(given.weights, trace["decoder.blocks.1.self_attention"].weights()[0].numpy())
    with pytest.raises(Unsupported, match="writes no translation, so it gives no alignments"):
        made.align([])


def test_a_prompt_beyond_the_reach_is_cut_and_told():
    made = continuer(length=6)
    with pytest.warns(
        QuotingWarning, match=r"the prompt 'the cat sat on the m...' has 24 tokens; only its last 6 are read"
    ):
        (found,) = made.predict(["the cat sat on the mat."])
    kept = made.tokenizer.encode("e mat.")
    with torch.no_grad():
        logits = made.model(torch.tensor([kept]))[0, -1]
    logits[:4] = float("-inf")
    assert found[0].tokens[0] == int(logits.argmax())


def test_a_table_of_positions_leaves_room_for_the_continuation():
    made = continuer(length=20, position="learned", max_len=20)
    with pytest.warns(UserWarning, match="only its last 13 are read"):
        (found,) = made.predict(["the cat sat on the mat."])
    assert len(found[0].tokens) == 8
    with pytest.raises(ConfigError, match=r"max_len \(21\) leaves no room for a prompt: the model has 20 places"):
        made.predict(["a"], DecodingConfig(method="greedy", max_len=21))


def test_texts_in_and_out(tmp_path):
    made = continuer()
    (tmp_path / "prompts.txt").write_text("the cat\n\na dog", encoding="utf-8")
    prompts = list(made.read(tmp_path / "prompts.txt"))
    assert prompts == ["the cat", "", "a dog"]
    assert made.parse("a ") == "a "
    (found,) = made.predict(["the cat"], DecodingConfig(method="beam", beam_size=2, n_best=2, max_len=3))
    assert made.write("the cat", found, "text") == ["the cat" + one.text for one in found]
    told = json.loads(made.write("the cat", found, "json")[0])
    assert told["prompt"] == "the cat"
    assert [one["tokens"] for one in told["continuations"]] == [one.tokens for one in found]
    assert made.predict([]) == []


@pytest.mark.parametrize("memory_len", [0, 50])
def test_the_scores_of_a_text_are_those_of_its_windows(memory_len):
    made = continuer(length=10, memory_len=memory_len, num_layers=1)
    tokens = torch.tensor([made.tokenizer.encode("\n" + TEXT)])
    rows = 8 if not memory_len else -(-(tokens.shape[1] - 1) // 10)
    scores = made.evaluate(LINES)
    assert made.evaluate([TEXT]) == scores
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    # a character is a token
    assert scores["bits_per_char"] == pytest.approx(scores["loss"] / math.log(2))
    with torch.no_grad():
        if memory_len:
            count = tokens.shape[1] - 1
            bounds = [count * row // rows for row in range(rows + 1)]
            parts = [tokens[:, start : stop + 1] for start, stop in pairwise(bounds)]
        else:
            parts = [tokens[:, start : start + 11] for start in range(0, tokens.shape[1] - 1, 10)]
        total = 0.0
        for part in parts:
            odds = made.model(part[:, :-1]).log_softmax(-1)
            total -= odds.gather(-1, part[:, 1:, None]).sum().item()
    assert scores["loss"] == pytest.approx(total / (tokens.shape[1] - 1), rel=1e-6)
