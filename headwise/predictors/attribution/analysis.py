"""What every method of attribution works with: a model that answered, and the numbers that count in its output."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headwise.attention.precision import wide
from headwise.errors import Unsupported
from headwise.explain.explanation import Layer
from headwise.predictors.looking import Pass
from headwise.predictors.outputs import Outputs, logits_of, outputs_of
from headwise.predictors.predictor import Predictor
from headwise.predictors.watched_heads import Look


class Analysis(NamedTuple):
    """A model that answered an input, what its attention did, and the pass of another input, if there is one."""

    predictor: Predictor[Any, Any, Any]
    look: Look
    other: Pass | None = None

    @property
    def model_pass(self) -> Pass:
        return self.look.seen


# shares by the name of their map, and the numbers with signs behind them
Maps = tuple[dict[str, Layer], dict[str, np.ndarray]]


def writes(predictor: Predictor[Any, Any, Any]) -> bool:
    try:
        predictor.writes()
    except Unsupported:
        return False
    return True


# an output of a model -> the number that counts at each place
Counted = Callable[[Any], Tensor]


def counted_outputs(analysis: Analysis) -> tuple[Outputs, Counted]:
    """What the model says, and what makes its output the number that counts at each place."""
    answer = outputs_of(analysis.predictor, analysis.model_pass)
    if answer.chosen is None:
        return answer, lambda output: wide(logits_of(output)).reshape(-1)
    index = torch.tensor(answer.chosen)[:, None]

    def log_probs(output: Any) -> Tensor:
        scores = wide(logits_of(output))
        scores = scores[0] if scores.ndim == 3 else scores
        return scores.log_softmax(-1).gather(-1, index.to(scores.device)).squeeze(-1)

    alone = log_probs(analysis.model_pass.run()).double().cpu().numpy()
    if not np.allclose(alone, answer.values[range(len(alone)), answer.chosen], atol=1e-3):
        raise Unsupported("the outputs of this model depend on each other, as tags of a chain do; use by='rollout'")
    return answer, log_probs
