"""What a training step spends on copies and casts: the share of the time of all operators, by PyTorch's profiler.

    python -m benchmarks.copies                  # the tiny shape, bf16 and fp32
    python -m benchmarks.copies --shape base

It serves to see, before and after a change, whether numbers are moved without need.
"""

import argparse
from itertools import islice

import torch
from torch.autograd.profiler import profile

from benchmarks.corpus import Corpus
from benchmarks.shapes import SHAPES
from benchmarks.tables import print_table
from benchmarks.training import System, trainer
from headwise import runtime

MOVES = ("aten::copy_", "aten::_to_copy", "aten::to", "aten::clone", "aten::contiguous", "aten::scatter_add_")
WARM_UP, STEPS, VOCAB = 3, 8, 8000


def share(shape: str, precision: str, batch_tokens: int) -> float:
    """The share of operators' own time that goes to copies and casts."""
    corpus = Corpus.synthetic(2000, VOCAB)
    learner = trainer(System("headwise", precision), SHAPES[shape], VOCAB)
    batches = [corpus.batch(rows) for rows in islice(corpus.batches(batch_tokens), WARM_UP + STEPS)]
    for batch in batches[:WARM_UP]:
        learner.step(batch)
    with profile() as profiler:
        for batch in batches[WARM_UP:]:
            learner.step(batch)
    times = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    return sum(times.get(name, 0.0) for name in MOVES) / sum(times.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=1024)
    options = parser.parse_args()
    runtime.apply(1)
    torch.set_num_threads(1)
    rows = [
        [precision, f"{100 * share(options.shape, precision, options.batch_tokens):.1f} %"]
        for precision in ("bf16", "fp32")
    ]
    print_table([f"copies and casts in a step, {options.shape}", "share"], rows)


if __name__ == "__main__":
    main()
