"""Recipes fitted to sentence pairs and to dialogues, for `headwise init`."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise.data.readers import Pair
from headwise.data.suggestions import Size
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
# as the tokenizer splits: punctuation, signs and combining marks stand alone
_WORDS = re.compile(r"\w+|[^\w\s]")
# pairs up to which few pieces teach more in little time
_FEW = 40_000
# what is the same for each size of a translator with a limit of time
_TRANSLATOR = {
    "model.attention_dropout": 0.0,
    "model.activation_dropout": 0.0,
    "training.budget": "target",
    "training.max_epochs": 60,
    "training.patience": 0,
    # BLEU of so few sentences would choose by luck
    "training.valid_limit": 300,
    "training.monitor": "accuracy",
}
# width, inner width, layers of each stack, peak of the learning rate, steps wanted
_TRANSLATORS = (
    (128, 512, 2, 4e-3, 0),
    (256, 512, 2, 3e-3, 400),
    (256, 1024, 3, 2e-3, 3_000),
    (512, 2048, 4, 1e-3, 10_000),
    (512, 2048, 6, 7e-4, 40_000),
)
DROPOUTS = ((10.0, 0.1), (30.0, 0.2), (math.inf, 0.3))


def timed_sizes(pairs: Sequence[Pair], suggested: Mapping[str, Mapping[str, Any]]) -> tuple[Size, ...]:
    """The models to choose from where there is a limit of time, for pairs and what `suggest` suggests for them."""
    # no pair that is kept may be longer than a batch
    timed = {"training.batch_tokens": max(1024, *(limit + 1 for limit in suggested["data"].values()))}
    if len(pairs) <= _FEW:
        timed["tokenizer.vocab_size"] = min(4000, suggested["tokenizer"]["vocab_size"])
    return tuple(
        Size(
            {
                **_TRANSLATOR,
                **timed,
                "model.d_model": d_model,
                "model.d_ff": d_ff,
                "model.num_heads": d_model // 64,
                "model.encoder_layers": layers,
                "model.decoder_layers": layers,
                "training.learning_rate": learning_rate,
            },
            steps,
        )
        for d_model, d_ff, layers, learning_rate, steps in _TRANSLATORS
    )


def suggest(pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Settings by section (tokenizer, data, model, training) for a Transformer on these pairs; a place to start.

    Small sets get words and a small model, larger ones a joint vocabulary of pieces where the scripts allow it, and a
    model that grows with the number of pairs. Length limits keep 99.9 % of the pairs.

    Raises: DataError: there are no pairs.

    >>> suggest([Pair("go .", "va !", 1)])["tokenizer"]["kind"]
    'word'
    """
    if not pairs:
        raise DataError("no sentence pairs to fit a recipe to")
    source, target = (_scripts([getattr(pair, side) for pair in pairs]) for side in ("source", "target"))
    spaced = not _UNSPACED.intersection([*source[:1], *target[:1]])
    pieces, d_model, d_ff, num_heads, num_layers, dropout = next(row[1:] for row in _SIZES if len(pairs) <= row[0])
    word = spaced and len(pairs) <= _WORDS_UP_TO
    cut = _WORDS.findall if spaced else list
    lengths = np.array([(len(cut(pair.source)), len(cut(pair.target))) for pair in pairs])
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
            "kind": "transformer",
            "d_model": int(d_model),
            "d_ff": int(d_ff),
            "num_heads": int(num_heads),
            "dropout": dropout,
            "norm_order": "pre",
            "encoder_layers": int(num_layers),
            "decoder_layers": int(num_layers),
        },
        "training": {"batch_tokens": max(_batch_tokens(int(lengths[:, 1].sum())), *(limit + 1 for limit in limits))},
    }


def _scripts(texts: Sequence[str]) -> list[str]:
    """The scripts of the first texts, most frequent first."""
    return list(script_counts(Counter("".join(texts[:_SCRIPT_SAMPLE]))))


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
