"""Metrics of translations, tags and predictions as pure functions; BLEU and chrF by sacrebleu."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Num

from headwise.errors import DataError

Weights = Float[np.ndarray, "rows"]
# of each class how many pixels are right, predicted, gold
Counts = Num[np.ndarray, "classes"]


class Score(NamedTuple):
    """A score in percent, and the signature of its computation."""

    value: float
    signature: str


# one reference text, or several alternatives
Reference = str | Sequence[str]


def bleu(
    hypotheses: Sequence[str], references: Sequence[Reference], *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU of detokenised text, in percent, as sacreBLEU computes it.

    Args:
        references: one or several for each hypothesis
        tokenize: sacreBLEU's name of a tokenizer: 13a, intl, char, zh, ...

    Source: Papineni et al. 2002; Post 2018, arXiv 1804.08771.

    >>> bleu(["the cat sat on the mat ."], ["the cat sat on the mat ."]).value
    100.0
    """
    metric, score = _sacre_bleu(hypotheses, references, tokenize, lowercase)
    # rounding in sacreBLEU's geometric mean gives 100.00000000000004 for equal texts
    return Score(min(score.score, 100.0), str(metric.get_signature()))


def bleu_counts(
    hypotheses: Sequence[str], references: Sequence[Reference], *, tokenize: str = "13a", lowercase: bool = False
) -> dict[str, float]:
    """The counts for `bleu_of`: lengths, n-grams and matches; counts of several batches add up.

    >>> bleu_of(bleu_counts(["the cat sat on the mat ."], ["the cat sat on the mat ."]))
    100.0
    """
    _, score = _sacre_bleu(hypotheses, references, tokenize, lowercase)
    counts = {"bleu_length": score.sys_len, "bleu_reference_length": score.ref_len}
    for name, numbers in (("right", score.counts), ("all", score.totals)):
        counts |= {f"bleu_{name}_{size}": number for size, number in enumerate(numbers, 1)}
    return {name: float(number) for name, number in counts.items()}


def bleu_rows(
    hypotheses: Sequence[str], references: Sequence[Reference], *, tokenize: str = "13a", lowercase: bool = False
) -> list[list[float]]:
    """The values of `bleu_counts` for each hypothesis, in the same order; those of all add up to those of the corpus.

    >>> bleu_rows(["a b"], ["a c"])[0][:3]
    [2.0, 2.0, 1.0]
    """
    from sacrebleu.metrics import BLEU

    _paired(hypotheses, references)
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.corpus_score([hypothesis], _streams([reference]))
        rows.append([*map(float, (score.sys_len, score.ref_len, *score.counts, *score.totals))])
    return rows


def bleu_of(counts: Mapping[str, float]) -> float:
    """Corpus BLEU of summed counts, equal to `bleu` over all batches at once."""
    from sacrebleu.metrics import BLEU

    matches, totals = ([int(counts[f"bleu_{name}_{size}"]) for size in range(1, 5)] for name in ("right", "all"))
    lengths = int(counts["bleu_length"]), int(counts["bleu_reference_length"])
    return min(100.0, BLEU.compute_bleu(matches, totals, *lengths, smooth_method="exp").score)


def chrf(hypotheses: Sequence[str], references: Sequence[Reference], *, lowercase: bool = False) -> Score:
    """Corpus chrF2, the F-score of character n-grams, in percent, as sacreBLEU computes it.

    Source: Popović 2015, WMT.
    """
    from sacrebleu.metrics import CHRF

    _paired(hypotheses, references)
    metric = CHRF(lowercase=lowercase)
    return Score(metric.corpus_score(list(hypotheses), _streams(references)).score, str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[Reference], *, lowercase: bool = False) -> float:
    """Share of hypotheses that equal their reference, or one of several, from 0 to 1.

    Raises: DataError: hypotheses and references differ in number, or there are none.

    >>> exact_match(["a b", "c"], ["a b", "d"])
    0.5
    """
    _paired(hypotheses, references)
    folded = str.lower if lowercase else str
    alternatives = ([texts] if isinstance(texts, str) else texts for texts in references)
    pairs = zip(hypotheses, alternatives, strict=True)
    return sum(folded(hypothesis) in map(folded, texts) for hypothesis, texts in pairs) / len(references)


