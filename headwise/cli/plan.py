"""`headwise plan`: which kernel computes an attention, and why each other one does not."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.masks import read_mask
from headwise.errors import ConfigError, unknown
from headwise.files import json_text

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.attention.planner import Plan

# of what a recurrence does not take: mask, latent, pair, dropout, score, normalizer
_DEFAULTS = ("", "", "", 0.0, "scaled_dot", "softmax")
DTYPES = ("float32", "bfloat16", "float16", "float64")
MaskOption = Annotated[str, typer.Option(help="causal, padding, window:LEFT,RIGHT, ...; & and | combine, ~ inverts.")]
LatentOption = Annotated[
    str, typer.Option(help="RANK+TURNED of a latent vector, to compare its cache, such as 512+64.")
]


def plan(
    batch: Annotated[int, typer.Option(min=1, help="Sentences in a batch.")] = 8,
    heads: Annotated[int, typer.Option(min=1, help="Query heads.")] = 8,
    kv_heads: Annotated[int | None, typer.Option(min=1, help="Key and value heads; default: --heads.")] = None,
    query_len: Annotated[int, typer.Option(min=1, help="Query tokens.")] = 512,
    key_len: Annotated[int | None, typer.Option(min=1, help="Key tokens; default: --query-len.")] = None,
    head_dim: Annotated[int, typer.Option(min=1, help="Width of a head.")] = 64,
    latent: LatentOption = "",
    dtype: Annotated[str, typer.Option(help=f"One of {', '.join(DTYPES)}.")] = "float32",
    score: Annotated[str, typer.Option(help="See `headwise list scores`.")] = "scaled_dot",
    normalizer: Annotated[str, typer.Option(help="See `headwise list normalizers`.")] = "softmax",
    mask: MaskOption = "",
    dropout: Annotated[float, typer.Option(min=0.0, max=1.0, help="Dropout rate of the attention weights.")] = 0.0,
    training: Annotated[bool, typer.Option("--training", help="Plan for a pass that needs gradients.")] = False,
    kernel: Annotated[str, typer.Option(help="See `headwise list kernels`.")] = "auto",
    mechanism: Annotated[str, typer.Option(help="A recurrence, such as gated_delta: what computes it here.")] = "",
    pair: Annotated[str, typer.Option(help="QUERY,KEY: also say whether the mask allows it, and why not.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which kernel computes an attention of this shape, and why not the others; nothing is computed."""
    from headwise import attention
    from headwise.attention.masks import explain
    from headwise.attention.scores import build

    key_len = key_len or query_len
    _refuse_uncountable(batch * heads * max(query_len, key_len) * head_dim)
    number = _number(dtype, training)
    if mechanism:
        others = key_len != query_len or (mask, latent, pair, dropout, score, normalizer) != _DEFAULTS
        shape = (batch, heads, query_len, head_dim)
        _show_recurrence("" if others else mechanism, shape, kv_heads or heads, number, kernel, as_json)
        return
    key = number.expand(batch, kv_heads or heads, key_len, head_dim)
    place = _pair(pair, query_len, key_len) if pair else None
    read = read_mask(mask, batch, query_len, key_len)
    query, scorer = number.expand(batch, heads, query_len, head_dim), build(score, head_dim, head_dim, head_dim, heads)
    chosen = attention.plan(
        query, key, key, score=scorer, normalizer=normalizer, mask=read, dropout=dropout, kernel=kernel
    )
    cache = _cache(heads, head_dim, kv_heads or heads, number.element_size(), latent)
    _show(chosen, cache, explain(read, *place) if place is not None and read is not None else "", as_json)


def _show_recurrence(
    name: str, shape: tuple[int, int, int, int], kv_heads: int, number: "Tensor", kernel: str, as_json: bool
) -> None:
    """What computes a recurrence of this shape, on a GPU if there is one; no name: other options do not fit it."""
    import torch

    from headwise.attention import mechanisms
    from headwise.attention.call import Call
    from headwise.attention.masks import Causal
    from headwise.attention.mechanisms._recurrence import Recurrence

    if not name:
        raise ConfigError("--mechanism is a causal recurrence over its own keys: give sizes, --dtype and --kernel")
    batch, heads, length, head_dim = shape
    mechanism = mechanisms.build(name, head_dim=head_dim, num_heads=heads, max_len=length, dropout=0.0)
    if not isinstance(mechanism, Recurrence):
        raise ConfigError(f"--mechanism '{name}' is no recurrence: see docs/recurrences.md, or leave it out")
    mechanism.kernel = kernel
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    number = number.to(device)
    with torch.device("meta"):
        gates = mechanism.gate_module(heads * head_dim, heads)
        width = 0 if gates is None else gates(torch.zeros(1, 1, heads * head_dim)).shape[-1]
    key = number.expand(batch, kv_heads, length, head_dim)
    gated = number.expand(batch, heads, length, width) if width else None
    query = number.expand(batch, heads, length, head_dim)
    choice = mechanism.to(device).plan(Call(query, key, key, mask=Causal(), gates=gated))
    typer.echo(json_text(choice._asdict()) if as_json else str(choice))


def _show(chosen: "Plan", cache: dict[str, int], pair: str, as_json: bool) -> None:
    if as_json:
        named = {"cache_bytes_per_token": cache}
        typer.echo(json_text(asdict(chosen) | named | ({"pair": pair} if pair else {})))
        return
    sizes = ", ".join(f"{name} {size:,}" for name, size in cache.items())
    lines = [str(chosen), f"cache    bytes a token and layer: {sizes}", *([f"pair     {pair}"] if pair else [])]
    typer.echo("\n".join(lines))


def _cache(heads: int, head_dim: int, kv_heads: int, item: int, latent: str) -> dict[str, int]:
    from headwise.caches import bytes_per_token

    rank, _, turned = latent.partition("+")
    if latent and not (rank.isdecimal() and int(rank) and (turned or "0").isdecimal()):
        raise ConfigError(f"--latent '{latent}': give the width of the vector and the turned columns, such as 512+64")
    return bytes_per_token(heads, head_dim, kv_heads, item, int(rank) if latent else None, int(turned or 0))


def _refuse_uncountable(size: int) -> None:
    if size >= 2**62:
        raise ConfigError("a tensor of these sizes has more numbers than can be counted; give smaller ones")


def _number(dtype: str, training: bool) -> "Tensor":
    """One number, to be seen as a tensor of any size, so that nothing is allocated."""
    import torch

    if dtype not in DTYPES:
        raise ConfigError(unknown("dtype", dtype, DTYPES))
    return torch.zeros(1, 1, 1, 1, dtype=getattr(torch, dtype), requires_grad=training)


def _pair(text: str, query_len: int, key_len: int) -> tuple[int, int]:
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise ConfigError(f"--pair '{text}': give a query and a key, such as 3,5")
    query, key = map(int, numbers)
    if query >= query_len or key >= key_len:
        raise ConfigError(f"--pair '{text}': there are {query_len} queries and {key_len} keys, counted from 0")
    return query, key
