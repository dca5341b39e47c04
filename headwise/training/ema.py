"""A running mean of the weights, validated and published instead of them; and the mean of several models."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from headwise.runs.tensors import local
from headwise.runs.weights import load_weights


class RunningMean:
    """mean <- mean + (1 - decay_t) (weights - mean), with decay_t = min(decay, (1 + t) / (10 + t)) at update t.

    The decay grows so that the first, random weights are soon forgotten. Buffers, such as the statistics of a norm, are
    averaged too. Costs one copy of the weights.

    Source: Polyak and Juditsky 1992; the growing decay is that of TensorFlow's moving averages.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        # running statistics of norms belong to the weights: they are averaged too
        tensors = {id(tensor): tensor for tensor in model.state_dict(keep_vars=True).values()}
        self._weights: list[Tensor] = [
            tensor for tensor in tensors.values() if torch.is_tensor(tensor) and tensor.is_floating_point()
        ]
        self._mean = [weight.detach().clone() for weight in self._weights]

    def restart(self) -> None:
        self._mean = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Adds the weights after `updates` optimizer steps."""
        decay = min(self._decay, (1 + updates) / (10 + updates))
        means, weights = [local(mean) for mean in self._mean], [local(weight) for weight in self._weights]
        torch._foreach_lerp_(means, weights, 1.0 - decay)

    def applied(self) -> AbstractContextManager[None]:
        """The model has the mean as its weights inside, and its own, bit for bit, afterwards."""
        return exchange(zip(self._weights, self._mean, strict=True))

    def weights(self) -> dict[str, Tensor]:
        """The tensors of the model by name, the mean in place of the weights; nothing is copied."""
        means = {id(weight): mean for weight, mean in zip(self._weights, self._mean, strict=True)}
        tensors = self._model.state_dict(keep_vars=True)
        return {name: means.get(id(tensor), tensor.detach()) for name, tensor in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], name: str) -> None:
        """Takes the mean from a file of `weights`. Raises: CheckpointError when it does not fit."""
        with self.applied():
            load_weights(self._model, tensors, metadata, name)


@contextmanager
def exchange(pairs: Iterable[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """Inside, the two tensors of each pair have each other's values. Memory: one tensor more."""
    pairs = list(pairs)
    _swap(pairs)
    try:
        yield
    finally:
        _swap(pairs)


@torch.no_grad()
def _swap(pairs: list[tuple[Tensor, Tensor]]) -> None:
    for first, second in ((local(first), local(second)) for first, second in pairs):
        copy = first.clone()
        first.copy_(second)
        second.copy_(copy)


def average(models: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over several models, summed in float64; integers are those of the first.

    >>> average([{"w": torch.tensor([1.0])}, {"w": torch.tensor([4.0])}])
    {'w': tensor([2.5000])}
    """
    first = models[0]
    result: dict[str, Tensor] = {}
    for name, tensor in first.items():
        if tensor.is_floating_point():
            total = torch.zeros_like(tensor, dtype=torch.float64)
            for model in models:
                total += model[name]
            result[name] = (total / len(models)).to(tensor.dtype)
        else:
            result[name] = tensor.clone()
    return result
