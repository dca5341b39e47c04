"""Seconds that a kernel needs: its amounts of work times the price of each, measured on such a processor."""

import torch

from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.measured import prices

# for a kernel or term without a measurement
_DEFAULT = {"calls": 5e-5, "products": 3e-11, "pairs": 4e-9, "rows": 1e-8, "hidden": 3e-9}
# a pass with gradients costs about this many forward ones
_GRADIENTS = 2.8


def seconds(name: str, call: Call) -> float:
    """Estimated seconds of the kernel of this name for a call."""
    terms = kernels.kernel(name).terms(call)
    found, slower = prices().get(name, {}).get(kind(call)), 1.0
    if found is None:
        found, slower = _DEFAULT, _GRADIENTS if call.learns else 1.0
    # fitted prices may leave nothing for a call that is nearly empty
    return max(1e-7, slower * sum(amount * found.get(term, 0.0) for term, amount in terms.items()))


def kind(call: Call) -> str:
    """The row of the price table: number type, path of float32 products, and whether gradients are asked for."""
    # scores of bfloat16 inputs are float32 products too
    found = "float32" if call.query.element_size() > 2 else "bfloat16"
    if torch.get_float32_matmul_precision() != "highest":
        found = f"{found} by oneDNN"
    return f"{found}, with gradients" if call.learns else found
