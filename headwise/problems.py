"""Messages about wrong configurations: the nearest key, the values allowed, the section of a key."""

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from headwise.errors import unknown

# names of our keys in other programs; the first key that the recipe has is suggested
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("lr", "learn_rate", "base_lr", "max_lr", "peak_lr", "eta"),
    "max_epochs": ("epochs", "num_epochs", "n_epochs", "epoch", "num_train_epochs"),
    "max_steps": ("steps", "num_steps", "max_iters", "iterations", "num_iterations", "train_steps", "max_updates"),
    "max_minutes": ("max_hours", "max_time", "time_limit", "minutes", "deadline"),
    "max_cpu_s": ("max_seconds", "budget_s", "cpu_seconds"),
    "batch_tokens": ("batch_size", "batch", "bs", "max_tokens", "tokens_per_batch", "train_batch_size"),
    "batch_sentences": ("max_sentences", "sentences_per_batch"),
    "accumulate": ("gradient_accumulation_steps", "grad_accum", "accumulation_steps", "update_freq"),
    "clip_norm": ("clip", "grad_clip", "max_grad_norm", "gradient_clip", "clip_grad_norm", "gradient_clip_val"),
    "warmup_steps": ("warmup", "warm_up", "num_warmup_steps", "warmup_updates"),
    "weight_decay": ("wd", "l2", "decay"),
    "epsilon": ("eps", "adam_epsilon", "adam_eps"),
    "optimizer": ("optim", "optimiser", "solver"),
    "schedule": ("scheduler", "lr_scheduler", "lr_schedule", "lr_scheduler_type"),
    "patience": ("early_stopping", "early_stop", "early_stopping_patience"),
    "ema_decay": ("ema", "ema_rate"),
    "precision": ("fp16", "bf16", "amp", "mixed_precision", "autocast"),
    "device": ("gpu", "cuda", "accelerator", "use_gpu", "use_cuda"),
    "validate_every": ("eval_every", "eval_steps", "val_every", "eval_interval", "valid_every", "validation_freq"),
    "valid_limit": ("eval_limit", "max_eval_samples", "eval_iters"),
    "save_every": ("save_steps", "checkpoint_every", "save_interval", "save_freq"),
    "keep_last": ("save_total_limit", "keep_last_ckpts", "max_checkpoints"),
    "log_every": ("log_interval", "logging_steps", "logging_freq"),
    "monitor": ("metric_for_best_model", "best_metric", "early_stopping_metric"),
    "seed": ("random_seed", "rng_seed"),
    "d_model": ("hidden_size", "embed_dim", "embedding_dim", "hidden_dim", "d_embed", "emb_dim", "width", "n_embd"),
    "hidden_dim": ("hidden_size", "hidden", "d_model", "d_hidden", "rnn_size", "num_hiddens"),
    "embed_dim": ("embedding_size", "embedding_dim", "embed_size", "emb_size", "d_embed"),
    "d_ff": ("ffn_dim", "ff_size", "d_inner", "intermediate_size", "feed_forward", "dim_feedforward", "ffn_hiddens"),
    "num_heads": ("heads", "n_heads", "nhead", "num_attention_heads", "n_head", "h"),
    "num_kv_heads": ("kv_heads", "num_key_value_heads", "n_kv_heads"),
    "num_layers": ("layers", "n_layers", "depth", "num_blks", "num_hidden_layers", "n_layer", "blocks"),
    "encoder_layers": ("layers", "num_layers", "n_layers", "depth", "num_encoder_layers", "enc_layers", "n_layer"),
    "decoder_layers": ("num_decoder_layers", "dec_layers"),
    "position": ("pos", "positions", "positional_encoding", "pos_encoding", "position_encoding", "pe"),
    "mechanism": ("attention", "attn", "attention_type", "self_attention"),
    "norm": ("normalization", "norm_type", "layer_norm", "layernorm", "batch_norm"),
    "norm_order": ("prenorm", "pre_norm", "norm_first", "normalize_before", "norm_position"),
    "residual": ("skip", "skip_connection", "residual_connection", "use_residual"),
    "activation": ("act", "activation_function", "hidden_act", "activation_fn"),
    "dropout": ("p_dropout", "dropout_rate", "drop", "hidden_dropout_prob"),
    "attention_dropout": ("attn_dropout", "attention_probs_dropout_prob"),
    "tie_embeddings": ("share_embeddings", "tied_embeddings", "share_all_embeddings"),
    "tie_output": ("tied_softmax", "tie_weights", "tie_word_embeddings", "share_decoder_input_output_embed"),
    "cell": ("rnn", "rnn_type", "cell_type"),
    "beam_size": ("beam", "beams", "num_beams", "beam_width"),
    "length_penalty": ("alpha", "lenpen", "beam_alpha"),
    "method": ("search", "decoder", "strategy"),
    "no_repeat_ngram": ("no_repeat_ngram_size",),
    "label_smoothing": ("smoothing", "label_smoothing_factor"),
    "vocab_size": ("vocab", "vocabulary_size", "num_tokens", "vocabulary", "voc_limit"),
    "min_frequency": ("min_freq", "min_count", "voc_min_freq"),
    "lowercase": ("lower", "lower_case", "do_lower_case", "uncased"),
    "kind": ("type", "name", "family", "model_type", "tokenizer_type", "level"),
    "train": ("src", "source", "train_file", "train_path", "path", "file", "dataset", "train_src", "train_source"),
    "train_target": ("tgt", "target", "trg", "train_tgt", "train_trg"),
    "valid": ("val", "validation", "dev", "valid_file", "validation_file", "dev_file"),
    "source_key": ("src_key", "src_lang", "source_lang"),
    "target_key": ("tgt_key", "tgt_lang", "target_lang"),
    "valid_fraction": ("val_fraction", "valid_split", "validation_split", "val_split"),
    "test_fraction": ("test_split", "test_size"),
    "max_source_len": ("max_src_len", "max_length", "max_seq_len", "max_sent_length", "max_len"),
    "max_len": ("max_length", "max_seq_len", "max_output_length", "max_new_tokens", "num_steps"),
    "length": ("block_size", "context", "context_length", "seq_len", "bptt", "window"),
    "limit": ("max_examples", "max_train_samples", "num_examples"),
}

