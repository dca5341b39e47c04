"""How to decode, as a configuration, and the one function that follows it."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator

from headwise.caches import Cache
from headwise.config import Config
from headwise.decoding.beam import beam_search
from headwise.decoding.greedy import greedy
from headwise.decoding.hypotheses import LENGTH_PENALTY, Hypothesis, StepDecoder
from headwise.decoding.sampling import sample


class DecodingConfig(Config):
    """How a model's outputs are searched for.

    A sentence of n source tokens gets at most `max_len_a * n + max_len_b` tokens, but never more than `max_len`.
    """

    method: Literal["beam", "greedy", "sample"] = "beam"
    # beam
    beam_size: int = Field(5, ge=1)
    n_best: int = Field(1, ge=1)
    # lengths
    length_penalty: float = Field(LENGTH_PENALTY, ge=0)
    min_len: int = Field(0, ge=0)
    max_len_a: float = Field(1.5, ge=0)
    max_len_b: float = Field(10.0, ge=0)
    max_len: int = Field(256, ge=1)
    no_repeat_ngram: int = Field(0, ge=0)
    # sample
    num_samples: int = Field(1, ge=1)
    temperature: float = Field(1.0, gt=0)
    top_k: int = Field(0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _fits(self) -> "DecodingConfig":
        if self.method == "beam" and self.n_best > self.beam_size:
            raise ValueError(f"n_best ({self.n_best}) must be at most beam_size ({self.beam_size})")
        if self.min_len > self.max_len:
            raise ValueError(f"min_len ({self.min_len}) is above max_len ({self.max_len})")
        return self

    def limit(self, src_len: int) -> int:
        """The most tokens for a source of so many; never below `min_len` and 1.

        >>> DecodingConfig().limit(8)
        22
        """
        return max(1, self.min_len, min(self.max_len, math.floor(self.max_len_a * src_len + self.max_len_b)))


def search(
    decoder: StepDecoder,
    cache: Cache,
    config: DecodingConfig,
    *,
    bos_id: int,
    eos_id: int,
    src_lens: Sequence[int],
    banned: Sequence[int] = (),
    prefix: Sequence[Sequence[int]] | None = None,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """Decodes as configured: `n_best` hypotheses of each sentence, one if greedy, or `num_samples`.

    Args:
        cache: what the decoder's `start` returned; it is used up
        src_lens: source tokens of each sentence; they limit the length
        banned: tokens that are never chosen
        prefix: forced first tokens of each sentence
        generator: of random numbers, for sampling
    """
    max_len = [config.limit(int(length)) for length in src_lens]
    if config.method == "greedy":
        return greedy(
            decoder,
            cache,
            bos_id=bos_id,
            eos_id=eos_id,
            max_len=max_len,
            min_len=config.min_len,
            length_penalty=config.length_penalty,
            no_repeat_ngram=config.no_repeat_ngram,
            banned=banned,
            prefix=prefix,
        )
    if config.method == "sample":
        return sample(
            decoder,
            cache,
            bos_id=bos_id,
            eos_id=eos_id,
            max_len=max_len,
            num_samples=config.num_samples,
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            generator=generator,
            length_penalty=config.length_penalty,
            min_len=config.min_len,
            no_repeat_ngram=config.no_repeat_ngram,
            banned=banned,
            prefix=prefix,
        )
    return beam_search(
        decoder,
        cache,
        bos_id=bos_id,
        eos_id=eos_id,
        max_len=max_len,
        beam_size=config.beam_size,
        n_best=config.n_best,
        length_penalty=config.length_penalty,
        min_len=config.min_len,
        no_repeat_ngram=config.no_repeat_ngram,
        banned=banned,
        prefix=prefix,
    )
