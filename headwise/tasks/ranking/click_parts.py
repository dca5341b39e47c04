"""The parts of a log of clicks: files of their own, sessions held out, or what was chosen from a time on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headwise.config import build
from headwise.data.files import resolve
from headwise.data.readers import Pair
from headwise.data.splits import SPLITS, DataSet, Nouns
from headwise.data.suggestions import Suggestion
from headwise.errors import DataError
from headwise.tasks.ranking.choices import Choice, choices
from headwise.tasks.ranking.click_logs import Click, ClicksConfig, scan_clicks

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

    Raises:
        DataError: a file cannot be read as asked, or a part comes out empty.
    """
    by_time = config.split == "time"
    asked = config.model_copy(update={"valid_fraction": 0.0, "test_fraction": 0.0}) if by_time else config
    found = _data_set(asked).read()
    # equal names of sessions in different files are told as clicks of training
    notes = [f"{part}: {note}" for part, note in found.skipped.items()]
    parts: dict[str, list[Choice]] = {}
    begins: dict[str, tuple[float, ...]] = {part: config.begin(part) for part in BEGUN}
    for part, clicks in found:
        made, moments = choices(clicks, config.max_history, config.min_history)
        for choice, moment in zip(made, moments, strict=True):
            own = _part(moment, begins) if by_time and part == "train" else part
            parts.setdefault(own, []).append(choice)
    trained = found.examples["train"]
    if by_time:
        trained = [click for click in trained if _part(click.time, begins) == "train"]
        _refuse_empty(parts, config)
        notes.append(f"split by time: valid from {_shown(config.valid_from)}, test from {_shown(config.test_from)}")
    elif not (config.valid and config.test):
        notes.append("split by session: all choices of a session are in one part")
    return Log({part: parts.get(part, []) for part in SPLITS}, trained, found.digests, notes)


def read_choices(config: ClicksConfig, split: str) -> list[Choice]:
    """The choices of a split; if it has a file of its own, no other file is read. Raises: DataError, as `read_log`."""
    if split == "train" or getattr(config, split) is None:
        return read_log(config).parts[split]
    return choices(_data_set(config).examples(split), config.max_history, config.min_history)[0]


def suggest_for_clicks(data: Mapping[str, Any]) -> Suggestion:
    """A deep interest network for the log of these keys of `[data]`.

    Raises:
        ConfigError: keys that there are not.
        DataError: files that are not there or are wrong.
    """
    config = build(ClicksConfig, data, "data")
    data_set = _data_set(config)
    clicks = data_set.read_file("train")[0]
    fractions = data_set.shares(data, clicks) if config.split == "session" else {}
    values = {
        "data": {**fractions, **data},
        "model": {"pooling": "din", "dropout": 0.1},
        "training": {
            "learning_rate": 2e-3,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_tokens": max(4096, config.max_history),
            "batch_sentences": 256,
            "max_epochs": 4 if len(clicks) > 20_000 else 10,
            "monitor": "auc",
        },
    }
    return Suggestion(values, f"Ranking, fitted to the {len(clicks):,} rows")


def _data_set(config: ClicksConfig) -> DataSet[Click]:
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
