"""What the weights of a pooling are worth elsewhere: given to a classifier that reads each token by itself."""

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.data.buckets import token_batches
from headwise.errors import ShapeError, Unsupported
from headwise.models.pooled_encoder import PooledEncoder, build_pooled_encoder
from headwise.models.pooling import AttentionOverSequence, SequencePoolingConfig
from headwise.models.token_encoders import AloneConfig
from headwise.predictors.evaluating import evaluating
from headwise.records import Replace, edit, record
from headwise.tasks.text.labelled import LabelledBatch, TextRows, collate_texts

# of the classifier that is guided, and of the adversary
_WIDTH, _RATE, _BATCH_TOKENS = 64, 3e-3, 1024
_POOLING = "pooling.*"


class Guide(NamedTuple):
    """Texts, and the weight that each of their tokens is given; a row of weights for each text."""

    rows: TextRows
    weights: list[Float[np.ndarray, "tokens"]]


def pooled_weights(model: PooledEncoder, rows: TextRows) -> list[Float[np.ndarray, "tokens"]]:
    """The weights that a pooling by attention gives the tokens of each text, the mean of its heads.

    Raises: Unsupported: another pooling, or one over more than the tokens.
    """
    if not isinstance(model.pooling, AttentionOverSequence) or model.front is not None:
        raise Unsupported("weights of tokens are those of a pooling by attention; train with pooling.kind=attention")
    weights: list[np.ndarray] = [np.empty(0)] * len(rows)
    with evaluating(model), torch.no_grad():
        for batch in _batches(rows):
            for place, row in zip(batch.indices, _weights(model, batch).numpy(), strict=True):
                weights[place] = row[: int(rows.tokens.lengths[place])]
    return weights


def guided(train: Guide, test: Guide, vocab_size: int, classes: int, *, passes: int = 6, seed: int = 0) -> list[bool]:
    """Whether a classifier that is given the weights of its pooling, and reads each token alone, is right on each text.

    It learns what tokens say, and never how much each counts: of two kinds of weights those are worth more that make
    it right more often.

    Source: Wiegreffe and Pinter 2019, arXiv:1908.04626, section 3.4.

    Raises: ShapeError: weights of another text.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = AloneConfig(d_model=_WIDTH, d_ff=_WIDTH, dropout=0.3)
        pooling = SequencePoolingConfig(kind="attention")
        model = build_pooled_encoder(config, pooling, vocab_size, classes, embedding_std=0.1, token_dropout=0.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
        for number in range(passes):
            for batch in _batches(train.rows, seed, number):
                loss = nn.functional.cross_entropy(_given(model, train, batch), batch.targets)
                _step(optimizer, loss)
    right = [False] * len(test.rows)
    with evaluating(model), torch.no_grad():
        for batch in _batches(test.rows):
            correct = _given(model, test, batch).argmax(-1) == batch.targets
            for place, value in zip(batch.indices, correct.tolist(), strict=True):
                right[place] = value
    return right


def adversary(
    model: PooledEncoder, rows: TextRows, *, strength: float = 0.03, passes: int = 3, seed: int = 0
) -> PooledEncoder:
    """A model that answers as another one does, with weights of its pooling as far from those as it can have them.

    It has the same encoder and head, and a pooling that starts as a copy and learns to lower
    TVD(answers) - strength KL(weights of the model || its own).

    Source: Wiegreffe and Pinter 2019, arXiv:1908.04626, section 4, equation 2, where all of the model learns.

    Raises: Unsupported: as `pooled_weights`.
    """
    targets = pooled_weights(model, rows)
    other = copy.deepcopy(model)
    other.requires_grad_(False)
    other.pooling.requires_grad_(True)
    optimizer = torch.optim.Adam(other.pooling.parameters(), lr=_RATE)
    with evaluating(model), evaluating(other), torch.enable_grad():
        for number in range(passes):
            for batch in _batches(rows, seed, number):
                answers = model(batch.tokens, batch.lens).softmax(-1).detach()
                old = _padded([targets[place] for place in batch.indices])
                others, new = _answers(other, batch)
                moved = (others - answers).abs().sum(-1) / 2
                terms = torch.where(old > 0, old * (old.clamp_min(1e-9).log() - new.clamp_min(1e-9).log()), 0.0)
                _step(optimizer, (moved - strength * terms.sum(-1)).mean())
    return other


def _answers(
    model: PooledEncoder, batch: LabelledBatch
) -> tuple[Float[Tensor, "batch classes"], Float[Tensor, "batch tokens"]]:
    """Its probabilities and the weights of its pooling, both with their gradients."""
    seen: list[Tensor] = []
    # a record keeps no gradient, and what replaces weights is given those that have one
    with edit(model, Replace(_POOLING, partial(_keep, seen))):
        probabilities = model(batch.tokens, batch.lens).softmax(-1)
    return probabilities, seen[0].mean(1)[:, 0]


def _keep(seen: list[Tensor], weights: Tensor) -> Tensor:
    seen.append(weights)
    return weights


def _name(model: PooledEncoder) -> str:
    return next(name for name, module in model.named_modules() if module is model.pooling) + ".attention"


def _weights(model: PooledEncoder, batch: LabelledBatch) -> Float[Tensor, "batch tokens"]:
    with record(model) as trace:
        model(batch.tokens, batch.lens)
    return trace[_name(model)].weights().mean(1)[:, 0]


def _given(model: PooledEncoder, guide: Guide, batch: LabelledBatch) -> Float[Tensor, "batch classes"]:
    chosen = [guide.weights[place] for place in batch.indices]
    lengths = [len(row) for row in chosen]
    if lengths != batch.lens.tolist():
        raise ShapeError("each text needs a weight for each of its tokens; these are of other texts")
    with edit(model, Replace(_POOLING, _padded(chosen)[:, None, None])):
        logits: Tensor = model(batch.tokens, batch.lens)
    return logits


def _padded(rows: Sequence[np.ndarray]) -> Float[Tensor, "rows tokens"]:
    longest = max(1, *(len(row) for row in rows))
    return torch.tensor(np.stack([np.pad(row, (0, longest - len(row))) for row in rows]), dtype=torch.float32)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _batches(rows: TextRows, seed: int | None = None, epoch: int = 0) -> Iterator[LabelledBatch]:
    """Padded batches of all texts; in an order that follows seed and epoch, if there is a seed."""
    lengths = rows.lengths()
    budget = max(_BATCH_TOKENS, int(lengths.max(initial=0)))
    for indices in token_batches(lengths, max_tokens=budget, seed=seed or 0, epoch=epoch, shuffle=seed is not None):
        yield collate_texts(rows, indices)
