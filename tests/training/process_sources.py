"""What each process of test_process_sources.py does: `python process_sources.py KIND DTYPE DATA FOLDER`."""

import copy
import os
import sys
from pathlib import Path

import torch
from process_checks import made
from tiny_tasks import CASES

# of each source a recipe; the first one is a task of few numbers, whose batches are of similar lengths
SOURCES = {
    "bucketed": None,
    "whole": "node-classify",
    "whole, additive": "node-classify",
    "stream": "language-model, with memory",
    "token files": "language-model",
}
TOKENS = "tokens"


def written(folder):
    """Writes the data of all sources, the text as token files too, of several shards."""
    from headwise.data.tokenizers import TokenizerConfig
    from headwise.tasks.text import tokenizing
    from headwise.tasks.text.plain import TextConfig

    for case in filter(None, SOURCES.values()):
        CASES[case].write(folder)
    before, tokenizing.SHARD_CHARS = tokenizing.SHARD_CHARS, 200
    try:
        data = CASES["language-model"].recipe["data"]
        config = TextConfig(**{**data, "train": str(folder / "text.txt")})
        how = TokenizerConfig(kind="char", spaces="kept")
        tokenizing.tokenize(config, how, folder / TOKENS, 1, lambda *_: None)
    finally:
        tokenizing.SHARD_CHARS = before


def recipe_of(name, kind, dropout=0.0):
    """50 steps of several batches each, with a moving average of the weights."""
    training = {"parallel": kind, "accumulate": 3, "ema_decay": 0.9, "max_steps": 50, "validate_every": 25}
    case = SOURCES[name]
    if case is None:
        return made("gathered", kind, dropout)
    values = copy.deepcopy(dict(CASES[case].recipe))
    values["model"]["dropout"] = dropout
    if name == "token files":
        values["data"]["train"] = TOKENS
    # several batches a pass, and learning that lets the weights go far
    more = {"batch_tokens": 52, "warmup_steps": 3, "learning_rate": 0.02, "validate_every_epochs": 0, "max_epochs": 0}
    if name == "whole":
        # every parameter of it is felt
        values["model"]["score"] = "gatv2"
    if name == "whole, additive":
        # softmax feels the query's part of `gat` only where a node's neighbours lie on both sides of the leaky ReLU
        # (tests/attention/test_graph_scores.py); elsewhere its gradient is rounding, which Adam would make steps of
        more["epsilon"] = 0.01
    return {**values, "task": CASES[case].task, "seed": 5, "training": {**more, **training}}


def trained(names, kind, folder, dropout=0.0):
    """Trains each source into a folder of its name."""
    import training_toy

    from headwise.training.train import train

    training_toy.install()
    for name in names:
        train(recipe_of(name, kind, dropout), Path(folder) / name)


def _work(kind, dtype, data, folder):
    torch.set_default_dtype(getattr(torch, dtype))
    os.chdir(data)
    trained(SOURCES, kind, folder)
    if dtype == "float32":
        # random numbers of each process, twice
        for again in ("one", "two"):
            trained(SOURCES, kind, Path(folder) / again, dropout=0.2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _work(*sys.argv[1:])
