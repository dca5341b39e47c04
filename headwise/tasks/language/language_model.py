"""Language modelling: plain text in, a decoder-only model that writes on from any beginning; its predictor."""

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from headwise import metrics
from headwise.config import Config, build
from headwise.data.files import read_lines
from headwise.data.sources import Limits, Source
from headwise.data.streams import Memory, Stream, Text, TextBatch, windows
from headwise.data.suggestions import Size, Suggestion
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError, DataError, QuotingWarning
from headwise.explain.explanation import Explanation
from headwise.labels import visible
from headwise.layers.loss import output_loss, real_rows
from headwise.models.decoder_only import DecoderOnly, build_decoder
from headwise.models.transformer_config import DecoderConfig
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import summed
from headwise.predictors.drafting import Draft
from headwise.predictors.engines import Engines, Tokens
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.predictors.twins import Twin
from headwise.processes import divided
from headwise.tasks.demo import Demo
from headwise.tasks.language.demo import LANGUAGE_MODEL
from headwise.tasks.language.ngram import COUNTED, NGrams
from headwise.tasks.language.options import ContinuationOptions
from headwise.tasks.task import Assets, Description, Given, Metric, Probe, Stats
from headwise.tasks.text import running
from headwise.tasks.text.options import ScoringOptions
from headwise.tasks.text.plain import TextConfig, begin_id, suggested_portion, text_of, unknown_count
from headwise.tasks.text.running import TOKENIZER_FILE
from headwise.tasks.text.writer import Output, Request, outputs_of

