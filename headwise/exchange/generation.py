"""generation_config.json and `[decoding]`: how outputs are searched for."""

from collections.abc import Mapping
from typing import Any

from headwise.exchange.keys import Flat, Key, fixed, free, mapped, read_keys, token

_WHERE = "generation_config.json"

# those that an older config.json has too
KEYS = (
    Key("num_beams", "decoding.beam_size", 1),
    Key("length_penalty", "decoding.length_penalty", 1.0),
    Key("no_repeat_ngram_size", "decoding.no_repeat_ngram", 0, lambda value: value or 0),
    Key("do_sample", "decoding.sampled", False),
    Key("temperature", "decoding.temperature", 1.0, lambda value: 1.0 if value is None else value),
    Key("top_k", "decoding.top_k", 50, lambda value: value or 0),
    Key("top_p", "decoding.top_p", 1.0, lambda value: 1.0 if value is None else value),
    Key("max_length", "limits.max_length", None),
    Key("max_new_tokens", "limits.max_new_tokens", None),
    Key("min_length", "limits.min_length", 0, lambda value: value or 0),
    token("forced_bos_token_id", "specials.first", None),
    token("forced_eos_token_id", "specials.last", None),
    Key("bad_words_ids", "specials.bad_words", None),
    token("suppress_tokens", "specials.suppressed", None),
    fixed("repetition_penalty", 1.0, None),
    fixed("encoder_no_repeat_ngram_size", 0, None),
    fixed("diversity_penalty", 0.0, None),
    fixed("num_beam_groups", 1, None),
    fixed("typical_p", 1.0, None),
    fixed("min_new_tokens", None, 0),
    fixed("begin_suppress_tokens", None),
    fixed("exponential_decay_length_penalty", None),
    fixed("remove_invalid_values", False, None),
    fixed("renormalize_logits", False, None),
    fixed("penalty_alpha", None, 0.0),
    fixed("min_p", None, 0.0),
    mapped("early_stopping", "decoding.stopping", False, {False: "estimate", True: "full", "never": "bound"}),
    *free("num_return_sequences"),
)
_TOKENS = tuple(
    token(f"{name}_token_id", f"specials.{ours}", None)
    for name, ours in (("pad", "pad"), ("bos", "begin"), ("eos", "eos"), ("decoder_start", "bos"))
)
_REST = free("transformers_version", "use_cache", "output_attentions", "output_hidden_states", "output_scores")
_REST += free("_from_model_config", "return_dict_in_generate", "trust_remote_code", "output_logits")
# without keys that say nothing, and those of an older program
WRITTEN = tuple(key for key in KEYS if key.ours is not None) + _TOKENS
NAMES = frozenset(key.name for key in KEYS)


def read(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Flat:
    """How a model writes: by its generation configuration, in older folders by keys of the other one.

    Raises: Unsupported naming a key without counterpart.
    """
    if generation is None:
        where, values = "config.json", {name: value for name, value in config.items() if name in NAMES}
    else:
        where, values = _WHERE, dict(generation)
    flat = read_keys((*KEYS, *_TOKENS, *_REST), values, where)
    if generation is None:
        flat = {key: value for key, value in flat.items() if key not in {special.ours for special in _TOKENS}}
    return {key: value for key, value in flat.items() if not (value is None and key.startswith("specials."))}
