"""What a model is made of, read from its modules: stages of blocks with attention, networks, recurrent layers."""

import re
from typing import Any

from torch import nn

from headwise.explain.explanation import part_of
from headwise.layers.feed_forward import FeedForward
from headwise.records import watching

_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


def stages_of(model: nn.Module) -> list[dict[str, Any]]:
    """The stages of a model in its order, each so many times as its blocks are repeated: attention with its heads,
    feed-forward networks with their width, and recurrent layers.

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
    return [{"name": name, "count": count, "parts": members} for (name, count), members in stages.items()]


def _part(modules: dict[str, nn.Module], module: nn.Module, mechanisms: dict[nn.Module, str]) -> dict[str, Any] | None:
    if module in mechanisms:
        name = mechanisms[module]
        stage = part_of(name)
        by_name = (word for word in ("self", "cross") if word in name)
        kind = next(by_name, {"decoder": "cross", "pooling": "pooled"}.get(stage, "self"))
        return {"kind": kind, "causal": kind == "self" and stage == "decoder", "heads": _heads(modules, name)}
    if isinstance(module, FeedForward):
        return {"kind": "feed_forward", "width": module.outer.in_features}
    if isinstance(module, _RECURRENT):
        return {"kind": "recurrent", "width": module.hidden_size}
    return None


def _heads(modules: dict[str, nn.Module], name: str) -> int:
    """The heads of an attention layer; a model of another library says in its config how many each has."""
    config = getattr(modules[""], "config", None)
    return int(getattr(modules.get(name), "num_heads", None) or getattr(config, "num_attention_heads", None) or 1)
