"""Words as points of a plane: the two directions in which their vectors differ most, for pictures and tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from headwise.errors import ConfigError
from headwise.explain.alignment import bar
from headwise.explain.values import Drawing, require_formats
from headwise.labels import decimals, literal, padded, percent, shorten, visible


@dataclass(frozen=True)
class Projection:
    """Words of a query with their neighbours.

    Args:
        source: the query.
        names: the words that are points, those of the query first.
        vectors: one for each, of length 1.
        terms: the words of the query, each with 1 or -1.
        groups: of each word of the query its neighbours and their cosines.
        answer: the words nearest to the query; empty where it is a single word.
    """

    source: str
    names: list[str]
    vectors: Float[np.ndarray, "names dim"]
    terms: Sequence[tuple[int, str]]
    groups: Mapping[str, Mapping[str, float]]
    answer: Mapping[str, float]

    @property
    def output(self) -> str:
        return next(iter(self.answer or next(iter(self.groups.values()))), "")

    def points(self) -> tuple[Float[np.ndarray, "names 2"], float]:
        """The words in the plane of the first two principal components, and the share of the variance it shows."""
        return plane(self.vectors)

    def arrows(self) -> list[tuple[str, str]]:
        """For a - b + c, from b to a and from c to the answer, which lie alike where the analogy holds."""
        plus = [word for sign, word in self.terms if sign > 0]
        minus = [word for sign, word in self.terms if sign < 0]
        if len(plus) != 2 or len(minus) != 1 or not self.answer:
            return []
        return [(minus[0], plus[0]), (plus[1], self.output)]

    def lines(self, layer: str | int | None = None, heads: object = None, *, top: int = 3) -> list[str]:
        """The neighbours of the query, and of each of its words, with their cosines."""
        _refuse(layer, heads)
        shown = ({self.source: self.answer} if self.answer else {}) | dict(self.groups)
        width = max(len(visible(word)) for word in shown)
        lines = [f"nearest by cosine; the picture shows {percent(self.points()[1])} of the variance of its words"]
        for word, near in shown.items():
            cells = [f"{visible(name)} {decimals(cosine)} {bar(cosine)}" for name, cosine in list(near.items())[:top]]
            lines.append(f"{padded(visible(word), width)}  {'  '.join(cells)}".rstrip())
        return lines

    def page(self) -> Drawing:
        # matplotlib is imported where something is drawn
        from headwise.tasks.vectors.projection_page import projection_page

        points, share = self.points()
        title = literal(shorten(visible(f"{self.source} → {self.output}"), 80))
        return projection_page(
            self.names,
            points,
            groups={word: list(near) for word, near in self.groups.items()},
            answer=list(self.answer),
            arrows=self.arrows(),
            title=f"{title}\ntwo principal components: {percent(share)} of the variance",
        )

    def write(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] = ("png",),
        layer: str | int | None = None,
        heads: object = None,
        *,
        every: bool = False,
    ) -> list[Path]:
        """Saves the picture as `words.png`, in every format; returns the paths. There is only this one.

        Raises: ConfigError for a format that cannot be drawn, a layer or a head.
        """
        from headwise.explain.canvas import save

        _refuse(layer, heads)
        require_formats(formats)
        drawn = self.page()
        return [save(drawn, Path(folder) / f"words.{kind}") for kind in formats]


def plane(vectors: Float[np.ndarray, "points dim"]) -> tuple[Float[np.ndarray, "points 2"], float]:
    """Points on the first two principal components, and the share of the variance that these have.

    By singular values; each axis points to where its farthest point lies, so that the picture is always the same one.

    >>> points, share = plane(np.array([[3.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]]))
    >>> points.round(2).tolist()[0][0], round(share, 3)
    (2.67, 1.0)
    """
    centred = vectors - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    count = min(2, len(sizes))
    points[:, :count] = left[:, :count] * sizes[:count]
    farthest = points[np.abs(points).argmax(0), [0, 1]]
    total = float((sizes**2).sum())
    return points * np.where(farthest < 0, -1.0, 1.0), float((sizes[:2] ** 2).sum()) / total if total else 1.0


def _refuse(layer: object, heads: object) -> None:
    if layer is not None or heads is not None:
        raise ConfigError("word vectors have no layers and no heads; leave --layer and --heads out")
