"""Two vectors for each word: one for the word itself, one for the word as what stands around others."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.precision import wide
from headwise.config import Config


class WordVectorsConfig(Config):
    """What predicts what, and how wide the vectors are."""

    kind: Literal["skip-gram", "cbow"] = Field(
        "skip-gram", description="skip-gram: a word predicts each word around it; cbow: their mean predicts the word"
    )
    embed_dim: int = Field(100, ge=1, description="numbers in a vector")


class WordVectors(nn.Module):
    """Scores of candidate words: the product of their output vectors with the mean of the input words' vectors.

    Input vectors, which are what is kept, begin uniform within 0.5 / width of 0, output vectors at 0.

    Source: Mikolov et al. 2013, arXiv 1301.3781 and 1310.4546.
    """

    def __init__(self, vocab_size: int, embed_dim: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, embed_dim)
        self.contexts = nn.Embedding(vocab_size, embed_dim)
        nn.init.uniform_(self.words.weight, -0.5 / embed_dim, 0.5 / embed_dim)
        nn.init.zeros_(self.contexts.weight)

    def forward(
        self,
        inputs: Int[Tensor, "targets words"],
        given: Bool[Tensor, "targets words"],
        outputs: Int[Tensor, "targets candidates"],
    ) -> Float[Tensor, "targets candidates"]:
        vectors = self.words(inputs) * given.unsqueeze(-1)
        mean = vectors.sum(1) / given.sum(1, keepdim=True).clamp(min=1)
        return (self.contexts(outputs) @ mean.unsqueeze(-1)).squeeze(-1)


def sampling_loss(
    scores: Float[Tensor, "targets candidates"], counted: Bool[Tensor, "targets candidates"]
) -> Float[Tensor, ""]:
    """The loss of negative sampling, summed over targets (nats): -log s(first) - sum of log s(-other), s the sigmoid.

    Source: Mikolov et al. 2013, arXiv 1310.4546, equation 4.

    >>> round(sampling_loss(torch.zeros(1, 3), torch.tensor([[True, True, False]])).item(), 4)
    1.3863
    """
    signs = torch.full_like(scores, -1.0)
    signs[:, 0] = 1.0
    return -(F.logsigmoid(wide(scores * signs)) * counted).sum()
