"""`headwise tune`: measure the kernels on this processor, so that plans fit it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.attention.tuning import Shape

    Found = list[tuple[Shape, dict[str, float]]]


def tune(
    output: Annotated[Path | None, typer.Option(help="File to write; where plans look for it if absent.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the calls: a rough table.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Processor threads to measure with.")] = 1,
) -> None:
    """Measure every attention kernel on this processor and write the table of prices that plans are made from."""
    import torch

    from headwise import runtime
    from headwise.attention import measured, tuning

    settings = runtime.apply(threads=threads)
    shapes = list(tuning.grid())[:: 4 if quick else 1]
    paths = ["highest"] if settings.products == "highest" else ["highest", settings.products]
    found: Found = []
    prices: measured.Prices = {}
    torch.set_float32_matmul_precision("highest")
    onednn_from = tuning.onednn_from()
    for products in paths:
        torch.set_float32_matmul_precision(products)
        with measured.trying(onednn_from):
            one = [(shape, tuning.measure(shape)) for shape in _shown(shapes, products)]
        found += one
        for kernel, kinds in tuning.fit(one).items():
            prices.setdefault(kernel, {}).update(kinds)
    path = output or measured.tuned_file()
    measured.save(prices, onednn_from, path)
    typer.echo(f"measured {len(found)} calls with {len(prices)} kernels on {runtime.processor()}")
    faster = "never" if onednn_from == float("inf") else f"from {onednn_from:,.0f} multiplications on"
    typer.echo(f"oneDNN multiplies float32 faster than MKL {faster}")
    typer.echo(f"wrote {path}")


def _shown(shapes: "list[Shape]", products: str) -> "Iterable[Shape]":
    from rich.progress import track

    return track(shapes, description=f"float32 products: {products}")
