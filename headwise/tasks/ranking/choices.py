"""What was chosen after which history: from logs and lines, by split; the catalogue of items, negatives, batches."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from headwise.config import Config
from headwise.data.bad_lines import BadLine
from headwise.data.batches import OnDevice, Ragged, padded
from headwise.data.files import MAX_LINE_BYTES, read_lines, resolve
from headwise.data.jsonl import kind_name, parse_object, texts
from headwise.data.readers import Pair
from headwise.data.splits import SPLITS, DataSet, Nouns
from headwise.errors import DataError, ShapeError, listing, unknown
from headwise.tasks.ranking.click_logs import Click, ClicksConfig, scan_clicks

# what training has not seen, and what fills the places beyond a history
NOTHING = 0
# time gaps from 2**30 on are alike
GAPS = 32


class NegativesConfig(Config):
    """Items that nobody chose, which are ranked against those that were chosen; for logs of clicks alone."""

    train: int = Field(4, ge=1, le=2**16, description="for each choice to learn from, drawn anew in each pass")
    held_out: int = Field(20, ge=1, le=2**16, description="for each choice that is scored, always the same ones")
    by: Literal["uniform", "popularity"] = Field("uniform", description="all items alike, or as training chooses them")
    seed: int = Field(0, ge=0, le=2**31, description="another seed draws others")


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody had chosen before, and what there was to choose.

    Args:
        history: items by name, the latest one last.
        times: when each was chosen, in the unit of `data.order`.
        candidates: items to rank; in a log of clicks the one that was chosen.
        labels: which candidates were chosen; empty where that is not known.
        time: when, in the same unit.
        user: a category for each of `data.user_features`; an empty text is unknown.
        line: of the candidate in its file, from 1.
    """

    history: tuple[str, ...]
    candidates: tuple[str, ...]
    labels: tuple[bool, ...] = ()
    times: tuple[float, ...] = ()
    time: float = 0.0
    user: tuple[str, ...] = ()
    session: str = ""
    line: int = 0


def choices(
    clicks: Iterable[Click], max_history: int, min_history: int
) -> tuple[list[Choice], list[tuple[float, ...]]]:
    """Every row of a log after what its session had chosen before it, and the time of each for a split.

    Sessions in the order of their first rows; a history never has what comes after the candidate.

    >>> log = [Click("s", item, (), (), float(place), (), True, place) for place, item in enumerate("abc", 1)]
    >>> [(choice.history, choice.candidates) for choice in choices(log, 1, 1)[0]]
    [(('a',), ('b',)), (('b',), ('c',))]
    """
    sessions: dict[str, list[Click]] = {}
    for click in clicks:
        sessions.setdefault(click.session, []).append(click)
    examples, moments = [], []
    for name, rows in sessions.items():
        before: list[Click] = []
        for click in sorted(rows, key=lambda row: row.order):
            if len(before) >= min_history:
                history = before[-max_history:]
                items, times = tuple(row.item for row in history), tuple(row.order for row in history)
                choice = Choice(items, (click.item,), (click.chosen,), times, click.order, click.user, name, click.line)
                examples.append(choice)
                moments.append(click.time)
            if click.chosen:
                before.append(click)
    return examples, moments


