"""A trained ranker, and what it is scored by."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.data.buckets import token_batches
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.labels import decimals, probability, visible
from headwise.metrics import auc
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.evaluating import evaluating
from headwise.predictors.intervals import interval, interval_text
from headwise.predictors.predictor import Form, Predictor, Unknown
from headwise.predictors.rows import Column, Formula, Rows, Scored, question_of
from headwise.processes import divided
from headwise.tasks.ranking.choices import Catalogue, Choice, ChoiceTable, Negatives, choice_of, read_choices
from headwise.tasks.ranking.click_logs import ClicksConfig
from headwise.tasks.ranking.model import InterestNetwork


def grouped_auc(
    scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"], groups: Int[np.ndarray, "rows"]
) -> float:
    """The mean of the areas within the groups, each weighing its rows; groups without both labels are left out.

    Source: Zhou et al. 2018, arXiv:1706.06978, section 6.3.

    >>> grouped_auc(np.array([1.0, 2.0, 5.0, 4.0]), np.array([False, True, False, True]), np.array([0, 0, 1, 1]))
    0.5
    """
    order = np.argsort(groups, kind="stable")
    areas, sizes = [], []
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        area = auc(scores[rows], labels[rows])
        if area == area:
            areas.append(area)
            sizes.append(len(rows))
    return float(np.average(areas, weights=sizes)) if areas else float("nan")


def hit_rate(scores: Float[np.ndarray, "choices candidates"], count: int) -> float:
    """The share of choices whose first candidate is among the `count` best; of equal scores any may come first.

    >>> hit_rate(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), 2)
    0.75
    """
    first = scores[:, :1]
    above, equal = (scores > first).sum(1), (scores == first).sum(1)
    return float(np.clip((count - above) / equal, 0.0, 1.0).mean()) if len(scores) else float("nan")


def log_loss(logits: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"]) -> float:
    """Mean cross entropy of yes and no, in nats.

    >>> round(log_loss(np.zeros(2), np.array([True, False])), 4)
    0.6931
    """
    return float(np.logaddexp(0.0, np.where(labels, -logits, logits)).mean())


# pairs of a place of a history and a candidate that are computed together
_PAIRS = 60_000
# candidates of a choice that are ranked together
_PIECE = 2_000
# items that are named where nobody says how many
_NAMED = 10
# candidates whose weights are shown
_SHOWN = 6
# the weight of popularity where co-occurrence does not decide
_TIE = 1e-6
# numbers of a dense table that are held at once
_CELLS = 4_000_000
HITS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The probability of each candidate that it is chosen, the likeliest first.

    Beside sampled negatives it is the probability among one choice and as many negatives as in training.
    """

    probabilities: dict[str, float]


