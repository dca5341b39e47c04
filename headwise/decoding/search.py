"""How to decode: a configuration, the options that replace parts of it, and the function that follows it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from headwise.caches import Cache
from headwise.config import Config, build
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import Constraints, Stopping, constraints
from headwise.decoding.hypotheses import LENGTH_PENALTY, Hypothesis, StepDecoder
from headwise.decoding.sampling import Draws, greedy, sample
from headwise.errors import ConfigError, flag

_OF_SAMPLING = ("temperature", "top_k", "top_p")


class DecodingConfig(Config):
    """How a model's outputs are searched for.

    A sentence of n source tokens gets at most `max_len_a * n + max_len_b` tokens, but never more than `max_len`.
    """

    method: Literal["beam", "greedy", "sample"] = Field("beam", description="decoding method")
    beam_size: int = Field(5, ge=1, le=65536, description="beam: number of hypotheses kept at each step")
    n_best: int = Field(1, ge=1, description="beam: outputs per sentence, at most beam_size")
    length_penalty: float = Field(
        LENGTH_PENALTY, ge=0, description="0: rank by log-probability; 1: by its mean over tokens"
    )
    stopping: Stopping = Field(
        "full",
        description="beam: when a search ends: full: beam_size outputs have ended, or no better one is possible; "
        "estimate: beam_size have, and the best that goes on would not be better if it ended now; bound: no output "
        "among the best beam_size is possible any more",
    )
    min_len: int = Field(0, ge=0, description="shortest output, in tokens")
    max_len_a: float = Field(1.5, ge=0, description="longest output: tokens per source token ...")
    max_len_b: float = Field(10.0, ge=0, description="... plus this many")
    max_len: int = Field(256, ge=1, description="longest output of all, in tokens")
    precision: Literal["auto", "fp32", "bf16", "int8"] = Field(
        "fp32",
        description="bf16: large products in bfloat16; faster where `headwise doctor` says so, less exact. int8: in 8 "
        "bits, unless the run's held-out part shows a loss. auto: int8 where it is faster on this machine, else fp32",
    )
    engine: Literal["headwise", "ctranslate2", "auto"] = Field(
        "headwise",
        description="what searches. ctranslate2: faster, where it computes the model; auto: that where it is installed "
        "and equal, else headwise",
    )
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this many tokens occurs twice; 0: off")
    num_samples: int = Field(1, ge=1, le=65536, description="sample: outputs per sentence")
    temperature: float = Field(1.0, gt=0, description="sample: divides the logits; below 1 favours probable tokens")
    top_k: int = Field(0, ge=0, description="sample: only from this many most probable tokens; 0: off")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sample: only from the most probable tokens with this total probability"
    )

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

    def constraints(
        self,
        src_lens: Sequence[int],
        *,
        bos_id: int | Sequence[int],
        eos_id: int,
        banned: Sequence[int] = (),
        prefix: Sequence[Sequence[int]] | None = None,
    ) -> Constraints:
        """The `rules` of `search`: the lengths and the rules of this configuration.

        Args:
            src_lens: source tokens of each sentence; they limit the length
            bos_id, eos_id, banned, prefix: as in `headwise.decoding.constraints.constraints`

        >>> DecodingConfig().constraints([8, 2], bos_id=0, eos_id=1).max_len.tolist()
        [22, 13]
        """
        rules = constraints(
            [self.limit(int(length)) for length in src_lens],
            bos_id=bos_id,
            eos_id=eos_id,
            min_len=self.min_len,
            no_repeat_ngram=self.no_repeat_ngram,
            banned=banned,
            prefix=prefix,
            length_penalty=self.length_penalty,
        )
        return replace(rules, stopping=self.stopping)

    def with_options(self, options: Mapping[str, Any]) -> "DecodingConfig":
        """The configuration with these keys replaced; an option implies its method, and `n_best` counts samples too.

        Raises: ConfigError for options that belong to another method, or values that are not allowed.

        >>> DecodingConfig().with_options({"top_k": 5, "n_best": 2}).num_samples
        2
        """
        if unknown := [name for name in options if name not in type(self).model_fields]:
            raise ConfigError(f"this model has no option {flag(unknown[0])}: remove it")
        for name in ("n_best", "beam_size"):
            if type(count := options.get(name, 1)) is not int:
                raise ConfigError(f"options: {name}: must be a whole number, not '{count}'")
        options, n_best = dict(options), options.get("n_best", 1)
        method = options.pop("method", None)
        of_sampling = [name for name in _OF_SAMPLING if name in options]
        beam = "beam_size" in options or n_best > 1
        chosen = method or ("sample" if of_sampling else "beam" if beam else self.method)
        if of_sampling and chosen != "sample":
            raise ConfigError(f"{flag(of_sampling[0])} needs --method sample, not {chosen}")
        if "beam_size" in options and chosen != "beam":
            raise ConfigError(f"--beam needs --method beam, not {chosen}")
        if chosen == "greedy" and n_best > 1:
            raise ConfigError("--n-best needs --method beam or sample; greedy finds one output")
        values = {**self.model_dump(), **options, "method": chosen, "n_best": 1, "num_samples": 1}
        if chosen == "sample":
            values["num_samples"] = n_best
        else:
            values |= {"n_best": n_best, "beam_size": max(n_best, options.get("beam_size", self.beam_size))}
        return build(DecodingConfig, values, "options")


def search(
    decoder: StepDecoder, cache: Cache, config: DecodingConfig, rules: Constraints, *, draws: Draws | None = None
) -> list[list[Hypothesis]]:
    """Decodes as configured: `n_best` hypotheses of each sentence, one if greedy, or `num_samples`.

    Args:
        cache: what the decoder's `start` returned; it is used up
        rules: what every hypothesis must obey, from `config.constraints`
        draws: the random numbers of samples; None is torch's global ones
    """
    if config.method == "greedy":
        return greedy(decoder, cache, rules)
    if config.method == "beam":
        return beam_search(decoder, cache, rules, beam_size=config.beam_size, n_best=config.n_best)
    return sample(
        decoder,
        cache,
        rules,
        num_samples=config.num_samples,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        generator=None if draws is None else draws.generator(),
    )
