"""A recipe to begin with for dialogues, for `headwise init`."""

from collections.abc import Mapping
from typing import Any

from headwise.config import build
from headwise.data.bad_lines import BadLines
from headwise.data.dialogues import DialogueConfig, load_dialogues, read_dialogues, turns_of
from headwise.data.suggestions import Suggestion, held_out, suggest

# tokens of a context, and of an answer, that a first model reads and writes at most
_LONGEST, _ANSWER = 512, 128


def suggest_for_dialogues(data: Mapping[str, Any]) -> Suggestion:
    """A Transformer for the dialogues of these keys of `[data]`.

    Raises: as `suggest_for_pairs`.
    """
    config = build(DialogueConfig, data, "data")
    pairs = read_dialogues(config, "train", "nfc", BadLines()) or []
    found = suggest(pairs)
    model = {**found["model"], "norm_order": "pre"}
    layers = model.pop("num_layers")

    def split(valid: float, test: float) -> object:
        return load_dialogues(config.model_copy(update={"valid_fraction": valid, "test_fraction": test}), "nfc")

    limits = found["data"]
    cut = {
        "max_source_len": min(limits["max_source_len"], _LONGEST),
        "max_target_len": min(limits["max_target_len"], _ANSWER),
    }
    values = {
        "label_smoothing": 0.1,
        "data": {**held_out(data, split), **cut, **data},
        "tokenizer": {**found["tokenizer"], "joint": True},
        "model": {"kind": "transformer", **model, "encoder_layers": layers, "decoder_layers": layers},
        "training": {
            "learning_rate": 2e-3,
            "schedule": "budget",
            "warmup_share": 0.1,
            "batch_tokens": max(found["training"]["batch_tokens"], 2 * cut["max_source_len"]),
            "max_epochs": max(5, min(30, 300_000 // len(pairs))),
            "monitor": "perplexity",
        },
    }
    turns = max(len(turns_of(pair.source)) for pair in pairs)
    return Suggestion(values, f"Dialogue, fitted to {len(pairs):,} answers after up to {turns:,} turns")