class Ranker(Predictor[Choice, Ranking, Choice]):
    """A model with the catalogue of its items.

    Args:
        negatives: what choices are scored against; None: candidates of the log itself have labels.
    """

    option = "n_best"

    def __init__(self, model: InterestNetwork, catalogue: Catalogue, negatives: Negatives | None, data: ClicksConfig):
        self.model, self.catalogue, self.negatives, self.data = model, catalogue, negatives, data

    def parse(self, text: str) -> Choice:
        return choice_of(text, self.catalogue.users)

    def read(self, path: Path) -> Iterator[Choice]:
        return read_choices(path, self.catalogue.users, self.data.max_line_bytes)

    def predict(self, items: Sequence[Choice | str] | Choice | str, options: Any = None) -> list[Ranking]:
        """The candidates of each choice, all items where it names none; `options` is how many are named, None: 10.

        Without `options` every candidate that a choice names is in its ranking.
        """
        choices = self.inputs(items)
        everything = tuple(name for name, (count, _) in self.catalogue.items.items() if count)
        candidates = [choice.candidates or everything for choice in choices]
        answers = []
        for choice, names, logits in zip(choices, candidates, self._pieces(choices, candidates), strict=True):
            count = options or (len(names) if choice.candidates else _NAMED)
            best = np.argsort(-logits, kind="stable")[:count].tolist()
            answers.append(Ranking({names[place]: _probability(logits[place]) for place in best}))
        return answers

    def write(self, item: Choice, output: Ranking, form: Form, options: Any = None) -> list[str]:
        """The items with their probabilities on one line, on lines of their own if `n_best` is given; or JSON."""
        if form == "json":
            fields = {"history": list(item.history), "probabilities": output.probabilities}
            return [json.dumps(fields, ensure_ascii=False)]
        pairs = [f"{visible(name)}\t{probability(value)}" for name, value in output.probabilities.items()]
        return pairs if options else ["\t".join(pairs)]

    def unknown(self, items: Sequence[Choice]) -> Unknown:
        names = [name for item in items for name in (*item.history, *item.candidates)]
        lost = [name for name in names if not self.catalogue.number(name)]
        return Unknown(len(lost), len(names), tuple(dict.fromkeys(lost)), "items")

    def scored(self, examples: Sequence[Choice], options: Any = None) -> Scored:
        """AUC with its interval, AUC within sessions, log loss, and the share of choices among the 1, 5 and 10 best.

        Hit rates are those of choices against sampled negatives. Of a pooling with attention also `same_item`: how
        often, among choices whose first candidate is in the history, an equal item has the weight furthest from zero
        (mean of the heads), and `same_item_chance`, how often a place drawn at random is one.

        Raises: DataError for nothing to score, or labels that are all the same.
        """
        table, logits = self._scored(examples)
        labels, sampled = table.batch(range(len(examples))).labels.numpy() > 0.5, self.negatives is not None
        rows, truth = logits.ravel(), labels.ravel()
        groups = np.repeat(_sessions(examples), logits.shape[1])
        each = self._rows(examples, table, logits)
        resampled = each.resampled("auc")
        scores: dict[str, float | str] = {"auc": resampled.value(), "grouped_auc": grouped_auc(rows, truth, groups)}
        scores["loss"] = log_loss(rows, truth)
        scores |= {f"hit_rate@{count}": hit_rate(logits, count) for count in HITS if sampled}
        scores |= self._same_item(examples)
        return Scored(scores | {"auc_interval": interval_text(*interval(resampled), resampled)}, each)

    def _same_item(self, examples: Sequence[Choice]) -> dict[str, float]:
        again = [
            _with(choice, choice.candidates[:1])
            for choice in examples
            if choice.candidates[0] in choice.history[-self.data.max_history :]
            and self.catalogue.number(choice.candidates[0])
        ]
        if not again or not looking.has_attention(self.model):
            return {}
        table = ChoiceTable(again, self.catalogue, self.data.max_history)
        largest, chances = 0, 0.0
        budget = max(_PAIRS, int(table.lengths().max()))
        for indices in token_batches(table.lengths(), max_tokens=budget, shuffle=False):
            batch = table.batch(indices).to(self._device())
            trace = looking.traced(self.model, *batch.inputs)
            (name,) = trace.names()
            weights = np.abs(trace[name].weights().mean(1)[:, 0].cpu().numpy())
            history, lens = batch.history.cpu().numpy(), batch.lens.cpu().numpy()
            inside = np.arange(history.shape[1]) < lens[:, None]
            same = inside & (history == batch.candidates.cpu().numpy())
            best = np.where(inside, weights, -1.0).argmax(1)
            largest += int(same[np.arange(len(best)), best].sum())
            chances += float((same.sum(1) / lens).sum())
        return {"same_item": largest / len(again), "same_item_chance": chances / len(again)}

    def baselines(self, examples: Sequence[Choice]) -> Iterator[Baseline]:
        """The share of positives that training has, and how often training chose an item.

        Where negatives are drawn, there may be fewer of them in training than here.
        """
        batch = self._table(examples).batch(range(len(examples)))
        truth = batch.labels.numpy().ravel() > 0.5
        share = float(truth.mean()) if self.negatives is None else 1 / (1 + self.negatives.config.train)
        yield Baseline(
            "share of positives", {"loss": log_loss(np.full(len(truth), np.log(share / (1 - share))), truth)}
        )
        popularity = np.concatenate(([0], self.catalogue.counts()))[batch.candidates.numpy()]
        yield Baseline("popularity", {"auc": auc(popularity.ravel().astype(float), truth)})

    def co_occurrence(self, train: Sequence[Choice], examples: Sequence[Choice]) -> Baseline:
        """Scores a candidate by the share of choices after an item that were of it, summed over the history.

        What no item of the history precedes is ranked by popularity.
        """
        counts = self.catalogue.counts()
        pairs = [
            (before, self.catalogue.number(item))
            for choice in train
            for item, label in zip(choice.candidates, choice.labels or (True,), strict=True)
            for before in self._history(choice) * label
        ]
        together = _counts(pairs, len(counts) + 1, len(counts) + 1)
        places = [(place, before) for place, choice in enumerate(examples) for before in self._history(choice)]
        histories = _counts(places, len(examples), len(counts) + 1)
        shares = (histories / np.maximum(1.0, together.sum(1))).tocsr()
        batch = self._table(examples).batch(range(len(examples)))
        candidates, popularity = batch.candidates.numpy(), np.concatenate(([0], counts)) / max(1, counts.sum())
        rows = max(1, _CELLS // (len(counts) + 1))
        ranked = _TIE * popularity[candidates]
        for start in range(0, len(candidates), rows):
            part = slice(start, start + rows)
            ranked[part] += np.take_along_axis((shares[part] @ together).toarray(), candidates[part], 1)
        return Baseline("co-occurrence", {"auc": auc(ranked.ravel(), batch.labels.numpy().ravel() > 0.5)})

    def _history(self, choice: Choice) -> list[int]:
        return [self.catalogue.number(item) for item in choice.history[-self.data.max_history :]]

    def input_of(self, example: Choice) -> Choice:
        return example

    def explain(self, item: Choice | str, target: str | None = None) -> Explanation:
        """The weights of the history's items for the likeliest candidates, or for the item `target`.

        Raises:
            ConfigError: an empty history, or an item that training has not seen.
            Unsupported: a pooling that treats all items alike.
        """
        (choice,) = self.inputs(item)
        if not choice.history:
            raise ConfigError("the history is empty; there is nothing to look at")
        if target is not None and not self.catalogue.number(target):
            raise ConfigError(f"item '{target}' is not one that training has seen")
        best = self.predict([choice], _SHOWN)[0].probabilities
        names = tuple(best) if target is None else (target,)
        table = ChoiceTable([_with(choice, names)], self.catalogue, self.data.max_history)
        batch = table.batch([0]).to(self._device())
        keys = list(choice.history[-self.data.max_history :])
        layers = {
            name: attention.layer(list(names), keys, "cross")
            for name, attention in looking.attended(self.model, *batch.inputs).items()
        }
        output = ", ".join(
            f"{name} {decimals(value)}" for name, value in self.predict([_with(choice, names)])[0].probabilities.items()
        )
        return Explanation(" ".join(keys), output, layers, draw=_drawn)

    def _rows(self, examples: Sequence[Choice], table: ChoiceTable, logits: np.ndarray) -> Rows:
        batch = table.batch(range(len(examples)))
        labels = (batch.labels.numpy() > 0.5).astype(int)
        names = ["", *self.catalogue.names]
        ranked = [[names[place] for place in row] for row in batch.candidates.tolist()]
        columns: dict[str, Column] = {
            "logits": logits.tolist(),
            "labels": labels.tolist(),
            "nll": [logits.shape[1] * log_loss(*pair) for pair in zip(logits, labels > 0, strict=True)],
            "count": [logits.shape[1]] * len(examples),
        }
        formulas = {"auc": Formula("auc", ("logits", "labels")), "loss": Formula("mean", ("nll", "count"))}
        if self.negatives is not None:
            for count in HITS:
                columns[f"hit_rate@{count}"] = [hit_rate(row[None], count) for row in logits]
                formulas[f"hit_rate@{count}"] = Formula("mean", (f"hit_rate@{count}",))
        question = question_of(ranked, columns["labels"])
        return Rows(columns, formulas, question, "sessions", _sessions(examples).tolist())

    def _scored(self, examples: Sequence[Choice]) -> tuple[ChoiceTable, np.ndarray]:
        labels = [label for example in examples for label in example.labels]
        if not labels or (self.negatives is None and len(set(labels)) == 1):
            raise DataError("there is nothing to score: give choices, both taken and left where they have labels")
        table = self._table(examples)
        return table, self._logits(table)

    def _table(self, examples: Sequence[Choice]) -> ChoiceTable:
        return scored_table(examples, self.catalogue, self.negatives, self.data.max_history)

    def _pieces(self, choices: Sequence[Choice], candidates: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
        """The logits of the candidates of each choice, those with as many candidates together."""
        answers = [np.zeros(len(names)) for names in candidates]
        pieces: dict[int, list[tuple[int, int, Choice]]] = {}
        for number, (choice, names) in enumerate(zip(choices, candidates, strict=True)):
            for start in range(0, len(names), _PIECE):
                part = names[start : start + _PIECE]
                pieces.setdefault(len(part), []).append((number, start, _with(choice, part)))
        for size, parts in pieces.items():
            table = ChoiceTable([choice for _, _, choice in parts], self.catalogue, self.data.max_history)
            for (number, start, _), row in zip(parts, self._logits(table), strict=True):
                answers[number][start : start + size] = row
        return answers

    @torch.inference_mode()
    def _logits(self, table: ChoiceTable) -> Float[np.ndarray, "choices candidates"]:
        count = table.candidates.shape[1] + table.count
        scores = np.zeros((len(table), count))
        lengths = table.lengths()
        budget = max(_PAIRS // count, int(lengths.max(initial=1)))

        def logits(indices: list[int]) -> np.ndarray:
            rows: Tensor = self.model(*table.batch(indices).to(self._device()).inputs)
            return rows.double().cpu().numpy()

        with evaluating(self.model):
            for indices, rows in divided(logits, token_batches(lengths, max_tokens=budget, shuffle=False)):
                scores[indices] = rows
        return scores

    def _device(self) -> torch.device:
        return self.model.items.features.device


def scored_table(
    examples: Sequence[Choice], catalogue: Catalogue, negatives: Negatives | None, max_history: int
) -> ChoiceTable:
    """Choices to score, each against the same negatives in every run of the same data."""
    count = 0 if negatives is None else negatives.config.held_out
    return ChoiceTable(examples, catalogue, max_history, negatives, count)


def _with(choice: Choice, names: tuple[str, ...]) -> Choice:
    return Choice(choice.history, names, (), choice.times, choice.time, choice.user)


def _counts(pairs: Sequence[tuple[int, int]], rows: int, columns: int) -> Any:
    from scipy.sparse import csr_array

    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    return csr_array((np.ones(len(first)), (first, second)), shape=(rows, columns))


def _sessions(examples: Sequence[Choice]) -> np.ndarray:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(example.session, len(numbers)) for example in examples])


def _probability(logit: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(logit, -700, 700))))


def _drawn(explanation: Explanation, layer: str | int | None, heads: Any) -> Any:
    # matplotlib is imported where something is drawn
    from headwise.tasks.ranking.history_pages import history_page

    attention = explanation.layers[explanation.layer_name(layer)]
    title = f"{explanation.caption(layer, heads)}\n{explanation.output}"
    return history_page(attention.mean(heads), attention.queries, attention.keys, title=title)
