"""Where a model looked while it read given tokens and wrote given tokens: the weights of its attention, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.data.tokenizers import Tokenizer
from headwise.errors import Unsupported
from headwise.explain.alignment import words
from headwise.records import Trace, record

BOS, EOS = "<bos>", "<eos>"


@dataclass(frozen=True)
class Attended:
    """Weights (batch, heads, queries, keys) of one layer, and whether they are of its own sequence or another."""

    weights: np.ndarray
    kind: Any


def traced(model: nn.Module, *inputs: Any) -> Trace:
    """The trace of one pass of a model in `eval()`, without gradient.

    The weights belong to the calculation that ran; nothing about it is changed by looking.

    Raises:
        Unsupported: if the model has no attention.
    """
    if not any(isinstance(module, Mechanism) for module in model.modules()):
        raise Unsupported(
            "this model has no attention to look at; train one that has: a recurrent translator where model.score is"
            " set, an encoder of model.kind=attention, a text classifier with that or with pooling.kind=attention or"
            " max, an image classifier with model.kind=vit"
        )
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), record(model) as trace:
            model(*inputs)
        return trace
    finally:
        model.train(was_training)


def attended(model: nn.Module, *inputs: Any) -> dict[str, Attended]:
    """What every attention layer did in one pass, by its name; raises as `traced`."""
    trace = traced(model, *inputs)
    return {name: Attended(numbers(trace, name), trace[name].kind) for name in trace.names()}


def numbers(trace: Trace, name: str) -> np.ndarray:
    """The weights (batch, heads, queries, keys) of one layer, computed now."""
    with torch.no_grad():
        return trace[name].weights().double().cpu().numpy()


def source_words(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """The word of each of `length` tokens of a text; words are what stands between spaces, the end token is none."""
    return [*words(tokenizer.clean(text), tokenizer.offsets(text))[: length - 1], -1]


def target_words(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """The word of each token that was written, by the text that the tokens up to it make; then the end token's, none.

    The tokens themselves, not their text cut anew, which may give others.
    """
    found = [len(tokenizer.decode(list(tokens[: place + 1])).split()) - 1 for place in range(len(tokens))]
    return [*(max(0, number) for number in found), -1]


def source_labels(tokenizer: Tokenizer, text: str, length: int) -> list[str]:
    """The tokens of a text as the model got them: cut to its longest, `length` with the end token."""
    return [*tokenizer.tokens(text)[: length - 1], EOS]
