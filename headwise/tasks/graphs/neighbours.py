"""Pictures of a node and those it hears of: each edge as wide and dark as its attention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headwise.explain import maps
from headwise.explain.canvas import PAGE, SMALL, SOFT, TEXT, Picture, picture
from headwise.explain.ramps import class_colours, colormap
from headwise.labels import decimals, literal, shorten, visible

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


_LARGEST = 3.2  # inches of a panel's side
_NAME = 0.2  # inches above it
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
        side = min(_LARGEST, PAGE / across)
        title = f"{explanation.source} → {explanation.output}\nwhat it attends to: line width and number are the weight"
        lead = side + _NAME
        figure = picture(PAGE, lead * down + 0.25 + maps.title_height(title), free=True)
        present = {self.label, *self.labels}
        colours = {kind: colour for kind, colour in class_colours(self.classes).items() if kind in present}
        for number, name in enumerate(names):
            row, column = divmod(number, across)
            axes = figure.place(column * side, 0.25 + (down - 1 - row) * lead, side, side)
            attention = explanation.layers[name]
            self._panel(axes, attention.keys, attention.mean(heads)[0].tolist(), colours)
            axes.set_title(literal(visible(explanation.caption(name, heads))), fontsize=TEXT, pad=2)
        maps.name_page(figure, title)
        marks = [Line2D([], [], marker="o", ls="", color=colour) for colour in colours.values()]
        texts = [literal(shorten(visible(kind), _LEGEND)) for kind in colours]
        how = {"ncols": len(marks), "frameon": False, "fontsize": SMALL, "borderpad": 0, "title_fontsize": SMALL}
        figure.legend(marks, texts, loc="lower left", title="predicted class", alignment="left", **how)
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
            axes.plot([0, x], [0, y], color=ramp(0.3 + 0.7 * share), lw=max(0.3, 4.5 * share), zorder=1)
            colour = colours.get(self.labels[place], "#d0d0d0")
            axes.plot([x], [y], "o", ms=8, color=colour, mec=SOFT, mew=0.5, zorder=3)
            name = literal(shorten(visible(keys[place]), _LONGEST))
            side = "left" if x > 0.05 else "right" if x < -0.05 else "center"
            axes.text(
                1.1 * x, 1.17 * y, f"{name}\n{decimals(weight)}", fontsize=SMALL, ha=side, va="center", linespacing=1.0
            )
        axes.plot([0], [0], "o", ms=14, color=colours[self.label], mec="black", zorder=3)
        own = [weights[place] for place, key in enumerate(keys) if key == self.node]
        name = literal(shorten(visible(self.node), _LONGEST)) + (f"\nitself {decimals(own[0])}" if own else "")
        # between two lines, as straight below as that is
        below = round(len(around) / 2 - 0.5) + 0.5
        angle = math.pi / 2 - 2 * math.pi * below / max(1, len(around))
        x, y = (0.0, -0.38) if len(around) < 2 else (0.38 * math.cos(angle), 0.38 * math.sin(angle))
        box = {"facecolor": "white", "alpha": 0.9, "lw": 0, "pad": 0.5}
        axes.text(x, y, name, fontsize=SMALL, ha="center", va="center", zorder=2, bbox=box)
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.35, 1.35), aspect="equal")
        axes.axis("off")
