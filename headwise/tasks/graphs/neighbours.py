"""Pictures of a node and those it hears of: each edge as wide and dark as its attention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headwise.explain.canvas import Picture, picture
from headwise.explain.ramps import class_colours, colormap
from headwise.labels import decimals, literal, shorten, visible

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


_PANEL = 4.6  # inches of a side
_LONGEST = 12  # columns of a node's name
_LEGEND = 24  # columns of a label
_ACROSS = 3  # panels side by side


@dataclass(frozen=True)
class Neighbourhood:
    """Draws an explanation whose only query is a node: a panel for each layer, its keys around it.

    Args:
        label: what it was found to be.
        labels: of each key; empty for what is no single node.
        classes: all labels that there are, in the order of the model.
    """

    node: str
    label: str
    labels: list[str]
    classes: Sequence[str]

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Picture:
        """The picture of one layer, or of every layer if None. Raises: ConfigError as `Explanation.save`."""
        names = list(explanation.layers) if layer is None else [explanation.layer_name(layer)]
        across = min(_ACROSS, len(names))
        down = -(-len(names) // across)
        figure = picture(_PANEL * across, (_PANEL + 0.3) * down + 0.9)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        present = {self.label, *self.labels}
        colours = {kind: colour for kind, colour in class_colours(self.classes).items() if kind in present}
        for axes, name in zip(grid, names, strict=False):
            attention = explanation.layers[name]
            self._panel(axes, attention.keys, attention.mean(heads)[0].tolist(), colours)
            axes.set_title(literal(visible(explanation.caption(name, heads))), fontsize=9)
        for axes in grid[len(names) :]:
            axes.remove()
        title = shorten(visible(f"{explanation.source} → {explanation.output}"), 80)
        figure.suptitle(
            literal(f"{title}\nwhom it attends to: width and number are the weight, colour the label found"),
            fontsize=10,
        )
        marks = [Line2D([], [], marker="o", ls="", color=colour) for colour in colours.values()]
        texts = [literal(shorten(visible(kind), _LEGEND)) for kind in colours]
        figure.legend(marks, texts, loc="outside lower center", ncols=min(4, len(marks)), frameon=False, fontsize=8)
        return figure

    def _panel(self, axes: Axes, keys: list[str], weights: list[float], colours: dict[str, str]) -> None:
        # many others together shall not make single nodes thin
        most = max([weight for weight, label in zip(weights, self.labels, strict=True) if label], default=1.0) or 1.0
        ramp = colormap("ink light")
        around = [place for place, key in enumerate(keys) if key != self.node]
        # those of one label stand together
        around.sort(key=lambda place: (self.labels[place] == "", list(colours).index(self.labels[place] or self.label)))
        for turn, place in enumerate(around):
            angle = math.pi / 2 - 2 * math.pi * turn / len(around)
            x, y, weight = math.cos(angle), math.sin(angle), weights[place]
            share = min(1.0, weight / most)
            axes.plot([0, x], [0, y], color=ramp(0.15 + 0.85 * share), lw=0.4 + 4 * share, zorder=1)
            colour = colours.get(self.labels[place], "#d0d0d0")
            axes.plot([x], [y], "o", ms=9, color=colour, mec="white", zorder=3)
            name = literal(shorten(visible(keys[place]), _LONGEST))
            side = "left" if x > 0.05 else "right" if x < -0.05 else "center"
            axes.text(
                1.1 * x, 1.13 * y, f"{name}\n{decimals(weight)}", fontsize=7, ha=side, va="center", linespacing=0.95
            )
        axes.plot([0], [0], "o", ms=16, color=colours[self.label], mec="black", zorder=3)
        own = [weights[place] for place, key in enumerate(keys) if key == self.node]
        name = literal(shorten(visible(self.node), _LONGEST)) + (f"\nitself {decimals(own[0])}" if own else "")
        box = {"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 0.6}
        axes.text(0, -0.16, name, fontsize=7.5, ha="center", va="top", zorder=4, bbox=box)
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal")
        axes.axis("off")
