"""What a model is made of, read from its modules: stages of blocks with attention, networks, recurrent layers."""

import re
from collections.abc import Iterable
from typing import Any

from torch import nn

from headwise.explain.explanation import part_of
from headwise.layers.feed_forward import FeedForward
from headwise.records import watching

_RECURRENT = (nn.RNNBase, nn.RNNCellBase)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


def stages_of(model: nn.Module) -> list[dict[str, Any]]:
    """The stages of a model in its order, each so many times as its blocks are repeated: attention with its heads,
    feed-forward networks with their width, and recurrent layers.

    What a decoder's cross-attention reads is a stage too: convolutions, where the encoder has no other parts. Of a
    model of another library the feed-forward width is that of the widest layer beside the attention of a block.

    >>> from headwise import MultiHeadAttention
    >>> stages_of(nn.ModuleDict({"encoder": MultiHeadAttention(8, 2)}))
    [{'name': 'encoder', 'count': 1, 'parts': [{'kind': 'self', 'causal': False, 'heads': 2}]}]
    """
    mechanisms: dict[nn.Module, str] = {mechanism: name for name, (_, mechanism) in watching.layers(model).items()}
    modules = dict(model.named_modules())
    paths = {module: name for name, module in modules.items()} | mechanisms
    parts: dict[tuple[str, str], dict[str, Any]] = {}
    for module in modules.values():
        part = _part(modules, module, mechanisms)
        if part is None:
            continue
        path = paths[module]
        stage, pattern = part_of(path), re.sub(r"\.\d+(?=\.|$)", ".*", path)
        blocks = parts.setdefault((stage, pattern), part | {"blocks": set()})["blocks"]
        blocks.add(next(iter(re.findall(r"\.(\d+)(?=\.|$)", path)), ""))
    stages: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for (stage, _), part in parts.items():
        stages.setdefault((stage, len(part.pop("blocks"))), []).append(part)
    drawn: list[dict[str, Any]] = [
        {"name": name, "count": count, "parts": members} for (name, count), members in stages.items()
    ]
    if getattr(model, "config", None) is not None:
        for block in drawn:
            block["parts"] += _inner(modules, block["name"], mechanisms.values())
    read = any(part["kind"] == "cross" for part in parts.values()) and all(
        stage["name"] != "encoder" for stage in drawn
    )
    return [*(_convolutional(modules) if read else []), *drawn]


def _convolutional(modules: dict[str, nn.Module]) -> list[dict[str, Any]]:
    """An encoder of convolutions alone, as a stage; those of one pixel mix no places and are not counted."""
    layers = [
        module
        for name, module in modules.items()
        if isinstance(module, _CONVOLUTIONS) and part_of(name) == "encoder" and max(module.kernel_size) > 1
    ]
    if not layers:
        return []
    part = {"kind": "convolution", "layers": len(layers), "width": layers[-1].out_channels}
    return [{"name": "encoder", "count": 1, "parts": [part]}]


def _inner(modules: dict[str, nn.Module], stage: str, mechanisms: Iterable[str]) -> list[dict[str, Any]]:
    """The feed-forward network of a block of another library: what is wider than all that the block passes on."""
    path = next((name for name in mechanisms if part_of(name) == stage), "")
    block = re.match(r".*?\.\d+(?=\.)", path)
    if block is None:
        return []
    shapes = [
        tuple(weight.shape)
        for name, module in modules.items()
        if name.startswith(f"{block[0]}.") and not name.startswith(path) and not isinstance(module, nn.Embedding)
        for weight in module.parameters(recurse=False)
        if weight.ndim == 2
    ]
    config = modules[""].config
    wide = max((side for shape in shapes for side in shape), default=0)
    # one that is narrower than what it reads has the width that its config names
    own = getattr(config, "intermediate_size", None)
    width = (
        own if any(own in shape for shape in shapes) else wide if wide > (getattr(config, "hidden_size", 0) or 0) else 0
    )
    return [{"kind": "feed_forward", "width": width}] if width else []


def _part(modules: dict[str, nn.Module], module: nn.Module, mechanisms: dict[nn.Module, str]) -> dict[str, Any] | None:
    if module in mechanisms:
        name = mechanisms[module]
        stage = part_of(name)
        by_name = (word for word in ("self", "cross") if word in name.lower())
        kind = next(by_name, {"decoder": "cross", "pooling": "pooled"}.get(stage, "self"))
        causal = kind == "self" and (stage == "decoder" or _writes_on(modules[""]))
        return {"kind": kind, "causal": causal, "heads": _heads(modules, name)}
    if isinstance(module, FeedForward):
        return {"kind": "feed_forward", "width": module.outer.in_features}
    if isinstance(module, _RECURRENT):
        return {"kind": "recurrent", "width": module.hidden_size}
    return None


def _writes_on(model: nn.Module) -> bool:
    """Whether a model of another library continues what it reads, and so sees what came before alone."""
    can_generate, config = getattr(model, "can_generate", None), getattr(model, "config", None)
    return bool(can_generate and can_generate() and not getattr(config, "is_encoder_decoder", False))


def _heads(modules: dict[str, nn.Module], name: str) -> int:
    """The heads of an attention layer; a model of another library says in its config how many each has."""
    config = getattr(modules[""], "config", None)
    return int(getattr(modules.get(name), "num_heads", None) or getattr(config, "num_attention_heads", None) or 1)
