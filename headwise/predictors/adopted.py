"""An adopted Hugging Face model that answers texts, so that what explores runs explores it too."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from headwise.errors import ConfigError, Unsupported
from headwise.explain.explanation import Explanation, Layer
from headwise.explain.places import Tokens
from headwise.labels import visible
from headwise.predictors import looking
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import Attended
from headwise.predictors.predictor import Form, Predictor, Unknown, several
from headwise.predictors.saved import Saved, in_memory

# tokens of a continuation, and of an output that an encoder-decoder writes
_BEHIND, _WRITTEN = 24, 64


def adopted_predictor(model: Any, tokenizer: Any) -> "Adopted":
    """The predictor of a model in memory, which is adopted in place unless it is so already; raises as `in_memory`."""
    return Adopted(in_memory(model, tokenizer))


class Adopted(Predictor[str, str, str]):
    """A model of transformers with its tokenizer; an input is a text.

    What it answers: an encoder with a head for masked words the text with its masks filled, one that classifies the
    label, or a label for each token, any other encoder nothing; a decoder the text that follows, of 24 tokens, an
    encoder-decoder its output, of 64; both greedily.
    """

    def __init__(self, saved: Saved) -> None:
        self.saved, self.model = saved, saved.model

    def parse(self, text: str) -> str:
        """The text. Raises: ConfigError for one without tokens, or of more than the model reads."""
        if not self.saved.tokens(text):
            raise ConfigError("there is no token to read; give a text")
        return text

    def predict(self, items: Sequence[str] | str, options: None = None) -> list[str]:
        return [self._answer(text, None)[1] for text in several(items)]

    def write(self, item: str, output: str, form: Form, options: None = None) -> list[str]:
        """An answer a line, or JSON with the text."""
        if form == "text":
            return [visible(output)]
        return [json.dumps({"input": item, "output": output}, ensure_ascii=False)]

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Nothing, of so many tokens: which of them training has not taught is not known."""
        return Unknown(0, sum(len(self.saved.tokens(text)) for text in items))

    def scores_of(self, examples: Sequence[str], options: Any = None) -> dict[str, float | str]:
        """Raises: Unsupported: it is looked at here, and not scored."""
        raise Unsupported("a model of transformers is not scored here")

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model reads the text and writes its answer, or `target` instead.

        Raises: ConfigError: a text that is too long, or a target for an encoder, which writes nothing.
        """
        text = self.parse(item)
        tokens, output, written = self._answer(text, target)
        saved = self.saved
        if saved.kind == "encoder-decoder":
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
        return Explanation(text, output, self._layers(attention, read, before, behind), tokens=sides)

    def _tokens(self, tokens: list[int], labels: list[str]) -> Tokens:
        return Tokens(labels, *self.saved.words(tokens))

    def _layers(
        self, attention: Mapping[str, Attended], read: list[str], before: list[str], behind: list[str]
    ) -> dict[str, Layer]:
        """Layers with their rows and columns: of what is read, of what stands before a token, of the tokens written."""
        layers = {}
        for name, attended in attention.items():
            count, kind = attended.weights.shape[2], self.saved.kind
            if attended.kind == "cross":
                layers[name] = attended.layer(_repeated(behind, count), read)
            elif kind == "encoder" or (kind == "encoder-decoder" and "encoder" in name.split(".")):
                layers[name] = attended.layer(_repeated(read, count), read, "self")
            else:
                layers[name] = attended.layer(_repeated(before, count), before, "self", causal=True)
        return layers

    def _answer(self, text: str, target: str | None) -> tuple[list[int], str, list[int]]:
        """The tokens that are read, what is said of them, and the tokens that are written."""
        saved = self.saved
        tokens = saved.tokens(text)
        if saved.kind == "encoder":
            if target is not None:
                raise ConfigError("an encoder writes nothing; leave the target out")
            return tokens, self._encoder_output(tokens), []
        if saved.kind == "decoder":
            written = saved.written(tokens, _BEHIND) if target is None else saved.tokens(target, alone=False)
            return tokens, saved.text(written), written
        written = saved.written(tokens, _WRITTEN) if target is None else [saved.start(), *saved.tokens(target)]
        return tokens, saved.text(written[1:]), written

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


def _repeated(labels: list[str], rows: int) -> list[str]:
    """The labels of rows; a layer that is passed several times has them several times, each with its number."""
    times = rows // max(1, len(labels))
    return labels if times < 2 else [f"{number} {label}" for number in range(times) for label in labels]
