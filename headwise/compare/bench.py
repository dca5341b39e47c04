"""Where the claims that train models do so: drawn data, sides trained alike, and what the record says of them."""

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from headwise.compare.experiment import Arm, Plan, Say, Trained, plan_sides, train_sides
from headwise.compare.sides import examples_variance
from headwise.compare.verdicts import LEVEL, Interval
from headwise.config import Config
from headwise.predictors.intervals import Resampled
from headwise.predictors.predictor import Predictor
from headwise.tasks import generators
from headwise.training.loading import examples, load
from headwise.training.sweep import Swept

QUICK_SEEDS, FULL_SEEDS = 3, 6
# test examples that a model which is looked into is scored on for the record
_GLANCE = 200
# of examples, by which an interval knows how much scores vary between them
GROUPS = 10


def rates(peak: float) -> Swept:
    """A quarter of a learning rate, itself, and four times it, for sides to choose from.

    >>> rates(0.002).values
    ('0.0005', '0.002', '0.008')
    """
    return Swept("training.learning_rate", tuple(f"{share * peak:.6g}" for share in (0.25, 1, 4)))


def budget(steps: int, batch: int, unit: str = "tokens") -> list[str]:
    """Settings of a run of so many steps, which is validated in the middle and at the end; no baseline is fitted.

    Args:
        batch: padded tokens of a batch; with the unit "sentences" examples.
    """
    return [
        f"training.max_steps={steps}",
        "training.max_epochs=0",
        f"training.batch_{unit}={batch}",
        "training.validate_every_epochs=0",
        f"training.validate_every={max(1, steps // 2)}",
        "training.baseline_cpu_s=0",
    ]


class SideRecord(Config):
    """A side of an experiment as the record of a claim keeps it.

    Args:
        where: the data or the condition, in words.
        scores: on the test data, by seed.
        tuned: the value that validation chose; at_edge: the first or last one that was tried.
        diverged: seeds whose run failed, which has the worst score; notes say why.
    """

    where: str
    side: str
    recipe: str
    settings: list[str]
    parameters: int | None
    metric: str
    scores: dict[str, float]
    tuned: str | None
    at_edge: bool
    diverged: list[int]


