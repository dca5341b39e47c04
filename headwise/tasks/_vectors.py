"""Pretrained word vectors that the embeddings of a model start from."""

from pydantic import Field
from torch import Generator, nn

from headwise.config import Config, StartFile
from headwise.data.corpus import resolve
from headwise.data.tokenizers import Tokenizer
from headwise.data.vectors import Coverage, load_vectors
from headwise.errors import ConfigError


class StartConfig(Config):
    """Pretrained word vectors to start from, in the text format of GloVe and word2vec."""

    file: StartFile | None = Field(None, description="file for the embeddings; words are those of the tokenizer")
    frozen: bool = Field(False, description="keep them fixed instead of training them")


def filled(embedding: nn.Module, path: str, tokenizer: Tokenizer, seed: int) -> Coverage:
    """Puts word vectors into an embedding. Raises: ConfigError if their width is another one."""
    weight = embedding.weight
    assert isinstance(weight, nn.Parameter)
    matrix, coverage = load_vectors(resolve(path), tokenizer, generator=Generator().manual_seed(seed))
    if matrix.shape[1] != weight.shape[1]:
        raise ConfigError(
            f"{path} has vectors of {matrix.shape[1]} numbers, the model's embeddings have {weight.shape[1]}"
        )
    # a model may multiply embeddings by a constant; the vectors enter as they are
    weight.data.copy_(matrix / getattr(embedding, "scale", 1.0))
    return coverage