_SHOWN = 80
_NUMBERS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text"}
_BOUNDS = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "finite_number": "must be a finite number",
    "list_type": "must be a list, such as [1, 2]",
    "tuple_type": "must be a list, such as [1, 2]",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a number of 64 bits",
}


class Key(NamedTuple):
    """A key of a configuration: its name with sections and dots, the kind of model that has it, and its field."""

    name: str
    kind: str
    field: FieldInfo


def keys(kind: type[BaseModel], prefix: str = "", family: str = "") -> Iterator[Key]:
    """Every key of a configuration and of its sections; of a section with several kinds, the keys of each kind.

    >>> from headwise.data.tokenizers import TokenizerConfig
    >>> next(keys(TokenizerConfig)).name
    'kind'
    """
    for name, field in kind.model_fields.items():
        inner = models(field.annotation)
        if not inner:
            yield Key(prefix + name, family, field)
        for model in inner:
            yield from keys(model, f"{prefix}{name}.", tag(model) if len(inner) > 1 else family)


def tag(model: type[BaseModel]) -> str:
    """The name of a kind of model: what its `kind` is."""
    return str(model.model_fields["kind"].default) if "kind" in model.model_fields else ""


def models(annotation: Any) -> list[type[BaseModel]]:
    """The configurations that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in models(argument)]


def describe(kind: type[BaseModel], detail: ErrorDetails) -> str:
    """The message for one error of pydantic: place, cause and advice."""
    place, siblings, inner = _locate(kind, [str(part) for part in detail["loc"]])
    name = ".".join(place)
    context: dict[str, Any] = detail.get("ctx", {})
    fault = detail["type"]
    if fault == "extra_forbidden":
        return _unknown_key(kind, place, siblings)
    if fault.startswith("union_tag_"):
        key = context["discriminator"].strip("'")
        tags = sorted(str(model.model_fields[key].default) for model in inner)
        if "tag" in context:
            return unknown(f"{name}.{key}", str(context["tag"]), tags)
        return f"{name}.{key}: missing; give one of {', '.join(tags)}"
    if fault == "missing" and place[-1].isdecimal():
        return f"{'.'.join(place[:-1])}: has too few entries"
    if fault == "missing":
        return f"{name}: missing, and there is no default; set it"
    if fault == "literal_error":
        return _unknown_value(name, detail, siblings)
    if fault in ("model_type", "model_attributes_type", "dict_type"):
        return f"{name}: is a section with keys of its own, not {shown(detail['input'])}"
    return _wrong_value(name, detail)


def shown(value: Any, quote: bool = True) -> str:
    """A value as a recipe has it, shortened."""
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"'{text}'" if quote and isinstance(value, str) else text


def _unknown_value(name: str, detail: ErrorDetails, siblings: list[type[BaseModel]]) -> str:
    """The values of the key, or a sibling key that takes this value, as in another release."""
    value = shown(detail["input"], quote=False)
    fields = [(key, field) for model in siblings for key, field in model.model_fields.items()]
    takes = [
        key for key, field in fields if get_origin(field.annotation) is Literal and value in get_args(field.annotation)
    ]
    if takes:
        section, dot, _ = name.rpartition(".")
        return f"{name} = '{value}' is written {section}{dot}{takes[0]} = '{value}'"
    return unknown(name, value, re.findall(r"'([^']*)'", detail["ctx"]["expected"]))


def _wrong_value(name: str, detail: ErrorDetails) -> str:
    fault, value = detail["type"], detail["input"]
    context: dict[str, Any] = detail.get("ctx", {})
    expected = _NUMBERS.get(fault.removesuffix("_type").removesuffix("_parsing"))
    if expected is not None:
        return f"{name}: must be {expected}, not {shown(value)}"
    if fault in _BOUNDS:
        bounds = {key: _as_integer(bound) for key, bound in context.items()}
        return f"{name}: {_BOUNDS[fault].format(**bounds)}, not {shown(value)}"
    message = detail["msg"].removeprefix("Value error, ")
    text = message if isinstance(value, Mapping) else f"{message} (got {shown(value)})"
    return f"{name}: {text}" if name else text


def _as_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value


def _unknown_key(kind: type[BaseModel], place: list[str], siblings: list[type[BaseModel]]) -> str:
    """The nearest key: in another section, under the name of another program, or by spelling."""
    name, last = ".".join(place), place[-1]
    prefix = "".join(f"{part}." for part in place[:-1])
    here = [prefix + key for model in siblings for key in model.model_fields]
    everything = list(keys(kind))
    if families := [key.kind for key in everything if key.name == name and key.kind]:
        return f"unknown key '{name}': only kind {' or '.join(dict.fromkeys(families))} has it"
    names = list(dict.fromkeys(key.name for key in everything))
    if elsewhere := [other for other in names if other.rpartition(".")[2] == last]:
        inside = dict.fromkeys(f"[{other.rpartition('.')[0]}]" for other in elsewhere if "." in other)
        sections = " or ".join(inside) or "no section"
        return f"unknown key '{shown(name, quote=False)}': it belongs in {sections}; write {_either(elsewhere)}"
    meant = [other for other, names in SYNONYMS.items() if last.lower() in names]
    for candidates in (here, names):
        if matches := [other for word in meant for other in candidates if other.rpartition(".")[2] == word]:
            return f"unknown key '{name}'; did you mean {_either(matches[:2])}?"
    if not difflib.get_close_matches(name, here, n=1):
        by_last = {other.rpartition(".")[2]: other for other in reversed(names)}
        if near := difflib.get_close_matches(last, by_last, n=1, cutoff=0.75):
            return f"unknown key '{name}'; did you mean '{by_last[near[0]]}'?"
    return unknown("key", name, here)


def _either(names: list[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _locate(kind: type[BaseModel], place: list[str]) -> tuple[list[str], list[type[BaseModel]], list[type[BaseModel]]]:
    """The keys of a place as a recipe has them, the models with the last key, and the models of its value."""
    siblings: list[type[BaseModel]] = []
    inner: list[type[BaseModel]] = [kind]
    keys: list[str] = []
    for part in place:
        tagged = [model for model in inner if part in {str(field.default) for field in model.model_fields.values()}]
        if len(inner) > 1 and tagged:
            # pydantic puts the tag of a union into the place; no file has it
            inner = tagged
            continue
        keys.append(part)
        siblings = inner
        fields = [model.model_fields[part] for model in siblings if part in model.model_fields]
        inner = [model for field in fields for model in models(field.annotation)]
    return keys, siblings, inner
