import math

import numpy as np
import pytest
import torch

from headwise.data.readers import Pair
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, Unsupported
from headwise.explain.alignment import diagonal, focus
from headwise.explain.explanation import Explanation, Layer
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.predictors.looking import source_labels, source_words, target_words
from headwise.tasks.translation.alignment import Aligning
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent
from headwise.tasks.translation.translator import Translator

SOURCES, TARGETS = ["the cat sleeps .", "a cat ."], ["le chat dort bien .", "un chat ."]


def translator(model="transformer", **options):
    """A new model of two sentences; the options are those of a recurrent one."""
    config = TokenizerConfig(kind="word", joint=False)
    source, target = Tokenizer.train(SOURCES, config), Tokenizer.train(TARGETS, config)
    if model == "transformer":
        sizes = {"d_model": 8, "d_ff": 11, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.5}
        built = build_transformer(
            TransformerConfig(**{**sizes, **options}), source.vocab_size, target.vocab_size, joint=False
        )
    else:
        recurrent = RecurrentConfig(embed_dim=5, hidden_dim=7, num_layers=1, **options)
        built = build_recurrent(recurrent, source.vocab_size, target.vocab_size)
    return Translator(built.train(), source, target, DecodingConfig(method="greedy", max_len=7))


def test_a_picture_hatches_what_the_masks_of_all_its_heads_forbid():
    allowed = np.array([[[1, 1, 0], [0, 1, 1]], [[1, 0, 0], [0, 1, 0]]], dtype=bool)
    layer = Layer(allowed / allowed.sum(-1, keepdims=True), ["a", "b"], ["x", "y", "z"], "cross", mask=allowed)
    found = Explanation("", "", {"decoder.0": layer})

    def hatched(heads):
        """Stretches of forbidden cells in the rows of the large map."""
        axes = found.page(heads=heads).axes[0]
        return sum(len(one.get_paths()) for one in axes.collections if one.get_hatch())

    assert (hatched(None), hatched(0), hatched(1)) == (2, 2, 3)


@pytest.fixture(scope="module")
def explanation():
    torch.manual_seed(0)
    return translator().explain(SOURCES[0], TARGETS[0])


def made(attention, kind="cross"):
    layers = {
        name: Layer(values, ["x"] * values.shape[1], ["a"] * values.shape[2], kind)
        for name, values in attention.items()
    }
    return Explanation("s", "t", layers)


def test_every_layer_is_gathered_with_its_tokens(explanation):
    shapes = {name: layer.weights.shape for name, layer in explanation.layers.items()}
    assert shapes == {
        "encoder.blocks.0.self_attention": (2, 5, 5),
        "decoder.blocks.0.self_attention": (2, 6, 6),
        "decoder.blocks.0.cross_attention": (2, 6, 5),
        "decoder.blocks.1.self_attention": (2, 6, 6),
        "decoder.blocks.1.cross_attention": (2, 6, 5),
    }
    for layer in explanation.layers.values():
        assert (2, len(layer.queries), len(layer.keys)) == layer.weights.shape
    source, target = ["the", "cat", "sleeps", ".", "<eos>"], ["le", "chat", "dort", "bien", ".", "<eos>"]
    labels = [(layer.queries, layer.keys, layer.kind, layer.causal) for layer in explanation.layers.values()]
    inputs = ["<bos>", *target[:-1]]
    own, cross = (inputs, inputs, "self", True), (target, source, "cross", False)
    assert labels == [(source, source, "self", False), own, cross, own, cross]


def test_rows_sum_to_one_and_no_query_sees_a_later_token(explanation):
    assert explanation.row_error < 1e-6
    own = explanation.layers["decoder.blocks.1.self_attention"].weights
    assert (own[:, ~np.tri(6, dtype=bool)] == 0.0).all()


def test_the_model_is_as_it_was_and_runs_without_dropout():
    looked_at = translator()
    first, second = (looked_at.explain(SOURCES[0], TARGETS[0]) for _ in range(2))
    assert looked_at.model.training
    for name, layer in first.layers.items():
        np.testing.assert_array_equal(layer.weights, second.layers[name].weights)


def test_without_an_output_the_models_own_is_explained():
    looked_at = translator()
    looked_at.model.eval()
    assert looked_at.explain(SOURCES[0]).output == looked_at.translate([SOURCES[0]])[0]


def test_the_alignment_is_of_the_most_focused_layer_unless_chosen(explanation):
    first, last = (explanation.layers[f"decoder.blocks.{i}.cross_attention"].weights for i in (0, 1))
    expected = max((first.mean(0), last.mean(0)), key=focus)
    np.testing.assert_array_equal(explanation.weights(), expected)
    np.testing.assert_array_equal(explanation.weights(0, heads=1), first[1])
    np.testing.assert_array_equal(explanation.weights(0, heads=(1, 0)), first.mean(0))
    np.testing.assert_array_equal(explanation.weights(-1), last.mean(0))
    np.testing.assert_array_equal(explanation.weights("decoder.blocks.0.cross_attention"), first.mean(0))
    own = explanation.layers["decoder.blocks.1.self_attention"].weights
    np.testing.assert_array_equal(explanation.weights("decoder.blocks.1.self_attention", 1), own[1])


