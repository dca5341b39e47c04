"""Scores of spans beside those of seqeval, and counts that add up over batches to the same."""

import pytest
import torch

from headwise.data.batches import NO_TAG
from headwise.tasks.tagging.tagger import span_scores, tag_count_scores, tag_counts, tag_scores

GOLD = [["B-X", "I-X", "O", "B-Y"], ["O", "B-X", "I-X", "I-X"], ["B-Y", "B-Y"], ["I-Y", "O"]]
SAID = [["B-X", "I-X", "O", "I-Y"], ["O", "B-X", "I-X", "O"], ["B-Y", "I-Y"], ["I-Y", "B-X"]]
NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def test_scores_of_spans_are_those_of_seqeval():
    scores = span_scores(SAID, GOLD, "iob2")
    # seqeval 1.2.2: f1_score, precision_score, recall_score, f1_score(mode="strict", scheme=IOB2), the report by label
    assert (scores["span_f1"], scores["span_precision"], scores["span_recall"]) == (0.5, 0.5, 0.5)
    assert scores["span_f1_strict"] == pytest.approx(0.22222222222222224)
    assert scores["per_span"] == "Y 0.5714 (4), X 0.4000 (2)"


def test_precision_is_over_what_was_said_and_recall_over_what_is_gold():
    scores = span_scores([["B-X", "O", "O"]], [["B-X", "B-X", "B-Y"]], "iob2")
    assert (scores["span_precision"], scores["span_recall"]) == (1.0, pytest.approx(1 / 3))
    nothing = span_scores([["O"]], [["O"]], "iob2")
    assert [nothing[name] for name in ("span_f1", "span_precision", "span_recall", "span_f1_strict")] == [0.0] * 4


def numbers(rows):
    """Tags as numbers, padded."""
    longest = max(map(len, rows))
    return torch.tensor([[NAMES.index(tag) for tag in row] + [NO_TAG] * (longest - len(row)) for row in rows])


def test_counts_of_batches_add_up():
    unseen = [[True, False, False, True], [False] * 4, [False, True], [False, False]]
    total: dict[str, float] = {}
    for rows in (slice(0, 1), slice(1, 4)):
        gold = numbers(GOLD[rows])
        flags = torch.zeros_like(gold)
        for row, given in zip(flags, unseen[rows], strict=True):
            row[: len(given)] = torch.tensor(given).long()
        for name, count in tag_counts(numbers(SAID[rows]).clamp(min=0), gold, flags, NAMES, "iob2").items():
            total[name] = total.get(name, 0.0) + count
    whole = tag_scores(SAID, GOLD, [[not one for one in row] for row in unseen], "iob2")
    found = tag_count_scores(total, "iob2")
    assert found == pytest.approx({name: whole[name] for name in found})
    assert (total["unseen"], total["right_unseen"], total["spans_gold"]) == (3.0, 1.0, 6.0)
    assert "span_f1" not in tag_count_scores(total, "none")
