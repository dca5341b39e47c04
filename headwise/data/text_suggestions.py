"""A recipe fitted to labelled texts, for `headwise init`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise.config import build
from headwise.data.corpus import resolve
from headwise.data.labelled import LabelledConfig, read_labelled
from headwise.data.splits import split_by
from headwise.data.suggestions import Size, Suggestion, held_out
from headwise.data.tokenizers import Tokenizer, TokenizerConfig

# of texts, the share that are read whole
_WHOLE = 0.99
_SHORTEST, _LONGEST = 32, 512
# texts that are cut into tokens to see how many they have
_SAMPLE = 5_000
# texts from which a wider model learns more
_MANY = 50_000


def suggest_for_labelled(data: Mapping[str, Any], *, numbers: bool) -> Suggestion:
    """A recurrent reader with attention pooling for the texts of these keys of `[data]`.

    Args:
        numbers: the labels are numbers.

    Raises:
        ConfigError: keys that there are not.
        DataError: files that are not there or are wrong.
    """
    config = build(LabelledConfig, data, "data")
    examples = read_labelled(resolve(config.train), config, numbers=numbers)
    texts = [example.text for example in examples]
    words = {word for text in texts for word in text.split()}
    tokenizer = {"kind": "bpe", "vocab_size": min(8000, 1000 * math.ceil((len(words) + 4) / 1000))}
    # a batch has room for the longest text, also where the user says how long that is
    longest = (
        config.max_len
        if "max_len" in data
        else _longest(texts[:: math.ceil(len(texts) / _SAMPLE)], build(TokenizerConfig, tokenizer, "tokenizer"))
    )

    def split(*parts: float) -> object:
        return split_by(examples, lambda one: one.text, (parts[0], parts[1]), config.split_seed, "texts")

    values = {
        "data": {**held_out(data, split), **data, "max_len": longest},
        "tokenizer": tokenizer,
        "pooling": {"kind": "attention"},
        "model": {"kind": "rnn", "cell": "gru", "d_model": 64, "hidden_dim": 64, "num_layers": 1, "dropout": 0.5},
        "training": {
            "learning_rate": 4e-3,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_tokens": max(1024, longest),
            "max_epochs": _passes(len(examples)),
            "monitor": "rmse" if numbers else "accuracy",
        },
    }
    what = "A number for each text" if numbers else "Classes of texts"
    larger = {"model.d_model": 128, "model.hidden_dim": 128, "training.learning_rate": 2e-3}
    sizes = (Size({}, 0), *((Size(larger, 5_000),) if len(examples) >= _MANY else ()))
    return Suggestion(values, f"{what}, fitted to the {len(examples):,} texts", sizes)


def _longest(texts: Sequence[str], config: TokenizerConfig) -> int:
    """A length in tokens that nearly all texts keep to, a multiple of 16."""
    lengths = [len(row) for row in Tokenizer.train(texts, config).encode_batch(texts)]
    usual = float(np.quantile(lengths, _WHOLE, method="higher"))
    return min(_LONGEST, max(_SHORTEST, 16 * math.ceil(usual / 16)))


def _passes(examples: int) -> int:
    """Passes after which a model of this size knows the training texts by heart."""
    return 20 if examples < 1_000 else 8 if examples < 4_000 else 4
