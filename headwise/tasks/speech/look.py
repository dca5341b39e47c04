"""Pictures of an explanation whose keys are places in time: its weights below the spectrogram."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from headwise.explain.places import OnSound
from headwise.explain.values import Drawing
from headwise.tasks.speech.marks import Mark

if TYPE_CHECKING:
    from headwise.explain.explanation import Explanation, Heads


# of many labels those are drawn that come nearest to being said
_DRAWN = 20


class Track(NamedTuple):
    """What is said of every frame.

    Args:
        marks: the labels in time.
        names: of all labels.
        odds: the probability of each label at each frame.
    """

    marks: Sequence[Mark]
    names: Sequence[str]
    odds: Float[np.ndarray, "labels frames"]

    def likely(self) -> tuple[Float[np.ndarray, "labels frames"], list[str]]:
        """The probabilities of the labels that come nearest to being said, in their order, and their names."""
        chosen = np.sort(np.argsort(-self.odds.max(axis=1), kind="stable")[:_DRAWN])
        return self.odds[chosen], [self.names[at] for at in chosen.tolist()]


@dataclass(frozen=True)
class SoundMap:
    """Draws an explanation over the places of a recording.

    Args:
        sound: the recording.
        track: labels of frames, which are drawn between the two; their probabilities stand for weights of tags.
    """

    sound: OnSound
    track: Track | None = None

    def __call__(self, explanation: "Explanation", layer: str | int | None, heads: "Heads") -> Drawing:
        """The spectrogram, and below it each query's weights over time; where frames look at frames, their mean.

        Raises: ConfigError as `Explanation.save`.
        """
        # matplotlib is imported where something is drawn
        from headwise.tasks.speech.pages import sound_page

        name = explanation.pictured(layer)
        chosen = explanation.layers[name]
        weights, labels = chosen.mean(heads), chosen.queries
        if chosen.kind == "self":
            weights, labels = weights.mean(axis=0, keepdims=True), ["mean"]
        if chosen.kind == "tags" and self.track is not None:
            weights, labels = self.track.likely()
        title = f"{explanation.source} → {explanation.output}\n{explanation.caption(name, heads)}"
        marks = () if self.track is None else self.track.marks
        return sound_page(self.sound.spectrogram, self.sound.seconds, weights, labels, title=title, marks=marks)