def test_the_caption_says_whose_weights_are_shown(explanation):
    name = "decoder.blocks.1.cross_attention"
    assert explanation.caption(1) == f"{name}, mean of 2 heads"
    assert explanation.caption(1, 0) == f"{name}, head 0"
    assert explanation.caption(1, (0, 1)) == f"{name}, mean of 2 heads: 0, 1"


def test_a_layer_that_looks_only_at_the_end_is_not_the_most_focused():
    collapsed = np.zeros((1, 2, 3))
    collapsed[..., 2] = 1.0
    aligned = np.array([[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]])
    found = made({"decoder.0": collapsed, "decoder.1": aligned})
    assert found.most_focused() == "decoder.1"


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, None, "layer 2 is not there; the model has 2 cross-attention layers, from 0"),
        ("decoder.blocks.1.cros", None, "unknown layer 'decoder.blocks.1.cros'; did you mean"),
        (0, 2, "head 2 is not there; this layer has heads 0 to 1"),
        (0, (), "no head is named; leave heads out for all of them"),
    ],
)
def test_what_is_not_there_is_named(explanation, layer, head, message):
    with pytest.raises(ConfigError, match=message):
        explanation.save("nowhere.png", layer, head)


def test_the_table_has_a_line_for_each_target_token(explanation):
    wanted = explanation.layers["decoder.blocks.1.cross_attention"].queries
    assert [line.split()[0] for line in explanation.table().splitlines()] == wanted


