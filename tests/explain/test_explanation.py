import numpy as np
import pytest
import torch

from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, Unsupported
from headwise.explain.alignment import focus
from headwise.explain.explanation import Explanation
from headwise.models.recurrent import RecurrentConfig, build_recurrent
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.predictors.looking import target_words
from headwise.predictors.translator import Translator

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


@pytest.fixture(scope="module")
def explanation():
    torch.manual_seed(0)
    return translator().explain(SOURCES[0], TARGETS[0])


def made(attention, kinds):
    return Explanation("s", "t", ["a", "b", "<eos>"], ["x", "<eos>"], attention, kinds, 0.0)


def test_every_layer_is_gathered_with_its_tokens(explanation):
    assert explanation.source_tokens == ["the", "cat", "sleeps", ".", "<eos>"]
    assert explanation.target_tokens == ["le", "chat", "dort", "bien", ".", "<eos>"]
    shapes = {name: values.shape for name, values in explanation.attention.items()}
    assert shapes == {
        "encoder.blocks.0.self_attention": (2, 5, 5),
        "decoder.blocks.0.self_attention": (2, 6, 6),
        "decoder.blocks.0.cross_attention": (2, 6, 5),
        "decoder.blocks.1.self_attention": (2, 6, 6),
        "decoder.blocks.1.cross_attention": (2, 6, 5),
    }
    for name, (heads, queries, keys) in shapes.items():
        rows, columns = explanation.tokens(name)
        assert (2, len(rows), len(columns)) == (heads, queries, keys)
    assert explanation.tokens("decoder.blocks.0.self_attention")[0] == ["<bos>", "le", "chat", "dort", "bien", "."]


def test_rows_sum_to_one_and_no_query_sees_a_later_token(explanation):
    assert explanation.row_error < 1e-6
    own = explanation.attention["decoder.blocks.1.self_attention"]
    assert (own[:, ~np.tri(6, dtype=bool)] == 0.0).all()


def test_the_model_is_as_it_was_and_runs_without_dropout():
    looked_at = translator()
    first, second = (looked_at.explain(SOURCES[0], TARGETS[0]) for _ in range(2))
    assert looked_at.model.training
    for name, values in first.attention.items():
        np.testing.assert_array_equal(values, second.attention[name])


def test_without_an_output_the_models_own_is_explained():
    looked_at = translator()
    looked_at.model.eval()
    assert looked_at.explain(SOURCES[0]).output == looked_at.translate([SOURCES[0]])[0]


def test_the_alignment_is_of_the_most_focused_layer_unless_chosen(explanation):
    first, last = (explanation.attention[f"decoder.blocks.{i}.cross_attention"] for i in (0, 1))
    expected = max((first.mean(0), last.mean(0)), key=focus)
    np.testing.assert_array_equal(explanation.alignment(), expected)
    np.testing.assert_array_equal(explanation.alignment(0, head=1), first[1])
    np.testing.assert_array_equal(explanation.alignment(-1), last.mean(0))
    np.testing.assert_array_equal(explanation.alignment("decoder.blocks.0.cross_attention"), first.mean(0))


def test_a_layer_that_looks_only_at_the_end_is_not_the_most_focused():
    collapsed = np.zeros((1, 2, 3))
    collapsed[..., 2] = 1.0
    aligned = np.array([[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]])
    found = made({"decoder.0": collapsed, "decoder.1": aligned}, {"decoder.0": "cross", "decoder.1": "cross"})
    assert found.most_focused() == "decoder.1"


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, None, "layer 2 is not there; the model has 2 cross-attention layers"),
        ("decoder.blocks.1.cros", None, "unknown cross-attention layer 'decoder.blocks.1.cros'; did you mean"),
        (0, 2, "head 2 is not there; this layer has heads 0 to 1"),
    ],
)
def test_what_is_not_there_is_named(explanation, layer, head, message):
    with pytest.raises(ConfigError, match=message):
        explanation.alignment(layer, head)


def test_the_table_has_a_line_for_each_target_token(explanation):
    assert [line.split()[0] for line in explanation.table().splitlines()] == explanation.target_tokens


@pytest.mark.slow
def test_figures_are_written_in_every_format(explanation, tmp_path):
    paths = explanation.write(tmp_path, ["png", "svg"])
    names = {path.name for path in paths}
    assert paths[0].name == "alignment.png"
    assert {"alignment.svg", "decoder-blocks-1-self_attention.png", "all-decoder-cross.png"} <= names
    assert "all-encoder-self.png" not in names
    assert all(path.stat().st_size > 1000 for path in paths)


def test_an_unknown_format_is_refused_before_anything_is_written(explanation, tmp_path):
    with pytest.raises(ConfigError, match="unknown format 'gif'; known: pdf, png, svg"):
        explanation.write(tmp_path, ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_a_recurrent_model_has_a_row_for_each_step():
    found = translator("recurrent").explain(SOURCES[0], TARGETS[0])
    assert found.cross() == list(found.attention)
    assert found.alignment().shape == (6, 5)
    assert found.row_error < 1e-6


def test_a_model_without_attention_has_nothing_to_show():
    looked_at = translator("recurrent", score="none")
    with pytest.raises(Unsupported, match="this model has no attention to look at"):
        looked_at.explain(SOURCES[0], TARGETS[0])
    found = made({"encoder.0": np.ones((1, 3, 3)) / 3}, {"encoder.0": "self"})
    with pytest.raises(Unsupported, match="this model has no attention from target to source, so there is no"):
        found.alignment()


def test_links_of_many_sentences_are_those_of_each_alone():
    looked_at = translator()
    written = looked_at.target_tokenizer.encode_batch(TARGETS)
    together = looked_at.align(SOURCES, written)
    assert together == [looked_at.align([s], [t])[0] for s, t in zip(SOURCES, written, strict=True)]
    for line, source, target in zip(together, SOURCES, TARGETS, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert [t for _, t in sorted(pairs, key=lambda pair: pair[1])] == list(range(len(target.split())))
        assert all(0 <= s < len(source.split()) for s, _ in pairs)


def test_mutual_links_are_some_of_the_links():
    looked_at = translator()
    written = looked_at.target_tokenizer.encode_batch(TARGETS)
    lines = looked_at.align(SOURCES, written), looked_at.align(SOURCES, written, mutual=True)
    for all_links, mutual in zip(*lines, strict=True):
        assert set(mutual.split()) <= set(all_links.split())


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
