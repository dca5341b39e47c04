"""What a model says in one pass, place by place, and how that changes when its attention is edited."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.precision import wide
from headwise.errors import Unsupported
from headwise.predictors.looking import Pass, passes
from headwise.predictors.predictor import Predictor
from headwise.records import Edit, edit

# answers of a place that are named
_NAMED = 3
# the logarithm of what is as good as impossible: no number that is said is infinite
_LEAST = -700.0


@dataclass(frozen=True)
class Outputs:
    """Log-probabilities in nats of every choice at every place; of a model that says numbers, the numbers.

    Args:
        chosen: the choice that counts at each place: what was written, else the likeliest. None: numbers were said.
        names: of the choices, as far as they are known.
    """

    values: Float[np.ndarray, "places choices"]
    chosen: list[int] | None
    names: Any

    def name(self, choice: int) -> str:
        if callable(self.names):
            return str(self.names(choice))
        return str(self.names[choice]) if choice < len(self.names) else str(choice)


@dataclass(frozen=True)
class Difference:
    """What an edit changes in what a model says.

    Args:
        divergence: Kullback-Leibler divergence of each place in nats, from what was said before to what is said after.
        log_prob: log-probabilities of the choices of each place, (places, before and after).
    """

    before: Outputs
    after: Outputs
    divergence: Float[np.ndarray, "places"]
    log_prob: Float[np.ndarray, "places 2"]

    @property
    def effect(self) -> dict[str, float]:
        """Mean divergence, and the change of the log-probability of all that was chosen; of numbers the mean change."""
        if self.before.chosen is None:
            return {"change": float(np.abs(self.after.values - self.before.values).mean())}
        change = self.log_prob[:, 1].sum() - self.log_prob[:, 0].sum()
        return {"divergence": float(self.divergence.mean()), "log_prob": float(change)}

    def places(self, labels: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Each place with what was chosen there, and the likeliest choices before and after."""
        if self.before.chosen is None:
            pairs = zip(self.before.values.flatten().tolist(), self.after.values.flatten().tolist(), strict=True)
            return [{"place": str(number), "before": old, "after": new} for number, (old, new) in enumerate(pairs)]
        return [
            {
                "place": labels[row] if row < len(labels) else str(row),
                "chosen": self.before.name(choice),
                "before": float(self.log_prob[row, 0]),
                "after": float(self.log_prob[row, 1]),
                "divergence": float(self.divergence[row]),
                "likeliest_before": _likeliest(self.before, row),
                "likeliest_after": _likeliest(self.after, row),
            }
            for row, choice in enumerate(self.before.chosen)
        ]


def outputs_of(predictor: Predictor[Any, Any, Any], model_pass: Pass, edits: Sequence[Edit] = ()) -> Outputs:
    """What a model says in a pass under these edits; without any, the same bits as ever.

    Raises: Unsupported for a model whose pass gives neither choices nor numbers.
    """
    with edit(model_pass.model, *edits):
        outputs = logits_of(model_pass.run())
    if not isinstance(outputs, Tensor) or not outputs.is_floating_point() or not 1 <= outputs.ndim <= 3:
        raise Unsupported("what this model says is no table of choices, so a change of it cannot be given in numbers")
    scores = wide(outputs.detach()).double()
    scores = scores[0] if scores.ndim == 3 else scores
    names = _names(predictor)
    if names is None or scores.ndim == 1 or scores.shape[-1] == 1:
        return Outputs(scores.reshape(-1, 1).cpu().numpy(), None, ())
    logs = _logs(predictor, scores).clamp(min=_LEAST).cpu().numpy()
    return Outputs(logs, _chosen(predictor, logs, model_pass), names)


def said_of(predictor: Predictor[Any, Any, Any], item: Any, target: Any = None) -> Outputs:
    """What a model says of an input, as it answers, or were the target its answer.

    Raises: as `said` and `explain`; Unsupported for a model without attention.
    """
    with passes() as model_passes:
        predictor.explain(item, target)
    if not model_passes:
        raise Unsupported("this model has no attention, and what it says is not watched")
    return said(predictor, model_passes[-1].model_pass)