@dataclass(frozen=True)
class Design:
    """A comparison of sides that are trained alike.

    Args:
        sides: by name, each a recipe with what it alone has.
        metric: a score of `evaluate`; None: the one that the recipe chooses by.
        settings: what all sides have: data, sizes, the budget.
        tune: a key with values in ascending order from which each side takes the best on validation data, with a
            seed that is not reported; None: nothing is tuned.
        extensions: times that these values go on for all sides where the best of one is the first or the last.
        limit: only the first examples are scored.
    """

    sides: Mapping[str, Arm]
    metric: str | None
    settings: Sequence[str] = ()
    tune: Swept | None = None
    extensions: int = 1
    limit: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Sides that are trained and scored on test data, with the same seeds."""

    metric: str
    better: Literal["low", "high"]
    sides: Mapping[str, Trained]

    def scores(self, side: str) -> list[float]:
        """On the test data, seed by seed."""
        return list(self.sides[side].scores.values())

    def mean(self, side: str) -> float:
        scores = self.scores(side)
        return sum(scores) / len(scores)

    def ahead(self, side: str, other: str) -> list[float]:
        """How far a side is better than another, seed by seed: above 0 where it is, whichever way the metric goes."""
        sign = 1.0 if self.better == "high" else -1.0
        return [sign * (a - b) for a, b in zip(self.scores(side), self.scores(other), strict=True)]

    def interval(self, side: str) -> Interval:
        """The mean score, with its 95 % interval over seeds and examples."""
        return Interval.of(self.scores(side), variance=examples_variance(self._resampled(side)))

    def difference(self, side: str, other: str, level: float = LEVEL) -> Interval:
        """The mean of `ahead`, with its interval over seeds and examples, which are the same for both."""
        return Interval.of(self.ahead(side, other), level, self.variance(side, other))

    def variance(self, side: str, other: str) -> float:
        """How far the mean of `ahead` varies with the examples; 0 where nothing was counted of each."""
        several, others = self._resampled(side), self._resampled(other)
        return examples_variance(several, others) if several and others else 0.0

    def _resampled(self, side: str) -> list[Resampled]:
        """The scores as functions of the examples, seed by seed; none where a run failed."""
        trained = self.sides[side]
        by_seed = trained.resampled(self.metric)
        return [by_seed[seed] for seed in trained.scores] if by_seed.keys() == trained.scores.keys() else []

    def best(self, names: Sequence[str] | None = None) -> str:
        """The side with the best mean, of these or of all."""
        sign = 1.0 if self.better == "high" else -1.0
        return max(names or self.sides, key=lambda name: sign * self.mean(name))

    def undecidable(self, chance: float, ceiling: float, names: Sequence[str] | None = None) -> bool:
        """Whether these sides, or all, are above the ceiling, or none above chance: data cannot tell them apart."""
        means = [self.mean(name) for name in names or self.sides]
        return min(means) > ceiling or max(means) < chance

    def folders(self, side: str) -> dict[int, Path]:
        """The run folders by seed, without those that failed."""
        trained = self.sides[side]
        return {seed: cell.folder for seed, cell in trained.cells.items() if seed in trained.rows}


@dataclass
class Bench:
    """A place for the runs of a claim, which are kept: the same call again goes on where it was broken off.

    Args:
        full: whether the whole experiment is run, with six seeds, or a quick one with three.
        runs: the folder of drawn data and of run folders.
        folder_of: the run folder of (recipe, settings), as `headwise compare` names it.
        jobs: runs that train at once.

    `sides` and `notes` grow as comparisons are made, and become a part of the record. So do `crashes`: runs that ended
    for a reason that says nothing of their side, after which the claim is undecided.
    """

    full: bool
    runs: Path
    folder_of: Callable[[str, list[str]], Path]
    jobs: int = 1
    say: Say = lambda text: None
    sides: list[SideRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    cpu_s: float = 0.0

    @cached_property
    def seeds(self) -> list[int]:
        """Of the runs that are reported; tuning has the next one."""
        return list(range(FULL_SEEDS if self.full else QUICK_SEEDS))

    def drawn(self, problem: str, count: int, *, test: int = 1000, seed: int = 1, **sizes: Any) -> list[str]:
        """Settings that name the files of a drawn problem, which are written unless they are there.

        Args:
            count: examples to train on; test: of each other part.
            sizes: options of `headwise data make`, such as symbols and longest; without them those of the problem.
        """
        words = [
            problem,
            str(count),
            str(test),
            *(name + "_".join(re.findall(r"\w+", str(size))) for name, size in sorted(sizes.items())),
        ]
        folder = self.runs / "drawn" / "-".join([*words, f"seed{seed}"])
        files = generators.make(problem, folder, seed, count, {"held_out": test, **sizes})
        return [f"data.{path.stem}={path}" for path in files if path.stem in ("train", "valid", "test")]

    def train(self, where: str, design: Design, seeds: Sequence[int] | None = None) -> Comparison:
        """Trains the sides, as `headwise compare` does: the same seeds, the same order of data, tuned alike.

        Args:
            where: the data or the condition, for the record.
            seeds: None: those of the bench.
        Raises: as `plan_sides` and `train_sides`; a run that fails raises nothing, it has the worst score.
        """
        plan = Plan(
            names=(),
            settings=list(design.settings),
            seeds=list(self.seeds if seeds is None else seeds),
            folder_of=self.folder_of,
            tune=design.tune,
            metric=design.metric,
            limit=design.limit,
            jobs=self.jobs,
            arms=design.sides,
            extensions=design.extensions,
            worst=True,
            alone=True,
        )
        metric, better, trained = train_sides(plan, plan_sides(plan), self.say)
        for name, side in trained.items():
            self._keep(where, name, design.sides[name], metric, side)
            # a record holds no path of one machine
            self.crashes += [f"{where}: {name}, {crash.replace(f'{self.runs}{os.sep}', '')}" for crash in side.crashes]
        self._note(where, design, trained)
        return Comparison(metric, better, trained)

    def models(
        self, where: str, recipe: str, settings: Sequence[str], seeds: Sequence[int] | None = None
    ) -> list[Path]:
        """The run folders of one recipe that a claim looks into, one for each seed whose run did not fail.

        Args:
            where, seeds: as of `train`.
        Raises: as `train`.
        """
        compared = self.train(where, Design({recipe: Arm(recipe)}, None, settings, limit=_GLANCE), seeds)
        return list(compared.folders(recipe).values())

    def score_by(
        self, run: Path, metric: str, group_of: Callable[[Any], str | None], split: str = "test"
    ) -> dict[str, Resampled]:
        """The score of a run on each group of the examples of a split; those of group None are left out.

        Raises: as `Predictor.evaluate_each`; ConfigError for a score that does not follow from rows of examples.
        """
        predictor, groups = load(run), dict[str, list[Any]]()
        for example in examples(run, split):
            if (group := group_of(example)) is not None:
                groups.setdefault(group, []).append(example)
        return {group: predictor.evaluate_each(members).rows.resampled(metric) for group, members in groups.items()}

    def _keep(self, where: str, name: str, arm: Arm, metric: str, side: Trained) -> None:
        rows = list(side.rows.values())
        self.cpu_s += sum(row.cpu_s for row in rows) + side.tuning_cpu_s
        self.sides.append(
            SideRecord(
                where=where,
                side=name,
                recipe=arm.recipe,
                # a record holds no path of one machine
                settings=[setting.replace(f"{self.runs}{os.sep}", "") for setting in arm.settings],
                parameters=rows[0].parameters if rows else None,
                metric=metric,
                scores={str(seed): score for seed, score in side.scores.items()},
                tuned=side.tuned,
                at_edge=side.at_edge,
                diverged=side.diverged,
            )
        )

    def _note(self, where: str, design: Design, trained: Mapping[str, Trained]) -> None:
        sizes = {name: next((row.parameters or 0 for row in side.rows.values()), 0) for name, side in trained.items()}
        known = [size for size in sizes.values() if size]
        if known and max(known) > 1.02 * min(known):
            self.notes.append(f"{where}: sides have {min(known):,} to {max(known):,} parameters")
        if edges := [f"{name} ({side.tuned})" for name, side in trained.items() if side.at_edge]:
            self.notes.append(f"{where}: the best tuned value is the first or last one tried for {', '.join(edges)}")
        for name, side in trained.items():
            for seed, reason in side.failures.items():
                # a record holds no path of one machine
                why = reason.partition("\n")[0].replace(f"{self.runs}{os.sep}", "")
                self.notes.append(f"{where}: {name} failed with seed {seed}, which counts as the worst score ({why})")
        if design.tune is None:
            self.notes.append(f"{where}: nothing was tuned")


def by_group(predictor: Predictor[Any, Any, Any], cases: Sequence[Any], metric: str) -> list[float]:
    """A score of a tenth of the examples each, from the first to the last: what `Interval.across` wants of a seed."""
    edges = [len(cases) * part // GROUPS for part in range(GROUPS + 1)]
    scores = [predictor.evaluate(cases[low:high])[metric] for low, high in itertools.pairwise(edges)]
    return [float(score) for score in scores]
