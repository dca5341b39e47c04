"""A translator's flow: what `predict` finds, one by one, whoever comes when."""

import random
import warnings

import pytest

import headwise
from headwise.decoding.search import DecodingConfig
from headwise.errors import QuotingWarning
from headwise.tasks.translation.translator import Translator, by_length

WORDS = "abcdefghijk"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    place = tmp_path_factory.mktemp("flowing")
    pairs = [f"{a} and {b} .\t{b} und {a} ." for a in WORDS for b in WORDS]
    (place / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    sizes = {"d_model": 16, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    recipe = {
        "task": "translate",
        "data": {"train": str(place / "pairs.tsv")},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {"kind": "transformer", **sizes},
        "decoding": {"max_len": 12},
        "training": {"max_steps": 3, "batch_tokens": 64, "validate_every_epochs": 0, "warmup_steps": 1},
    }
    headwise.train(recipe, place / "run")
    return headwise.load(place / "run")


def texts_of(count, seed=0, longest=9):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, longest))) for _ in range(count)]


def flowed(translator, texts, options=None, seed=1):
    """The outputs when texts come a few at a time, between steps."""
    flow, draw, found, waiting, number = translator.flow(options), random.Random(seed), {}, list(texts), {}
    while waiting or len(found) < len(texts):
        some = [waiting.pop(0) for _ in range(min(len(waiting), draw.randint(0, 7)))]
        for told, text in zip(flow.add(some), some, strict=True):
            number[told] = text
        for told, output in flow.step():
            assert told not in found
            found[told] = output
    assert [number[told] for told in sorted(number)] == list(texts)
    return [found[told] for told in sorted(found)]


@pytest.mark.parametrize(
    "given",
    [{}, {"beam_size": 3, "n_best": 3}, {"method": "greedy"}, {"max_len": 1}, {"prefix": [5, 6], "min_len": 4}],
)
def test_outputs_are_those_of_predict(translator, given):
    texts, options = ["", "a", *texts_of(40), " ", "unheard of"], translator.options(given)
    for one, other in zip(flowed(translator, texts, options), translator.predict(texts, options), strict=True):
        assert [(found.text, found.tokens) for found in one] == [(found.text, found.tokens) for found in other]
        assert [found.score for found in one] == pytest.approx([found.score for found in other], abs=1e-5)


def test_texts_longer_than_there_is_room_for_go_alone(translator, monkeypatch):
    monkeypatch.setattr("headwise.tasks.translation.translator.DECODING_TOKENS", 4)
    texts = texts_of(30, seed=4, longest=20)
    found = flowed(translator, texts)
    assert [[one.text for one in every] for every in found] == [
        [one.text for one in every] for every in translator.predict(texts)
    ]


def test_nothing_is_told_of_what_is_dropped(translator):
    flow = translator.flow()
    numbers = flow.add(["a b c", "", "d e", "f"])
    flow.drop([numbers[1], numbers[2]])
    found = dict(flow.step())
    later = flow.add(["g", "h"])
    flow.drop([numbers[0], later[1]])
    for _ in range(30):
        found |= flow.step()
    assert sorted(found) == [numbers[3], later[0]]


@pytest.mark.parametrize("given", [{"alignments": True}, {"method": "sample"}])
def test_what_is_no_flow_is_answered_in_batches(translator, given):
    assert translator.flow(translator.options(given)) is None


def test_long_texts_are_cut_with_a_warning(translator, monkeypatch):
    monkeypatch.setattr(translator, "longest", 40)
    flow = translator.flow()
    flow.add(["a " * 50])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        flow.step()
    assert "only the first 40" in str(told[0].message)
    # it has the first words of the text, which a service does not log
    assert told[0].category is QuotingWarning


def test_parts_cover_all_and_save_more_padding_than_they_cost():
    draw = random.Random(5)
    for _ in range(50):
        lengths = sorted(draw.choices(range(1, 60), k=draw.randint(1, 80)))
        parts = by_length(lengths)
        assert [length for part in parts for length in lengths[part]] == lengths
        padded = sum((part.stop - part.start) * lengths[part.stop - 1] for part in parts)
        assert padded + 12 * (len(parts) - 1) <= len(lengths) * lengths[-1]


def test_a_translator_without_options_searches_as_its_recipe_says(translator):
    assert isinstance(translator, Translator)
    assert translator.decoding == DecodingConfig(max_len=12)
    assert [[one.text for one in every] for every in flowed(translator, ["a b", "c"])] == [
        [one.text for one in every] for every in translator.predict(["a b", "c"])
    ]
