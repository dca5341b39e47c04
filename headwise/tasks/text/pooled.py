"""What every predictor of whole texts does: applies a pooled encoder to many texts at a time, and looks at it."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.precision import wide
from headwise.data.batches import token_batches
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.models.pooled_encoder import PooledEncoder
from headwise.models.pooling import AttentionOverSequence, MaxOverSequence
from headwise.predictors import looking
from headwise.predictors.evaluating import evaluating
from headwise.processes import divided
from headwise.tasks.text.labelled import LabelledBatch, collate_texts, encode_texts

# tokens that are read together, padding included
PREDICTION_TOKENS = 4096
FRONT = "<cls>"


class Reader:
    """A model with its tokenizer, which says numbers of texts.

    Args:
        model: in `eval()` while it reads.
        max_len: tokens of a text that are read; of a longer one the beginning, with a warning.
    """

    def __init__(self, model: PooledEncoder, tokenizer: Tokenizer, max_len: int):
        self.model, self.tokenizer, self.max_len = model, tokenizer, max_len

    @torch.inference_mode()
    def read(self, texts: Sequence[str]) -> Float[Tensor, "texts outputs"]:
        """What the head says of each text, in float32 or wider, on the processor."""
        rows = encode_texts(texts, self.tokenizer, self.max_len)
        if rows.cut:
            warnings.warn(
                f"{rows.cut:,} of {len(texts):,} texts have more than {self.max_len:,} tokens;"
                " only their beginnings are read",
                stacklevel=4,
            )
        weight = self.model.head.weight
        found = torch.zeros(len(texts), weight.shape[0], dtype=weight.dtype)

        def said(batch: list[int]) -> Tensor:
            made = collate_texts(rows, batch).to(weight.device)
            outputs: Tensor = self.model(made.tokens, made.lens).cpu()
            return outputs

        batches = token_batches(rows.lengths(), max_tokens=max(PREDICTION_TOKENS, self.max_len), shuffle=False)
        for batch, outputs in divided(said, batches):
            found[batch] = outputs
        return wide(found)

    def explain(self, text: str, said: str, target: str | None) -> Explanation:
        """What the pooling looks at as it makes one vector of a text, and the attention of every layer, token by token.

        A pooling that takes the largest number of every column shows from which tokens it takes how many.

        Raises:
            ConfigError: a target, or an empty text.
            Unsupported: a model without attention whose pooling takes all tokens alike, or always the same one.
        """
        if target is not None:
            raise ConfigError("the answer for a text cannot be given here; leave the target out")
        rows = encode_texts([text], self.tokenizer, self.max_len)
        batch = collate_texts(rows, [0]).to(self.model.head.weight.device)
        if not int(batch.lens):
            raise ConfigError("the text is empty; there is nothing to look at")
        keys = [FRONT] * (self.model.front is not None) + self.tokenizer.tokens(text)[: self.max_len]
        known, layers = [self._tokens(rows.tokens[0].tolist(), keys)], {}
        if isinstance(self.model.pooling, MaxOverSequence):
            layers["pooling"] = Layer(self._shares(self.model.pooling, batch), [said], keys, "pooled")
            if not any(isinstance(module, Mechanism) for module in self.model.modules()):
                return Explanation(text, said, layers, tokens=known)
        for name, one in looking.attended(self.model, batch.tokens, batch.lens).items():
            pooled = isinstance(self.model.pooling, AttentionOverSequence) and name.startswith("pooling.")
            layers[name] = one.layer([said] if pooled else keys, keys, "pooled" if pooled else None)
        return Explanation(text, said, layers, tokens=known)

    def _tokens(self, ids: list[int], labels: list[str]) -> Tokens:
        """What the tokens of a text are, with the one in front of it where the model reads one."""
        found = looking.tokens_of(self.tokenizer, ids, labels[-len(ids) :])
        if self.model.front is None:
            return found
        return Tokens(labels, [-1, *found.words], [0, *(place + 1 for place in found.special)])

    @torch.inference_mode()
    def _shares(self, pooling: MaxOverSequence, batch: LabelledBatch) -> np.ndarray:
        with evaluating(self.model):
            shares = pooling.shares(*self.model.states(batch.tokens, batch.lens))
        return shares.double().cpu().numpy()[None]


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation of numbers.

    >>> spread([1.0, 3.0])
    (2.0, 1.0)
    """
    found = np.fromiter(values, dtype=np.float64)
    return float(found.mean()), float(found.std())
