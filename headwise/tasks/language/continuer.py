"""A trained language model: writes on from a prompt, and tells how probable a text is."""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headwise import metrics
from headwise.data.files import read_lines
from headwise.data.sources import Source
from headwise.data.streams import Stream, Text, TextBatch, windows
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError, QuotingWarning
from headwise.explain.explanation import Explanation
from headwise.labels import visible
from headwise.layers.loss import output_loss, real_rows
from headwise.models.decoder_only import DecoderOnly
from headwise.predictors import looking
from headwise.predictors.drafting import Draft
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.predictors.twins import Twin
from headwise.processes import divided
from headwise.tasks.text.plain import begin_id, text_of
from headwise.tasks.text.writer import Output, Request, outputs_of

# tokens of prompts and continuations that are decoded together
DECODING_TOKENS = 8192
# windows that are scored together
_SCORED_ROWS = 8
# tokens of a continuation that is looked at
_SHOWN_TOKENS = 24
_UNLIMITED = {"max_len_a": 0.0, "max_len_b": 1e9}


class Continuer(Predictor[str, list[Output], str]):
    """A language model with its tokenizer; an input is a prompt, an example is a line or several of a text.

    Prompts are read in one pass, those of equal length together; a prompt stands at the beginning of a line unless it
    was cut. The text has no end, so a continuation is as long as `max_len` says, or ends before a text to stop at;
    beyond `length` tokens in all the model reads further back than it learned to. Samples come from the stream
    `draws`, so no two prompts share their numbers.

    Args:
        decoding: how to search unless told otherwise.
        length: tokens of a training window; of a longer prompt only the end is read.
        places: the most tokens that prompt and continuation may have; None: any number.
    """

    verb = "complete"
    streams = True

    def __init__(
        self, model: DecoderOnly, tokenizer: Tokenizer, decoding: DecodingConfig, length: int, places: int | None = None
    ):
        self.model, self.tokenizer, self.decoding = model, tokenizer, decoding
        self.length, self.places = length, places
        self.draws = Draws()
        self._twin = Twin[DecoderOnly]()

    def read(self, path: Path) -> Iterator[str]:
        return (line for _, line in read_lines(path))

    @torch.inference_mode()
    def predict(
        self, items: Sequence[str] | str, options: DecodingConfig | Request | None = None
    ) -> list[list[Output]]:
        """Continuations of each prompt: the best ones, or those that were drawn; without the prompt itself.

        A continuation ends before the first `stop`, if that is given; its score is of all that was written.

        Raises: ConfigError if the model has no room for continuations of this length.
        """
        request = self._request(options)
        config = continuing(request.decoding)
        prompts = [self._prompt(text, config.max_len) for text in several(items)]
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for place, prompt in enumerate(prompts):
            groups[len(prompt)].append(place)
        by_place: dict[int, list[Output]] = {}
        writer = self._twin.of(self.model, config.precision)
        batches: list[list[int]] = []
        for length, places in groups.items():
            size = max(1, DECODING_TOKENS // (length + config.max_len))
            batches += [places[start : start + size] for start in range(0, len(places), size)]

        def searched(batch: list[int]) -> list[list[Output]]:
            return self._search(writer, [prompts[place] for place in batch], config, request.prefix)

        for batch, written in divided(searched, batches, alone=config.method == "sample"):
            by_place |= dict(zip(batch, written, strict=True))
        return [
            [self._ended(continuation, request.stop) for continuation in by_place[place]]
            for place in range(len(prompts))
        ]

    def write(self, item: str, output: list[Output], form: Form, options: Any = None) -> list[str]:
        """Prompt and continuation in one, line ends and all."""
        if form == "json":
            written = [continuation.fields() for continuation in output]
            return [json.dumps({"prompt": item, "continuations": written}, ensure_ascii=False)]
        return ["\n".join(map(visible, (item + continuation.text).split("\n"))) for continuation in output]

    @torch.inference_mode()
    def scores_of(self, examples: Sequence[str], options: DecodingConfig | None = None) -> dict[str, float | str]:
        """Loss in nats per token, perplexity, bits per character, and perplexity per word of a text.

        Args:
            examples: its lines or longer pieces; what has no line end gets one.
            options: not used, since nothing is searched for.
        """
        return {**self.scores(examples, self._nll), "unseen": self.unknown(examples).share}

    def scores(self, examples: Sequence[str], nll: Callable[[Text], float]) -> dict[str, float]:
        """The same of any way to tell how likely a text is: `nll` gives its negative log-likelihood in nats.

        Words stand between white space, and a line end counts as one: the perplexity per word compares models whatever
        their tokens are, and is that of tables where the words of the data are the tokens.
        """
        lines = [piece for example in examples for piece in _lines(example)]
        text = text_of(lines, self.tokenizer)
        total, words = nll(text), sum(len(line.split()) + 1 for line in lines)
        scores = likelihood_scores({"nll": total, "tokens": float(len(text)), "chars": float(text.chars)})
        return {**scores, "word_perplexity": metrics.perplexity(total, words)}

    def _nll(self, text: Text) -> float:
        device, memory = self.model.output.weight.device, self.model.memory_len > 0

        def counted(batch: TextBatch) -> float:
            return float(text_loss(self.model, batch.to(device)))

        # where a batch goes on from the one before, one process reads them all
        batches = scored(text, self.length, _SCORED_ROWS, memory=memory).once()
        return sum(nll for _, nll in divided(counted, batches, alone=memory))

    def options(self, given: Mapping[str, Any]) -> Request | None:
        if shown := [name for name in ("scores", "alignments", "tokenize") if name in given]:
            raise ConfigError(f"--{shown[0]} is for translations; a continuation has none")
        if given.get("stop") == "":
            raise ConfigError("--stop is empty; give the text that ends a continuation, such as '\\n'")
        if not given:
            return None
        request = Request.of(self.decoding, {name: given[name] for name in given if name != "stop"})
        return replace(request, decoding=continuing(request.decoding), stop=given.get("stop"))

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens of prompts that are not in the vocabulary."""
        return unknown_tokens(self.tokenizer, items)

    def draft(self, item: str, options: DecodingConfig | Request | None = None) -> Draft:
        prompt = self._prompt(item, continuing(self._request(options).decoding).max_len)
        tokens = torch.tensor([prompt], device=self.model.output.weight.device)
        read = [self.tokenizer.shown(token) for token in prompt]
        return Draft(self.model, self.model, lambda: self.model.start(tokens[:, :-1]), prompt[-1], read, self.tokenizer)

    def writes(self) -> Tokenizer:
        return self.tokenizer

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The self-attention of every layer while the model reads a prompt and its continuation, 24 tokens of it.

        Args:
            target: the continuation; the model's own if None.
        """
        if target is None:
            decoding = continuing(self.decoding)
            size = min(_SHOWN_TOKENS, decoding.max_len)
            shorter = decoding.model_copy(update={"max_len": size, "min_len": min(decoding.min_len, size)})
            written = self.predict([item], shorter)[0][0].tokens
        else:
            written = self.tokenizer.encode(target)
        tokens = [*self._prompt(item, len(written)), *written]
        names = [self.tokenizer.shown(token) for token in tokens]
        attention = looking.attended(self.model, torch.tensor([tokens], device=self.model.output.weight.device))
        layers = {name: attended.layer(names, names, causal=True) for name, attended in attention.items()}
        text, token_words = self.tokenizer.decode(written), looking.tokens_of(self.tokenizer, tokens, names)
        return Explanation(item, text, layers, tokens=[token_words])

    def _request(self, options: DecodingConfig | Request | None) -> Request:
        return options if isinstance(options, Request) else Request(options or self.decoding)

    def _prompt(self, text: str, max_len: int) -> list[int]:
        """The tokens that the model reads, the last so many of a long prompt."""
        tokens = [begin_id(self.tokenizer), *self.tokenizer.encode(text)]
        # what is written last is not read
        room = self.length if self.places is None else min(self.length, self.places - max_len + 1)
        if room < 1:
            raise ConfigError(
                f"max_len ({max_len}) leaves no room for a prompt: the model has {self.places} places; lower max_len"
            )
        if len(tokens) > room:
            message = f"the prompt '{text[:20]}...' has {len(tokens)} tokens; only its last {room} are read"
            warnings.warn(message, QuotingWarning, stacklevel=3)
        return tokens[-room:]

    def _ended(self, continuation: Output, stop: str | None) -> Output:
        """The continuation up to the first `stop`, and its tokens with those that made it."""
        if stop is None or stop not in continuation.text:
            return continuation
        length = next(
            n for n in range(1, len(continuation.tokens) + 1) if stop in self.tokenizer.decode(continuation.tokens[:n])
        )
        return replace(
            continuation, text=continuation.text[: continuation.text.index(stop)], tokens=continuation.tokens[:length]
        )

    def _search(
        self, writer: DecoderOnly, prompts: list[list[int]], config: DecodingConfig, prefix: Sequence[int]
    ) -> list[list[Output]]:
        ids = self.tokenizer
        tokens = torch.tensor(prompts, device=self.model.output.weight.device)
        rules = config.constraints(
            [len(prompt) for prompt in prompts],
            bos_id=[prompt[-1] for prompt in prompts],
            eos_id=ids.eos_id,
            banned=(ids.pad_id, ids.bos_id, ids.unk_id, ids.eos_id),
            prefix=[prefix] * len(prompts) if prefix else None,
        )
        n_best = search(writer, writer.start(tokens[:, :-1]), config, rules, draws=self.draws)
        return [outputs_of(hypotheses, ids) for hypotheses in n_best]


def continuing(config: DecodingConfig) -> DecodingConfig:
    """How to decode where there is no source: `max_len` alone says how long.

    Raises: ConfigError for limits by the length of a source.
    """
    for name in ("max_len_a", "max_len_b"):
        if getattr(config, name) not in (DecodingConfig.model_fields[name].default, _UNLIMITED[name]):
            raise ConfigError(f"{name} is for outputs with a source; max_len alone limits a continuation")
    return config.model_copy(update=_UNLIMITED)


def scored(text: Text, length: int, rows: int, *, memory: bool) -> Source[TextBatch]:
    """Batches that hold every token of a text once: windows by themselves, or streams for a model with a memory."""
    rows = min(rows, -(-len(text) // length))
    return Stream(text, length, rows) if memory else windows(text, length, rows, shuffle=False)


def text_loss(model: DecoderOnly, batch: TextBatch) -> torch.Tensor:
    """Sum of the cross entropy over the real tokens of a batch, in nats.

    A model with a memory sees that of the batch before in its stream; it lives in what the batches carry alone.
    """
    segments = model.segments(batch.carry.tensors) if batch.carry is not None else None
    hidden = model.hidden(batch.inputs, segments)
    if batch.carry is not None and segments is not None:
        batch.carry.tensors = [segment.inputs for segment in segments if segment.inputs is not None]
    return output_loss(model.output, *real_rows(hidden, batch.targets, batch.lens, batch.num_tokens))


def likelihood(model: DecoderOnly, batch: TextBatch) -> dict[str, float]:
    """Negative log-likelihood in nats, tokens, and characters of the raw text."""
    return {"nll": float(text_loss(model, batch)), "tokens": batch.num_tokens, "chars": float(batch.chars)}


def likelihood_scores(counts: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per token, perplexity and bits per character of summed counts."""
    nll, tokens = counts["nll"], int(counts["tokens"])
    return {
        "loss": nll / tokens,
        "perplexity": metrics.perplexity(nll, tokens),
        "bits_per_char": metrics.bits_per_char(nll, counts["chars"]),
    }


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [f"{line}\n" for line in (lines[:-1] if lines[-1] == "" and len(lines) > 1 else lines)]
