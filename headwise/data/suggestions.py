"""Settings fitted to a data set, for the first recipe written for it."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from headwise.data.readers import Pair
from headwise.data.text import script_counts
from headwise.errors import DataError

# scripts written without spaces between words
_UNSPACED = frozenset({"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
_SCRIPT_SAMPLE = 20_000

# pairs up to -> vocabulary of pieces, width, inner width, heads, layers of each stack, dropout
_SIZES = (
    (3_000, 2000, 128, 256, 4, 2, 0.2),
    (15_000, 4000, 128, 256, 4, 3, 0.3),
    (60_000, 8000, 128, 256, 4, 4, 0.3),
    (400_000, 8000, 256, 1024, 4, 4, 0.2),
    (3_000_000, 16000, 512, 2048, 8, 6, 0.1),
    (math.inf, 32000, 512, 2048, 8, 6, 0.1),
)
_WORDS_UP_TO = 3_000


def suggest(pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Settings by section (tokenizer, data, model, training) for a Transformer on these pairs; a place to start.

    Small sets get words and a small model, larger ones a joint vocabulary of pieces where the scripts allow it, and a
    model that grows with the number of pairs. Length limits keep 99.9 % of the pairs.

    Raises:
        DataError: there are no pairs.

    >>> suggest([Pair("go .", "va !", 1)])["tokenizer"]["kind"]
    'word'
    """
    if not pairs:
        raise DataError("no sentence pairs to fit a recipe to")
    source, target = (_scripts([getattr(pair, side) for pair in pairs]) for side in ("source", "target"))
    spaced = not _UNSPACED.intersection([*source[:1], *target[:1]])
    pieces, d_model, d_ff, num_heads, num_layers, dropout = next(row[1:] for row in _SIZES if len(pairs) <= row[0])
    word = spaced and len(pairs) <= _WORDS_UP_TO
    unit = "words" if spaced else "characters"
    lengths = np.array([(_size(pair.source, unit), _size(pair.target, unit)) for pair in pairs])
    limits = [_limit(lengths[:, side], 1.0 if word or not spaced else 2.0) for side in (0, 1)]
    return {
        "tokenizer": {
            "kind": "word" if word else "bpe" if spaced else "unigram",
            "vocab_size": _vocabulary(pairs) if word else int(pieces),
            "joint": not word and source[:1] == target[:1],
            "min_frequency": 1,
            "lowercase": False,
            "split_punctuation": True,
        },
        "data": {"max_source_len": limits[0], "max_target_len": limits[1]},
        "model": {
            "d_model": int(d_model),
            "d_ff": int(d_ff),
            "num_heads": int(num_heads),
            "num_layers": int(num_layers),
            "dropout": dropout,
        },
        "training": {"batch_tokens": max(_batch_tokens(int(lengths[:, 1].sum())), *(limit + 1 for limit in limits))},
    }


def _scripts(texts: Sequence[str]) -> list[str]:
    """The scripts of the first texts, most frequent first."""
    return list(script_counts(Counter("".join(texts[:_SCRIPT_SAMPLE]))))


def _size(text: str, unit: str) -> int:
    return len(text) if unit == "characters" else len(text.split())


def _limit(sizes: np.ndarray, tokens_per_unit: float) -> int:
    """A length in tokens that all but one in a thousand keep to, with room for punctuation, a multiple of 16."""
    usual = float(np.quantile(sizes, 0.999, method="higher"))
    return 16 * math.ceil((usual * tokens_per_unit * 1.25 + 4) / 16)


def _vocabulary(pairs: Sequence[Pair]) -> int:
    """Room for every word of the larger side, to the next thousand."""
    sides = [{word for pair in pairs for word in getattr(pair, side).split()} for side in ("source", "target")]
    return 1000 * math.ceil((max(map(len, sides)) + 4) / 1000)


def _batch_tokens(target_tokens: int) -> int:
    """A power of two from 512 to 4096 that leaves some forty batches in an epoch."""
    return 2 ** min(12, max(9, round(math.log2(max(target_tokens / 40, 1)))))
