"""Texts as rows of tokens, each with a target, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.data.batches import Ragged, padded
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ShapeError


@dataclass(frozen=True, slots=True)
class TextRows:
    """The tokens of texts, and the number of the class, or the value, that belongs to each.

    `cut` is how many texts had more tokens than were kept.
    """

    tokens: Ragged
    targets: np.ndarray
    cut: int

    def __len__(self) -> int:
        return len(self.tokens)

    def lengths(self) -> np.ndarray:
        """(texts, 1): places of each in a batch, as `token_batches` wants them; an empty text takes one."""
        return np.maximum(self.tokens.lengths, 1)[:, None]


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Padded texts, at least one place wide, their lengths, and the target of each."""

    tokens: Int[Tensor, "batch length"]
    lens: Int[Tensor, "batch"]
    targets: Int[Tensor, "batch"] | Float[Tensor, "batch"]
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        """Targets: one for each text."""
        return len(self.indices)

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """The same batch on another device."""
        names = ("tokens", "lens", "targets")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, max_len: int, targets: Sequence[int] | Sequence[float] | None = None
) -> TextRows:
    """The first `max_len` tokens of each text; without targets these are 0.

    >>> from headwise.data.tokenizers import TokenizerConfig
    >>> rows = encode_texts(["ab", ""], Tokenizer.train(["ab"], TokenizerConfig(kind="char")), 1)
    >>> rows.tokens[0].tolist(), rows.lengths().tolist(), rows.cut
    ([4], [[1], [1]], 1)
    """
    whole = Ragged.of(tokenizer.encode_batch(texts))
    values = np.zeros(len(texts), dtype=np.int64) if targets is None else np.asarray(targets)
    if values.dtype == np.float64:
        # what every device can hold
        values = values.astype(np.float32)
    return TextRows(whole.cut(max_len), values, int((whole.lengths > max_len).sum()))


def collate_texts(rows: TextRows, indices: Sequence[int]) -> LabelledBatch:
    """Pads the texts at `indices` to one batch; no Python work per token.

    Raises:
        ShapeError: no indices.
    """
    if not len(indices):
        raise ShapeError("a batch needs at least one example")
    chosen = np.asarray(indices, dtype=np.int64)
    found = rows.tokens.take(chosen)
    tokens = padded(found, Tokenizer.pad_id)
    if not tokens.shape[1]:
        tokens = tokens.new_full((len(indices), 1), Tokenizer.pad_id)
    targets = torch.from_numpy(rows.targets[chosen])
    return LabelledBatch(tokens, torch.from_numpy(found.lengths), targets, list(indices))
