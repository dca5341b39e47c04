"""Models of Hugging Face transformers with Headwise attention: they are recorded, edited and planned like its own."""

import importlib
import inspect
from types import MethodType, ModuleType
from typing import Any

from torch import nn

from headwise.adoption.calls import CROSS, attention
from headwise.adoption.forwards import FORWARDS
from headwise.adoption.masks import pattern
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import ConfigError, Unsupported

NAME = "headwise"
_OLDEST = (5, 20)
_BEFORE = "attention_before_headwise"


def adopt(model: nn.Module) -> nn.Module:
    """Gives every attention layer of a Transformers model a `Scored` mechanism, in place, and returns the model.

    Weights and results do not change: scale, soft cap, sinks, grouped heads, position bias, dropout, caches and
    masks are taken from the model, masks by their structure. From then on `record`, `edit` and the planner work on the
    model, in training and in generation. `release` undoes it.

    Layers of Bloom, Falcon, MPT, MPNet and DeBERTa-v2, which compute their attention by themselves, get a forward of
    Headwise too.

    Args:
        model: a `PreTrainedModel` of transformers 5.20 or newer whose attention goes through its attention interface,
            or of these families.
    Raises:
        ConfigError: not such a model, or no transformers of that version.
        Unsupported: a family that does not use the attention interface.
    """
    modeling = transformers_module("modeling_utils")
    if not isinstance(model, modeling.PreTrainedModel):
        raise ConfigError(f"adopt takes a model of transformers (a PreTrainedModel), not {type(model).__name__}")
    if is_adopted(model):
        raise ConfigError(f"this {type(model).__name__} is adopted already; release(model) undoes it")
    modules = [(name, part) for name, part in model.named_modules() if not isinstance(part, modeling.PreTrainedModel)]
    asking = {name: module for name, module in modules if _asks_interface(type(module))}
    forwards = {name: (module, own) for name, module in modules if (own := _own_forward(type(module))) is not None}
    if not (asking or forwards):
        raise Unsupported(
            f"{type(model).__name__} computes its attention by itself, not through transformers' AttentionInterface;"
            " its weights are to be seen with attn_implementation='eager' and output_attentions=True only"
        )
    before = _implementations(model.config) if asking else None
    if asking:
        modeling.AttentionInterface.register(NAME, attention)
        transformers_module("masking_utils").AttentionMaskInterface.register(NAME, pattern)
        model.set_attn_implementation(NAME)
    setattr(model, _BEFORE, before)
    for module, own in forwards.values():
        module.forward = MethodType(own, module)
    for name, module in (asking | {name: module for name, (module, _) in forwards.items()}).items():
        module.add_module("mechanism", Scored())
        setattr(module, CROSS, _is_cross(name, module))
    return model


def release(model: nn.Module) -> nn.Module:
    """Undoes `adopt`, in place, and returns the model. Raises: ConfigError if the model was not adopted."""
    if not is_adopted(model):
        raise ConfigError(f"this {type(model).__name__} was not adopted")
    for module in list(model.modules()):
        if hasattr(module, CROSS):
            delattr(module, CROSS)
            delattr(module, "mechanism")
            vars(module).pop("forward", None)
    if (before := getattr(model, _BEFORE)) is not None:
        model.set_attn_implementation(before)  # type: ignore[operator]
    delattr(model, _BEFORE)
    return model


def is_adopted(model: nn.Module) -> bool:
    """Whether `adopt` was applied to this model, and not undone."""
    return hasattr(model, _BEFORE)


def transformers_part(name: str) -> Any:
    """A public name of transformers; None where it has none such. Raises: ConfigError as `adopt`."""
    return getattr(transformers_module(), name, None)


def transformers_module(module: str = "") -> ModuleType:
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


def _own_forward(kind: type[nn.Module]) -> Any:
    """Our forward for a class of transformers whose attention does not look there; None: there is none.

    Raises: Unsupported: this version's takes something that ours does not know.
    """
    package, _, file = kind.__module__.rpartition(".")
    own = FORWARDS.get(f"{file}.{kind.__name__}") if package.startswith("transformers.models.") else None
    if own is not None:
        known = inspect.signature(own).parameters
        if strange := [name for name in inspect.signature(kind.forward).parameters if name not in {*known, "self"}]:
            raise Unsupported(f"{kind.__name__} of this transformers takes '{strange[0]}', which is not known here")
    return own


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
