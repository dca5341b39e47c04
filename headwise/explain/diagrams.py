"""Diagrams of a model drawn from its modules: stages with their blocks, and one attention with its sizes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import nn

from headwise.attention.mechanisms.scored import Scored
from headwise.errors import DataError, Unsupported
from headwise.explain.canvas import PAGE, SMALL, SOFT, TITLE, Picture, picture
from headwise.explain.parts import stages_of
from headwise.explain.ramps import LINES
from headwise.labels import literal, shorten
from headwise.layers.attention import Factored, MultiHeadAttention
from headwise.layers.blocks import Residual
from headwise.layers.embeddings import TokenEmbedding

# inches: a box, the gap between boxes, a column with its margin
_BOX, _GAP, _MARGIN = 0.42, 0.16, 0.32
_WIDEST, _DETAIL = 1.6, 2.5
# room below the stages for five lines
_FLOOR = 0.85
# heads that are drawn one behind the other; the text says how many there are
_DRAWN = 4
_COLOURS = dict(zip(("self", "cross", "feed_forward", "pooled", "recurrent", "plain"), LINES["light"], strict=False))
_COLOURS["convolution"] = _COLOURS["feed_forward"]
_NAMES = {"self": "self-attention", "cross": "cross-attention", "pooled": "attention pooling"}


def model_diagram(model: nn.Module) -> Picture:
    """The stages of a model from left to right, each with its blocks from the input upwards, and one attention.

    Everything is read from the modules: stages and how often their blocks repeat, heads, widths, embeddings, whether a
    residual and a norm stand around each part, and the sizes of the matrices of the first multi-head attention.

    Raises: Unsupported: the model has no attention, feed-forward network or recurrent layer of a known kind.

    >>> drawn = model_diagram(nn.ModuleDict({"encoder": MultiHeadAttention(8, 2)}))
    >>> [text.get_text() for text in drawn.axes[0].texts][:2]
    ['encoder', 'self-attention\\n2 heads']
    """
    stages = stages_of(model)
    if not stages:
        raise Unsupported("this model has no attention, feed-forward network or recurrent layer that could be drawn")
    layer = next((module for module in model.modules() if isinstance(module, MultiHeadAttention)), None)
    detail = 0.0 if layer is None else _DETAIL
    wide = min(_WIDEST, (PAGE - detail) / len(stages) - _MARGIN)
    most = max(len(stage["parts"]) for stage in stages)
    height = max(_FLOOR + 0.65 + most * (_BOX + _GAP), 0.0 if layer is None else 3.4)
    figure = picture(len(stages) * (wide + _MARGIN) + detail, height, free=True)
    axes = figure.place(0.0, 0.0, len(stages) * (wide + _MARGIN), height)
    axes.set(xlim=(0, len(stages) * (wide + _MARGIN)), ylim=(0, height))
    axes.axis("off")
    tops = [_stage(axes, stage, _MARGIN / 2 + number * (wide + _MARGIN), wide) for number, stage in enumerate(stages)]
    for number, stage in enumerate(stages):
        for line, text in enumerate(_below(model, stage["name"], first=number == 0)):
            _write(axes, _MARGIN / 2 + number * (wide + _MARGIN) + wide / 2, _FLOOR - 0.13 - 0.15 * line, text, SMALL)
    _memories(axes, stages, tops, wide)
    if layer is not None:
        _attention(figure, layer, height, _is_of_another(stages))
    return figure


def arcs(ways: Mapping[str, tuple[Bool[np.ndarray, "outputs inputs"], int, bool]]) -> Picture:
    """A panel for each way to mix tokens: layers from below, and what each token depends on directly.

    In colour is all that the last token depends on.

    Args:
        ways: by name, which inputs each output depends on through one layer, the layers that are drawn, and whether a
            state goes from token to token within a layer.
    Raises: DataError: nothing to draw.

    >>> drawn = arcs({"attention": (np.ones((3, 3), dtype=bool), 1, False)})
    >>> drawn.axes[0].get_title()
    'attention: 1 layer'
    """
    if not ways:
        raise DataError("there is nothing to draw: no way to mix tokens")
    most = max(layers for _, layers, _ in ways.values())
    figure = picture(PAGE, 0.7 + 0.5 * most)
    for axes, (name, (links, layers, recurrent)) in zip(
        np.atleast_1d(figure.subplots(1, len(ways))), ways.items(), strict=True
    ):
        axes.set_title(f"{literal(name)}: {layers} layer{'s' * (layers > 1)}", fontsize=TITLE)
        reached = _cone(links, layers, recurrent)
        for layer in range(1, layers + 1):
            for end, start in np.argwhere(links).tolist():
                _link(axes, (start, layer - 1), (end, layer), bool(reached[layer][end]))
            for place in range(1, len(links) if recurrent else 0):
                _link(axes, (place - 1, layer), (place, layer), bool(reached[layer][place]))
        for layer, row in enumerate(reached):
            colours = [_COLOURS["self"] if inside else SOFT for inside in row]
            axes.scatter(range(len(row)), [layer] * len(row), s=9, c=colours, zorder=3)
        axes.set(xlim=(-0.5, len(links) - 0.5), ylim=(-0.4, most + 0.4), xticks=[], yticks=[])
        axes.set_frame_on(False)
    return figure


def _cone(links: Bool[np.ndarray, "outputs inputs"], layers: int, recurrent: bool) -> list[Bool[np.ndarray, " tokens"]]:
    """For each layer from the tokens on, what the last output depends on."""
    row = np.arange(len(links)) == len(links) - 1
    rows = [row]
    for _ in range(layers):
        if recurrent:
            rows[0] = np.logical_or.accumulate(row[::-1])[::-1]
            row = rows[0]
        row = links[row].any(0)
        rows.insert(0, row)
    return rows


def _link(axes: Axes, start: tuple[int, int], end: tuple[int, int], inside: bool) -> None:
    axes.plot(
        [start[0], end[0]],
        [start[1], end[1]],
        color=_COLOURS["self"] if inside else SOFT,
        linewidth=0.9 if inside else 0.4,
        alpha=1.0 if inside else 0.5,
        zorder=2 if inside else 1,
    )


def _stage(axes: Axes, stage: dict[str, Any], left: float, wide: float) -> float:
    """Draws a stage with its frame; returns the height of its upper end."""
    bottom, parts = _FLOOR, stage["parts"]
    top = bottom + len(parts) * (_BOX + _GAP) + _GAP
    _frame(axes, left, bottom, wide, top - bottom)
    repeated = f" × {stage['count']}" if stage["count"] > 1 else ""
    _write(axes, left + wide / 2, top + 0.1, stage["name"] + repeated, TITLE, va="bottom")
    for number, part in enumerate(parts):
        low = bottom + _GAP + number * (_BOX + _GAP)
        _box(axes, left + 0.1, low, wide - 0.2, _BOX, _said(part), part["kind"])
        _arrow(axes, (left + wide / 2, low - _GAP), (left + wide / 2, low))
    _arrow(axes, (left + wide / 2, top - _GAP), (left + wide / 2, top))
    return top


def _said(part: dict[str, Any]) -> str:
    if part["kind"] in _NAMES:
        heads = f"{part['heads']} head{'s' if part['heads'] > 1 else ''}"
        return f"{_NAMES[part['kind']]}\n{heads}{', causal' if part['causal'] else ''}"
    if part["kind"] == "convolution":
        return f"{part['layers']} convolutions\n{part['width']:,} channels"
    name = "feed-forward" if part["kind"] == "feed_forward" else "recurrent layer"
    return f"{name}\n{part['width']:,} wide"


def _below(model: nn.Module, name: str, *, first: bool) -> list[str]:
    """What a stage reads, and what stands around each of its parts; tables of no stage are those of the first."""
    stages = {stage["name"] for stage in stages_of(model)}
    inside, tables = list[nn.Module](), list[tuple[int, int]]()
    for path, module in model.named_modules():
        of = stages & set(path.split("."))
        inside += [module] if name in of else []
        if isinstance(module, nn.Embedding | TokenEmbedding) and (name in of or (first and not of)):
            tables.append((module.weight.shape[0], module.weight.shape[1]))
    lines = [f"embedding {rows:,} × {columns:,}" for rows, columns in tables[:2]]
    lines += [f"and {len(tables) - 2} more" for _ in tables[2:3]]
    around = next((module for module in inside if isinstance(module, Residual)), None)
    if around is not None:
        norms = ((around.before, "before"), (around.inside, "behind"), (around.after, "after"))
        words = [f"{type(norm).__name__} {place}" for norm, place in norms if not isinstance(norm, nn.Identity)]
        lines.append("around each part: " + " and ".join(words or ["no norm"]))
        lines.append("and a residual" if around.skip else "and no residual")
    return lines


def _memories(axes: Axes, stages: list[dict[str, Any]], tops: list[float], wide: float) -> None:
    """An arrow from the end of the encoder to each attention over it."""
    sources = [number for number, stage in enumerate(stages) if stage["name"] == "encoder"]
    for number, stage in enumerate(stages):
        for place, part in enumerate(stage["parts"]):
            if part["kind"] != "cross" or not sources or sources[-1] >= number:
                continue
            low = _FLOOR + _GAP + place * (_BOX + _GAP) + _BOX / 2
            right = _MARGIN / 2 + sources[-1] * (wide + _MARGIN) + wide
            left = _MARGIN / 2 + number * (wide + _MARGIN) + 0.1
            middle = right + _MARGIN / 2
            axes.plot(
                [right - wide / 2, right - wide / 2, middle, middle],
                [tops[sources[-1]], *[tops[sources[-1]] + 0.05] * 2, low],
                color=_COLOURS["cross"],
                linewidth=1.0,
            )
            _arrow(axes, (middle, low), (left, low), _COLOURS["cross"])


def _attention(figure: Picture, layer: MultiHeadAttention, height: float, of_another: bool) -> None:
    """The layer from its input upwards: matrices, heads, what each computes, the joined heads, the last matrix."""
    across = figure.get_size_inches()[0]
    axes = figure.place(across - _DETAIL, 0.0, _DETAIL, height)
    axes.set(xlim=(0, _DETAIL), ylim=(0, height))
    axes.axis("off")
    width = (_DETAIL - 0.5) / 3
    centres = [0.25 + (number + 0.5) * width for number in range(3)]
    memory = layer.memory_dim or layer.d_model
    for number, (letter, own) in enumerate(zip("QKV", _sources(layer), strict=True)):
        source, rows = (layer.d_model if letter == "Q" else memory), own[1]
        _write(axes, centres[number], 0.2, "memory" if of_another and letter != "Q" else "input", SMALL)
        _arrow(axes, (centres[number], 0.28), (centres[number], 0.5))
        rank = _rank(layer)
        size = f"{source} × {rows}" if rank is None else f"{source} × {rank} × {rows}"
        _box(axes, centres[number] - width / 2 + 0.04, 0.5, width - 0.08, _BOX, f"$W_{own[0]}$\n{size}", "plain")
        _arrow(axes, (centres[number], 0.5 + _BOX), (centres[number], 1.2))
    count = min(layer.num_heads, _DRAWN)
    for behind in reversed(range(count)):
        words = _computed(layer) if behind == 0 else ""
        _box(axes, 0.3 + 0.07 * behind, 1.2 + 0.07 * behind, _DETAIL - 0.9, 0.75, words, "self")
    top = 1.95 + 0.07 * (count - 1)
    joined = layer.output.in_features if isinstance(layer.output, nn.Linear) else layer.d_model
    how = f"concat {layer.num_heads} × {layer.value_dim}" if layer.combine == "concat" else f"mean of {layer.num_heads}"
    _arrow(axes, (_DETAIL / 2, top), (_DETAIL / 2, top + 0.16))
    _box(axes, 0.5, top + 0.16, _DETAIL - 1.0, 0.3, how, "plain")
    _arrow(axes, (_DETAIL / 2, top + 0.46), (_DETAIL / 2, top + 0.62))
    _box(axes, 0.5, top + 0.62, _DETAIL - 1.0, 0.3, f"$W_O$ {joined} × {layer.d_model}", "plain")
    _write(axes, _DETAIL / 2, top + 1.02, "the first attention", TITLE, va="bottom")


def _is_of_another(stages: list[dict[str, Any]]) -> bool:
    """Whether the first attention has keys of another sequence than its queries."""
    kinds = [part["kind"] for stage in stages for part in stage["parts"]]
    return next((kind for kind in kinds if kind in _NAMES), "self") != "self"


def _sources(layer: MultiHeadAttention) -> list[tuple[str, int]]:
    """Of queries, keys and values: the matrix that makes them, with its columns."""
    query, key, value = layer.widths()
    key_of = ("Q", query) if layer.shared in ("qk", "qkv") else ("K", key)
    return [("Q", query), key_of, key_of if layer.shared in ("kv", "qkv") else ("V", value)]


def _rank(layer: MultiHeadAttention) -> int | None:
    return layer.projection.rank if isinstance(layer.projection, Factored) else None


def _computed(layer: MultiHeadAttention) -> str:
    mechanism, heads = (
        layer.mechanism,
        f"{layer.num_heads} head{'s' if layer.num_heads > 1 else ''} of {layer.head_dim}",
    )
    words = type(mechanism).__name__
    if isinstance(mechanism, Scored):
        words = f"{type(mechanism.score).__name__}, {type(mechanism.normalizer).__name__}"
    shared = f", {layer.num_kv_heads} of keys" if layer.num_kv_heads != layer.num_heads else ""
    position = "" if layer.position is None else f"\n{type(layer.position).__name__} positions"
    return f"{heads}{shared}\n{words}{position}"


def _frame(axes: Axes, left: float, bottom: float, width: float, height: float) -> None:
    patch = FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.08", linewidth=0.8)
    patch.set(facecolor="#f6f7f9", edgecolor=SOFT)
    axes.add_patch(patch)


def _box(axes: Axes, left: float, bottom: float, width: float, height: float, text: str, kind: str) -> None:
    colour = _COLOURS[kind]
    patch = FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.05", linewidth=1.0)
    patch.set(facecolor="white", edgecolor=colour)
    axes.add_patch(patch)
    _write(axes, left + width / 2, bottom + height / 2, text, SMALL, formula="$" in text)


def _write(
    axes: Axes, x: float, y: float, text: str, size: float, *, va: str = "center", formula: bool = False
) -> None:
    words = text if formula else literal("\n".join(shorten(line, 40) for line in text.split("\n")))
    axes.text(x, y, words, ha="center", va=va, fontsize=size, linespacing=1.15)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = SOFT) -> None:
    how = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6}
    axes.annotate("", end, start, arrowprops=how)
