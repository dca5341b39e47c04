"""Models of Hugging Face transformers with Headwise attention: they are recorded, edited and planned like its own."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headwise.adoption.masks import Pattern, pattern
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Mask, Table
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer, Sinks, Softmax
from headwise.attention.scores import Dot, ScaledDot, Score, SoftCap
from headwise.errors import ConfigError, Unsupported
from headwise.records.watching import watched

NAME = "headwise"
_OLDEST = (5, 20)
# they have no parameters, so one of each serves all calls
_SCALED_DOT, _SOFTMAX = ScaledDot(), Softmax()
_BEFORE, _CROSS = "attention_before_headwise", "attends_to_memory"
# arguments that change the result of an attention function and have no place in a call
_REFUSED = ("block_indices", "cache", "head_mask", "indices", "sinks")


def adopt(model: nn.Module) -> nn.Module:
    """Gives every attention layer of a Transformers model a `Scored` mechanism, in place, and returns the model.

    Weights and results do not change: scale, soft cap, sinks, grouped heads, position bias, dropout, caches and
    masks are taken from the model, masks by their structure. From then on `record`, `edit` and the planner work on the
    model, in training and in generation. `release` undoes it.

    Args:
        model: a `PreTrainedModel` of transformers 5.20 or newer whose attention goes through its attention interface.
    Raises:
        ConfigError: not such a model, or no transformers of that version.
        Unsupported: a family that does not use the attention interface.
    """
    modeling = _transformers("modeling_utils")
    if not isinstance(model, modeling.PreTrainedModel):
        raise ConfigError(f"adopt takes a model of transformers (a PreTrainedModel), not {type(model).__name__}")
    if is_adopted(model):
        raise ConfigError(f"this {type(model).__name__} is adopted already; release(model) undoes it")
    modules = [(name, part) for name, part in model.named_modules() if not isinstance(part, modeling.PreTrainedModel)]
    layers = {name: module for name, module in modules if _asks_interface(type(module))}
    if not layers:
        raise Unsupported(
            f"{type(model).__name__} computes its attention by itself, not through transformers' AttentionInterface;"
            " its weights are to be seen with attn_implementation='eager' and output_attentions=True only"
        )
    modeling.AttentionInterface.register(NAME, attention)
    _transformers("masking_utils").AttentionMaskInterface.register(NAME, pattern)
    before = _implementations(model.config)
    model.set_attn_implementation(NAME)
    setattr(model, _BEFORE, before)
    for name, module in layers.items():
        module.add_module("mechanism", Scored())
        setattr(module, _CROSS, _is_cross(name, module))
    return model


def release(model: nn.Module) -> nn.Module:
    """Undoes `adopt`, in place, and returns the model. Raises: ConfigError if the model was not adopted."""
    if not is_adopted(model):
        raise ConfigError(f"this {type(model).__name__} was not adopted")
    for module in list(model.modules()):
        if hasattr(module, _CROSS):
            delattr(module, _CROSS)
            delattr(module, "mechanism")
    model.set_attn_implementation(getattr(model, _BEFORE))  # type: ignore[operator]
    delattr(model, _BEFORE)
    return model


def is_adopted(model: nn.Module) -> bool:
    """Whether `adopt` was applied to this model, and not undone."""
    return hasattr(model, _BEFORE)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Pattern | None,
    scaling: float | Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers is given: one call for the mechanism of the module."""
    mechanism = getattr(module, "mechanism", None)
    if not isinstance(mechanism, Mechanism):
        raise ConfigError(f"{type(module).__name__} has no mechanism: headwise.adopt(model) gives it one")
    if refused := [name for name in _REFUSED if others.get(name) is not None]:
        raise Unsupported(f"{type(module).__name__} gives its attention '{refused[0]}', which no call can say")
    if isinstance(scaling, Tensor):
        query, scaling = query * scaling, 1.0
    if attention_mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        attention_mask = Pattern(Causal() if causal and query.shape[2] > 1 else None)
    mask, bias, start = _placed(attention_mask, position_bias, key.shape[2])
    if (watch := watched(mechanism)) is not None:
        # static caches write over what a record holds on to
        watch.copies = not key.requires_grad
    if not query.dtype == key.dtype == value.dtype:
        # under autocast a model may turn its queries in float32
        query, key = query.to(value.dtype), key.to(value.dtype)
    score, cross = _score(scaling, softcap, query.shape[-1]), getattr(module, _CROSS, False)
    call = Call(query, key, value, score, _normalizer(s_aux), mask, bias, None, dropout, start, cross)
    output: Tensor = mechanism(call)
    return output.transpose(1, 2).contiguous(), None


def _placed(mask: Tensor | Pattern, position: Tensor | None, key_len: int) -> tuple[Mask | None, Tensor | None, int]:
    """(mask, bias, position of the first query) of what a model gave as its mask and its bias."""
    if isinstance(mask, Pattern):
        return mask.mask, position, mask.query_start
    mask = mask[..., :key_len]
    if mask.dtype == torch.bool:
        return Table(mask), position, 0
    return None, mask if position is None else mask + position, 0


def _score(scaling: float | None, softcap: float | None, width: int) -> Score:
    score = _SCALED_DOT if scaling is None or scaling == width**-0.5 else Dot(scaling)
    return score if softcap is None else SoftCap(score, softcap)


def _normalizer(sinks: Tensor | None) -> Normalizer:
    if sinks is None:
        return _SOFTMAX
    normalizer = Sinks(sinks.shape[0])
    # the module's own in place of new ones
    del normalizer.logits
    normalizer.logits = sinks  # type: ignore[assignment]
    return normalizer


def transformers_part(name: str) -> Any:
    """A public name of transformers; None where it has none such. Raises: ConfigError as `adopt`."""
    return getattr(_transformers(), name, None)


def _transformers(module: str = "") -> ModuleType:
    """A module of transformers, or all of it. Raises: ConfigError if it is not there, or too old."""
    try:
        package = importlib.import_module("transformers")
        version = tuple(int(part) for part in package.__version__.split(".")[:2])
        if version >= _OLDEST:
            return importlib.import_module(f"transformers.{module}") if module else package
        installed = f"found {package.__version__}"
    except ImportError:
        installed = "there is none"
    raise ConfigError(f"adopt needs transformers 5.20 or newer, {installed}: pip install 'headwise[hf]'")


def _asks_interface(kind: type[nn.Module]) -> bool:
    """Whether a method of this class looks for its attention function in the interface."""
    methods = [inspect.unwrap(method) for owner in kind.__mro__ for method in vars(owner).values() if callable(method)]
    return any("ALL_ATTENTION_FUNCTIONS" in getattr(method, "__code__", _NO_CODE).co_names for method in methods)


_NO_CODE = (lambda: None).__code__


def _is_cross(name: str, module: nn.Module) -> bool:
    """Whether an attention module reads another sequence: it says so, or its name does."""
    words = ("cross", "encoder_attn", "encdecattention", "encoder_attention")
    return bool(getattr(module, "is_cross_attention", any(word in name.lower() for word in words)))


def _implementations(config: Any) -> dict[str, Any]:
    """The attention implementation of a configuration and of those inside it, as `set_attn_implementation` takes it."""
    inner = {key: getattr(config, key) for key in config.sub_configs}
    parts = {key: _implementations(part) for key, part in inner.items() if part is not None}
    return {"": config._attn_implementation, **parts}