class Catalogue:
    """The items of training with their features, and the users' categories, by number; 0 is what training lacks.

    An item has the features that most of its rows have, so that items nobody clicked on there have them too.

    Args:
        items: how often each was chosen, and its categories, by name.
        features, users: the names of the columns.
        values: the categories of each column of items, then of users, in alphabetical order.

    >>> made = Catalogue.of([Click("s", "shoe", ("red",), (), 0.0, (), True, 1)], ("colour",), ())
    >>> made.number("shoe"), made.number("hat"), made.table().tolist()
    (1, 0, [[0], [1]])
    """

    def __init__(
        self,
        items: Mapping[str, tuple[int, Sequence[str]]],
        features: Sequence[str],
        users: Sequence[str],
        values: Sequence[Sequence[str]],
    ):
        self.items, self.features, self.users, self.values = dict(items), tuple(features), tuple(users), list(values)
        self.names = list(self.items)
        self._numbers = {name: place for place, name in enumerate(self.names, 1)}
        self._values = [{name: place for place, name in enumerate(column, 1)} for column in values]

    @classmethod
    def of(cls, clicks: Sequence[Click], features: Sequence[str], users: Sequence[str]) -> "Catalogue":
        """What the clicks of training have. Raises: DataError for fewer than two items to tell apart."""
        chosen: Counter[str] = Counter(click.item for click in clicks if click.chosen)
        rows_by_item: dict[str, Counter[tuple[str, ...]]] = {}
        for click in clicks:
            rows_by_item.setdefault(click.item, Counter())[click.features] += 1
        items = {
            name: (chosen[name], min(counts, key=lambda row: (-counts[row], row)))
            for name, counts in sorted(rows_by_item.items())
        }
        columns = [sorted({row[place] for _, row in items.values()}) for place in range(len(features))]
        columns += [sorted({click.user[place] for click in clicks}) for place in range(len(users))]
        return cls(items, features, users, columns)

    def number(self, name: str) -> int:
        """The number of an item, 0 of one that training lacks."""
        return self._numbers.get(name, NOTHING)

    def table(self) -> Int[np.ndarray, "items features"]:
        """The number of each feature of each item, zeros in the row of the unknown item."""
        rows = [[self._values[place][name] for place, name in enumerate(row)] for _, row in self.items.values()]
        return np.array([[NOTHING] * len(self.features), *rows], np.int64).reshape(len(self.items) + 1, -1)

    def user(self, values: Sequence[str]) -> list[int]:
        """The numbers of a user's categories; of nobody all are unknown."""
        columns = self._values[len(self.features) :]
        return [
            numbers.get(name, NOTHING) for numbers, name in zip(columns, values or [""] * len(columns), strict=True)
        ]

    def sizes(self, item: str) -> dict[str, int]:
        """How many categories each column has, the unknown one among them; `item` is the column of the items."""
        columns = zip((*self.features, *self.users), self.values, strict=True)
        return {item: len(self.items) + 1} | {name: len(categories) + 1 for name, categories in columns}

    def counts(self) -> Int[np.ndarray, "items"]:
        return np.array([count for count, _ in self.items.values()], np.int64)


class Negatives:
    """Draws items other than those that were chosen, with replacement.

    Args:
        counts: how often training chose each item, from number 1 on.
    """

    def __init__(self, counts: Int[np.ndarray, "items"], config: NegativesConfig):
        weights = counts if config.by == "popularity" else np.ones_like(counts)
        if int((weights > 0).sum()) < 2:
            raise DataError("negatives are drawn from the items of training, which has fewer than two of them")
        self.ends, self.config = np.cumsum(weights), config

    def draw(self, chosen: Int[np.ndarray, "choices"], count: int, stream: int) -> Int[np.ndarray, "choices count"]:
        """Items for each choice; those of the first choices do not depend on how many there are.

        Args:
            chosen: the number of the item that each is to differ from.
            stream: another one gives others.

        >>> Negatives(np.array([3, 1, 2]), NegativesConfig()).draw(np.array([1, 2, 0]), 4, 0).shape
        (3, 4)
        """
        # the ends of what is left when the chosen item is taken out: a draw beyond its begin lies behind it
        bounds = np.concatenate(([0, 0], self.ends))
        begin, width = bounds[chosen], bounds[chosen + 1] - bounds[chosen]
        share = np.random.default_rng((self.config.seed, stream)).random((len(chosen), count))
        places = (share * (self.ends[-1] - width)[:, None]).astype(np.int64)
        places += np.where(places >= begin[:, None], width[:, None], 0)
        return np.searchsorted(self.ends, places, side="right") + 1


