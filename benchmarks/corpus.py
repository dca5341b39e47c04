"""The sentences that all systems read: Multi30k English-German, or made-up token numbers of the same lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.data.batches import PairBatch, Ragged, collate, pair_lengths
from headwise.data.buckets import token_batches
from headwise.data.readers import read_pairs
from headwise.data.tokenizers import Tokenizer, TokenizerConfig

PAD, BOS, EOS, UNK = range(4)
_FILE = "corpus.npz"

# joint BPE of 8,000 on the 29,000 training pairs of Multi30k: logarithms of the lengths, nearly normal
_LOG_MEAN, _LOG_STD, _CORRELATION = (2.604, 2.624), (0.315, 0.353), 0.858


@dataclass(frozen=True)
class Corpus:
    """Pairs of token rows without begin and end, the size of their joint vocabulary, and where they come from."""

    sources: Ragged
    targets: Ragged
    vocab_size: int
    origin: str

    @classmethod
    def encoded(cls, sources: list[str], targets: list[str], tokenizer: Tokenizer, origin: str) -> "Corpus":
        """Sentences as this tokenizer reads them."""
        rows = Ragged.of(tokenizer.encode_batch(sources)), Ragged.of(tokenizer.encode_batch(targets))
        return cls(*rows, tokenizer.vocab_size, origin)

    @classmethod
    def synthetic(cls, pairs: int, vocab_size: int, seed: int = 0) -> "Corpus":
        """Random token numbers whose lengths are distributed as those of Multi30k."""
        generator = np.random.default_rng(seed)
        shared, own = generator.standard_normal(pairs), generator.standard_normal(pairs)
        mixed = _CORRELATION * shared + np.sqrt(1 - _CORRELATION**2) * own
        sides = []
        for normal, mean, std in zip((shared, mixed), _LOG_MEAN, _LOG_STD, strict=True):
            lengths = np.clip(np.rint(np.exp(mean + std * normal)), 3, 60).astype(np.int64)
            sides.append(Ragged(generator.integers(4, vocab_size, lengths.sum(), dtype=np.int32), lengths))
        return cls(sides[0], sides[1], vocab_size, "synthetic token numbers with the lengths of Multi30k")

    def save(self, folder: Path) -> None:
        """Writes the arrays for the workers to read."""
        np.savez(
            folder / _FILE,
            source_values=self.sources.values,
            source_lengths=self.sources.lengths,
            target_values=self.targets.values,
            target_lengths=self.targets.lengths,
            vocab_size=np.array(self.vocab_size),
        )

    @classmethod
    def load(cls, folder: Path) -> "Corpus":
        """What `save` wrote."""
        with np.load(folder / _FILE, allow_pickle=False) as arrays:
            sources = Ragged(arrays["source_values"], arrays["source_lengths"])
            targets = Ragged(arrays["target_values"], arrays["target_lengths"])
            return cls(sources, targets, int(arrays["vocab_size"]), str(folder))

    def batches(self, batch_tokens: int) -> list[list[int]]:
        """One epoch of batches of at most so many padded target tokens, the same in every process."""
        return token_batches(self.lengths, max_tokens=batch_tokens, count="target")

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each pair as they stand in a batch."""
        return pair_lengths(self.sources, self.targets)

    def batch(self, indices: Sequence[int]) -> PairBatch:
        """These pairs as tensors."""
        return collate(self.sources, self.targets, indices, pad_id=PAD, bos_id=BOS, eos_id=EOS)


def read_texts(folder: Path, part: str, limit: int | None = None) -> tuple[list[str], list[str]] | None:
    """English and German sentences of a part of Multi30k; None where the folder has no such files."""
    paths = folder / f"{part}.en.gz", folder / f"{part}.de.gz"
    if not all(path.exists() for path in paths):
        return None
    pairs = read_pairs(paths[0], target_path=paths[1], limit=limit)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def training_corpus(folder: Path, vocab_size: int, limit: int | None = None) -> tuple[Corpus, Tokenizer | None]:
    """The training part under a joint BPE learned from it; without the files, synthetic and no tokenizer."""
    texts = read_texts(folder, "train", limit)
    if texts is None:
        return Corpus.synthetic(limit or 29_000, vocab_size), None
    tokenizer = Tokenizer.train([*texts[0], *texts[1]], TokenizerConfig(kind="bpe", vocab_size=vocab_size))
    return Corpus.encoded(*texts, tokenizer, f"Multi30k en-de from {folder}"), tokenizer
