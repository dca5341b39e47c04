"""An adopted model of transformers that writes step by step: its cache, and its rules, those of `generate`."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.adoption import transformers_part
from headwise.caches import Cache, rows_of

Ids = Int[Tensor, "rows"]


class AdoptedCache(Cache):
    """What transformers remembers of hypotheses, a row each.

    Args:
        tokens: those that were read, the next one not among them.
        states: of an encoder, of one input.
    """

    def __init__(self, tokens: Int[Tensor, "1 length"], states: Float[Tensor, "1 places width"] | None, values: Any):
        self.tokens, self.states, self.values = tokens, states, values
        self.sentences, self.beams, self.length = len(tokens), 1, 0

    def expand(self, beams: int) -> None:
        self._take(torch.arange(self.sentences).repeat_interleave(beams))
        self.beams = beams

    def reorder(self, index: Ids) -> None:
        self._take(index)

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        self._take(rows_of(sentences, self.beams))
        self.sentences = len(sentences)

    def _take(self, rows: Ids) -> None:
        rows = rows.to(self.tokens.device)
        self.tokens = self.tokens.index_select(0, rows)
        if self.values is not None:
            self.values.batch_select_indices(rows)


class AdoptedDecoder:
    """A step of a model of transformers.

    Args:
        rules: processors of scores, as `rules_of` makes them; None: the model's own scores.
        free: so many tokens of an output are not under the rules.
    """

    def __init__(self, model: Any, rules: Any = None, eos_ids: Sequence[int] = (), free: int = 0):
        self.model, self._rules, self._eos_ids, self._free = model, rules, list(eos_ids), free
        # its name before transformers 5.24 is the second
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    def start(self, tokens: Sequence[int]) -> AdoptedCache:
        """A cache before the first step: a decoder has read its prompt but for the last token, an encoder its input."""
        model = self.model
        with _without_gradient():
            ids = torch.tensor([list(tokens)], dtype=torch.long, device=model.device)
            if model.config.is_encoder_decoder:
                return AdoptedCache(ids[:, :0], model.get_encoder()(ids).last_hidden_state, None)
            if len(tokens) < 2:
                return AdoptedCache(ids[:, :0], None, None)
            output = model(ids[:, :-1], use_cache=True)
            return AdoptedCache(ids[:, :-1], None, output.get(self._cache_name))

    def step(self, tokens: Ids, cache: AdoptedCache) -> Float[Tensor, "rows vocab"]:
        """Logits of the token that follows these; scores of an end that a model lacks are minus infinity."""
        cache.tokens = torch.cat((cache.tokens, tokens.to(cache.tokens.device)[:, None]), 1)
        # a model without a cache reads all of it
        ids = cache.tokens if cache.values is None else cache.tokens[:, -1:]
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": True, self._cache_name: cache.values}
        if cache.states is not None:
            states = transformers_part("modeling_outputs").BaseModelOutput(cache.states.expand(len(ids), -1, -1))
            inputs |= {"encoder_outputs": states, "decoder_input_ids": inputs.pop("input_ids")}
        with _without_gradient():
            output = self.model(**inputs)
        cache.values, scores = output.get(self._cache_name), output.logits[:, -1].float()
        if self._rules is not None and cache.length >= self._free:
            scores = self._rules(cache.tokens, scores)
        cache.length += 1
        if not self._eos_ids:
            return F.pad(scores, (0, 1), value=float("-inf"))
        if len(self._eos_ids) > 1:
            # the first stands for all that end an output
            scores = scores.clone()
            scores[:, self._eos_ids[0]] = scores[:, self._eos_ids].amax(1)
            scores[:, self._eos_ids[1:]] = float("-inf")
        return scores


@contextmanager
def _without_gradient() -> Iterator[None]:
    """What a model keeps of a pass here, such as frequencies for a longer text, can be trained with later."""
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


def rules_of(config: Any, start: int, max_length: int, device: Any) -> Any:
    """What `generate` does to the scores of greedy search, by a generation configuration.

    Args:
        start: tokens that stand before an output, for a decoder its prompt, for an encoder-decoder one.
        max_length: of those and the output, as `generate` counts them.
    """
    ends, first = config.eos_token_id, config.forced_bos_token_id
    # in the order of `generate`: (value, name of the processor, its arguments)
    settings = [
        (config.repetition_penalty, "RepetitionPenalty", (config.repetition_penalty,)),
        (config.no_repeat_ngram_size, "NoRepeatNGram", (config.no_repeat_ngram_size,)),
        (config.bad_words_ids, "NoBadWords", (config.bad_words_ids, ends)),
        (ends is not None and config.min_length, "MinLength", (config.min_length, ends, device)),
        (
            ends is not None and config.min_new_tokens,
            "MinNewTokensLength",
            (start, config.min_new_tokens, ends, device),
        ),
        (first is not None, "ForcedBOSToken", (first,)),
        (config.forced_eos_token_id is not None, "ForcedEOSToken", (max_length, config.forced_eos_token_id, device)),
        (config.suppress_tokens, "SuppressTokens", (config.suppress_tokens, device)),
        (
            config.begin_suppress_tokens,
            "SuppressTokensAtBegin",
            (config.begin_suppress_tokens, start + (start == 1 and first is not None), device),
        ),
    ]
    processors = [
        transformers_part(f"{name}LogitsProcessor")(*arguments) for value, name, arguments in settings if value
    ]
    return transformers_part("LogitsProcessorList")(processors)
