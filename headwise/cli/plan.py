"""`headwise plan`: which kernel computes an attention, and why each other one does not."""

import functools
import operator
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError, unknown

if TYPE_CHECKING:
    from headwise.attention.masks import Mask

DTYPES = ("float32", "bfloat16", "float16", "float64")


def plan(
    batch: Annotated[int, typer.Option(min=1, help="Sentences.")] = 8,
    heads: Annotated[int, typer.Option(min=1, help="Query heads.")] = 8,
    kv_heads: Annotated[int | None, typer.Option(min=1, help="Key and value heads; as queries if absent.")] = None,
    query_len: Annotated[int, typer.Option(min=1, help="Query tokens.")] = 512,
    key_len: Annotated[int | None, typer.Option(min=1, help="Key tokens; as queries if absent.")] = None,
    head_dim: Annotated[int, typer.Option(min=1, help="Width of a head.")] = 64,
    dtype: Annotated[str, typer.Option(help=f"One of {', '.join(DTYPES)}.")] = "float32",
    score: Annotated[str, typer.Option(help="See `headwise list scores`.")] = "scaled_dot",
    normalizer: Annotated[str, typer.Option(help="See `headwise list normalizers`.")] = "softmax",
    mask: Annotated[str, typer.Option(help="causal, padding, padding:5,7,..., window:LEFT,RIGHT; joined with &.")] = "",
    dropout: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of weights dropped in training.")] = 0.0,
    training: Annotated[bool, typer.Option("--training", help="Plan for a pass that needs gradients.")] = False,
    kernel: Annotated[str, typer.Option(help="See `headwise list kernels`.")] = "auto",
) -> None:
    """Say which kernel computes an attention of this shape, and why each other one does not; any size can be asked."""
    import torch

    from headwise import attention
    from headwise.attention.scores import build

    if dtype not in DTYPES:
        raise ConfigError(unknown("dtype", dtype, DTYPES))
    # one number seen as a tensor of any size, so that nothing is allocated
    number = torch.zeros(1, 1, 1, 1, dtype=getattr(torch, dtype), requires_grad=training)
    query = number.expand(batch, heads, query_len, head_dim)
    key = number.expand(batch, kv_heads or heads, key_len or query_len, head_dim)
    chosen = attention.plan(
        query,
        key,
        key,
        score=build(score, head_dim, head_dim, head_dim, heads),
        normalizer=normalizer,
        mask=read_mask(mask, batch, key_len or query_len),
        dropout=dropout,
        kernel=kernel,
    )
    typer.echo(str(chosen))


def read_mask(text: str, batch: int, key_len: int) -> "Mask | None":
    """A mask from text such as "causal & padding" or "window:64,0"; None for an empty text.

    "padding" without lengths means lengths spread evenly from half of the keys to all of them.

    Raises:
        ConfigError: for an unknown mask, or numbers that do not fit it.
    """
    parts = [part.strip() for part in text.split("&") if part.strip()]
    masks = [_one_mask(part, batch, key_len) for part in parts]
    return functools.reduce(operator.and_, masks) if masks else None


def _one_mask(text: str, batch: int, key_len: int) -> "Mask":
    import torch

    from headwise.attention.masks import Causal, Padding, Window

    name, _, rest = text.partition(":")
    numbers = _numbers(text, rest)
    if name == "causal" and not numbers:
        return Causal()
    if name == "window" and len(numbers) == 2:
        return Window(*numbers)
    if name == "padding" and len(numbers) in (0, batch):
        spread = torch.linspace(max(1, key_len // 2), key_len, batch).round().long()
        return Padding(torch.tensor(numbers) if numbers else spread)
    if name in ("causal", "window", "padding"):
        expected = {"causal": "no numbers", "window": "LEFT,RIGHT", "padding": f"no numbers or {batch}, one a sentence"}
        raise ConfigError(f"mask '{text}': {name} takes {expected[name]}, such as window:64,64")
    raise ConfigError(unknown("mask", name, ("causal", "padding", "window")))


def _numbers(text: str, rest: str) -> list[int]:
    try:
        return [int(number) for number in rest.split(",")] if rest else []
    except ValueError:
        raise ConfigError(f"mask '{text}': '{rest}' are not whole numbers, such as window:64,64") from None
