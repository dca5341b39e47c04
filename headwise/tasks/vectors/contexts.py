"""Words of a text with the words around them and drawn words that are not: the batches of skip-gram and CBOW."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from headwise.config import Config
from headwise.data.batches import OnDevice
from headwise.data.buckets import permutation, random_bits, uniform
from headwise.data.sources import Drawn, Limits
from headwise.data.streams import Text
from headwise.data.tokenizers import Tokenizer
from headwise.errors import DataError
from headwise.tasks.text.plain import SPECIALS

# words of a line that are read as one; a longer line is cut
LONGEST_LINE = 1000
# (places of a window) x (drawn words) are told apart by so many bits of a counter
_BITS = 20
_WINDOW, _DRAWN = 500, 100

Kind = Literal["skip-gram", "cbow"]


class ContextConfig(Config):
    """Which words are the context of a word, and what it is told apart from."""

    window: int = Field(5, ge=1, le=_WINDOW, description="words on each side at most; each word draws 1 to so many")
    negatives: int = Field(5, ge=1, le=_DRAWN, description="words drawn for each right one as negatives")
    exponent: float = Field(0.75, ge=0, description="they are drawn by the counts of words to this power")
    subsample: float = Field(1e-3, ge=0, description="words of a larger share are left out at random; 0: none")


@dataclass(frozen=True)
class ContextBatch(OnDevice):
    """Inputs whose mean vector has to tell the right word, the first of `outputs`, from those that were drawn.

    Args:
        given: which of `inputs` are words; the others are padding.
        counted: which of `outputs` count; a drawn word that is the right one does not.
        indices: the lines of the text.
    """

    inputs: Int[Tensor, "targets words"]
    given: Bool[Tensor, "targets words"]
    outputs: Int[Tensor, "targets candidates"]
    counted: Bool[Tensor, "targets candidates"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Targets: for skip-gram the pairs of a word and one of its context, for CBOW words with a context."""
        return len(self.outputs)


class Noise:
    """Draws words with the probability of their counts to a power, from 64 random bits each, in constant time.

    Source: Walker 1977, the method of aliases; the words and their power: Mikolov et al. 2013, arXiv 1310.4546.

    Args:
        counts: how often each token occurs; one that does not is never drawn.

    Raises: DataError where no word has a count.
    """

    def __init__(self, counts: np.ndarray, exponent: float) -> None:
        powers = np.where(counts > 0, counts.astype(np.float64) ** exponent, 0.0)
        if not powers.sum():
            raise DataError("no word has a count, so there is none to draw")
        share = powers / powers.sum() * len(powers)
        self.accept, self.alias = np.ones(len(share)), np.arange(len(share))
        small, large = [list(np.flatnonzero(side)) for side in (share < 1, share >= 1)]
        while small and large:
            poor, rich = small.pop(), large[-1]
            self.accept[poor], self.alias[poor] = share[poor], rich
            share[rich] -= 1 - share[poor]
            if share[rich] < 1:
                small.append(large.pop())
        # what rounding leaves over of words that never occur
        for rest in small:
            if not counts[rest]:
                self.accept[rest], self.alias[rest] = 0.0, int(np.argmax(counts))

    def draw(self, bits: np.ndarray) -> np.ndarray:
        """A token for each uint64: the upper half chooses a column of the table, the lower half one of its two."""
        half = np.uint64(32)
        column = ((bits >> half) * np.uint64(len(self.accept)) >> half).astype(np.int64)
        accepted = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) * 2.0**-32 < self.accept[column]
        return np.where(accepted, column, self.alias[column])


def kept_shares(counts: np.ndarray, threshold: float) -> np.ndarray:
    """The probability with which a running word stays: sqrt(t / f) + t / f for its share f of the text, at most 1.

    As the program of Mikolov et al. has it; their paper (2013, equation 5) has the first term alone.

    >>> kept_shares(np.array([0, 900, 99, 1]), 1e-2).round(3).tolist()
    [1.0, 0.117, 0.419, 1.0]
    """
    if not threshold:
        return np.ones(len(counts))
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


