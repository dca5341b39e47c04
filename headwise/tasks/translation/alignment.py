"""Word alignment: gold links from files, and the links that attention makes, scored against them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from headwise.data.batches import PairBatch
from headwise.data.files import read_lines
from headwise.errors import ConfigError, DataError, Unsupported
from headwise.explain.alignment import links, merge, near_diagonal
from headwise.predictors import looking
from headwise.records import Trace

_LINK = re.compile(r"(\d{1,6})([-p?])(\d{1,6})")

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GoldLinks:
    """The (source, target) words of a pair that belong together, from 0; `possible` holds the sure ones too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_links(path: str | os.PathLike[str], *, reverse: bool = False) -> list[GoldLinks]:
    """Reads links between spaces, a line for each pair: `0-1` is a sure one, `0p1` or `0?1` a possible one.

    Args:
        reverse: the first number of a link is of the target.

    Raises: DataError: the file cannot be read, or a line holds something else.
    """
    gold = []
    for number, line in read_lines(path):
        links: dict[Link, str] = {}
        for text in line.split():
            match = _LINK.fullmatch(text)
            if match is None:
                raise DataError(f"{path}:{number}: '{text[:20]}' is no link; write 0-1 (sure) or 0p1 (possible)")
            first, second = int(match[1]), int(match[3])
            link = (second, first) if reverse else (first, second)
            # a link that is given twice is as sure as its surer one
            links[link] = "-" if "-" in (match[2], links.get(link)) else match[2]
        sure = frozenset(link for link, mark in links.items() if mark == "-")
        gold.append(GoldLinks(sure, frozenset(links)))
    return gold


Links = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Aligning:
    """How attention becomes links.

    A weight is divided by the mean over all steps, so that what is always looked at, such as a full stop, is not linked
    to everything, and multiplied by exp(-diagonal * |i / I - j / J|), for word i of I and word j of J (counted from
    their middles).

    Args:
        layer: number from 0 among the layers that look from target to source; -1 is the last.
        heads: numbers from 0, whose mean is taken; None: all.
        shift: a target token has the weights of the step that reads it, the one after the step that writes it.
        diagonal: how much links between words at the same share of both sentences are preferred; 0: not at all.
        mutual: only links that are strongest in both directions.

    Source: Garg et al. 2019, arXiv:1909.02074, for words from subwords; Chen et al. 2020, arXiv:2004.14837, for the
        shift; Dyer et al. 2013, "A Simple, Fast, and Effective Reparameterization of IBM Model 2", equation 2, for the
        diagonal.
    """

    layer: int = -1
    heads: tuple[int, ...] | None = None
    shift: bool = False
    diagonal: float = 8.0
    mutual: bool = False


def word_links(
    model: nn.Module,
    batch: PairBatch,
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
    how: Aligning,
) -> list[Links]:
    """The (source, target) words that belong together in each pair of a batch, every target word with one source word.

    Weights of subwords are summed over those of a source word and averaged over those of a target word; the end
    tokens are left out.

    Args:
        source_words, target_words: the word of each token, the end token included; -1 for none.

    Raises:
        Unsupported: if the model has no attention from target to source.
        ConfigError: for a layer or head that is not there.
    """
    trace = looking.traced(model, batch.src, batch.src_lens, batch.tgt_in)
    name = chosen_layer(trace, how.layer)
    weights = looking.numbers(trace, name)
    heads = list(range(weights.shape[1])) if how.heads is None else list(how.heads)
    for head in heads:
        if not 0 <= head < weights.shape[1]:
            raise ConfigError(f"head {head} is not there; {name} has heads 0 to {weights.shape[1] - 1}")
    mean = weights[:, heads].mean(axis=1)
    return [
        _linked(mean[row, : len(queries), : len(keys)], queries, keys, how)
        for row, (keys, queries) in enumerate(zip(source_words, target_words, strict=True))
    ]


def _linked(weights: np.ndarray, queries: Sequence[int], keys: Sequence[int], how: Aligning) -> Links:
    # the step that writes the end token is the one that reads the last token
    steps = weights[1:] if how.shift else weights[:-1]
    usual = merge(weights, [0] * len(weights), keys)
    relative = merge(steps, queries[:-1], keys) / np.where(usual > 0, usual, 1.0)
    return links(relative * near_diagonal(relative.shape[0], relative.shape[1], how.diagonal), mutual=how.mutual)


def chosen_layer(trace: Trace, layer: int) -> str:
    """The name of the layer to align with; `layer` as in `Aligning`."""
    names = [record.name for record in trace if record.kind == "cross"]
    if not names:
        raise Unsupported("this model has no attention from target to source, so it gives no alignments")
    if not -len(names) <= layer < len(names):
        raise ConfigError(f"layer {layer} is not there; the model has {len(names)} cross-attention layers, from 0")
    return names[layer]


def pharaoh(pairs: Links) -> str:
    """Links in the format of word aligners: `source-target`, counted from 0.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{source}-{target}" for source, target in pairs)