def textbook_bleu(prediction: str, label: str, k: int) -> float:
    """BLEU of one sentence in the form of "Dive into Deep Learning", from 0 to 1.

    exp(min(0, 1 - len_label / len_prediction)) * product of p_n ** (1 / 2**n) over n = 1 .. k

    with p_n the share of the prediction's n-grams that are in the label, each counted at most as often as there.
    A prediction of fewer than k tokens is judged by its own n-grams; an empty one scores 0.

    Args:
        prediction: tokens between spaces
        label: tokens between spaces
        k: longest n-gram

    Source: Zhang et al., Dive into Deep Learning, section 10.7.6.

    >>> round(textbook_bleu("je suis .", "je suis chez moi .", k=2), 4)
    0.4317
    """
    predicted, expected = prediction.split(), label.split()
    if not predicted:
        return 0.0
    score = math.exp(min(0.0, 1 - len(expected) / len(predicted)))
    for n in range(1, min(k, len(predicted)) + 1):
        grams = _grams(predicted, n)
        score *= ((grams & _grams(expected, n)).total() / grams.total()) ** 0.5**n
    return score


def perplexity(nll_sum: float, tokens: int) -> float:
    """exp of the mean negative log-likelihood of a token; infinite where that overflows.

    Args:
        nll_sum: negative log-likelihood in nats, summed over the tokens

    >>> round(perplexity(3 * math.log(7), 3), 6)
    7.0
    """
    if tokens < 1:
        raise DataError(f"a mean over {tokens} tokens is not defined; the data has no target tokens")
    try:
        return math.exp(nll_sum / tokens)
    except OverflowError:
        return math.inf


def bits_per_char(nll_sum: float, chars: float) -> float:
    """Mean information of a character of the raw text; comparable between tokenizers.

    Args:
        nll_sum: negative log-likelihood in nats, summed over the tokens of the text

    >>> round(bits_per_char(3 * math.log(8), 3), 6)
    3.0
    """
    if chars <= 0:
        raise DataError(f"a mean over {chars:g} characters is not defined; the text is empty")
    return nll_sum / math.log(2) / chars


def f1(right: float, predicted: float, gold: float) -> float:
    """2 right / (predicted + gold), from 0 to 1: the harmonic mean of precision and recall; 0 where there is neither.

    >>> f1(right=2, predicted=4, gold=4)
    0.5
    """
    return 2 * right / (predicted + gold) if predicted + gold else 0.0


def macro_f1(right: Sequence[float], predicted: Sequence[float], gold: Sequence[float]) -> float:
    """The mean F1 of the classes that occur, predicted or gold, every class alike; NaN where there is none.

    >>> macro_f1(right=[2, 0, 0], predicted=[4, 0, 1], gold=[4, 1, 0])
    0.16666666666666666
    """
    scores = [f1(*counts) for counts in zip(right, predicted, gold, strict=True) if counts[1] + counts[2]]
    return math.fsum(scores) / len(scores) if scores else math.nan


