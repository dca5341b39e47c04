"""Seconds that a kernel needs: its amounts of work times the measured price of each."""

from headwise.attention import kernels
from headwise.attention.call import Call

# seconds per unit of a term
_PRICES: dict[str, dict[str, float]] = {
    "plain": {"calls": 80e-6, "products": 4e-11, "pairs": 12e-9, "hidden": 3e-9},
    "eager": {"calls": 30e-6, "products": 3e-11, "pairs": 3e-9, "far pairs": 5e-9},
    "fused": {"calls": 12e-6, "products": 2.2e-11, "materialised": 1e-10, "rows": 1.3e-8},
}
_DEFAULT = {"calls": 50e-6, "products": 3e-11, "pairs": 4e-9, "rows": 1e-8}


def seconds(name: str, call: Call) -> float:
    """Estimated seconds of the kernel of this name for a call."""
    prices = _PRICES.get(name, _DEFAULT)
    terms = kernels.kernel(name).terms(call)
    slow = 2.8 if call.learns else 1.0
    return slow * sum(amount * prices.get(term, _DEFAULT.get(term, 0.0)) for term, amount in terms.items())
