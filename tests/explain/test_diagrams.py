"""Diagrams say what the modules of a model are: change a module, and the diagram changes."""

import pytest
from matplotlib.colors import to_rgba
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.compare.paths import links
from headwise.compare.subjects import subject
from headwise.config import build
from headwise.errors import DataError, Unsupported
from headwise.explain import diagrams
from headwise.explain.canvas import save
from headwise.explain.diagrams import model_diagram
from headwise.layers.attention import MultiHeadAttention
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

SIZES = {"d_model": 24, "d_ff": 40, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 3}


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def transformer(**options):
    return build_transformer(build(TransformerConfig, SIZES | options, "model"), 50, 60, joint=False)


def test_an_encoder_decoder_with_its_sizes(tmp_path):
    figure = model_diagram(transformer())
    words = texts(figure)
    assert words.count("encoder × 2") == words.count("decoder × 3") == 1
    assert words.count("self-attention\n3 heads") == words.count("self-attention\n3 heads, causal") == 1
    assert words.count("cross-attention\n3 heads") == 1
    assert words.count("feed-forward\n40 wide") == 2
    assert {"embedding 50 × 24", "embedding 60 × 24", "and a residual"} <= set(words)
    assert "around each part: LayerNorm before" in words
    assert [word for word in words if word.startswith("$W_")] == [
        *(f"$W_{letter}$\n24 × 24" for letter in "QKV"),
        "$W_O$ 24 × 24",
    ]
    assert "3 heads of 8\nScaledDot, Softmax" in words
    assert "concat 3 × 8" in words
    # the arrow from encoder to decoder
    assert len(figure.axes[0].lines) == 1
    assert figure.get_size_inches()[0] <= 170 / 25.4 + 1e-6
    assert save(figure, tmp_path / "model.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norm": "rms", "norm_order": "post"}, "around each part: RMSNorm after"),
        ({"norm": "none"}, "around each part: no norm"),
        ({"residual": False}, "and no residual"),
        ({"shared": "kv"}, "$W_K$\n24 × 24"),
        ({"num_kv_heads": 1}, "3 heads of 8, 1 of keys\nScaledDot, Softmax"),
        ({"combine": "mean"}, "mean of 3"),
        ({"projection_rank": 5}, "$W_Q$\n24 × 5 × 24"),
        ({"position": "rotary"}, "3 heads of 8\nScaledDot, Softmax\nRotary positions"),
        ({"normalizer": "sparsemax", "score": "cosine"}, "3 heads of 8\nCosine, Sparsemax"),
        ({"mechanism": "linear"}, "3 heads of 8\nLinear"),
    ],
)
def test_what_differs_is_drawn(options, words):
    assert words not in texts(model_diagram(transformer())) or options == {"shared": "kv"}
    drawn = texts(model_diagram(transformer(**options)))
    assert any(text.startswith(words) for text in drawn), drawn
    if options == {"shared": "kv"}:
        assert drawn.count(words) == 2


@pytest.mark.parametrize("heads", [1, 2, 12])
def test_at_most_four_heads_are_drawn_and_all_are_counted(heads):
    figure = model_diagram(nn.ModuleDict({"encoder": MultiHeadAttention(24, heads, Scored("dot"))}))
    assert f"self-attention\n{heads} head{'s' if heads > 1 else ''}" in texts(figure)
    boxes = [patch for patch in figure.axes[1].patches if patch.get_height() == 0.75]
    assert len(boxes) == min(heads, 4)


def test_models_without_what_is_known():
    figure = model_diagram(nn.ModuleDict({"encoder": nn.GRU(3, 7)}))
    assert "recurrent layer\n7 wide" in texts(figure)
    assert len(figure.axes) == 1
    with pytest.raises(Unsupported, match="no attention, feed-forward network or recurrent layer"):
        model_diagram(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("name", "layers", "window"),
    # what the last of nine tokens depends on, from the lowest layer up
    [("causal-cnn", 4, [9, 7, 5, 3, 1]), ("cnn", 3, [4, 3, 2, 1]), ("rnn", 1, [9, 9]), ("scored", 1, [9, 1])],
)
def test_arcs_colour_the_window_of_context_of_the_last_token(name, layers, window):
    drawn = diagrams.arcs({name: (links(subject(name), 9), layers, subject(name).recurrent)})
    (axes,) = drawn.axes
    coloured = [
        sum(tuple(colour) != to_rgba(diagrams.SOFT) for colour in dots.get_facecolors()) for dots in axes.collections
    ]
    assert coloured == window
    assert axes.get_title() == f"{name}: {layers} layer{'s' * (layers > 1)}"


def test_arcs_of_nothing():
    with pytest.raises(DataError, match="no way to mix tokens"):
        diagrams.arcs({})
