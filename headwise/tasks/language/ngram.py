"""A language model that counts what follows what: the baseline beside which a trained one is scored."""

from dataclasses import dataclass

import numpy as np

from headwise.data.streams import Text, Tokens

# tokens of a text that are counted at most
COUNTED = 1 << 22
# tokens that are scored together
_CHUNK = 1 << 18


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length.

    Args:
        keys: of each, sorted: the number of its tokens but the last one, among the n-grams a token shorter, times the
            size of the vocabulary, plus its last token.
        counts: how often each occurs, or below the highest order, how many different tokens stand before it.
        totals: the sum of the counts for each beginning.
        types: how many n-grams with a count each beginning has.
        discount: what is taken off each count.
    """

    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    types: np.ndarray
    discount: float


class NGrams:
    """Interpolated Kneser-Ney: p(w | h) = (max(c(h w) - d, 0) + d n(h) p(w | h')) / c(h).

    h' is h without its first token; n(h) is how many different tokens follow h; c counts, below the highest order,
    different tokens in front. Each order has one discount, n1 / (n1 + 2 n2), by how many n-grams have a count of one
    and two. Under the unigrams lies the uniform distribution over the vocabulary. A context that was not seen is
    shortened. Time and memory grow with the tokens counted, times the order.

    Args:
        tokens: a text, what stands before it in front.
        order: tokens that are looked at, the one that is told included.
        vocab_size: numbers that a token may have.
    Source: Kneser and Ney 1995, ICASSP; Chen and Goodman 1999, section 2.7, with one discount where they prefer three.

    >>> pairs = NGrams(np.array([1, 4, 5, 4, 6, 4, 5]), 2, 7)
    >>> pairs.probabilities(np.array([4, 5])).round(3).tolist(), pairs.probabilities(np.array([4, 6])).round(3).tolist()
    ([0.508], [0.175])
    """

    def __init__(self, tokens: Tokens, order: int, vocab_size: int):
        self.vocab_size = vocab_size
        self._orders: list[_Order] = []
        tokens = np.asarray(tokens[: COUNTED + 1]).astype(np.int64)
        # the number of what ends at each place, from the place before the first: of no token, all are the same
        numbers, keys, size = np.zeros(len(tokens) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), 1
        often = keys
        for length in range(1, min(order, len(tokens)) + 1):
            longer = numbers[:-1] * vocab_size + tokens[length - 1 :]
            unique_keys, first, inverse, counts = np.unique(
                longer, return_index=True, return_inverse=True, return_counts=True
            )
            if length > 1:
                # without its first token it ends at the same place
                self._orders.append(
                    _order(keys, np.bincount(numbers[first + 1], minlength=len(keys)), size, vocab_size)
                )
                size = len(keys)
            numbers, keys, often = inverse, unique_keys, counts
        self._orders.append(_order(keys, often, size, vocab_size))

    def probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """The probability of every token but the first, each after those before it."""
        tokens = tokens.astype(np.int64)
        odds, numbers = np.full(len(tokens), 1 / self.vocab_size), np.zeros(len(tokens) + 1, dtype=np.int64)
        for length, order in enumerate(self._orders, 1):
            context, lower = numbers[:-1], odds[length - 1 :]
            numbers = _places(order.keys, context * self.vocab_size + tokens[length - 1 :])
            # -1, of what was not seen, is the last entry, and not looked at
            total, types = np.where(context < 0, 0, order.totals[context]), order.types[context]
            count = np.where(numbers < 0, 0, order.counts[numbers])
            discounted = np.maximum(count - order.discount, 0) + order.discount * types * lower
            lower[:] = np.where(total > 0, discounted / np.maximum(total, 1), lower)
        return odds[1:]

    def nll(self, text: Text) -> float:
        """Negative log-likelihood of a text in nats."""
        reach, total = max(1, len(self._orders) - 1), 0.0
        for start in range(1, len(text.tokens), _CHUNK):
            begin = max(0, start - reach)
            odds = self.probabilities(text.tokens[begin : start + _CHUNK])
            total -= float(np.log(odds[start - begin - 1 :]).sum())
        return total


def _order(keys: np.ndarray, counts: np.ndarray, size: int, vocab_size: int) -> _Order:
    """`size`: how many n-grams are a token shorter."""
    beginnings, present = keys // vocab_size, counts > 0
    ones, twos = int((counts == 1).sum()), int((counts == 2).sum())
    return _Order(
        keys,
        counts,
        np.bincount(beginnings, counts, minlength=size),
        np.bincount(beginnings[present], minlength=size),
        # of a tiny text they may tell nothing
        ones / (ones + 2 * twos) if ones and twos else 0.5,
    )


def _places(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Where each number stands among sorted ones; -1 where it does not."""
    places = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[places] == queries, places, -1)
