import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from matplotlib.text import Text

from headwise.errors import ShapeError
from headwise.explain import fonts, maps
from headwise.explain.figures import heads, page
from headwise.explain.ramps import ramp
from headwise.explain.values import LEGENDS, array
from headwise.labels import cell_text

QUERIES, KEYS = list("abcde"), list("fghijkl")


def weights(*shape, seed=0):
    values = np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return torch.from_numpy(values)


def labels_of(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def painted(image):
    return image.cmap(image.norm(image.get_array()))


def one_map(values, queries, keys, **options):
    """The page of a single head, which is one map."""
    return page(values, queries, keys, [values[None]], **options)


def test_a_map_shows_every_weight_and_label():
    values = weights(5, 7)
    figure = one_map(values, QUERIES, KEYS, title="layer 1")
    axes = figure.axes[0]
    figure.draw_without_rendering()
    np.testing.assert_allclose(axes.images[0].get_array(), array(values))
    assert (labels_of(axes.yaxis), labels_of(axes.xaxis)) == (QUERIES, KEYS)
    assert figure.get_suptitle() == "layer 1"
    assert axes.get_ylabel() == "query: attends from"
    assert axes.get_xlabel() == "key: attends to"
    numbers = [text.get_text() for text in axes.texts]
    assert numbers[:35] == list(map(cell_text, array(values).ravel().tolist()))


def test_zero_is_the_page_and_the_largest_weight_the_end_of_the_ramp():
    image = one_map(np.array([[0.0, 0.7]]), ["a"], ["b", "c"]).axes[0].images[0]
    np.testing.assert_allclose(painted(image)[0, :, :3], ramp("ink light")[[0, -1]], atol=1e-12)


def test_all_zero_weights_are_drawn():
    one_map(np.zeros((2, 2)), ["a", "b"], ["c", "d"]).draw_without_rendering()


def test_the_colour_bar_names_the_scale_and_has_round_numbers():
    bar = one_map(np.array([[0.5, 0.0], [0.02, 0.48]]), ["a", "b"], ["c", "d"]).axes[0].child_axes[0]
    assert bar.get_ylabel() == "attention weight,\nsquare-root scale"
    # zero and the largest weight are always there
    assert labels_of(bar.yaxis) == ["0", ".01", ".05", ".1", ".25", ".5"]


def test_negative_numbers_diverge_from_zero():
    values = weights(5, 7) - 0.1
    axes = one_map(values, QUERIES, KEYS).axes[0]
    ramp, scale = axes.images[0].cmap, axes.images[0].norm
    assert (ramp.name, scale.vmin) == ("headwise diverging", -scale.vmax)
    assert "√" not in axes.child_axes[0].get_ylabel()


def test_masked_cells_are_hatched_and_explained():
    keep = torch.ones(5, 5, dtype=torch.bool).tril()
    keep[3, 1] = False
    axes = one_map(weights(5, 5), QUERIES, QUERIES, keep=keep).axes[0]
    hatched = next(c for c in axes.collections if isinstance(c, PolyCollection) and c.get_hatch())
    covered = np.zeros((5, 5), dtype=bool)
    for path in hatched.get_paths():
        (left, top), (right, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        covered[round(top + 0.5) : round(bottom + 0.5), round(left + 0.5) : round(right + 0.5)] = True
    np.testing.assert_array_equal(covered, ~keep.numpy())
    assert any("hatched: masked" in text.get_text() for text in axes.texts)
    numbers = [text for text in axes.texts if text.get_ha() == "center"]
    assert len(numbers) == int(keep.sum())


def test_what_is_masked_does_not_set_the_scale():
    image = one_map(np.array([[0.2, 0.9]]), ["a"], ["b", "c"], keep=np.array([[True, False]])).axes[0].images[0]
    assert image.norm.vmax == pytest.approx(0.2)


def test_a_weight_that_is_no_number_stands_out():
    axes = one_map(np.array([[np.nan, 1.0]]), ["a"], ["b", "c"]).axes[0]
    assert any("not a number" in text.get_text() for text in axes.texts)
    assert np.ma.getmaskarray(axes.images[0].get_array()).tolist() == [[True, False]]


def test_only_small_maps_have_numbers_in_their_cells():
    assert one_map(weights(5, 7), QUERIES, KEYS).axes[0].texts
    tokens = [f"token{number}" for number in range(30)]
    assert not one_map(weights(30, 30), tokens, tokens).axes[0].texts


def test_numbers_are_dark_on_light_and_light_on_dark():
    texts = one_map(np.array([[0.05, 1.0]]), ["a"], ["b", "c"]).axes[0].texts
    assert [text.get_color() for text in texts] == ["#10131c", "#ffffff"]


def test_text_is_data_and_never_a_formula():
    figure = one_map(np.eye(3), ["$x$", r"\alpha", "$\\frac{"], ["\x1b[1m", " ", "x" * 40], title=r"$\notacommand{$ $5")
    figure._repr_png_()
    axes = figure.axes[0]
    (title,) = [text for text in figure.texts if "notacommand" in text.get_text()]
    for text in [title, *axes.get_yticklabels()]:
        assert text._preprocess_math(text.get_text())[1] is False
    assert title._preprocess_math(title.get_text())[0] == r"$\notacommand{$ $5"
    shown = labels_of(axes.xaxis)
    assert shown[:2] == [r"\x1b[1m", "␣"]
    assert len(shown[2]) == maps.LONGEST_LABEL


def test_many_tokens_are_labelled_sparsely_on_a_page_of_bounded_size():
    tokens = [f"token{i}" for i in range(300)]
    figure = one_map(weights(300, 300), tokens, tokens)
    width, height = figure.get_size_inches()
    ticks = figure.axes[0].get_yticks()
    assert max(width, height) < 14
    assert 10 <= len(ticks) <= 100
    assert labels_of(figure.axes[0].yaxis)[1] == f"token{ticks[1]}"


def test_chinese_labels_use_a_font_that_has_them():
    if len(fonts.families(["猫"])) == 1:
        pytest.skip("no installed font has Chinese characters")
    # a missing glyph is a warning of matplotlib, and warnings are errors
    one_map(np.eye(2), ["我", "喜欢"], ["cat", "垫子"], title="你好 → hello")._repr_png_()


def test_a_page_frames_the_strongest_source_of_each_target():
    values = weights(5, 7)
    axes = one_map(values, QUERIES, KEYS, legend=LEGENDS["cross"]).axes[0]
    middles = [path.vertices[:4].mean(axis=0) for path in axes.collections[0].get_paths()]
    assert [(round(y), round(x)) for x, y in middles] == [(i, int(values[i].argmax())) for i in range(5)]


def test_heads_share_one_scale():
    values = weights(3, 5, 7)
    keep = torch.ones(5, 7, dtype=torch.bool).tril()
    figure = heads(values, QUERIES, KEYS, title="cross", keep=keep)
    drawn = [axes for axes in figure.axes if axes.images]
    figure.draw_without_rendering()
    assert [axes.get_title() for axes in drawn] == ["head 0", "head 1", "head 2"]
    for number, axes in enumerate(drawn):
        np.testing.assert_allclose(axes.images[0].get_array(), values[number])
        assert axes.images[0].norm.vmax == pytest.approx(float((values * keep).max()))
    assert labels_of(drawn[0].yaxis) == QUERIES
    assert set(labels_of(drawn[1].yaxis)) == {""}


def test_heads_fill_several_rows():
    assert len([axes for axes in heads(weights(6, 5, 7), QUERIES, KEYS).axes if axes.images]) == 6


def test_a_page_has_all_layers_and_heads():
    layers = [weights(3, 5, 7, seed=1), weights(2, 5, 5, seed=2)]
    axes = page(layers[0][0], QUERIES, KEYS, layers).axes[1]
    assert len(axes.images) == 5
    assert labels_of(axes.yaxis) == ["layer 0", "layer 1"]
    assert labels_of(axes.xaxis) == ["head 0", "head 1", "head 2"]
    left, right, bottom, top = axes.images[3].get_extent()
    assert (left, right, bottom, top) == pytest.approx((-0.45, 0.45, 1.45, 0.55))


def test_long_maps_are_pooled_by_their_maximum():
    values = np.zeros((2, 100, 101))
    values[0, 37, 96] = 1.0
    figure = page(values[0], list(map(str, range(100))), list(map(str, range(101))), [values])
    small = np.asarray(figure.axes[1].images[0].get_array())
    assert small.shape == (48, 48)
    assert np.argwhere(small).tolist() == [[18, 46]]


def test_labels_that_do_not_fit_are_an_error():
    with pytest.raises(ShapeError, match=r"\(queries, keys\) = \(5, 6\).*\(5, 7\)"):
        one_map(weights(5, 7), QUERIES, KEYS[:6])
    with pytest.raises(ShapeError, match=r"\(heads, queries, keys\) = \(3, 4, 7\)"):
        heads(weights(3, 5, 7), QUERIES[:4], KEYS)
    with pytest.raises(ShapeError, match=r"shape \(0, 7\)"):
        one_map(np.zeros((0, 7)), [], KEYS)


@pytest.mark.parametrize("count", [3, 12, 40, 300])
def test_figures_are_at_most_a_page_wide_and_their_letters_readable(count):
    tokens, title = [f"a long token {i}" for i in range(count)], "a title " * 30
    values = weights(16, count, count)
    for figure in (
        page(values[0], tokens, tokens, [values] * 3, title=title),
        heads(values, tokens, tokens, title=title),
    ):
        figure.draw_without_rendering()
        assert figure.get_tightbbox().width < 6.9
        assert min(text.get_fontsize() for axes in figure.axes for text in axes.findobj(Text) if text.get_text()) >= 7
