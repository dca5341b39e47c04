"""Which functions a way to mix tokens can be: how well each kind of layer can be fitted to drawn ones of another."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.t5 import T5

# tokens and width are small, so that a fit takes a second; a kernel of three needs three heads
_TOKENS, _WIDTH, _REACH = 6, 3, 1
_EXAMPLES, _ROUNDS, _STARTS, _LARGER = 256, 150, 2, 2.0


class _Convolution(nn.Module):
    """Each output from the inputs at most so many tokens away, alike at every place."""

    def __init__(self, reach: int):
        super().__init__()
        self.convolution = nn.Conv1d(_WIDTH, _WIDTH, 2 * reach + 1, padding=reach)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return self.convolution(x.mT).mT


class _Full(nn.Module):
    """Each output number from all input numbers, by weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(_TOKENS * _WIDTH, _TOKENS * _WIDTH)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return self.linear(x.flatten(1)).unflatten(1, (_TOKENS, _WIDTH))


def _attention() -> nn.Module:
    """Three heads as wide as the layer, with a learned number for each distance, that may attend to nothing at all."""
    heads = 2 * _REACH + 1
    places = T5(heads, num_buckets=4 * _TOKENS, max_distance=2 * _TOKENS)
    nothing = Scored(normalizer="softmax1")
    return MultiHeadAttention(_WIDTH, heads, nothing, head_dim=_WIDTH, value_dim=_WIDTH, position=places)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "kernel of 3": lambda: _Convolution(_REACH),
    "kernel of all": lambda: _Convolution(_TOKENS - 1),
    "full matrix": _Full,
    "attention": _attention,
}


def contains(kinds: Mapping[str, Callable[[], nn.Module]] = KINDS, seed: int = 0) -> dict[tuple[str, str], float]:
    """For each two kinds, the share of the variance of a drawn layer of the second that the first cannot be fitted to.

    Measured on tokens that were not fitted to, of six tokens with three numbers each; near 0 where the functions of the
    first contain those of the second. A fit ends where its optimizer does, so that a number is an upper bound.

    >>> share = contains({name: KINDS[name] for name in ("kernel of 3", "kernel of all")})
    >>> share["kernel of all", "kernel of 3"] < 0.001 < 0.2 < share["kernel of 3", "kernel of all"]
    True

    Source: that attention can be a convolution: Cordonnier et al. 2020, arXiv:1911.03584, theorem 1.
    """
    numbers = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(_EXAMPLES, _TOKENS, _WIDTH, generator=numbers) for _ in range(2)]
    table = {}
    for inner, build in kinds.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            targets = _outputs(build(), inputs)
            for outer, student in kinds.items():
                table[outer, inner] = min(_lost(student(), inputs, targets) for _ in range(_STARTS))
    return table


def _outputs(teacher: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        for parameter in teacher.parameters():
            # attention as it is drawn is nearly a mean of its input; larger, its weights depend on it
            parameter.mul_(_LARGER)
        return [teacher(x) for x in inputs]


def _lost(student: nn.Module, inputs: list[Tensor], targets: list[Tensor]) -> float:
    optimizer = torch.optim.LBFGS(student.parameters(), max_iter=_ROUNDS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (student(inputs[0]) - targets[0]).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        wrong = (student(inputs[1]) - targets[1]).square().mean()
    return float(wrong / targets[1].var())
