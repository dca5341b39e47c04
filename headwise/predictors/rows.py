"""What was counted of each scored example, from which every score and its interval follow without the model."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from headwise import metrics
from headwise.errors import ConfigError, DataError, unknown
from headwise.files import json_text, replacing
from headwise.predictors.intervals import Resampled

_FORMAT, _VERSION = "headwise rows", 1

Weights = Float[np.ndarray, "rows"]
Column = Sequence[Any]
Statistic = Callable[[Weights], float]


class Formula(NamedTuple):
    """A score: the name of a function in `FORMULAS`, and the columns that it reads."""

    name: str
    columns: tuple[str, ...]


class Scored(NamedTuple):
    """The scores of some examples, and what was counted of each."""

    scores: dict[str, float | str]
    rows: "Rows"


@dataclass(frozen=True)
class Rows:
    """A row for each scored example.

    Args:
        columns: by name a value for each example: a number, a label, or a list of either.
        metrics: how each score follows from the columns; the main one first.
        question: what identifies the examples and what is right of them, equal for models that can be compared.
        noun: what the groups are.
        groups: the group of each example, counted from 0: what belongs together is drawn together. None: each example
            is one.

    >>> rows = Rows({"right": [1, 0, 1, 1]}, {"accuracy": Formula("mean", ("right",))}, "", "texts")
    >>> rows.value("accuracy"), rows.each("accuracy").tolist()
    (0.75, [1.0, 0.0, 1.0, 1.0])
    """

    columns: Mapping[str, Column]
    metrics: Mapping[str, Formula]
    question: str
    noun: str = "examples"
    groups: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def of(self, metric: str | None) -> str:
        """The name of a score; None: the main one. Raises: ConfigError for one that does not follow from the rows."""
        if metric is not None and metric not in self.metrics:
            raise ConfigError(f"{unknown('metric', metric, self.metrics)}; these follow from a row for each example")
        return metric or next(iter(self.metrics))

    def value(self, metric: str) -> float:
        """The score of all examples."""
        return self._statistic(metric)(np.ones(len(self)))

    def resampled(self, metric: str | None = None) -> Resampled:
        """A score as a function of how often each group counts. Raises: ConfigError as `of`."""
        name = self.of(metric)
        statistic, groups = self._statistic(name), self._groups()
        return Resampled(
            name,
            self.noun,
            int(groups.max()) + 1,
            lambda weights: statistic(weights[groups]),
            self.question,
            self.each(name),
        )

    def each(self, metric: str) -> Float[np.ndarray, "groups"] | None:
        """The score of each group, where that of all is their mean; else None."""
        formula, groups = self.metrics[metric], self._groups()
        if formula.name not in _MEANS:
            return None
        factor = _MEANS[formula.name]
        total = np.bincount(groups, self._numbers(formula.columns[0]))
        count = np.bincount(groups, self._numbers(formula.columns[1]) if len(formula.columns) > 1 else None)
        return factor * total / count if count.min() == count.max() > 0 else None

    def _numbers(self, column: str) -> Float[np.ndarray, "rows"]:
        return np.asarray(self.columns[column], dtype=float)

    def _groups(self) -> np.ndarray:
        return np.arange(len(self)) if self.groups is None else np.asarray(self.groups, dtype=int)

    def _statistic(self, metric: str) -> Statistic:
        name, columns = self.metrics[metric]
        return FORMULAS[name](*(self.columns[column] for column in columns))

    def save(self, path: Path) -> None:
        """Writes a line of JSON about all, and one for each example. Raises: OSError."""
        formulas = {name: [formula.name, *formula.columns] for name, formula in self.metrics.items()}
        head = {_FORMAT: _VERSION, "metrics": formulas, "question": self.question, "noun": self.noun}
        lines = [json_text(head)]
        for number, group in enumerate(self._groups().tolist()):
            values = {name: column[number] for name, column in self.columns.items()}
            lines.append(json_text({"id": number, "group": group, **values}))
        with replacing(path) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, path: Path) -> "Rows":
        """What `save` wrote. Raises: DataError for another file, with the line."""
        lines = path.read_text(encoding="utf-8").splitlines()
        head, *rows = (_line(path, number, text) for number, text in enumerate(lines, 1)) if lines else ({},)
        if head.get(_FORMAT) != _VERSION or not rows:
            raise DataError(f"{path}: holds no rows of examples; name a file that `headwise evaluate --rows` wrote")
        try:
            formulas = {name: Formula(formula, tuple(columns)) for name, (formula, *columns) in head["metrics"].items()}
            needed = {column: None for formula in formulas.values() for column in formula.columns}
            columns = {name: [row[name] for row in rows] for name in needed}
            read = cls(columns, formulas, str(head["question"]), str(head["noun"]), [int(row["group"]) for row in rows])
            for name in formulas:
                read.value(name)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise DataError(f"{path}: its rows are damaged ({error!r}); write them again") from None
        return read


def _line(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}:{number}: is no JSON ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}:{number}: must be an object")
    return values


def question_of(*asked: Iterable[object]) -> str:
    """A short text that is the same for the same examples with the same right answers.

    >>> question_of(["a text"], ["good"]) == question_of(["a text"], ["bad"])
    False
    """
    return hashlib.sha256(json.dumps([list(map(str, part)) for part in asked]).encode()).hexdigest()


def label_rows(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], inputs: Sequence[object], noun: str
) -> Rows:
    """Rows of examples that have many labels each: accuracy and macro-F1 over all of them.

    >>> label_rows([["A", "B"], ["A"]], [["A", "A"], ["A"]], ["a b", "c"], "sentences").value("accuracy")
    0.6666666666666666
    """
    pairs = list(zip(predicted, gold, strict=True))
    columns: dict[str, Column] = {
        "predicted": list(map(list, predicted)),
        "gold": list(map(list, gold)),
        "right": [sum(map(str.__eq__, *pair)) for pair in pairs],
        "labels": [len(labels) for labels in gold],
    }
    formulas = {
        "accuracy": Formula("mean", ("right", "labels")),
        "macro_f1": Formula("macro_f1", ("predicted", "gold")),
    }
    return Rows(columns, formulas, question_of(inputs, columns["gold"]), noun)


def _sums(*columns: Column) -> Callable[[Weights], list[float]]:
    tables = [np.asarray(column, dtype=float) for column in columns]
    return lambda weights: [float(weights @ table) for table in tables]


def _ratio(factor: float = 1.0) -> Callable[..., Statistic]:
    def of(total: Column, count: Column | None = None) -> Statistic:
        sums = _sums(total, [1.0] * len(total) if count is None else count)

        def ratio(weights: Weights) -> float:
            above, below = sums(weights)
            return factor * above / below if below else math.nan

        return ratio

    return of


def _root(total: Column, count: Column) -> Statistic:
    mean = _ratio()(total, count)
    return lambda weights: math.sqrt(mean(weights))


def _perplexity(nll: Column, tokens: Column) -> Statistic:
    mean = _ratio()(nll, tokens)

    def perplexity(weights: Weights) -> float:
        loss = mean(weights)
        return math.exp(loss) if loss < math.log(np.finfo(float).max) else math.nan if math.isnan(loss) else math.inf

    return perplexity


def _r2(squares: Column, gold: Column, power: Column, count: Column) -> Statistic:
    sums = _sums(squares, gold, power, count)

    def explained(weights: Weights) -> float:
        wrong, total, powers, number = sums(weights)
        variance = powers - total**2 / number
        # what rounding leaves of equal numbers is no variance
        return 1.0 - wrong / variance if variance > 1e-9 * powers else math.nan

    return explained


def _f1(right: Column, predicted: Column, gold: Column) -> Statistic:
    sums = _sums(right, predicted, gold)
    return lambda weights: metrics.f1(*sums(weights))


def _flat(column: Column) -> tuple[list[Any], np.ndarray]:
    """Values one after another, with the row of each."""
    rows = [value if isinstance(value, list | tuple) else [value] for value in column]
    places = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return [value for row in rows for value in row], places


def _macro_f1(predicted: Column, gold: Column) -> Statistic:
    (outputs, places), (targets, _) = _flat(predicted), _flat(gold)
    number = {name: place for place, name in enumerate(sorted({*outputs, *targets}))}
    output, target = (np.array([number[name] for name in names], dtype=int) for names in (outputs, targets))
    right = output == target

    def macro(weights: Weights) -> float:
        counted, size = weights[places], len(number)
        hits = np.bincount(target[right], counted[right], size)
        return metrics.macro_f1(
            hits.tolist(),
            np.bincount(output, counted, size).tolist(),
            np.bincount(target, counted, size).tolist(),
        )

    return macro


def _tables(*columns: Column) -> Callable[[Weights], list[np.ndarray]]:
    tables = [np.asarray(column, dtype=float) for column in columns]
    return lambda weights: [weights @ table for table in tables]


def _bleu(counts: Column) -> Statistic:
    sums = _tables(counts)
    names = list(metrics.bleu_counts(["a"], ["a"]))
    return lambda weights: metrics.bleu_of(dict(zip(names, sums(weights)[0].tolist(), strict=True)))


def _overlap(right: Column, predicted: Column, gold: Column) -> Statistic:
    sums = _tables(right, predicted, gold)
    return lambda weights: metrics.mean_overlap(*sums(weights))


def _auc(logits: Column, labels: Column) -> Statistic:
    (scores, places), (truth, _) = _flat(logits), _flat(labels)
    area = metrics.weighted_auc(np.array(scores), np.array(truth, dtype=bool))
    return lambda weights: area(weights[places])


def _rank_correlation(first: Column, second: Column) -> Statistic:
    def correlation(weights: Weights) -> float:
        # a rank is that among all that were drawn
        times = weights.astype(int)
        return metrics.spearman(*(np.repeat(np.asarray(column), times).tolist() for column in (first, second)))

    return correlation


# of these the score of all is the mean of those of groups of equal size
_MEANS = {"mean": 1.0, "percent": 100.0}
# each makes a function from the weight of every row to the score
FORMULAS: dict[str, Callable[..., Statistic]] = {
    "mean": _ratio(),
    "percent": _ratio(100.0),
    "bits": _ratio(1.0 / math.log(2)),
    "root": _root,
    "perplexity": _perplexity,
    "r2": _r2,
    "f1": _f1,
    "macro_f1": _macro_f1,
    "bleu": _bleu,
    "overlap": _overlap,
    "auc": _auc,
    "rank_correlation": _rank_correlation,
}