@dataclass(frozen=True, slots=True)
class ChoiceBatch(OnDevice):
    """Histories side by side, at least one place wide, and the candidates of each.

    Args:
        history: numbers of items, the latest one at place `lens - 1`.
        gaps: 0 for no time, else 1 + log2 of the units from each to the choice, rounded down.
        labels: 1 for what was chosen.
    """

    history: Int[Tensor, "batch places"]
    gaps: Int[Tensor, "batch places"]
    lens: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch candidates"]
    labels: Float[Tensor, "batch candidates"]
    users: Int[Tensor, "batch columns"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Candidates: each is said yes or no to."""
        return self.candidates.numel()

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What a model reads: history, gaps, lens, candidates, users."""
        return self.history, self.gaps, self.lens, self.candidates, self.users


class ChoiceTable:
    """Choices as arrays, made once, so that a batch needs no Python per item.

    Args:
        negatives: draws candidates beside the one of each choice; None: the candidates of a choice are all.
        anew: others in each pass.
    """

    def __init__(
        self,
        examples: Sequence[Choice],
        catalogue: Catalogue,
        max_history: int,
        negatives: Negatives | None = None,
        count: int = 0,
        *,
        anew: bool = False,
    ):
        latest = [choice.history[-max_history:] for choice in examples]
        self.history = Ragged.of([[catalogue.number(name) for name in names] for names in latest])
        self.gaps = Ragged.of([_gaps(choice, len(names)) for choice, names in zip(examples, latest, strict=True)])
        self.users = np.array([catalogue.user(choice.user) for choice in examples], np.int64).reshape(len(examples), -1)
        rows = [[catalogue.number(name) for name in choice.candidates] for choice in examples]
        if len({len(row) for row in rows}) > 1:
            raise ShapeError("choices of one table have the same number of candidates")
        self.candidates = np.array(rows, np.int64).reshape(len(examples), -1)
        labels = [choice.labels or (False,) * len(choice.candidates) for choice in examples]
        self.labels = np.array(labels, np.float32).reshape(self.candidates.shape)
        self.negatives, self.count, self.anew = negatives, count, anew
        self._drawn: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.history)

    def lengths(self) -> Int[np.ndarray, "choices 1"]:
        """Places of each in a batch; an empty history takes one."""
        return np.maximum(self.history.lengths, 1)[:, None]

    def batch(self, indices: Sequence[int], epoch: int = 0) -> ChoiceBatch:
        """These choices as a batch, with the negatives of a pass."""
        chosen = np.asarray(indices, np.int64)
        histories = self.history.take(chosen)
        history, gaps = padded(histories, NOTHING), padded(self.gaps.take(chosen), NOTHING)
        if not history.shape[1]:
            history = gaps = history.new_zeros((len(chosen), 1))
        candidates, labels = self.candidates[chosen], self.labels[chosen]
        if self.negatives is not None:
            others = self._others(epoch)[chosen]
            candidates = np.concatenate((candidates, others), 1)
            labels = np.concatenate((labels, np.zeros(others.shape, np.float32)), 1)
        parts: dict[str, Any] = {"candidates": candidates, "labels": labels, "users": self.users[chosen]}
        parts = {name: torch.from_numpy(value) for name, value in parts.items()}
        return ChoiceBatch(history, gaps, torch.from_numpy(histories.lengths), **parts, indices=list(indices))

    def _others(self, epoch: int) -> np.ndarray:
        stream = epoch + 1 if self.anew else 0
        if self._drawn is None or self._drawn[0] != stream:
            assert self.negatives is not None
            self._drawn = stream, self.negatives.draw(self.candidates[:, 0], self.count, stream)
        return self._drawn[1]


def _gaps(choice: Choice, length: int) -> list[int]:
    """The class of the time between each item of a history and the choice; earlier ones than zero are zero."""
    if not choice.times:
        return [NOTHING] * length
    gaps = np.maximum(choice.time - np.array(choice.times[len(choice.times) - length :]), 0.0)
    return np.minimum(1 + np.floor(np.log2(1 + gaps)), GAPS - 1).astype(np.int64).tolist()


_FIELDS = ("history", "candidates", "times", "time", "user")


def choice_of(text: str, users: Sequence[str]) -> Choice:
    """The choice of a line.

    A line that begins with a brace is an object with `history` (names of items, the latest last) and, where they are
    wanted, `candidates` (all items without them), `times` of the history and `time` of the choice (numbers in the unit
    of `data.order`; the latest of the history without it), and `user` (a category by column). Any other line is a
    history.

    Raises: DataError: what is wrong, without its place.

    >>> choice_of("A13 B4", ()).history, choice_of('{"history": [], "candidates": ["A 1"]}', ()).candidates
    (('A13', 'B4'), ('A 1',))
    """
    if not text.lstrip().startswith("{"):
        return Choice(tuple(text.split()), ())
    record = parse_object(text)
    if strange := [key for key in record if key not in _FIELDS]:
        raise DataError(unknown("field", strange[0], _FIELDS))
    if "history" not in record:
        raise DataError("missing field 'history': the items chosen before, the latest last; [] for none")
    history = tuple(texts(record, "history"))
    candidates = tuple(texts(record, "candidates")) if "candidates" in record else ()
    if "candidates" in record and not candidates:
        raise DataError("the field 'candidates' is empty; leave it out to rank all items")
    times = _times(record.get("times", []))
    if "times" in record and len(times) != len(history):
        raise DataError(f"'times' has {len(times)} numbers, 'history' {len(history)} items; give one for each")
    time = _time(record["time"], "time") if "time" in record else max(times, default=0.0)
    return Choice(history, candidates, times=times, time=time, user=_user(record.get("user", {}), users))


