"""A translation model that is made to write given translations: their states, their likelihood."""

from collections.abc import Mapping

import torch
from torch import Tensor

from headwise import metrics
from headwise.data.batches import PairBatch
from headwise.layers.loss import output_loss, real_rows
from headwise.models.protocols import Seq2Seq
from headwise.predictors.classes import mean


def likelihood(model: Seq2Seq, batch: PairBatch) -> dict[str, float]:
    """Negative log-likelihood in nats, right tokens and number of tokens of a batch under teacher forcing."""
    hidden, wanted = real_states(model, batch, batch.tgt_in)
    output = model.decoder.output
    right = int((output(hidden).argmax(-1) == wanted).sum())
    return {"nll": float(output_loss(output, hidden, wanted)), "right": right, "tokens": batch.num_tokens}


def likelihood_scores(counts: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per target token, perplexity and token accuracy of summed counts."""
    nll, tokens = counts.get("nll", 0.0), int(counts.get("tokens", 0))
    perplexity = metrics.perplexity(nll, tokens) if tokens else float("nan")
    right = counts.get("right", 0.0)
    return {"loss": mean(nll, tokens), "perplexity": perplexity, "accuracy": mean(right, tokens)}


def real_states(model: Seq2Seq, batch: PairBatch, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """(decoder states, targets) of the real target positions only."""
    memory = model.encoder(batch.src, batch.src_lens)
    hidden = model.decoder.hidden(tgt_in, memory, batch.src_lens)
    return real_rows(hidden, batch.tgt_out, batch.tgt_lens, batch.num_tokens)


def with_guesses(model: Seq2Seq, batch: PairBatch, share: float) -> Tensor:
    """Decoder inputs with a share of the gold tokens replaced by the model's guesses from a first, unrecorded pass.

    The two-pass form of scheduled sampling (Mihaylova and Martins 2019, arXiv:1906.07651), which keeps a Transformer
    parallel; Bengio et al. 2015, arXiv:1506.03099, go step by step.
    """
    with torch.no_grad():
        memory = model.encoder(batch.src, batch.src_lens)
        hidden = model.decoder.hidden(batch.tgt_in, memory, batch.src_lens)
        # the guess at position t is what the decoder would have read at t + 1
        guesses = torch.stack([model.decoder.output(rows).argmax(-1) for rows in hidden])[:, :-1]
    inputs = batch.tgt_in.clone()
    replaced = torch.rand(guesses.shape, device=guesses.device) < share
    inputs[:, 1:] = torch.where(replaced, guesses, inputs[:, 1:])
    return inputs
