"""Simpler predictors that a model is compared with: their scores, and estimators that several tasks share."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from headwise.predictors.classes import class_scores, most_frequent
from headwise.predictors.numbers import error_counts, error_scores

E = TypeVar("E")

# examples that an estimator is fitted to at most
ROWS = 20_000
# words and pairs of words that a text is described by at most
_TERMS = 100_000
# a word, a sign, or a character of a script without spaces
_TERM = r"(?u)[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]"
_ITERATIONS = 200


@dataclass(frozen=True)
class Baseline:
    """A simpler predictor by its name, with its scores on the examples that the model is scored on.

    Args:
        scores: by the names of the task's metrics.
        count: answers that an accuracy is the share of; None: unknown, so that it has no interval.
    """

    name: str
    scores: Mapping[str, float]
    count: int | None = None


def of_labels(name: str, predicted: Sequence[str], gold: Sequence[str]) -> Baseline:
    """A baseline that predicts labels.

    >>> of_labels("majority", ["a", "a"], ["a", "b"]).scores["accuracy"]
    0.5
    """
    hits = sum(map(str.__eq__, predicted, gold))
    return Baseline(name, {"accuracy": hits / len(gold), "macro_f1": class_scores(predicted, gold).macro_f1}, len(gold))


def majority(gold: Sequence[str]) -> Baseline:
    """The most frequent label of what is scored: no constant answer is right more often.

    >>> majority(["b", "a", "b"]).scores["accuracy"]
    0.6666666666666666
    """
    return of_labels("majority", [most_frequent(Counter(gold))] * len(gold), gold)


def of_numbers(name: str, predicted: Iterable[float], gold: Sequence[float]) -> Baseline:
    """A baseline that predicts numbers.

    >>> of_numbers("mean", [3.0, 3.0], [1.0, 5.0]).scores
    {'mae': 2.0, 'rmse': 2.0, 'r2': 0.0}
    """
    mean = np.mean(gold)
    return Baseline(name, error_scores(error_counts(np.array([*predicted]) - mean, np.array(gold) - mean), 1.0))


def sample(examples: Sequence[E], most: int = ROWS) -> list[E]:
    """At most so many of the examples, evenly spaced, so that sorted ones keep their shares.

    >>> sample("abcdefg", 3)
    ['a', 'd', 'g']
    """
    step = -(-len(examples) // most)
    return [*examples][:: max(1, step)]


def named(name: str, used: int, there: int) -> str:
    """The name of an estimator, with how much of the training data it was fitted to where that is not all.

    >>> named("ridge", 20, 20), named("ridge", 10, 1020)
    ('ridge', 'ridge (10 of 1,020)')
    """
    return name if used == there else f"{name} ({used:,} of {there:,})"


def tfidf(train: Sequence[str], texts: Sequence[str]) -> tuple[Any, Any]:
    """TF-IDF of words and pairs of words, of texts to learn from and of others, as sparse matrices."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=_TERM, ngram_range=(1, 2), sublinear_tf=True, max_features=_TERMS)
    return vectorizer.fit_transform(train), vectorizer.transform(texts)


def logistic_regression(train: Any, labels: Sequence[str], features: Any, strength: float = 1.0) -> list[str]:
    """The labels that logistic regression predicts of features, sparse or dense.

    Args:
        strength: the inverse of the L2 penalty.
    """
    from sklearn.linear_model import LogisticRegression

    if len(set(labels)) == 1:
        return [labels[0]] * features.shape[0]
    model = LogisticRegression(C=strength, max_iter=_ITERATIONS).fit(train, labels)
    return [str(label) for label in model.predict(features)]


def standardised(
    train: Float[np.ndarray, "rows columns"], features: Float[np.ndarray, "others columns"]
) -> tuple[Any, Any]:
    """Features with mean 0 and deviation 1 in the rows to learn from."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(features)


def ridge_regression(train: Any, numbers: Sequence[float], features: Any, penalty: float = 1.0) -> list[float]:
    """The numbers that ridge regression predicts of features, sparse or dense."""
    from sklearn.linear_model import Ridge

    # a solver whose memory grows with the entries, not with the square of the features
    predicted: list[float] = Ridge(alpha=penalty, solver="lsqr").fit(train, numbers).predict(features).tolist()
    return predicted
