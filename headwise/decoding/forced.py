"""The log-probabilities that a decoder gives to tokens it is told."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.caches import Cache
from headwise.decoding.hypotheses import StepDecoder
from headwise.decoding.rows import device_of


@torch.inference_mode()
def forced_scores(
    decoder: StepDecoder, cache: Cache, targets: Sequence[Sequence[int]], *, bos_id: int
) -> list[list[float]]:
    """Log-probability of each target token after those before it, one list a sentence, step by step.

    Their sum is the `log_prob` of a hypothesis with these tokens; for a finished one the targets end with the end
    of sentence.

    Args:
        cache: what the decoder's `start` returned; it is used up
        targets: tokens of each sentence, without the begin of sentence
    """
    device = device_of(decoder)
    longest = max(map(len, targets), default=0)
    # behind the end of a shorter target its last token goes on, whose scores are left out
    rows = [[bos_id, *tokens, *[tokens[-1] if tokens else bos_id] * (longest - len(tokens))] for tokens in targets]
    padded = torch.tensor(rows, dtype=torch.int64).reshape(len(targets), longest + 1).to(device)
    scores: list[Tensor] = []
    for step in range(longest):
        logits = decoder.step(padded[:, step], cache)
        wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        scores.append(wide.log_softmax(1).gather(1, padded[:, step + 1, None]).squeeze(1).double())
    columns = torch.stack(scores, 1).tolist() if scores else [[] for _ in targets]
    return [row[: len(tokens)] for row, tokens in zip(columns, targets, strict=True)]