# tokens of prompts and continuations that are decoded together
DECODING_TOKENS = 8192
# windows that are scored together, and places that are scored with contexts of several lengths
_SCORED_ROWS, _CONTEXTS = 8, 256
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
        # a text has no end, unless an imported model has learned where one is
        self._banned = tokenizer.banned_ids if tokenizer.imported else (*tokenizer.banned_ids, tokenizer.eos_id)
        self._engines = Engines(Tokens((tokenizer,), frozenset(self._banned)))

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
        by_place = self._by_engine(prompts, config, request.prefix)
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for place, prompt in enumerate(prompts):
            if place not in by_place:
                groups[len(prompt)].append(place)
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

    @torch.inference_mode()
    def continued(self, prompts: list[list[int]], config: DecodingConfig) -> list[list[Output]]:
        """Continuations of prompts of one length that are given as tokens."""
        return self._search(self._twin.of(self.model, config.precision), prompts, continuing(config), ())

    def begin(self) -> list[int]:
        """The tokens that stand before a text."""
        known = self.tokenizer.imported
        return [begin_id(self.tokenizer)] if known is None else list(known.first)

    def write(self, item: str, output: list[Output], form: Form, options: Any = None) -> list[str]:
        """Prompt and continuation in one, line ends and all."""
        if form == "json":
            written = [continuation.fields() for continuation in output]
            return [json.dumps({"prompt": item, "continuations": written}, ensure_ascii=False)]
        return ["\n".join(map(visible, (item + continuation.text).split("\n"))) for continuation in output]

    @torch.inference_mode()
    def scored(self, examples: Sequence[str], options: DecodingConfig | Request | None = None) -> Scored:
        """Loss in nats per token, perplexity, bits per character, and perplexity per word of a text.

        Args:
            examples: its lines or longer pieces; what has no line end gets one.
            options: of these only the precision counts, since nothing is searched for.
        """
        precision = self._request(options).decoding.precision
        model = self.model if precision == "fp32" else self._twin.of(self.model, precision)
        columns: dict[str, list[float]] = {"nll": [], "tokens": [], "chars": []}
        scores = self.scores(examples, lambda text: self._nll(model, text, columns))
        formulas = {
            "loss": Formula("mean", ("nll", "tokens")),
            "perplexity": Formula("perplexity", ("nll", "tokens")),
            "bits_per_char": Formula("bits", ("nll", "chars")),
        }
        rows = Rows(columns, formulas, question_of(examples, columns["tokens"]), "windows")
        return Scored({**scores, "unseen": self.unknown(examples).share}, rows)

    def state_bytes(self, examples: Sequence[str]) -> int:
        tokens = [begin_id(self.tokenizer), *self.tokenizer.encode("".join(examples))][: self.length]
        read = torch.tensor([tokens[:-1]], device=self.model.output.weight.device)
        draft = Draft(self.model, self.model, lambda: self.model.start(read), tokens[-1], [], self.tokenizer)
        return draft.kept_bytes([])

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

    @torch.inference_mode()
    def at_length(self, examples: Sequence[str], times: int, longest: int) -> dict[str, float]:
        """Loss and perplexity of the last half of a training window, after a context of `times` its length.

        The places are the same for every `times` up to `longest`, at most 256 windows of them.

        Raises: DataError: the text is too short; ShapeError: positions beyond a learned table.
        """
        text = text_of([piece for example in examples for piece in _lines(example)], self.tokenizer)
        tokens, size = torch.from_numpy(np.asarray(text.tokens[:], dtype=np.int64)), times * self.length
        ends = range(longest * self.length, len(tokens), self.length)[:_CONTEXTS]
        if not ends:
            raise DataError(f"the text has {len(tokens):,} tokens; {longest * self.length + 1:,} or more are needed")
        last, total = max(1, self.length // 2), 0.0
        device = self.model.output.weight.device
        for start in range(0, len(ends), _SCORED_ROWS):
            rows = torch.stack([tokens[end - size : end + 1] for end in ends[start : start + _SCORED_ROWS]]).to(device)
            hidden = self.model.hidden(rows[:, :-1])[:, -last:]
            total += float(output_loss(self.model.output, hidden.flatten(0, 1), rows[:, -last:].flatten()))
        count = last * len(ends)
        return {"perplexity": metrics.perplexity(total, count), "loss": total / count}

    def _nll(self, model: DecoderOnly, text: Text, columns: dict[str, list[float]]) -> float:
        """The negative log-likelihood of a text; that of each window, its tokens and characters go to `columns`."""
        device, memory = model.output.weight.device, model.memory_len > 0

        def counted(batch: TextBatch) -> list[float]:
            return text_losses(model, batch.to(device))

        # where a batch goes on from the one before, one process reads them all
        batches = scored(text, self.length, _SCORED_ROWS, memory=memory).once()
        for batch, losses in divided(counted, batches, alone=memory):
            lens = batch.lens.tolist()
            for loss, length in zip(losses, lens, strict=True):
                if length:
                    columns["nll"].append(loss)
                    columns["tokens"].append(length)
                    columns["chars"].append(batch.chars * length / batch.num_tokens)
        return math.fsum(columns["nll"])

    def options(self, given: Mapping[str, Any]) -> Request | None:
        if shown := [name for name in ("scores", "alignments", "tokenize") if name in given]:
            raise ConfigError(f"--{shown[0]} is for translations; a continuation has none")
        if given.get("stop") == "":
            raise ConfigError("--stop is empty; give the text that ends a continuation, such as '\\n'")
        if not given:
            return None
        request = Request.of(self.decoding, {name: given[name] for name in given if name != "stop"}, self._engines)
        return replace(request, decoding=continuing(request.decoding), stop=given.get("stop"))

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens of prompts that are not in the vocabulary."""
        return unknown_tokens(self.tokenizer, items)

    def draft(self, item: str, options: DecodingConfig | Request | None = None) -> Draft:
        prompt = self._prompt(item, continuing(self._request(options).decoding).max_len)
        tokens = torch.tensor([prompt], device=self.model.output.weight.device)
        read = [self.tokenizer.shown(token) for token in prompt]
        return Draft(self.model, self.model, lambda: self.model.start(tokens[:, :-1]), prompt[-1], read, self.tokenizer)

    def twin(self) -> Twin[DecoderOnly]:
        return self._twin

    def engines(self) -> Engines:
        return self._engines

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
        tokens = [*self.begin(), *self.tokenizer.encode(text)] or [begin_id(self.tokenizer)]
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

    def _by_engine(
        self, prompts: list[list[int]], config: DecodingConfig, prefix: Sequence[int]
    ) -> dict[int, list[Output]]:
        """The continuations that another engine finds, by the place of the prompt."""
        engine = self._engines.of(self.model, config, prefix, len(prompts))
        by_place: dict[int, list[Output]] = {}
        if engine is None or not prompts:
            return by_place
        size = max(1, DECODING_TOKENS // (max(map(len, prompts)) + config.max_len))
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))

        def searched(batch: list[int]) -> list[list[Hypothesis] | str]:
            return engine.search([prompts[place] for place in batch], [config.max_len] * len(batch), config)

        batches = [order[start : start + size] for start in range(0, len(order), size)]
        for batch, results in divided(searched, batches):
            for place, hypotheses in zip(batch, results, strict=True):
                if isinstance(hypotheses, str):
                    self._engines.fell(hypotheses, 1)
                else:
                    by_place[place] = outputs_of(hypotheses, self.tokenizer)
        return by_place

    def _search(
        self, writer: DecoderOnly, prompts: list[list[int]], config: DecodingConfig, prefix: Sequence[int]
    ) -> list[list[Output]]:
        ids = self.tokenizer
        tokens = torch.tensor(prompts, device=self.model.output.weight.device)
        rules = config.constraints(
            [len(prompt) for prompt in prompts],
            bos_id=[prompt[-1] for prompt in prompts],
            eos_id=ids.eos_id,
            banned=self._banned,
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
    return output_loss(model.output, *_real_states(model, batch))


def text_losses(model: DecoderOnly, batch: TextBatch) -> list[float]:
    """The same of each row."""
    hidden, targets = _real_states(model, batch)
    lens = batch.lens.tolist()
    pairs = zip(hidden.split(lens), targets.split(lens), strict=True)
    return [float(output_loss(model.output, states, own)) if len(own) else 0.0 for states, own in pairs]


def _real_states(model: DecoderOnly, batch: TextBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """States and targets of the real tokens; what the layers remember is left in what the batches carry."""
    segments = model.segments(batch.carry.tensors) if batch.carry is not None else None
    hidden = model.hidden(batch.inputs, segments)
    if batch.carry is not None and segments is not None:
        batch.carry.tensors = [segment.inputs for segment in segments if segment.inputs is not None]
    return real_rows(hidden, batch.targets, batch.lens, batch.num_tokens)


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


_LARGER = {"training.max_epochs": 10, "model.d_model": 256, "model.d_ff": 1024, "training.learning_rate": 2e-3}
_SIZES = (
    Size({"training.max_epochs": 10}, 0),
    Size(_LARGER, 12_000),
    Size({**_LARGER, "model.num_layers": 6, "training.batch_tokens": 4096}, 40_000),
)


class LanguageModelConfig(Config):
    """Which text to learn, with which tokens and model."""

    data: TextConfig = Field(description="the text")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(spaces="kept"), description="how the text becomes tokens")
    model: DecoderConfig = Field(description="the network")
    length: int = Field(256, ge=1, description="length of a training window, in tokens")
    ngram: int = Field(5, ge=0, le=9, description="tokens that the n-gram model beside the scores looks at; 0: none")
    decoding: DecodingConfig = Field(DecodingConfig(method="sample"), description="how a prompt is continued")
    show: list[str] = Field(default=[""], description="prompts that are continued at each validation")
    show_len: int = Field(80, ge=1, description="length of the continuations shown, in tokens")

    @field_validator("tokenizer", mode="before")
    @classmethod
    def _keeps_spaces(cls, value: Any) -> Any:
        return {"spaces": "kept"} | value if isinstance(value, dict) else value

    def model_post_init(self, context: object) -> None:
        if self.tokenizer.spaces != "kept":
            raise ConfigError('a language model writes spaces and line ends: set tokenizer.spaces to "kept"')
        continuing(self.decoding)
        places = self.model.places()
        if places is not None and self.length > places:
            raise ConfigError(f"length ({self.length}) is above the {places} places of the model; raise model.max_len")


class LanguageModel(running.RunningText):
    """Writing on from the tokens before, trained on plain text.

    With `model.memory_len` the rows of a batch go on from those before, and what the layers remember is in the `Carry`
    of the batches and nowhere else.
    """

    name: ClassVar[str] = "language-model"
    demo: ClassVar[Demo | None] = LANGUAGE_MODEL
    config_type: ClassVar[type[Config]] = LanguageModelConfig
    options = (ContinuationOptions, ScoringOptions)
    metrics = (Metric("loss", "low"), Metric("perplexity", "low"), Metric("bits_per_char", "low"))
    config: LanguageModelConfig

    @classmethod
    def prepare_with(cls, config: LanguageModelConfig, given: Given) -> Assets[dict[str, Text]]:
        read = running.read(config.data, config.tokenizer, given, config.length)
        notes = list(read.notes)
        notes += _counted(read.data, read.tokenizer.vocab_size, config.ngram)
        for part, text in read.data.items():
            if lost := unknown_count(text, read.tokenizer):
                notes.append(f"{part}: {lost:,} tokens are unknown; bits_per_char takes them for cheaper than they are")
        return Assets({TOKENIZER_FILE: read.tokenizer.to_bytes()}, read.data, read.digests, tuple(notes))

    @classmethod
    def baselines(
        cls, config: LanguageModelConfig, predictor: Continuer, examples: Sequence[str]
    ) -> Iterator[Baseline]:
        """An n-gram model of the training tokens."""
        train = running.trained_on(config.data, predictor.tokenizer)
        if not config.ngram or not len(train):
            return
        counts = NGrams(train.tokens, config.ngram, predictor.tokenizer.vocab_size)
        yield Baseline(f"{config.ngram}-gram model", predictor.scores(examples, counts.nll))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """A decoder-only Transformer for the text of these keys of `[data]`."""
        fractions, train = suggested_portion(build(TextConfig, data, "data"), data)
        values = {
            "length": 128 if train.chars > 20_000 else 32,
            "data": {**fractions, **data},
            "tokenizer": {
                "kind": "bpe",
                "vocab_size": 1024 if train.chars < 5e6 else 4096 if train.chars < 5e7 else 8192,
            },
            "model": {
                "d_model": 128,
                "d_ff": 512,
                "num_heads": 4,
                "num_layers": 4,
                "activation": "gelu",
                "position": "rotary",
                "dropout": 0.1,
                "attention_dropout": 0.0,
                "activation_dropout": 0.0,
            },
            "training": {
                "learning_rate": 4e-3,
                "weight_decay": 0.1,
                "schedule": "budget",
                "warmup_share": 0.05,
                "batch_tokens": 2048,
                "max_epochs": 8,
                "monitor": "bits_per_char",
            },
        }
        return Suggestion(values, f"A language model, fitted to a text of {train.chars:,} characters", _SIZES)

    def build(self) -> DecoderOnly:
        return build_decoder(self.config.model, self.tokenizer.vocab_size)

    def source(self, split: str, limits: Limits) -> Source[TextBatch] | None:
        text = (self.assets.data or {}).get(split)
        if text is None:
            return None
        length, memory = self.config.length, self.config.model.memory_len > 0
        text, rows = running.limited(text, self.tokenizer, length, limits)
        if split != "train":
            return scored(text, length, rows, memory=memory)
        if memory:
            model = self.config.model
            carried = Memory(model.num_layers, model.memory_len, model.d_model)
            return Stream(text, length, min(rows, len(text)), carried)
        return windows(text, length, rows, seed=limits.seed)

    def loss(self, model: nn.Module, batch: TextBatch) -> Float[Tensor, ""]:
        assert isinstance(model, DecoderOnly)
        return text_loss(model, batch)

    def measure(self, model: nn.Module, batches: Iterable[TextBatch]) -> Stats:
        assert isinstance(model, DecoderOnly)
        return summed(likelihood(model, batch) for batch in batches)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return likelihood_scores(stats)

    def samples(self, model: nn.Module) -> list[str]:
        decoding = self.config.decoding
        max_len = min(self.config.show_len, decoding.max_len)
        shorter = decoding.model_copy(update={"max_len": max_len, "min_len": min(decoding.min_len, max_len)})
        continuations = self.predictor(model).predict(self.config.show, shorter)
        shown = zip(self.config.show, continuations, strict=True)
        return [f"{prompt}  →  {written[0].text}".replace("\n", " ⏎ ") for prompt, written in shown]

    def probe(self, predictor: Any, text: str) -> Probe:
        # the prompt alone: what the model would write changes from step to step
        return Probe(predictor.parse(text), "")

    def probes(self, predictor: Any) -> list[Probe]:
        shown = [text for text in self.config.show if text.strip()]
        beginning = running.beginning(self.assets.data, self.tokenizer, self.config.length)
        return [self.probe(predictor, text) for text in shown or [beginning] if text]

    def predictor(self, model: nn.Module) -> Continuer:
        assert isinstance(model, DecoderOnly)
        config = self.config
        return Continuer(model, self.tokenizer, config.decoding, config.length, config.model.places())

    def description(self) -> Description:
        commands = ('predict RUN "the beginning of a text"', "evaluate RUN --data text.txt")
        return self.described("Language model", "A decoder-only model", commands)


def _counted(data: Mapping[str, Text], vocab_size: int, order: int) -> list[str]:
    """What an n-gram model of the training tokens says of the other parts."""
    held_out = {part: text for part, text in data.items() if part != "train"}
    if not order or not held_out:
        return []
    counts, notes = NGrams(data["train"].tokens, order, vocab_size), []
    for part, text in held_out.items():
        scores = likelihood_scores({"nll": counts.nll(text), "tokens": float(len(text)), "chars": float(text.chars)})
        notes.append(
            f"{part}: an n-gram model of order {order} (interpolated Kneser-Ney) has a perplexity of"
            f" {scores['perplexity']:.4g}, {scores['bits_per_char']:.4g} bits per character"
        )
    if len(data["train"]) > COUNTED:
        notes.append(f"the n-gram model counts the first {COUNTED:,} tokens of the text")
    return notes
