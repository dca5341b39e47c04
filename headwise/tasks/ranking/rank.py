"""Ranking: a history of choices and candidates in, how likely each is chosen next out; target attention."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.config import Config, build
from headwise.data.sources import Drawn, Limits, Source, bucketed
from headwise.data.suggestions import Suggestion
from headwise.errors import DataError
from headwise.metrics import auc
from headwise.predictors.baselines import Baseline
from headwise.tasks._files import as_json, from_json
from headwise.tasks.demo import Demo
from headwise.tasks.options import BestOptions
from headwise.tasks.ranking.choices import (
    GAPS,
    Catalogue,
    Choice,
    ChoiceBatch,
    ChoiceTable,
    Negatives,
    NegativesConfig,
    choices_of,
    click_set,
    read_log,
)
from headwise.tasks.ranking.click_logs import Click, ClicksConfig
from headwise.tasks.ranking.demo import RANK
from headwise.tasks.ranking.model import InterestConfig, InterestNetwork, build_interest_network
from headwise.tasks.ranking.ranker import Ranker, scored_table
from headwise.tasks.task import Assets, Description, Given, Metric, Stats, Task

CATALOGUE_FILE = "catalogue.json"


class RankConfig(Config):
    """Which choices to learn from, against which negatives, with which model."""

    data: ClicksConfig = Field(description="the log of clicks")
    negatives: NegativesConfig = Field(NegativesConfig(), description="items that were not chosen, for logs of clicks")
    model: InterestConfig = Field(InterestConfig(), description="embeddings, a pooling of the history, a network")
    num_shown: int = Field(4, ge=0, description="how many choices are shown at each validation, with their best items")


class Rank(Task[dict[str, list[Choice]]]):
    """Ranking of items by how likely they are chosen after a history."""

    name: ClassVar[str] = "rank"
    demo: ClassVar[Demo | None] = RANK
    unit: ClassVar[str] = "candidates"
    config_type: ClassVar[type[Config]] = RankConfig
    options = (BestOptions,)
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "low"), Metric("auc", "high"))
    config: RankConfig

    def __init__(self, config: RankConfig, assets: Assets[dict[str, list[Choice]]]):
        super().__init__(config, assets)
        self.catalogue = _catalogue(assets.files)
        self.negatives = None if config.data.label else Negatives(self.catalogue.counts(), config.negatives)

    @classmethod
    def prepare_with(cls, config: RankConfig, given: Given) -> Assets[dict[str, list[Choice]]]:
        data, log = config.data, read_log(config.data)
        if given.files is None:
            catalogue = Catalogue.of(log.trained, data.features, data.user_features)
        else:
            catalogue = _catalogue(given.files)
        content = {"items": catalogue.items, "features": catalogue.features, "users": catalogue.users}
        file = as_json(content | {"values": catalogue.values}, ordered=True)
        notes = [*log.notes, *_notes(log.parts, log.trained, catalogue)]
        return Assets({CATALOGUE_FILE: file}, dict(log.parts), log.digests, tuple(notes))

    @classmethod
    def examples(cls, config: RankConfig, split: str) -> list[Choice]:
        return choices_of(config.data, split)

    @classmethod
    def baselines(cls, config: RankConfig, predictor: Ranker, examples: Sequence[Choice]) -> Iterator[Baseline]:
        """How often training chose an item after those of the history."""
        yield predictor.co_occurrence(cls.examples(config, "train"), examples)

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A deep interest network for the log of these keys."""
        config = build(ClicksConfig, data, "data")
        data_set = click_set(config)
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

    def build(self) -> InterestNetwork:
        table = torch.from_numpy(self.catalogue.table()).to(torch.get_default_device())
        data = self.config.data
        sizes = self.catalogue.sizes(data.item)
        return build_interest_network(self.config.model, sizes, table, max_history=data.max_history, gaps=GAPS)

    def source(self, split: str, limits: Limits) -> Source[ChoiceBatch] | None:
        examples = (self.assets.data or {}).get(split)
        if not examples:
            return None
        table, training = self._table(split, examples), split == "train"
        batches = bucketed(table.lengths(), table.batch, limits, shuffle=training)
        if not (training and table.anew):
            return batches
        # which pass it is decides which negatives are drawn, and a batch knows only its numbers
        count = len(table)

        def draw(seed: int, epoch: int) -> list[list[int]]:
            return [[place + epoch * count for place in row] for row in batches.draw(seed, epoch)]

        def collate(numbers: list[int]) -> ChoiceBatch:
            return table.batch([number % count for number in numbers], numbers[0] // count)

        return Drawn(draw, collate, seed=limits.seed)

    def _table(self, split: str, examples: Sequence[Choice]) -> ChoiceTable:
        data = self.config.data
        if split == "train" and self.negatives is not None:
            count = self.config.negatives.train
            return ChoiceTable(examples, self.catalogue, data.max_history, self.negatives, count, anew=True)
        return scored_table(examples, self.catalogue, self.negatives, data.max_history)

    def loss(self, model: nn.Module, batch: ChoiceBatch) -> Float[Tensor, ""]:
        return F.binary_cross_entropy_with_logits(wide(model(*batch.inputs)), wide(batch.labels), reduction="sum")

    def measure(self, model: nn.Module, batches: Iterable[ChoiceBatch]) -> Stats:
        """The log loss, and how often each logit was given to what was chosen and to what was left: an exact AUC."""
        stats: Counter[str] = Counter()
        nll = 0.0
        for batch in batches:
            logits = wide(model(*batch.inputs))
            nll += float(F.binary_cross_entropy_with_logits(logits, wide(batch.labels), reduction="sum"))
            stats["candidates"] += batch.num_tokens
            pairs = zip(logits.flatten().tolist(), batch.labels.flatten().tolist(), strict=True)
            stats.update(f"{label:.0f} {logit!r}" for logit, label in pairs)
        return {"nll": nll, **stats}

    def summarise(self, stats: Stats) -> dict[str, float]:
        keys = [key for key in stats if " " in key]
        logits, labels = np.array([float(key[2:]) for key in keys]), np.array([key[0] == "1" for key in keys], bool)
        loss = stats.get("nll", 0.0) / max(1.0, stats.get("candidates", 0.0))
        return {"loss": loss, "auc": auc(logits, labels, np.array([float(stats[key]) for key in keys]))}

    def samples(self, model: nn.Module) -> list[str]:
        data = self.assets.data or {}
        shown = (data.get("valid") or data.get("train") or [])[: self.config.num_shown]
        everything = [Choice(choice.history, (), (), choice.times, choice.time, choice.user) for choice in shown]
        rankings = self.predictor(model).predict(everything, 3)
        return [
            f"{' '.join(choice.history[-5:])} ({choice.candidates[0]}) → {' '.join(ranking.probabilities)}"
            for choice, ranking in zip(shown, rankings, strict=True)
        ]

    def predictor(self, model: nn.Module) -> Ranker:
        assert isinstance(model, InterestNetwork)
        return Ranker(model, self.catalogue, self.negatives, self.config.data)

    def description(self) -> Description:
        text = (
            f"Says which of {len(self.catalogue.items):,} items is chosen after a history, whose pooling is"
            f" {self.config.model.pooling}; trained with Headwise."
        )
        commands = ('predict RUN "ITEM ITEM"', "evaluate RUN --data log.csv", 'explain RUN "ITEM ITEM"')
        return Description("Ranker", text, commands)


def _catalogue(files: Mapping[str, bytes]) -> Catalogue:
    return from_json(files, CATALOGUE_FILE, _read, "does not tell items and categories")


def _read(fields: Any) -> Catalogue:
    items = {name: (int(count), [str(value) for value in row]) for name, (count, row) in fields["items"].items()}
    catalogue = Catalogue(items, fields["features"], fields["users"], fields["values"])
    catalogue.table(), catalogue.sizes("")
    return catalogue


def _notes(parts: Mapping[str, list[Choice]], trained: Sequence[Click], catalogue: Catalogue) -> list[str]:
    notes = []
    for split, examples in parts.items():
        if not examples:
            continue
        sessions, unknown = len({choice.session for choice in examples}), 0
        if split != "train":
            unknown = sum(not catalogue.number(choice.candidates[0]) for choice in examples)
        lost = f", {unknown:,} of items that training lacks" if unknown else ""
        notes.append(f"{split}: {len(examples):,} choices of {sessions:,} sessions{lost}")
    if other := sum(
        click.item in catalogue.items and click.features != tuple(catalogue.items[click.item][1]) for click in trained
    ):
        notes.append(f"train: {other:,} rows give an item other features than most of its rows; those of most count")
    if not parts["train"]:
        raise DataError("no choice of the training part has enough before it; lower data.min_history")
    return notes
