"""Initial weights: Xavier, Kaiming and normal, by each matrix's own size."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from headwise.layers.attention import MultiHeadAttention

Scheme = Literal["xavier", "kaiming", "normal"]


SCHEMES: dict[str, Callable[[Tensor], Tensor]] = {
    "xavier": nn.init.xavier_uniform_,
    "kaiming": lambda weight: nn.init.kaiming_uniform_(weight, nonlinearity="relu"),
    "normal": lambda weight: nn.init.normal_(weight, std=0.02),
}


def initialize(model: nn.Module, scheme: Scheme) -> None:
    """Fills the weights of every linear layer of a model and zeroes its biases; norms and embeddings are left alone.

    xavier: uniform with variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010, eq. 16); kaiming: uniform with
    variance 2 / fan_in (He et al. 2015, arXiv:1502.01852, eq. 10); normal: standard deviation 0.02.
    Packed projections are filled matrix by matrix, so that fusing them changes nothing.
    """
    fill = SCHEMES[scheme]
    packed: set[int] = set()
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for matrix in module.matrices():
                fill(matrix.detach())
            maps = module.projection, module.memory_projection, module.output
            packed |= {id(linear) for part in maps if part is not None for linear in part.modules()}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if id(module) not in packed:
                fill(module.weight.detach())
            if module.bias is not None:
                nn.init.zeros_(module.bias)
