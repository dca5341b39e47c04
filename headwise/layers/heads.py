"""Numbers of heads and widths that fit each other."""

from typing import Literal

from headwise.errors import ConfigError

Shared = Literal["none", "qk", "kv", "qkv"]
Combine = Literal["concat", "mean"]


def check_heads(
    d_model: int, num_heads: int, num_kv_heads: int | None, head_dim: int | None = None, value_dim: int | None = None
) -> None:
    """Raises: ConfigError if the heads do not fit the width, naming the nearest numbers that do."""
    for name, given in (("head_dim", head_dim), ("value_dim", value_dim)):
        if given is not None and given < 1:
            raise ConfigError(f"{name} ({given}) must be 1 or more, or None")
    if num_heads < 1 or (head_dim is None and d_model % num_heads):
        fitting = [heads for heads in range(1, d_model + 1) if d_model % heads == 0]
        nearest = sorted(sorted(fitting, key=lambda heads: abs(heads - num_heads))[:3])
        raise ConfigError(
            f"num_heads ({num_heads}) must divide d_model ({d_model}); nearest that do: {_listed(nearest)}"
        )
    if num_kv_heads is not None and (num_kv_heads < 1 or num_heads % num_kv_heads):
        fitting = [heads for heads in range(1, num_heads + 1) if num_heads % heads == 0]
        raise ConfigError(
            f"num_kv_heads ({num_kv_heads}) must divide num_heads ({num_heads}); these do: {_listed(fitting)}"
        )


def check_shared(
    shared: Shared, num_heads: int, num_kv_heads: int, memory_dim: int | None, head_dim: int, value_dim: int
) -> None:
    """Raises: ConfigError if projections that are to be one matrix differ in size."""
    if shared in ("qk", "qkv") and num_kv_heads != num_heads:
        raise ConfigError(
            f"shared='{shared}' needs as many key heads as query heads, got {num_kv_heads} and {num_heads}"
        )
    if shared in ("qk", "qkv") and memory_dim is not None:
        raise ConfigError(f"shared='{shared}' projects x and the memory alike: leave memory_dim out")
    if shared in ("kv", "qkv") and value_dim != head_dim:
        raise ConfigError(f"shared='{shared}' makes values as wide as keys ({head_dim}): leave value_dim out")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
