"""Scores of tags: by tag, of words that training has and lacks, and of the spans that tags mark."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from headwise import metrics
from headwise.data.batches import NO_TAG
from headwise.data.spans import Scheme, Span, spans, strict_spans
from headwise.predictors.classes import _each, by_tag

_Tags = Sequence[Sequence[str]]
_Spans = Sequence[Sequence[Span]]


def tag_scores(said: _Tags, gold: _Tags, seen: Sequence[Sequence[bool]], scheme: Scheme) -> dict[str, float | str]:
    """Accuracy, macro-F1 over the tags, accuracy of words that training has and of those it lacks, scores of spans.

    `unseen` is the share of words that training lacks, `per_tag` the F1 of each tag with how often it occurs. Shares of
    nothing are NaN.

    Args:
        said, gold: the tags of each sentence.
        seen: whether training has a word.
        scheme: how the gold tags mark spans; "none": they do not.

    >>> scores = tag_scores([["A", "B"]], [["A", "A"]], [[True, False]], "none")
    >>> scores["accuracy"], scores["accuracy_seen"], scores["accuracy_unseen"], scores["per_tag"]
    (0.5, 1.0, 0.0, 'A 0.6667 (2), B 0.0000 (0)')
    """
    flat_said, flat_gold = ([tag for tags in rows for tag in tags] for rows in (said, gold))
    right = np.array([one == other for one, other in zip(flat_said, flat_gold, strict=True)])
    known = np.array([one for row in seen for one in row], dtype=bool)
    macro, each = by_tag(flat_said, flat_gold)
    scores: dict[str, float | str] = {"accuracy": _mean(right), "macro_f1": macro}
    scores |= {"accuracy_seen": _mean(right[known]), "accuracy_unseen": _mean(right[~known])}
    scores |= {"unseen": _mean(~known), "per_tag": each}
    return scores if scheme == "none" else scores | span_scores(said, gold, scheme)


def span_scores(said: _Tags, gold: _Tags, scheme: Scheme) -> dict[str, float | str]:
    """Precision, recall and F1 of spans, micro-averaged: label, begin and end must be right.

    `span_f1` is of the spans that `spans` finds, as in the CoNLL evaluation and seqeval's default mode, and
    `span_f1_strict` of those that are written as the scheme demands, as in its strict mode; 0 where there are none.
    `per_span` is the F1 of each label with how often it occurs.

    Args:
        said, gold: the tags of each sentence.
        scheme: of the gold tags, not "none".

    >>> scores = span_scores([["B-X", "O", "I-Y"]], [["B-X", "O", "B-Y"]], "iob2")
    >>> scores["span_f1"], round(scores["span_f1_strict"], 4), scores["per_span"]
    (1.0, 0.6667, 'X 1.0000 (1), Y 1.0000 (1)')
    """
    right, predicted, wanted = _counted([spans(tags) for tags in said], [spans(tags) for tags in gold])
    strict = _counted([strict_spans(tags, scheme) for tags in said], [strict_spans(tags, scheme) for tags in gold])
    totals = [float(counter.total()) for counter in (right, predicted, wanted)]
    return {
        "span_f1": metrics.f1(*totals),
        "span_precision": totals[0] / max(1.0, totals[1]),
        "span_recall": totals[0] / max(1.0, totals[2]),
        "span_f1_strict": metrics.f1(*(float(counter.total()) for counter in strict)),
        "per_span": _each(right, predicted, wanted)[1],
    }


def tag_counts(best: Tensor, gold: Tensor, unseen: Tensor, names: Sequence[str], scheme: Scheme) -> dict[str, float]:
    """What `tag_count_scores` needs of a batch of sentences; counts of several batches add up.

    Args:
        best, gold: numbers of tags, (batch, words); gold is `NO_TAG` where there is no word.
        unseen: 1 for words that training lacks.
        names: of the tags by their numbers.
    """
    known, right = gold != NO_TAG, gold == best
    counts: dict[str, float] = {}
    for name, chosen in (("seen", known & (unseen == 0)), ("unseen", known & (unseen == 1))):
        counts |= {name: float(chosen.sum()), f"right_{name}": float((chosen & right).sum())}
    if scheme == "none":
        return counts
    lens = known.sum(1).tolist()
    read = [
        [spans([names[tag] for tag in row[:count]]) for row, count in zip(rows.tolist(), lens, strict=True)]
        for rows in (best, gold)
    ]
    totals = zip(("right", "predicted", "gold"), _counted(*read), strict=True)
    return counts | {f"spans_{name}": float(counter.total()) for name, counter in totals}


def tag_count_scores(stats: Mapping[str, float], scheme: Scheme) -> dict[str, float]:
    """Accuracy of words that training has and of those it lacks, NaN where there are none; F1 of spans if there are."""
    scores = {}
    for name in ("seen", "unseen"):
        total = stats.get(name, 0.0)
        scores[f"accuracy_{name}"] = stats.get(f"right_{name}", 0.0) / total if total else math.nan
    if scheme != "none":
        scores["span_f1"] = metrics.f1(*(stats.get(f"spans_{name}", 0.0) for name in ("right", "predicted", "gold")))
    return scores


def _counted(said: _Spans, gold: _Spans) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """By label how many spans are right, said and gold."""
    right: Counter[str] = Counter()
    for found, wanted in zip(said, gold, strict=True):
        right.update(span.label for span in set(found) & set(wanted))
    predicted, expected = (Counter(span.label for found in rows for span in found) for rows in (said, gold))
    return right, predicted, expected


def _mean(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else math.nan
