"""Weights as a plain safetensors file, as other programs write them."""

from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor


def plain_file(tensors: Mapping[str, Tensor]) -> bytes:
    """The file, with the note that its tensors are those of PyTorch. Memory: a copy."""
    return save({name: tensor.clone() for name, tensor in tensors.items()}, {"format": "pt"})
