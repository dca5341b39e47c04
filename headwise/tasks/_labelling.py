"""What all tasks share that give places of an input, or all of it, one of some labels: loss and scores."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.data.batches import NO_TAG
from headwise.predictors.classes import count_scores, counted, mean
from headwise.tasks.task import Metric, Stats, Task

D = TypeVar("D")

# labels that a note names
_NAMED = 5


class Labelling(Task[D]):
    """Labels of whole inputs, or of their places; the loss is a sum over those whose label training knows."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("accuracy", "high"),
        Metric("macro_f1", "high"),
    )

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """How many labels the model knows."""

    @property
    def label_smoothing(self) -> float:
        """Share of the target that is spread over the labels."""
        smoothing: float = self.config.label_smoothing
        return smoothing

    @abstractmethod
    def answered(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """What a model says of a batch, and what is true.

        Returns:
            logits, (batch, labels, ...); the number of the true label, (batch, ...): `NO_TAG` where there is none,
            `num_labels` or more where training lacks it.
        """

    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        return self._loss(*self.answered(model, batch), self.label_smoothing)

    def measure(self, model: nn.Module, batches: Iterable[Any]) -> Stats:
        """Log-likelihood of the labels that the model knows, and how often each is right, predicted and gold."""
        stats: Counter[str] = Counter()
        nll = 0.0
        for batch in batches:
            logits, gold = self.answered(model, batch)
            nll += float(self._loss(logits, gold, 0.0))
            stats["known"] += int(((gold != NO_TAG) & (gold < self.num_labels)).sum())
            stats.update(counted(logits.argmax(1), gold, self.num_labels))
        return {"nll": nll, **stats}

    def summarise(self, stats: Stats) -> dict[str, float]:
        """Nats a label; shares of the places that have one."""
        return {"loss": mean(stats.get("nll", 0.0), stats.get("known", 0.0))} | self.scores(stats)

    def scores(self, stats: Stats) -> dict[str, float]:
        """Of the counts of each label."""
        return count_scores(stats, self.num_labels)

    def _loss(self, logits: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        # a label that training lacks has no logit; there is none in training itself
        targets = gold.masked_fill(gold >= self.num_labels, NO_TAG)
        return F.cross_entropy(wide(logits), targets, ignore_index=NO_TAG, reduction="sum", label_smoothing=smoothing)


def lacking(split: str, counts: Mapping[str, int], known: Collection[str], what: str = "classes") -> list[str]:
    """A note on the labels of a split, by their counts, that training lacks; none where it has all of them."""
    others = Counter({label: count for label, count in counts.items() if label not in known})
    if not others:
        return []
    named = ", ".join(f"{label} ({count:,})" for label, count in others.most_common(_NAMED))
    more = ", ..." if len(others) > _NAMED else ""
    return [f"{split}: {what} that training lacks, so that they cannot be got right: {named}{more}"]
