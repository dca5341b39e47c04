"""What one thread of this machine does at the sizes that matter here, in CPU time.

    python -m benchmarks.machine
    python -m benchmarks.machine --quick

Matrix products on both float32 paths of PyTorch and in bfloat16, at the sizes of training and of decoding, where plain
and rounded weights are compared; then memory, dropout, softmax and the loss of a vocabulary. On processors with
fast bfloat16 the oneDNN path rounds to it, so it is not taken there.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.rates import linear_rate, seconds
from benchmarks.tables import print_table, write_json
from headwise import runtime
from headwise.attention.dropout import Dropout
from headwise.layers.inference import RoundedLinear, bfloat16_product, has_int8, int8_product
from headwise.layers.loss import vocabulary_loss

Size = tuple[int, int, int]

# rows x inputs x outputs: layers of both shapes, and a chunk of the loss and its two gradients
TRAINING: list[Size] = [
    (1024, 1024, 1024),
    (4096, 128, 128),
    (4096, 128, 256),
    (4096, 256, 128),
    (4096, 512, 512),
    (4096, 512, 2048),
    (4096, 2048, 512),
    (256, 128, 8000),
    (256, 512, 8000),
    (256, 8000, 512),
]
# 5 rows: beam 5 of one sentence; 160: of 32 sentences
DECODING: list[Size] = [
    (rows, width, outputs)
    for rows in (5, 160)
    for width, outputs in ((128, 256), (128, 8000), (512, 512), (512, 2048), (2048, 512), (512, 8000))
]
QUICK: list[Size] = [(5, 128, 256)]
PATHS = {"default": "ieee", "oneDNN": "bf16"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one small size, to see that everything runs")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    elements = 1 << (16 if options.quick else 25)
    before = _fresh(elements)
    settings = runtime.apply(1)
    print(f"{runtime.processor()}; torch {torch.__version__}; one thread, CPU time")
    print(f"float32 products: {settings.products} was chosen; {settings.reason}\n")
    found = {
        "training": _products(QUICK if options.quick else TRAINING),
        "decoding": _rounded(QUICK if options.quick else DECODING),
        "memory": _memory(elements, before),
        "passes": _passes(16 if options.quick else 4096),
        "loss": _losses([(64, 16, 100)] if options.quick else [(4096, 128, 10_000), (4096, 512, 10_000)]),
    }
    write_json(options.json, {"settings": vars(settings), **found})


@contextmanager
def _path(setting: str) -> Iterator[None]:
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = setting
    try:
        yield
    finally:
        matmul.fp32_precision = before


def _products(sizes: list[Size]) -> dict[str, list[float]]:
    """GFLOP a CPU second of a linear layer on each path."""
    found = {}
    for size in sizes:
        row = []
        for setting in PATHS.values():
            with _path(setting):
                row.append(linear_rate(*size, torch.float32))
        found[_named(size)] = [*row, linear_rate(*size, torch.bfloat16)]
    header = ["GFLOP / CPU s, rows x in x out", *(f"fp32 {name}" for name in PATHS), "bf16", "oneDNN / default"]
    print_table(header, [[name, *_whole(row), f"{row[1] / row[0]:.2f}"] for name, row in found.items()])
    return found


def _rounded(sizes: list[Size]) -> dict[str, list[float]]:
    """Microseconds of a linear layer with few rows: plain on both paths, rounded to bfloat16 and to 8 bits."""
    found, products = {}, [bfloat16_product, *([int8_product] if has_int8() else [])]
    for rows, width, outputs in sizes:
        x, linear = torch.randn(rows, width), nn.Linear(width, outputs)
        rounded = [RoundedLinear(linear, product) for product in products]
        row = []
        with torch.inference_mode():
            for setting in PATHS.values():
                with _path(setting):
                    row.append(1e6 * seconds(partial(linear, x)))
            row += [1e6 * seconds(partial(layer, x)) for layer in rounded]
        found[_named((rows, width, outputs))] = row
    header = ["CPU µs, rows x in x out", *(f"plain {name}" for name in PATHS), "bfloat16", "8 bits"][
        : 3 + len(products)
    ]
    header += ["default / bfloat16", "default / 8 bits"][: len(products)]
    rows = [[*(f"{t:,.1f}" for t in row), *(f"{row[0] / t:.2f}" for t in row[2:])] for row in found.values()]
    print_table(header, [[name, *row] for name, row in zip(found, rows, strict=True)])
    return found


def _memory(elements: int, fresh_before: float) -> dict[str, float]:
    """Gigabytes a CPU second over tensors that no cache holds."""
    source, target = torch.ones(elements), torch.empty(elements)
    size = 4e-9 * elements
    found = {
        "read (sum)": size / seconds(source.sum),
        "copy, read and written": 2 * size / seconds(lambda: target.copy_(source)),
        "fill a new tensor, memory given back": size / fresh_before,
        "fill a new tensor, memory kept": size / _fresh(elements),
    }
    print_table(["memory", "GB / CPU s"], [[name, f"{rate:.1f}"] for name, rate in found.items()])
    return found


def _fresh(elements: int) -> float:
    return seconds(lambda: torch.zeros(elements).add_(1.0), repeats=3)


def _passes(rows: int) -> dict[str, float]:
    """Nanoseconds an element of what is no product."""
    x = torch.randn(rows, 512)
    logits, scores = torch.randn(min(rows, 256), 8000), torch.randn(max(1, rows // 4), 16, 16)
    works: dict[str, tuple[Tensor, Callable[[], object]]] = {
        "dropout 0.1, PyTorch": (x, lambda: F.dropout(x, 0.1)),
        "dropout 0.1, Headwise": (x, partial(Dropout(0.1).train(), x)),
        "relu": (x, partial(torch.relu, x)),
        "layer norm": (x, lambda: F.layer_norm(x, (512,))),
        "softmax of logits, 8,000 wide": (logits, partial(torch.softmax, logits, -1)),
        "softmax of attention, 16 wide": (scores, partial(torch.softmax, scores, -1)),
    }
    found = {name: 1e9 * seconds(work) / tensor.numel() for name, (tensor, work) in works.items()}
    print_table(["passes, fp32", "CPU ns an element"], [[name, f"{rate:.2f}"] for name, rate in found.items()])
    return found


def _losses(sizes: list[Size]) -> dict[str, list[float]]:
    """Milliseconds of vocabulary product and loss, forward and backward: ours beside `cross_entropy`."""
    found = {}
    for (rows, width, vocab), low in product(sizes, (False, True)):
        hidden, targets = torch.randn(rows, width, requires_grad=True), torch.randint(vocab, (rows,))
        weight = (torch.randn(vocab, width) * width**-0.5).requires_grad_()
        ways = {
            "ours": lambda h, w, t: vocabulary_loss(h, w, None, t, 0.1),
            "plain": lambda h, w, t: F.cross_entropy(F.linear(h, w), t, reduction="sum", label_smoothing=0.1),
        }

        def run(way: Callable[..., Tensor], h: Tensor = hidden, w: Tensor = weight, t: Tensor = targets) -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=low):  # noqa: B023
                value = way(h, w, t)
            torch.autograd.grad(value, (h, w))

        name = f"{_named((rows, width, vocab))} {'bf16' if low else 'fp32'}"
        found[name] = [1e3 * seconds(partial(run, way), repeats=3) for way in ways.values()]
    table = [[name, *_whole(row), f"{row[1] / row[0]:.2f}"] for name, row in found.items()]
    print_table(["CPU ms, rows x width x vocabulary", "ours", "cross_entropy", "ratio"], table)
    return found


def _named(size: Size) -> str:
    return " x ".join(map(str, size))


def _whole(values: Sequence[float]) -> list[str]:
    return [f"{value:,.0f}" for value in values]


if __name__ == "__main__":
    main()
