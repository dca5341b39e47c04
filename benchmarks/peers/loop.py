"""The plain training loop that the peers are run in."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.corpus import PAD
from headwise.data.batches import PairBatch

LABEL_SMOOTHING, LEARNING_RATE = 0.1, 1e-3


class PlainLoop:
    """Logits, PyTorch's smoothed cross entropy, backward, PyTorch's AdamW at its defaults; no clipping.

    Args:
        model: called with source tokens, the real positions of the source and decoder inputs; gives logits.
        bf16: under bfloat16 autocast.
    """

    def __init__(self, model: nn.Module, bf16: bool):
        self.model = model.train()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        self._bf16 = bf16

    def step(self, batch: PairBatch) -> float:
        """One update; returns the loss."""
        keep = torch.arange(batch.src.shape[1]) < batch.src_lens[:, None]
        with self._precision():
            logits: Tensor = self.model(batch.src, keep, batch.tgt_in)
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, label_smoothing=LABEL_SMOOTHING
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16, enabled=self._bf16)
