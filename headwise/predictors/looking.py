"""Where a model looked while it read given tokens and wrote given tokens: the weights of its attention, in one pass."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.data.batches import PairBatch
from headwise.data.tokenizers import Tokenizer
from headwise.errors import Unsupported
from headwise.explain.alignment import focus, merge, pharaoh, words
from headwise.records import record

EOS = "<eos>"


def attended(model: nn.Module, batch: PairBatch) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Weights (batch, heads, queries, keys) and kind of each attention layer in one pass with the target given.

    The weights belong to the calculation that ran; nothing about it is changed by looking.

    Raises:
        Unsupported: if the model has no attention.
    """
    if not any(isinstance(module, Mechanism) for module in model.modules()):
        raise Unsupported("this model has no attention to look at; a recurrent model has it where model.score is set")
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), record(model) as trace:
            model(batch.src, batch.src_lens, batch.tgt_in)
        numbers = {name: trace[name].weights().double().cpu().numpy() for name in trace.names()}
        return numbers, {name: trace[name].kind for name in trace.names()}
    finally:
        model.train(was_training)


def links(
    attention: dict[str, np.ndarray],
    kinds: dict[str, str],
    source_words: Sequence[list[int]],
    target_words: Sequence[list[int]],
    *,
    mutual: bool = False,
) -> list[str]:
    """Word alignments in Pharaoh format, from the most focused layer of each sentence.

    Args:
        source_words, target_words: the number of the word that each token belongs to, -1 for none.
        mutual: only links that are strongest in both directions.

    Raises:
        Unsupported: if the model has no attention from target to source.
    """
    cross = [values.mean(axis=1) for name, values in attention.items() if kinds[name] == "cross"]
    if not cross:
        raise Unsupported("this model has no attention from target to source, so it gives no alignments")
    lines = []
    for row, (keys, queries) in enumerate(zip(source_words, target_words, strict=True)):
        maps = [values[row, : len(queries), : len(keys)] for values in cross]
        lines.append(pharaoh(merge(max(maps, key=focus), queries, keys), mutual=mutual))
    return lines


def source_words(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    """The word of each token of a text that was read; words are what stands between spaces, the end token is none."""
    numbers = words(tokenizer.clean(text), tokenizer.offsets(text))
    return [*numbers[: length - 1], -1] if length != len(numbers) else numbers


def target_words(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """The word of each token that was written, by the text that the tokens up to it make; then the end token's, none.

    The tokens themselves, not their text cut anew, which may give others.
    """
    numbers = [len(tokenizer.decode(list(tokens[: place + 1])).split()) - 1 for place in range(len(tokens))]
    return [*(max(0, number) for number in numbers), -1]


def source_labels(tokenizer: Tokenizer, text: str, length: int) -> list[str]:
    """The tokens of a text as the model got them: cut to its longest, with the end token if it was given one."""
    tokens = tokenizer.tokens(text)
    return [*tokens[: length - 1], EOS] if length != len(tokens) else tokens
