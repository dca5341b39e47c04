"""Inputs of the attention tests, and gradients that tell every output apart."""

import torch

BATCH, QUERIES, KEYS, QUERY_SIZE, KEY_SIZE, VALUE_SIZE = 2, 3, 5, 7, 11, 13
LENS = [None, torch.tensor([5, 2]), torch.tensor([0, 3]), torch.tensor([[1, 0, 5], [2, 2, 4]])]


def inputs(query_size=QUERY_SIZE, key_size=KEY_SIZE, dtype=torch.float64):
    shapes = (BATCH, QUERIES, query_size), (BATCH, KEYS, key_size), (BATCH, KEYS, VALUE_SIZE)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def length_of(lens, batch, query):
    if lens is None:
        return KEYS
    return int(lens[batch] if lens.ndim == 1 else lens[batch, query])


def gradients(out, tensors):
    found = torch.autograd.grad((out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum(), tensors)
    return list(found)
