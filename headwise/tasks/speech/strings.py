"""Recordings that are heard one after another: which they are, and the keys of a recipe that ask for it."""

from dataclasses import dataclass

from pydantic import Field, model_validator

from headwise.data.buckets import permutation
from headwise.tasks.speech.marks import Marking, MarksUnit
from headwise.tasks.speech.recordings import RecordingsConfig


@dataclass(frozen=True)
class Strings:
    """Which recordings are heard one after another: each alone, or several drawn together anew in every pass.

    Args:
        count: recordings that there are.
        span: the fewest and the most of a string; None: every recording alone.
        passes: how often a pass over the data hears each.
    """

    count: int
    span: tuple[int, int] | None = None
    passes: int = 1

    def drawn(self, seed: int, epoch: int) -> list[list[int]]:
        """The strings of a pass, by seed and pass alone.

        >>> [len(string) for string in Strings(10, (2, 3)).drawn(seed=0, epoch=0)]
        [2, 2, 2, 3]
        """
        if self.span is None:
            return [[place] for place in range(self.count)]
        made: list[list[int]] = []
        fewest, most = self.span
        for number in range(self.passes):
            stream = 2 * (epoch * self.passes + number)
            order = permutation(self.count, seed, stream).tolist()
            # sizes in equal shares, in an order of their own
            sizes = [fewest + at % (most - fewest + 1) for at in permutation(self.count, seed, stream + 1).tolist()]
            start = 0
            for size in sizes:
                if start + size > self.count:
                    break
                made.append(order[start : start + size])
                start += size
        return made


class JoinedConfig(RecordingsConfig):
    """Which recordings to read, what belongs to each, and whether several make one."""

    concatenate: tuple[int, int] | None = Field(
        None, description="the fewest and the most recordings of a part that are joined to one, drawn anew every pass"
    )
    held_out_passes: int = Field(1, ge=1, le=100, description="with concatenate: how often each held-out one is joined")

    @model_validator(mode="after")
    def _a_span_rises(self) -> "JoinedConfig":
        if self.concatenate is not None and not 1 <= self.concatenate[0] <= self.concatenate[1]:
            raise ValueError(
                f"concatenate {list(self.concatenate)} must be the fewest, from 1, and the most recordings"
            )
        return self

    def strings(self, count: int, *, held_out: bool) -> Strings:
        """How recordings of a part are joined."""
        return Strings(count, self.concatenate, self.held_out_passes if held_out and self.concatenate else 1)


class MarkedConfig(JoinedConfig):
    """The same with labels in time."""

    marks_key: str | None = Field(
        None,
        description="column of the file of labels in time, as seen from the list; in .npz the array of a label for each"
        " sample or frame; if absent, label_key labels each recording from its beginning to its end",
    )
    marks_unit: MarksUnit = Field(
        "seconds", description="of the times in label files: seconds, samples of the recording, or htk (100 ns)"
    )
    rest: str | None = Field(
        None, description="label of frames that no label covers; if absent, these are neither learned nor scored"
    )

    def marking(self) -> Marking | None:
        return Marking(self.marks_key, self.marks_unit, self.rest)
