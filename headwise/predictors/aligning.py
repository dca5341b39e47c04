"""Which source word stands for which target word: the attention of a translation model that writes a given target."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from headwise.data.batches import PairBatch
from headwise.errors import ConfigError, Unsupported
from headwise.explain.alignment import links, merge
from headwise.predictors import looking
from headwise.records import Trace

Links = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Aligning:
    """How attention becomes links.

    Args:
        layer: number from 0 among the layers that look from target to source (-1 is the last); None: the last but
            one, which aligns best in a Transformer.
        heads: numbers from 0, whose mean is taken; None: all.
        shift: a target token has the weights of the step that reads it, the one after the step that writes it; None:
            where the decoder has self-attention, so that this step knows the token.
        mutual: only links that are strongest in both directions.

    Source: Garg et al. 2019, arXiv:1909.02074, for the layer and for words from subwords; Chen et al. 2020,
        arXiv:2004.14837, for the shift.
    """

    layer: int | None = None
    heads: tuple[int, ...] | None = None
    shift: bool | None = None
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
    name, shift = chosen_layer(trace, how.layer), how.shift
    if shift is None:
        shift = any(record.kind == "self" and record.name.startswith("decoder") for record in trace)
    weights = looking.numbers(trace, name)
    heads = range(weights.shape[1]) if how.heads is None else how.heads
    for head in heads:
        if not 0 <= head < weights.shape[1]:
            raise ConfigError(f"head {head} is not there; {name} has heads 0 to {weights.shape[1] - 1}")
    mean = weights[:, list(heads)].mean(axis=1)
    found = []
    for row, (keys, queries) in enumerate(zip(source_words, target_words, strict=True)):
        # the step that writes the end token is the one that reads the last token
        steps = slice(1, len(queries)) if shift else slice(0, len(queries) - 1)
        found.append(links(merge(mean[row, steps, : len(keys)], queries[:-1], keys), mutual=how.mutual))
    return found


def chosen_layer(trace: Trace, layer: int | None) -> str:
    """The name of the layer to align with; `layer` as in `Aligning`."""
    names = [record.name for record in trace if record.kind == "cross"]
    if not names:
        raise Unsupported("this model has no attention from target to source, so it gives no alignments")
    if layer is None:
        return names[max(0, len(names) - 2)]
    if not -len(names) <= layer < len(names):
        raise ConfigError(f"layer {layer} is not there; the model has {len(names)} cross-attention layers, from 0")
    return names[layer]


def pharaoh(found: Links) -> str:
    """Links in the format of word aligners: `source-target`, counted from 0.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{source}-{target}" for source, target in found)