def likeliest(answer: Outputs, count: int) -> tuple[list[str], Float[np.ndarray, "places choices"]]:
    """The choices that are among so many likeliest ones of some place, by name, and the probability of each.

    Raises: Unsupported for a model that says numbers.

    >>> names, shares = likeliest(Outputs(np.log([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), [0, 2], "abc"), 1)
    >>> names, shares.round(2).tolist()
    (['a', 'c'], [[0.7, 0.1], [0.1, 0.6]])
    """
    if answer.chosen is None:
        raise Unsupported("this model says numbers, not choices with a probability")
    order = np.argsort(-answer.values, axis=1, kind="stable")[:, :count]
    chosen = list(dict.fromkeys([choice for row in order.tolist() for choice in row]))
    return [answer.name(choice) for choice in chosen], np.exp(answer.values[:, chosen])


def logits_of(output: Any) -> Any:
    """The logits of an output, which models of transformers put among others."""
    return getattr(output, "logits", output)


def difference(before: Outputs, after: Outputs) -> Difference:
    """What changes from one to the other; the choices that count are those before.

    >>> before, after = (Outputs(np.log([[a, 1 - a]]), [0], "xy") for a in (0.5, 0.25))
    >>> {name: round(value, 4) for name, value in difference(before, after).effect.items()}
    {'divergence': 0.1438, 'log_prob': -0.6931}
    """
    if before.chosen is None:
        return Difference(before, after, np.zeros(len(before.values)), np.zeros((len(before.values), 2)))
    shares = np.exp(before.values)
    terms = shares * (before.values - after.values)
    rows = np.arange(len(shares))
    log_prob = np.stack([answer.values[rows, before.chosen] for answer in (before, after)], axis=1)
    # rounding may leave a little less than nothing
    return Difference(before, after, np.maximum(terms.sum(-1), 0.0), log_prob)


def _names(predictor: Predictor[Any, Any, Any]) -> Any:
    """What the choices of a model are called: by number, or as a function of it; None: it says numbers."""
    for field in ("classes", "tags", "labels"):
        if (names := getattr(predictor, field, None)) is not None and not callable(names):
            return list(names)
    if callable(name_of := getattr(predictor, "name_of", None)):
        return name_of
    tokenizer = getattr(getattr(predictor, "writing", predictor), "tokenizer", None)
    if tokenizer is not None:
        return tokenizer.shown
    # classifiers of images and sounds keep them with what else they know
    facts = getattr(predictor, "known", None)
    return getattr(facts, "classes", getattr(facts, "outputs", None))


def _logs(predictor: Predictor[Any, Any, Any], scores: Tensor) -> Tensor:
    tagging = getattr(predictor.model, "tagging", None)
    if tagging is None:
        return scores.log_softmax(-1)
    # tags may depend on each other, as in a chain
    lens = torch.tensor([len(scores)], device=scores.device)
    with torch.no_grad():
        shares: Tensor = tagging.probabilities(scores[None].to(next(predictor.model.parameters()).dtype), lens)[0]
    return shares.double().log()


def _chosen(predictor: Predictor[Any, Any, Any], logs: np.ndarray, model_pass: Pass) -> list[int]:
    best: list[int] = logs.argmax(-1).tolist()
    read = model_pass.inputs[-1]
    writes = predictor.writing is not None if hasattr(predictor, "writing") else len(model_pass.inputs) == 1
    if not writes or read.is_floating_point() or tuple(read.shape) != (1, len(best)):
        return best
    # what was written, moved by one place; behind it the end, or what would come next
    return [*read[0, 1:].tolist(), best[-1]]


def _likeliest(answer: Outputs, row: int) -> list[tuple[str, float]]:
    order = np.argsort(-answer.values[row], kind="stable")[:_NAMED]
    return [(answer.name(int(choice)), float(np.exp(answer.values[row, choice]))) for choice in order]