def alignment_scores(
    predicted: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]],
) -> dict[str, float]:
    """Alignment error rate, precision and recall of word links, in percent, over all pairs at once.

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision = |A & P| / |A|, recall = |A & S| / |S|

    with A the predicted links, S the sure ones and P the sure and the possible ones; NaN for shares of nothing.

    Args:
        predicted, sure, possible: the predicted, sure and possible links of each pair; sure links are possible too.

    Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 5.1.

    >>> alignment_scores([[(0, 0), (1, 0), (2, 2)]], [[(0, 0)]], [[(1, 0)]])["aer"]
    25.0
    """
    if not len(predicted) == len(sure) == len(possible):
        raise DataError(
            f"links of {len(predicted)} pairs do not pair with gold links of {len(sure)} and {len(possible)}"
        )
    counts: Counter[str] = Counter()
    for links, certain, others in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        allowed = certain | others
        counts.update(predicted=len(links), sure=len(certain), hits=len(links & certain), allowed=len(links & allowed))
    both, right = counts["predicted"] + counts["sure"], counts["hits"] + counts["allowed"]
    return {
        "aer": 100 * (1 - right / both) if both else math.nan,
        "precision": 100 * counts["allowed"] / counts["predicted"] if counts["predicted"] else math.nan,
        "recall": 100 * counts["hits"] / counts["sure"] if counts["sure"] else math.nan,
    }


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks of two lists of numbers, -1 to 1; equal numbers share the mean of their ranks.

    NaN where there are fewer than two numbers, or all of a list are equal.

    Raises: DataError for lists of different lengths.

    >>> round(spearman([1, 2, 3, 4], [10, 20, 20, 5]), 4)
    -0.3162
    """
    if len(first) != len(second):
        raise DataError(f"{len(first)} numbers against {len(second)}: give two lists of one length")
    from scipy.stats import rankdata

    ranks = rankdata([first, second], axis=1)
    if len(first) < 2 or not np.ptp(ranks, axis=1).all():
        return math.nan
    return float(np.corrcoef(ranks)[0, 1])


def _sacre_bleu(hypotheses: Sequence[str], references: Sequence[Reference], tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics import BLEU

    _paired(hypotheses, references)
    # force: do not advise on standard error against text whose marks stand apart, which a corpus may have
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return metric, metric.corpus_score(list(hypotheses), _streams(references))


def _grams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))


def _streams(references: Sequence[Reference]) -> Any:
    """The first references of all hypotheses, the second ones and so on, None where a hypothesis has no more."""
    alternatives = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    return [list(stream) for stream in itertools.zip_longest(*alternatives)]


def _paired(hypotheses: Sequence[str], references: Sequence[Reference]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses do not pair with {len(references)} references")
    if not hypotheses:
        raise DataError("there is nothing to score: no hypotheses")


def edit_distance(predicted: Sequence[object], gold: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions from `predicted` to `gold`, in O(product of the lengths).

    Source: Levenshtein 1966; Wagner and Fischer 1974.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(gold) + 1))
    for i, unit in enumerate(predicted, 1):
        diagonal, row[0] = row[0], i
        for j, target in enumerate(gold, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (unit != target))
    return row[-1]


def error_rate(predicted: Sequence[Sequence[object]], gold: Sequence[Sequence[object]]) -> float:
    """Edits for each 100 units of gold, over all pairs at once: WER of words, CER of characters; NaN of no units.

    >>> error_rate(["one two".split(), []], ["one three".split(), ["four"]])
    66.66666666666667
    """
    total = sum(map(len, gold))
    return 100 * sum(map(edit_distance, predicted, gold)) / total if total else math.nan


def weighted_auc(scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"]) -> Callable[[Weights], float]:
    """A function from the weight of each row to the area under the ROC curve; the scores are sorted once.

    The area is the share of (positive, negative) pairs whose positive has the higher score, equal scores counting half;
    a pair weighs the product of its rows' weights. NaN where there is no such pair.

    >>> weighted_auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))(np.ones(4))
    0.875
    """
    order = np.argsort(scores, kind="stable")
    ranked, positive = scores[order], labels[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(ranked) else np.zeros(0, int)

    def area(weights: Weights) -> float:
        placed = weights[order]
        yes = np.add.reduceat(np.where(positive, placed, 0.0), starts) if len(starts) else np.zeros(0)
        no = np.add.reduceat(np.where(positive, 0.0, placed), starts) if len(starts) else np.zeros(0)
        pairs = yes.sum() * no.sum()
        below = np.cumsum(no) - no
        return float((yes * (below + no / 2)).sum() / pairs) if pairs else float("nan")

    return area


def auc(scores: Float[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"], weights: Weights | None = None) -> float:
    """The area under the ROC curve; NaN where all labels are the same. See `weighted_auc`."""
    return weighted_auc(scores, labels)(np.ones(len(scores)) if weights is None else weights)


def overlaps(right: Counts, predicted: Counts, gold: Counts) -> Float64[np.ndarray, "classes"]:
    """Intersection over union of each class over all pixels; NaN of a class that is neither predicted nor gold.

    IoU = right / (predicted + gold - right)

    Source: Everingham et al. 2010, "The Pascal Visual Object Classes Challenge", section 4.3; Long et al. 2015,
    arXiv:1411.4038, section 5.

    >>> overlaps(np.array([2, 0, 0]), predicted=np.array([4, 0, 1]), gold=np.array([4, 0, 0])).round(2).tolist()
    [0.33, nan, 0.0]
    """
    unions = predicted + gold - right
    return np.divide(right, unions, out=np.full(len(unions), np.nan), where=unions > 0)


def mean_overlap(right: Counts, predicted: Counts, gold: Counts) -> float:
    """The mean of `overlaps` over the classes that are predicted or gold; NaN where there is none."""
    ratios = [ratio for ratio in overlaps(right, predicted, gold).tolist() if not math.isnan(ratio)]
    return math.fsum(ratios) / len(ratios) if ratios else math.nan
