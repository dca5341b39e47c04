"""A model's parts, shapes and parameter counts, as text."""

from torch import nn

from headwise.attention.dropout import Dropout
from headwise.attention.mechanisms.scored import Scored
from headwise.layers.blocks import Residual
from headwise.models.token_encoders import TokenEncoder


def summary(model: nn.Module) -> str:
    """A table of the model's weights by part, the number of parameters, and where dropout acts and at which rate.

    A tensor that two parts share is counted once, at its first name.
    """
    rows: list[tuple[str, str, str]] = []
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        shape = " x ".join(map(str, parameter.shape))
        if id(parameter) in names:
            rows.append((name, shape, f"shared with {names[id(parameter)]}"))
            continue
        names[id(parameter)] = name
        rows.append((name, shape, f"{parameter.numel():,}" + ("" if parameter.requires_grad else " frozen")))
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    lines = [f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {count}" for name, shape, count in rows]
    return "\n".join([*lines, parts(model)])


def parts(model: nn.Module) -> str:
    """The end of the summary: parameters of each part and in total, shared ones counted once; context, dropouts."""
    lines = [f"{part}: {_count(child):,} parameters" for part, child in model.named_children()]
    lines += [
        f"{part}: each place sees {child.context} place{'' if child.context == 1 else 's'}"
        for part, child in model.named_children()
        if isinstance(child, TokenEncoder) and child.context is not None
    ]
    lines.append(f"total: {_count(model):,} parameters, shared ones counted once")
    lines.append(f"dropout: {_dropouts(model)}")
    return "\n".join(lines)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _dropouts(model: nn.Module) -> str:
    places: dict[str, set[float]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            place = name.rpartition(".dropout")[0].rpartition(".")[2] or name
            places.setdefault(place, set()).add(module.dropout)
        elif isinstance(module, Residual):
            places.setdefault("sublayer outputs", set()).add(module.dropout)
        elif isinstance(module, Scored):
            places.setdefault("attention weights", set()).add(module.dropout)
    acting = {place: sorted(rates) for place, rates in places.items() if any(rates)}
    return "; ".join(f"{place} {', '.join(map(str, rates))}" for place, rates in acting.items()) or "none"
