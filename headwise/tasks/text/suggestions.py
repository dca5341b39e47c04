"""Recipes fitted to labelled texts, and to plain text for word vectors, for `headwise init`."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.config import build
from headwise.data.report import embedding_size
from headwise.data.suggestions import Size, Suggestion, held_out
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.tasks.text.labelled import LabelledConfig, labelled_set

if TYPE_CHECKING:
    from headwise.tasks.text.plain import Portion


# of texts, the share that are read whole
_WHOLE = 0.99
_SHORTEST, _LONGEST = 32, 512
# texts that are cut into tokens to see how many they have
_SAMPLE = 5_000
# lines of a plain text whose words are counted
_LINES = 1_000_000
# characters of a text below which every word counts and many passes are made, and from which fewer repetitions are kept
_SMALL_TEXT, _LARGE_TEXT = 500_000, 500_000_000
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
    data_set = labelled_set(config, TokenizerConfig(), numbers=numbers)
    examples = data_set.read_file("train")[0]
    texts = [example.text for example in examples]
    words = {word for text in texts for word in text.split()}
    tokenizer = {"kind": "bpe", "vocab_size": min(8000, 1000 * math.ceil((len(words) + 4) / 1000))}
    # a batch has room for the longest text, also where the user says how long that is
    longest = (
        config.max_len
        if "max_len" in data
        else _longest(texts[:: math.ceil(len(texts) / _SAMPLE)], build(TokenizerConfig, tokenizer, "tokenizer"))
    )

    values = {
        "data": {**data_set.shares(data, examples), **data, "max_len": longest},
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


def suggest_for_vectors(data: Mapping[str, Any]) -> Suggestion:
    """Skip-gram for the plain text of these keys of `[data]`; vectors as wide as the number of words asks for.

    Raises: as `suggest_for_labelled`.
    """
    # the only kind of data whose reader loads torch
    from headwise.tasks.text.plain import TextConfig, portions

    def cut(*parts: float) -> "dict[str, Portion]":
        return portions(config.model_copy(update={"valid_fraction": parts[0], "test_fraction": parts[1]}))

    config = build(TextConfig, {key: value for key, value in data.items() if key in TextConfig.model_fields}, "data")
    parts = held_out(data, cut)
    train = cut(parts.get("valid_fraction", 0.0), parts.get("test_fraction", 0.0))["train"]
    rare = 1 if train.chars < _SMALL_TEXT else 5
    tokenizer = {"kind": "word", "vocab_size": 100_000, "min_frequency": rare, "lowercase": True}
    words = Counter(word.lower() for line in islice(train.lines(), _LINES) for word in line.split())
    size = sum(count >= rare for count in words.values())
    values = {
        "data": {**parts, **data},
        "tokenizer": tokenizer,
        "model": {"kind": "skip-gram", "embed_dim": max(32, 4 * math.ceil(embedding_size(size) / 4))},
        "context": {"window": 5, "negatives": 5, "subsample": 1e-3 if train.chars < _LARGE_TEXT else 1e-5},
        "training": {
            "learning_rate": 3e-3,
            "schedule": "budget",
            "warmup_share": 0.05,
            "batch_tokens": 512 if train.chars < _SMALL_TEXT else 4096,
            "max_epochs": 20 if train.chars < _SMALL_TEXT else 5,
            "monitor": "loss",
        },
    }
    about = f"Word vectors, fitted to a text of {train.chars:,} characters"
    return Suggestion(values, about)


def suggest_for_masked(data: Mapping[str, Any]) -> Suggestion:
    """An encoder of attention for the text of these keys of `[data]`; raises as `suggest_for_text`."""
    values = dict(suggest_for_text(data).values)
    model = {name: value for name, value in values["model"].items() if name != "num_layers"}
    values["model"] = {"kind": "attention", **model, "encoder_layers": 4}
    values["training"] = {**values["training"], "learning_rate": 1e-3, "max_epochs": 20, "monitor": "loss"}
    return Suggestion(values, "A masked language model of plain text")


_LARGER = {"training.max_epochs": 10, "model.d_model": 256, "model.d_ff": 1024, "training.learning_rate": 2e-3}


_WRITERS = (
    Size({"training.max_epochs": 10}, 0),
    Size(_LARGER, 12_000),
    Size({**_LARGER, "model.num_layers": 6, "training.batch_tokens": 4096}, 40_000),
)


def suggest_for_text(data: Mapping[str, Any]) -> Suggestion:
    """A decoder-only Transformer for the text of these keys of `[data]`.

    Raises: as `suggest_for_pairs`.
    """
    # the only kind of data whose reader loads torch
    from headwise.tasks.text.plain import Portion, TextConfig, portions

    config = build(TextConfig, data, "data")

    @cache
    def cut(valid: float, test: float) -> dict[str, Portion]:
        return portions(config.model_copy(update={"valid_fraction": valid, "test_fraction": test}))

    parts = held_out(data, cut)
    by_split = cut(parts.get("valid_fraction", 0.0), parts.get("test_fraction", 0.0))
    chars = by_split["train"].chars
    values = {
        "length": 128 if chars > 20_000 else 32,
        "data": {**parts, **data},
        "tokenizer": {"kind": "bpe", "vocab_size": 1024 if chars < 5e6 else 4096 if chars < 5e7 else 8192},
        "model": {
            "d_model": 128,
            "d_ff": 512,
            "num_heads": 4,
            "num_layers": 4,
            "activation": "gelu",
            "position": "rotary",
            "dropout": 0.1,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
        },
        "training": {
            "learning_rate": 4e-3,
            "weight_decay": 0.1,
            "schedule": "budget",
            "warmup_share": 0.05,
            "batch_tokens": 2048,
            "max_epochs": 8,
            "monitor": "bits_per_char",
        },
    }
    return Suggestion(values, f"A language model, fitted to a text of {chars:,} characters", _WRITERS)
