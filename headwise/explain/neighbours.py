"""Pictures of a node and those it hears of: each edge as wide and dark as its attention."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headwise.explain.canvas import Picture, picture
from headwise.explain.ramps import colormap
from headwise.labels import literal, shorten, visible

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads

# colours that are told apart with any kind of sight (Okabe and Ito 2008); the last is that of all further labels
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
_PANEL = 4.6  # inches of a side
_LONGEST = 12  # columns of a node's name
_LEGEND = 24  # columns of a label
_ACROSS = 3  # panels side by side


@dataclass(frozen=True)
class Neighbourhood:
    """Draws an explanation whose only query is a node: a panel for each layer, its keys around it.

    Args:
        node: the name of the query.
        label: what it was found to be.
        labels: of each key; empty for what is no single node.
    """

    node: str
    label: str
    labels: list[str]

    def __call__(self, found: "Explanation", layer: str | int | None, heads: "Heads") -> Picture:
        """The picture of one layer, or of every layer if None. Raises: ConfigError as `Explanation.save`."""
        names = list(found.layers) if layer is None else [found.layer_name(layer)]
        across = min(_ACROSS, len(names))
        down = -(-len(names) // across)
        figure = picture(_PANEL * across, (_PANEL + 0.3) * down + 0.9)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        kinds = list(dict.fromkeys([self.label, *filter(None, self.labels)]))
        colours = {kind: _COLOURS[min(place, len(_COLOURS) - 1)] for place, kind in enumerate(kinds)}
        for axes, name in zip(grid, names, strict=False):
            one = found.layers[name]
            self._panel(axes, one.keys, one.mean(heads)[0].tolist(), colours)
            axes.set_title(literal(visible(found.caption(name, heads))), fontsize=9)
        for axes in grid[len(names) :]:
            axes.remove()
        title = shorten(visible(f"{found.source} → {found.output}"), 80)
        figure.suptitle(
            literal(f"{title}\nwhom it attends to: width and number are the weight, colour the label found"),
            fontsize=10,
        )
        marks = [Line2D([], [], marker="o", ls="", color=colours[kind]) for kind in kinds[: len(_COLOURS)]]
        texts = [literal(shorten(visible(kind), _LEGEND)) for kind in kinds[: len(_COLOURS)]]
        figure.legend(marks, texts, loc="outside lower center", ncols=min(4, len(kinds)), frameon=False, fontsize=8)
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
            axes.text(1.1 * x, 1.13 * y, f"{name}\n{weight:.2f}", fontsize=7, ha=side, va="center", linespacing=0.95)
        axes.plot([0], [0], "o", ms=16, color=colours[self.label], mec="black", zorder=3)
        own = [weights[place] for place, key in enumerate(keys) if key == self.node]
        name = literal(shorten(visible(self.node), _LONGEST)) + (f"\nitself {own[0]:.2f}" if own else "")
        box = {"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 0.6}
        axes.text(0, -0.16, name, fontsize=7.5, ha="center", va="top", zorder=4, bbox=box)
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal")
        axes.axis("off")
