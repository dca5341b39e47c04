"""Low-rank adapters around projections that stay as they are, and the same weights with the adapters merged."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ConfigError, unknown
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.feed_forward import FeedForward

# the projections of attention and of feed-forward networks, by their names there
PROJECTIONS = ("projection", "memory_projection", "output", "inner", "outer")
_ATTENTION = ("projection", "memory_projection", "output")
_DOWN, _UP = ".adapter.down", ".adapter.up"


class LowRank(nn.Module):
    """B A x: what is added to a projection; zero at first, since B is.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1, with their factor alpha / rank equal to 1.

    >>> LowRank(5, 3, 2)(torch.ones(7, 5)).abs().sum().item()
    0.0
    """

    def __init__(self, in_features: int, out_features: int, rank: int):
        super().__init__()
        bound = 1.0 / math.sqrt(in_features)
        self.down = nn.Parameter(torch.empty(rank, in_features).uniform_(-bound, bound))
        self.up = nn.Parameter(torch.zeros(out_features, rank))

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        return F.linear(F.linear(x, self.down), self.up)


class AdaptedLinear(nn.Module):
    """W x + b + B A x; weight and bias are those of a linear layer, under the same names, and are not trained."""

    def __init__(self, linear: nn.Linear, rank: int):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.adapter = LowRank(linear.in_features, linear.out_features, rank).to(linear.weight)

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        return F.linear(x, self.weight, self.bias) + self.adapter(x)


def adapt(model: nn.Module, spec: str) -> list[str]:
    """Puts adapters around projections of a model, and freezes everything else; the names of the projections.

    Args:
        spec: "lora:rank=8", or "lora:rank=8,on=projection+inner" with the projections that get one: `projection`
            (queries, keys and values), `memory_projection`, `output`, `inner`, `outer`; those of attention if left out.

    Raises: ConfigError for another spec, or if the model has none of these projections.
    """
    rank, names = _parsed(spec)
    layers: dict[str, tuple[nn.Module, str, nn.Linear]] = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention | FeedForward):
            children = [(name, child) for name, child in module.named_children() if name in names]
            layers |= {f"{path}.{name}": (module, name, c) for name, c in children if type(c) is nn.Linear}
    if not layers:
        raise ConfigError(f"training.adapter = '{spec}': this model has no plain projection {' or '.join(names)}")
    model.requires_grad_(False)
    for module, name, linear in layers.values():
        setattr(module, name, AdaptedLinear(linear, rank))
    return list(layers)


def _parsed(spec: str) -> tuple[int, Sequence[str]]:
    name, _, rest = spec.partition(":")
    values = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    rank = values.pop("rank", "8")
    names = values.pop("on", "+".join(_ATTENTION)).split("+")
    if name != "lora" or values or not rank.isdecimal() or not int(rank):
        raise ConfigError(f"training.adapter = '{spec}': write lora:rank=8, or lora:rank=8,on=projection+output")
    for own in names:
        if own not in PROJECTIONS:
            raise ConfigError(f"training.adapter: {unknown('projection', own, PROJECTIONS)}")
    return int(rank), names


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Takes the parameters under these names out of training: of modules, or of single parameters.

    Raises: ConfigError for a name that the model does not have.
    """
    known = dict(model.named_parameters(remove_duplicate=False))
    for name in names:
        matches = [parameter for path, parameter in known.items() if f"{path}.".startswith(f"{name}.")]
        if not matches:
            parts = sorted({".".join(path.split(".")[: name.count(".") + 1]) for path in known})
            raise ConfigError(f"training.frozen: {unknown('part', name, parts)}")
        for parameter in matches:
            parameter.requires_grad_(False)


def apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of adapters alone."""
    return {name: tensor for name, tensor in tensors.items() if name.endswith((_DOWN, _UP))}


def merged(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors of a model without adapters that computes the same: W + B A.

    >>> weights = {"w.weight": torch.zeros(3, 2), "w.adapter.down": torch.ones(1, 2), "w.adapter.up": torch.ones(3, 1)}
    >>> merged(weights)["w.weight"].sum().item()
    6.0
    """
    if not (own := apart(tensors)):
        return tensors
    rest = {name: tensor for name, tensor in tensors.items() if name not in own}
    for name in own:
        if name.endswith(_UP):
            base = name.removesuffix(_UP)
            weight, up, down = rest[f"{base}.weight"], own[name], own[f"{base}{_DOWN}"]
            rest[f"{base}.weight"] = (weight.double() + up.double() @ down.double()).to(weight.dtype)
    return rest
