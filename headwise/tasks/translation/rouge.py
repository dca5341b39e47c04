"""How summaries are compared with references: ROUGE-1, ROUGE-2 and ROUGE-L, as the package rouge-score counts them."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from headwise.config import Config
from headwise.metrics import Reference

NAMES = ("rouge1", "rouge2", "rougeL")
_TOKENS = {"ascii": re.compile(r"[a-z0-9]+"), "words": re.compile(r"\w+"), "char": re.compile(r"\S")}


class RougeConfig(Config):
    """How ROUGE is computed."""

    tokenize: Literal["ascii", "words", "char"] = Field(
        "ascii",
        description="ascii: runs of a-z and 0-9, as rouge-score; words: of letters and digits of any script; char",
    )


def rouge_counts(outputs: Sequence[str], references: Sequence[Reference], tokenize: str = "ascii") -> dict[str, float]:
    """What `rouge_of` needs: the sum of each score over the outputs; those of several batches add up.

    Each score is the F-measure of precision and recall, of texts in lower case: of n-grams (rouge1, rouge2), each as
    often at most as the other side has it, or of the longest common subsequence (rougeL); of several references the
    one that gives most. A text is one sentence: what is called ROUGE-Lsum is the same here.

    Args:
        references: one or several for each output.
        tokenize: as `RougeConfig` says.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", sections 2 and 3.1, with beta = 1.

    >>> scores = rouge_of(rouge_counts(["the cat sat"], ["the cat sat down here"]))
    >>> {name: round(score, 1) for name, score in scores.items()}
    {'rouge1': 75.0, 'rouge2': 66.7, 'rougeL': 75.0}
    """
    counts = {"rouge_texts": float(len(outputs))}
    cut = _TOKENS[tokenize].findall
    several = [[texts] if isinstance(texts, str) else texts for texts in references]
    for name, score in zip(NAMES, (_unigrams, _bigrams, _subsequence), strict=True):
        counts[f"sum_of_{name}"] = sum(
            max(score(cut(output.lower()), cut(text.lower())) for text in texts)
            for output, texts in zip(outputs, several, strict=True)
        )
    return counts


def rouge_rows(
    outputs: Sequence[str], references: Sequence[Reference], tokenize: str = "ascii"
) -> dict[str, list[float]]:
    """The scores of each output, in percent."""
    each = [
        rouge_of(rouge_counts([output], [texts], tokenize)) for output, texts in zip(outputs, references, strict=True)
    ]
    return {name: [scores[name] for scores in each] for name in NAMES}


def rouge_of(counts: Mapping[str, float]) -> dict[str, float]:
    """The mean scores of summed counts, in percent; NaN of no texts."""
    texts = counts.get("rouge_texts", 0.0)
    return {name: 100 * counts[f"sum_of_{name}"] / texts if texts else float("nan") for name in NAMES}


def _unigrams(output: list[str], reference: list[str]) -> float:
    return _f_measure((Counter(output) & Counter(reference)).total(), len(output), len(reference))


def _bigrams(output: list[str], reference: list[str]) -> float:
    output_pairs, reference_pairs = (Counter(itertools.pairwise(tokens)) for tokens in (output, reference))
    return _f_measure((output_pairs & reference_pairs).total(), output_pairs.total(), reference_pairs.total())


def _subsequence(output: list[str], reference: list[str]) -> float:
    return _f_measure(common(output, reference), len(output), len(reference))


def _f_measure(overlap: int, output_size: int, reference_size: int) -> float:
    return 2 * overlap / (output_size + reference_size) if overlap else 0.0


def common(first: Sequence[str], second: Sequence[str]) -> int:
    """Tokens of the longest common subsequence, a row of the table of all beginnings at a time, as bits of a number.

    Source: Hyyrö 2004, "Bit-Parallel LCS-length Computation Revisited", figure 2.

    >>> common("a b c d".split(), "b x d a".split())
    2
    """
    places: dict[str, int] = {}
    for place, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << place
    ones = (1 << len(first)) - 1
    left = ones
    for token in second:
        met = left & places.get(token, 0)
        left = ((left + met) | (left - met)) & ones
    return len(first) - left.bit_count()
