"""An adopted Hugging Face model that answers texts, so that what explores runs explores it too."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError, Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.labels import visible
from headwise.predictors import looking
from headwise.predictors.drafting import Draft, OutputTokens
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import Attended
from headwise.predictors.predictor import Form, Predictor, Unknown, several
from headwise.predictors.saved import Message, Saved, in_memory, saved

# tokens of a continuation, and of an output that an encoder-decoder writes
_BEHIND, _WRITTEN = 24, 64
# as those of Headwise's own tasks
_VERBS = {"language-model": "complete", "masked-lm": "fill", "classify": "classify", "tag": "tag"}


@dataclass(frozen=True)
class Search:
    """How an output is searched for.

    Args:
        prefix: tokens that every output begins with.
    """

    decoding: DecodingConfig
    prefix: tuple[int, ...] = ()


class Written(NamedTuple):
    """What was written: its text, its tokens without an end, the score it is ranked by, its log-probability."""

    text: str
    tokens: list[int]
    score: float
    log_prob: float
    finished: bool


@dataclass(frozen=True)
class Prompt:
    """An input of a model of transformers.

    Args:
        source: as it was given.
        text: what the tokenizer reads, as a chat template wrote it where `chat` is set.
    """

    source: str
    text: str
    chat: bool


class Adopted(Predictor[Prompt, str, str]):
    """A model of transformers with its tokenizer; an input is a text, or messages of a chat.

    Where the tokenizer has a chat template, a text is the message of a user, and a JSON list of objects with "role" and
    "content" several messages; `prompt(text, chat=False)` takes it as it is.

    What it answers: an encoder with a head for masked words the text with its masks filled, one that classifies the
    label, or a label for each token, any other encoder nothing; a decoder the text that follows, of 24 tokens, an
    encoder-decoder its output, of 64; both greedily, under the rules of the model's generation configuration.
    """

    def __init__(self, saved: Saved) -> None:
        self.saved, self.model, self.task = saved, saved.model, saved.task
        self.verb = _VERBS.get(self.task, "predict")
        # what it writes with
        self.writing = None if saved.kind == "encoder" else saved
        self.draws = Draws()
        self.decoding: DecodingConfig | None = None
        if saved.kind != "encoder":
            most = _BEHIND if saved.kind == "decoder" else _WRITTEN
            self.decoding = DecodingConfig(method="greedy", max_len=most, max_len_a=0.0, max_len_b=1e9)

    @classmethod
    def at(cls, folder: Path) -> "Adopted":
        """The model of a folder; raises as `saved`."""
        return cls(saved(folder))

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> "Adopted":
        """A model in memory, which is adopted in place unless it is so already; raises as `in_memory`."""
        return cls(in_memory(model, tokenizer))

    @property
    def files(self) -> Sequence[Path]:
        """Those that say which model it is."""
        return self.saved.files

    @property
    def has_chat_template(self) -> bool:
        return bool(self.saved.tokenizer.chat_template)

    def parse(self, text: str) -> Prompt:
        """The prompt. Raises: ConfigError for one without tokens, or of more than the model reads."""
        return self.prompt(text)

    def prompt(self, item: str | Sequence[Message] | Prompt, *, chat: bool | None = None) -> Prompt:
        """A text or messages as the model reads them; raises as `parse`.

        Args:
            chat: whether the chat template writes it; None: where there is one.
        """
        if isinstance(item, Prompt):
            return item
        messages = None if isinstance(item, str) else item
        chat = chat if chat is not None else self.has_chat_template or messages is not None
        if chat and not self.has_chat_template:
            raise ConfigError(f"{self.saved.name}: its tokenizer has no chat template; give a text")
        source = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        text = self.saved.rendered(messages or _messages(source)) if chat else source
        prompt = Prompt(source, text, chat)
        if not self._ids(prompt):
            raise ConfigError("there is no token to read; give a text")
        return prompt

    def _ids(self, item: str | Sequence[Message] | Prompt) -> list[int]:
        """What the model reads; a chat template has written what stands before and after a text itself."""
        prompt = self.prompt(item)
        return self.saved.tokens(prompt.text, alone=not prompt.chat)

    def predict(self, items: Sequence[Prompt | str] | str, options: Search | None = None) -> list[str]:
        return [self._answer(item, None, options)[1] for item in several(items)]

    def options(self, values: Mapping[str, Any]) -> Search | None:
        if self.decoding is None or not values:
            super().options(values)
            return None
        search = {name: value for name, value in values.items() if name != "prefix"}
        return Search(self.decoding.with_options(search), tuple(values.get("prefix", ())))

    def outputs(self, item: Prompt | str, options: Search | None = None) -> list[Written]:
        return self._search(self._ids(item), options)

    def writes(self) -> OutputTokens:
        return self.saved.vocabulary if self.decoding is not None else super().writes()

    def draft(self, item: Prompt | str, options: Search | None = None) -> Draft:
        if self.decoding is None:
            return super().draft(self.prompt(item), options)
        saved, tokens = self.saved, self._ids(item)
        decoder, read = saved.decoder(rules=False), saved.labels(tokens)
        first = saved.start() if saved.kind == "encoder-decoder" else tokens[-1]
        return Draft(self.model, decoder, lambda: decoder.start(tokens), first, read, saved.vocabulary)

    def _search(self, tokens: list[int], options: Search | None) -> list[Written]:
        """Outputs about these tokens, best first; none where the model has no place for any."""
        assert self.decoding is not None, "it writes"
        saved, chosen = self.saved, options or Search(self.decoding)
        room, config, prefix = saved.room(len(tokens)), chosen.decoding, chosen.prefix
        if room is not None and room < config.max_len:
            config = config.model_copy(update={"max_len": max(1, room), "min_len": min(config.min_len, max(1, room))})
        if room is not None and room < 1:
            return []
        reads = saved.kind == "encoder-decoder"
        decoder = saved.decoder(
            rules=True, max_new=config.max_len, before=1 if reads else len(tokens), free=len(prefix)
        )
        rules = config.constraints(
            [len(tokens)],
            bos_id=saved.start() if reads else tokens[-1],
            eos_id=saved.vocabulary.eos_id,
            prefix=[prefix] if prefix else None,
        )
        with evaluating(self.model):
            (hypotheses,) = search(decoder, decoder.start(tokens), config, rules, draws=self.draws)
        decode = saved.text if reads else saved.vocabulary.decode
        return [Written(decode(one.tokens), one.tokens, one.score, one.log_prob, one.finished) for one in hypotheses]

    def write(self, item: Prompt | str, output: str, form: Form, options: Any = None) -> list[str]:
        """An answer a line, or JSON with the text."""
        if form == "text":
            return [visible(output)]
        source = item if isinstance(item, str) else item.source
        return [json.dumps({"input": source, "output": output}, ensure_ascii=False)]

    def unknown(self, items: Sequence[Prompt | str]) -> Unknown:
        """Nothing, of so many tokens: which of them training has not taught is not known."""
        return Unknown(0, sum(len(self._ids(item)) for item in items))

    def scores_of(self, examples: Sequence[str], options: Any = None) -> dict[str, float | str]:
        """Raises: Unsupported: it is looked at here, and not scored."""
        raise Unsupported("a model of transformers is not scored here")

    def explain(self, item: Prompt | str | Sequence[Message], target: str | None = None) -> Explanation:
        """The attention of every layer while the model reads the text and writes its answer, or `target` instead.

        Raises: ConfigError: a text that is too long, or a target for an encoder, which writes nothing.
        """
        prompt = self.prompt(item)
        tokens, output, written = self._answer(prompt, target)
        saved = self.saved
        if saved.kind == "encoder-decoder":
            if len(written) < 2:
                raise ConfigError("the output has no token to look at; give another one")
            inputs, labels = saved.inputs(tokens, saved.fitting(written[:-1])), saved.labels(written)
            read, before, behind = saved.labels(tokens), labels[:-1], labels[1:]
        else:
            tokens = saved.fitting([*tokens, *written])
            inputs, read = saved.inputs(tokens), saved.labels(tokens)
            before = behind = read
        attention = looking.attended(self.model, *inputs)
        sides = [self._tokens(tokens, read)]
        if saved.kind == "encoder-decoder":
            sides += [self._tokens(written[:-1], before), self._tokens(written[1:], behind)]
        return Explanation(prompt.source, output, self._layers(attention, read, before, behind), tokens=sides)

    def name_of(self, choice: int) -> str:
        """The name of one of its choices: a token, or a label."""
        if self.writing is None and self.model.get_output_embeddings() is None:
            return str(self.model.config.id2label[choice])
        return self.saved.labels([choice])[0]

    def embeddings(self) -> list[nn.Module]:
        """The modules that make vectors of numbers of tokens, without those of positions and segments."""
        parts = [self.model, *(part for name in ("get_encoder", "get_decoder") if (part := _part(self.model, name)))]
        tables = {id(part.get_input_embeddings().weight) for part in parts}
        return [
            module
            for module in self.model.modules()
            if id(getattr(module, "weight", None)) in tables and isinstance(module, nn.Embedding)
        ]

    def _tokens(self, tokens: list[int], labels: list[str]) -> Tokens:
        return Tokens(labels, *self.saved.words(tokens))

    def _layers(
        self, attention: Mapping[str, Attended], read: list[str], before: list[str], behind: list[str]
    ) -> dict[str, Layer]:
        """Layers with their rows and columns: of what is read, of what stands before a token, of the tokens written."""
        layers = {}
        for name, attended in attention.items():
            count, kind = attended.shape[1], self.saved.kind
            if attended.kind == "cross":
                layers[name] = attended.layer(_repeated(behind, count), read)
            elif kind == "encoder" or (kind == "encoder-decoder" and "encoder" in name.split(".")):
                layers[name] = attended.layer(_repeated(read, count), read, "self")
            else:
                layers[name] = attended.layer(_repeated(before, count), before, "self", causal=True)
        return layers

    def _answer(
        self, item: Prompt | str, target: str | None, options: Search | None = None
    ) -> tuple[list[int], str, list[int]]:
        """The tokens that are read, what is said of them, and the tokens that are written, with start and end."""
        saved, tokens = self.saved, self._ids(item)
        if saved.kind == "encoder":
            if target is not None:
                raise ConfigError("an encoder writes nothing; leave the target out")
            return tokens, self._encoder_output(tokens), []
        start = [saved.start()] if saved.kind == "encoder-decoder" else []
        if target is not None:
            written = [*start, *saved.tokens(target, alone=bool(start))]
            return tokens, saved.text(written[len(start) :]), written
        outputs = self._search(tokens, options)
        if not outputs:
            return tokens, "", start
        best = outputs[0]
        return tokens, best.text, [*start, *best.tokens, *([saved.vocabulary.eos_id] if best.finished else [])]

    def _encoder_output(self, tokens: list[int]) -> str:
        """What an encoder says of a text by the numbers that it gives: tokens for masks, or labels."""
        with evaluating(self.model), torch.no_grad():
            logits = getattr(self.model(*self.saved.inputs(tokens)), "logits", None)
        config, masked = self.model.config, self.saved.tokenizer.mask_token_id
        if not isinstance(logits, torch.Tensor):
            return ""
        best = logits[0].argmax(-1).tolist()
        if logits.ndim == 3 and logits.shape[-1] == config.vocab_size:
            filled = [prediction if token == masked else token for token, prediction in zip(tokens, best, strict=True)]
            return self.saved.text(filled) if masked in tokens else ""
        if logits.shape[-1] != config.num_labels:
            return ""
        return " ".join(str(config.id2label[label]) for label in (best if isinstance(best, list) else [best]))


def _part(model: Any, getter: str) -> Any:
    part = getattr(model, getter, lambda: None)()
    return part if hasattr(part, "get_input_embeddings") else None


def _messages(text: str) -> Sequence[Message]:
    """The messages in a text: those of a JSON list, else one of a user."""
    try:
        values = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, list) and values and all(isinstance(value, dict) and "role" in value for value in values):
        return values
    return [{"role": "user", "content": text}]


def _repeated(labels: list[str], rows: int) -> list[str]:
    """The labels of rows; a layer that is passed several times has them several times, each with its number."""
    times = rows // max(1, len(labels))
    return labels if times < 2 else [f"{number} {label}" for number in range(times) for label in labels]