def test_one_page_is_written_in_every_format(explanation, tmp_path):
    paths = explanation.write(tmp_path, ["png", "svg"])
    assert [path.name for path in paths] == ["attention.png", "attention.svg"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_every_layer_has_a_figure_of_its_own_where_it_is_asked_for(explanation):
    drawn = explanation.figures()
    assert list(drawn) == [name.replace(".", "-") for name in explanation.layers]


def test_the_page_shows_the_layer_and_below_it_the_heads_of_all_layers_of_its_kind(explanation):
    page = explanation.page(1, 0)
    large, small = page.axes[:2]
    assert [text.get_text() for text in large.get_yticklabels()] == ["le", "chat", "dort", "bien", ".", "<eos>"]
    assert "decoder.blocks.1.cross_attention, head 0" in page.get_suptitle()
    assert [text.get_text() for text in small.get_yticklabels()] == ["layer 0", "layer 1"]
    assert [text.get_text() for text in small.get_xticklabels()] == ["head 0", "head 1"]
    assert len(small.images) == 4
    # the encoder's own attention is another kind
    assert len(explanation.page("encoder.blocks.0.self_attention").axes[1].images) == 2


def test_a_page_of_another_sequence_names_its_sides_and_frames_the_strongest_source(explanation):
    name = "decoder.blocks.1.cross_attention"
    large = explanation.page(name).axes[0]
    assert (large.get_ylabel(), large.get_xlabel()) == ("target token (attends from)", "source token (attends to)")
    places = [path.vertices[:4].mean(axis=0) for path in large.collections[0].get_paths()]
    strongest = enumerate(explanation.weights(name).argmax(axis=1).tolist())
    assert [(round(y), round(x)) for x, y in places] == list(strongest)
    own = explanation.page("encoder.blocks.0.self_attention").axes[0]
    assert (own.get_ylabel(), own.get_xlabel()) == ("query: attends from", "key: attends to")
    assert not own.collections


def test_an_unknown_format_is_refused_before_anything_is_written(explanation, tmp_path):
    with pytest.raises(ConfigError, match="unknown format 'gif'"):
        explanation.write(tmp_path, ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_a_recurrent_model_has_a_row_for_each_step():
    found = translator("recurrent").explain(SOURCES[0], TARGETS[0])
    assert found.shown() == list(found.layers)
    assert found.weights().shape == (6, 5)
    assert found.row_error < 1e-6


def test_a_model_without_attention_has_nothing_to_show():
    looked_at = translator("recurrent", score="none")
    with pytest.raises(Unsupported, match="no attention"):
        looked_at.explain(SOURCES[0], TARGETS[0])
    with pytest.raises(Unsupported, match="no attention"):
        made({}).weights()
    with pytest.raises(Unsupported, match="no attention"):
        looked_at.align([Pair(SOURCES[0], TARGETS[0], 1)])


def test_without_cross_attention_the_layers_own_attention_is_shown():
    found = made({"encoder.0": np.ones((1, 3, 3)) / 3, "encoder.1": np.eye(3)[None]}, "self")
    assert found.most_focused() == "encoder.1"
    assert found.caption(0) == "encoder.0, its only head"


def test_numbers_count_the_layers_below_a_pooling_which_has_its_own_name():
    own = made({"encoder.0": np.ones((1, 3, 3)) / 3, "encoder.1": np.eye(3)[None]}, "self")
    pooled = made({"pooling.mechanism": np.ones((1, 1, 3)) / 3}, "pooled")
    both = Explanation("s", "t", own.layers | pooled.layers)
    assert both.layer_name(0) == "encoder.0"
    assert both.layer_name(-1) == "encoder.1"
    assert both.layer_name("pooling") == both.layer_name(None) == "pooling.mechanism"
    with pytest.raises(ConfigError, match=r"layer 2 .* 2 self-attention"):
        both.layer_name(2)
    assert pooled.layer_name(0) == "pooling.mechanism"
    with pytest.raises(ConfigError, match="unknown layer 'pooling'"):
        own.layer_name("pooling")


PAIRS = [Pair(source, target, 1) for source, target in zip(SOURCES, TARGETS, strict=True)]


def test_links_of_many_pairs_are_those_of_each_alone():
    looked_at = translator()
    together = looked_at.align(PAIRS)
    assert together == [looked_at.align([pair])[0] for pair in PAIRS]
    for links, pair in zip(together, PAIRS, strict=True):
        assert sorted(target for _, target in links) == list(range(len(pair.target.split())))
        assert all(0 <= source < len(pair.source.split()) for source, _ in links)
    assert looked_at.align([Pair("", "un chat", 1), Pair("a cat", "", 2), *PAIRS])[2:] == together
    assert looked_at.align([]) == []


def test_mutual_links_are_some_of_the_links():
    looked_at = translator()
    for every, mutual in zip(looked_at.align(PAIRS), looked_at.align(PAIRS, Aligning(mutual=True)), strict=True):
        assert set(mutual) <= set(every)


@pytest.mark.parametrize("strength", [0.0, 3.0])
@pytest.mark.parametrize(("shift", "first"), [(False, 0), (True, 1)])
def test_links_are_the_strongest_of_the_steps_that_write_a_word_or_that_read_it(shift, first, strength):
    looked_at = translator()
    weights = looked_at.explain(SOURCES[0], TARGETS[0]).weights(0, heads=1)[:, :4]
    wanted = []
    for target in range(5):
        odds = [
            weights[first + target, source] / weights[:, source].mean()
            * math.exp(-strength * abs((source + 0.5) / 4 - (target + 0.5) / 5))
            for source in range(4)
        ]  # fmt: skip
        wanted.append((odds.index(max(odds)), target))
    how = Aligning(layer=0, heads=(1,), shift=shift, diagonal=strength)
    assert looked_at.align(PAIRS[:1], how) == [sorted(wanted)]


def test_a_strong_diagonal_is_all_that_counts():
    assert translator().align(PAIRS[1:], Aligning(diagonal=1e3)) == [diagonal(3, 3)] == [[(0, 0), (1, 1), (2, 2)]]


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_a_text_that_was_cut_ends_with_the_end_token(length):
    tokenizer = Tokenizer.train(["abc"], TokenizerConfig(kind="char"))
    assert source_words(tokenizer, "a bc", length) == [*[0, -1, 1, 1][: length - 1], -1]
    assert source_labels(tokenizer, "a bc", length) == [*["a", "▁", "b", "c"][: length - 1], "<eos>"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (Aligning(layer=2), "layer 2 is not there; the model has 2 cross-attention layers, from 0"),
        (Aligning(heads=(0, 2)), "head 2 is not there; decoder.blocks.1.cross_attention has heads 0 to 1"),
    ],
)
def test_a_layer_or_head_that_does_not_align_is_named(how, message):
    with pytest.raises(ConfigError, match=message):
        translator().align(PAIRS, how)


def test_links_and_labels_are_of_the_tokens_that_were_written():
    # pieces that the text, cut anew, would not give: "dormir" is one piece, but was written letter by letter
    texts = ["il va dormir bientot", "dormir dormir dormir"]
    tokenizer = Tokenizer.train(texts * 9, TokenizerConfig(kind="bpe", vocab_size=60))
    letters = [next(t for t in range(4, tokenizer.vocab_size) if tokenizer.piece(t) == letter) for letter in "dormir"]
    written = [*tokenizer.encode("il va"), tokenizer.pieces().index("▁"), *letters]
    assert tokenizer.decode(written) == "il va dormir"
    assert len(written) > len(tokenizer.encode("il va dormir"))
    numbers = target_words(tokenizer, written)
    assert numbers == [*numbers[: -len(letters) - 1], *[2] * len(letters), -1]
    assert numbers[0] == 0