def read_choices(
    path: str | os.PathLike[str], users: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Choice]:
    """The choices of a file, one a line; a blank line is an empty history.

    Raises: DataError: `file:line: ...`, what is wrong there.
    """
    for number, text in read_lines(path, max_line_bytes=max_line_bytes):
        try:
            yield choice_of(text, users)
        except DataError as error:
            raise BadLine(os.fspath(path), number, "fields", error.message) from None


def _times(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise DataError(f"the field 'times' must be an array of numbers, got {kind_name(values)}")
    return tuple(_time(value, "times") for value in values)


def _time(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise DataError(f"the field '{key}' must hold numbers, got {str(value)[:20] if value else kind_name(value)}")
    return float(value)


def _user(values: Any, users: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(values, dict):
        raise DataError(f"the field 'user' must be an object, got {kind_name(values)}")
    for key, value in values.items():
        if key not in users:
            allowed = listing(users) or "nothing"
            raise DataError(f"the field 'user' has '{key[:40]}', but the model knows of a user: {allowed}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise DataError(f"'{key}' of 'user' must be text or a whole number, got {kind_name(value)}")
    return tuple(str(values.get(key, "")) for key in users)


# the later one first
BEGUN: tuple[Literal["test"], Literal["valid"]] = ("test", "valid")


@dataclass(frozen=True)
class Log:
    """The choices of each part, the rows that training may know, the SHA-256 of the files, what to tell."""

    parts: dict[str, list[Choice]]
    trained: list[Click]
    digests: Mapping[str, str]
    notes: list[str]


def read_log(config: ClicksConfig) -> Log:
    """Reads the files of a recipe.

    A split by session puts all choices of a session into one part. A split by time puts each choice into the part of
    its time, after everything its session chose before; what training may know are the rows before `valid_from` and
    `test_from`.

    Raises: DataError: a file cannot be read as asked, or a part comes out empty.
    """
    by_time = config.split == "time"
    file_config = config.model_copy(update={"valid_fraction": 0.0, "test_fraction": 0.0}) if by_time else config
    splits = click_set(file_config).read()
    # equal names of sessions in different files are told as clicks of training
    notes = [f"{part}: {note}" for part, note in splits.skipped.items()]
    parts: dict[str, list[Choice]] = {}
    begins: dict[str, tuple[float, ...]] = {part: config.begin(part) for part in BEGUN}
    for part, clicks in splits:
        examples, moments = choices(clicks, config.max_history, config.min_history)
        for choice, moment in zip(examples, moments, strict=True):
            own = _part(moment, begins) if by_time and part == "train" else part
            parts.setdefault(own, []).append(choice)
    trained = splits.examples["train"]
    if by_time:
        trained = [click for click in trained if _part(click.time, begins) == "train"]
        _refuse_empty(parts, config)
        notes.append(f"split by time: valid from {_shown(config.valid_from)}, test from {_shown(config.test_from)}")
    elif not (config.valid and config.test):
        notes.append("split by session: all choices of a session are in one part")
    return Log({part: parts.get(part, []) for part in SPLITS}, trained, splits.digests, notes)


def choices_of(config: ClicksConfig, split: str) -> list[Choice]:
    """The choices of a split; if it has a file of its own, no other file is read. Raises: DataError, as `read_log`."""
    if split == "train" or getattr(config, split) is None:
        return read_log(config).parts[split]
    return choices(click_set(config).examples(split), config.max_history, config.min_history)[0]


def click_set(config: ClicksConfig) -> DataSet[Click]:
    """The rows of a log by split."""
    return DataSet(
        config,
        lambda split, _: scan_clicks(resolve(getattr(config, split)), config),
        lambda click: Pair(click.session, click.item, click.line),
        Nouns("clicks", "item"),
        limit=config.limit,
        report=None,
    )


def _part(moment: tuple[float, ...], begins: Mapping[str, tuple[float, ...]]) -> str:
    # a time in fewer columns is the begin of all that start with it
    return next((part for part, begin in begins.items() if begin and moment[: len(begin)] >= begin), "train")


def _refuse_empty(parts: Mapping[str, list[Choice]], config: ClicksConfig) -> None:
    for part, begin in (("train", ()), ("valid", config.valid_from), ("test", config.test_from)):
        if not parts.get(part) and (begin or part == "train"):
            raise DataError(
                f"{config.train}: the split by time leaves no choices for the {part} part; change data.valid_from and"
                " data.test_from"
            )


def _shown(begin: tuple[float | str, ...]) -> str:
    return " ".join(f"{value:g}" if isinstance(value, float) else value for value in begin) or "never"