class Lines:
    """The lines of a text that have a word, as places of its first tokens and numbers of tokens; long ones are cut."""

    def __init__(self, text: Text) -> None:
        tokens = text.tokens
        assert isinstance(tokens, np.ndarray)
        ends = np.flatnonzero(np.asarray(tokens == Tokenizer.eos_id))
        starts = np.concatenate([[1], ends + 1])[:-1].astype(np.int64)
        lengths = ends - starts
        parts = -(-lengths // LONGEST_LINE)
        which = np.repeat(np.arange(len(parts)), parts)
        before = LONGEST_LINE * (np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts))
        self.tokens = tokens
        self.starts = starts[which] + before
        self.lengths = np.minimum(LONGEST_LINE, lengths[which] - before)

    def __len__(self) -> int:
        return len(self.starts)

    def places(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of every token of these lines its place in the text, and which of the lines it is in."""
        lengths = self.lengths[lines]
        line = np.repeat(np.arange(len(lines)), lengths)
        within = np.arange(len(line)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.starts[lines][line] + within, line


class Windows:
    """Makes batches of lines: leaves out frequent words, draws a window for each word, and words to tell it from.

    Everything that is drawn is a function of seed, pass and place in the text: not of the batch.
    """

    def __init__(self, lines: Lines, counts: np.ndarray, config: ContextConfig, kind: Kind, seed: int) -> None:
        self.lines, self.config, self.kind, self.seed = lines, config, kind, seed
        self._noise = Noise(counts, config.exponent)
        self._kept = kept_shares(counts, config.subsample)

    def batch(self, indices: list[int], epoch: int) -> ContextBatch:
        """The targets of these lines in a pass."""
        place, line = self.lines.places(np.asarray(indices, dtype=np.int64))
        word = np.asarray(self.lines.tokens[place]).astype(np.int64)
        stays = (word >= SPECIALS) & (uniform(self._bits(place, 0, epoch)) < self._kept[word])
        place, line, word = place[stays], line[stays], word[stays]
        window = self.config.window
        steps = np.delete(np.arange(-window, window + 1), window)
        reach = 1 + (uniform(self._bits(place, 1, epoch)) * window).astype(np.int64)
        around = np.arange(len(word))[:, None] + steps
        inside = (around >= 0) & (around < len(word)) & (np.abs(steps) <= reach[:, None])
        around = np.clip(around, 0, max(0, len(word) - 1))
        inside &= line[around] == line[:, None]
        if self.kind == "skip-gram":
            row, slot = np.nonzero(inside)
            inputs, mask, right = word[row][:, None], np.ones((len(row), 1), dtype=bool), word[around[row, slot]]
        else:
            row = np.flatnonzero(inside.any(axis=1))
            slot, mask, right = np.zeros_like(row), inside[row], word[row]
            inputs = np.where(mask, word[around[row]], Tokenizer.pad_id)
        counter = (place[row] << _BITS) + slot * self.config.negatives
        drawn = self._noise.draw(self._bits(counter[:, None] + np.arange(self.config.negatives), 2, epoch))
        outputs = np.concatenate([right[:, None], drawn], axis=1)
        counted = outputs != right[:, None]
        counted[:, 0] = True
        tensors = [torch.from_numpy(array) for array in (inputs, mask, outputs, counted)]
        return ContextBatch(tensors[0], tensors[1], tensors[2], tensors[3], indices)

    def _bits(self, counters: np.ndarray, purpose: int, epoch: int) -> np.ndarray:
        return random_bits(counters.astype(np.uint64), self.seed, 4 * epoch + purpose)


def context_source(windows: Windows, limits: Limits, *, shuffle: bool) -> Drawn[ContextBatch]:
    """Batches of lines that have `limits.tokens` words together, or a few more; pairs are made batch by batch.

    Args:
        shuffle: False: the same order and the same draws in every pass, for evaluation.
    """
    lengths = windows.lines.lengths[: limits.examples]

    def draw(seed: int, epoch: int) -> list[list[int]]:
        order = permutation(len(lengths), seed, 4 * epoch + 3) if shuffle else np.arange(len(lengths))
        least = -(-limits.tokens // (limits.sentences or limits.tokens))
        costs = np.maximum(lengths[order], least)
        batch = (np.cumsum(costs) - costs) // limits.tokens
        cuts = np.flatnonzero(np.diff(batch)) + 1
        return [lines.tolist() for lines in np.split(order, cuts) if len(lines)]

    source: Drawn[ContextBatch] = Drawn(
        draw, lambda indices: windows.batch(indices, source.epoch if shuffle else 0), seed=limits.seed
    )
    return source
