"""Masked language modelling: plain text in, an encoder that predicts masked words from both sides; its predictor."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.buckets import token_batches
from headwise.data.sources import Limits, Source
from headwise.data.streams import Text
from headwise.data.suggestions import Suggestion
from headwise.data.text import SPACE_MARK
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError
from headwise.explain.explanation import Explanation
from headwise.labels import decimals, probability, visible
from headwise.layers.loss import output_loss
from headwise.models.token_encoders import AttentionConfig, EncoderConfig
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import summed
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.predictors.rows import Rows, Scored, question_of
from headwise.processes import divided
from headwise.tasks.demo import Demo
from headwise.tasks.language.demo import MASKED_LM
from headwise.tasks.language.language_model import LanguageModel
from headwise.tasks.language.masked import (
    MASK_ID,
    MaskedBatch,
    MaskedEncoder,
    Masking,
    MaskingConfig,
    build_masked_encoder,
    masked_windows,
)
from headwise.tasks.options import BestOptions
from headwise.tasks.task import Assets, Description, Given, Metric, Probe, Stats
from headwise.tasks.text import running
from headwise.tasks.text.plain import SPECIALS, TextConfig, text_of, word_counts
from headwise.tasks.text.running import TOKENIZER_FILE
from headwise.tasks.text.writer import LIKELIHOOD, likelihood_scores

MASK = "[MASK]"
# tokens that are read together, padding included
PREDICTION_TOKENS = 4096
_BEST = 5
_SCORED_ROWS = 8


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with the likeliest token in each masked place, and the best tokens of each with their probabilities.

    Args:
        choices: of each place, in the order of the text; probabilities are over the whole vocabulary.
    """

    text: str
    choices: tuple[dict[str, float], ...]


class Filler(Predictor[str, Filled, str]):
    """A masked language model with its tokenizer; an input is a text with `[MASK]` in it, an example a line of a text.

    Each mask stands for one token, and is told by itself: two masks do not hear what is said of the other. What stands
    on either side of one is cut into tokens by itself, as at a space.

    Args:
        masking: which tokens of a text are masked to score the model, and how.
        length: tokens of a training window, the most that an input may have.
    """

    option = "n_best"
    verb = "fill"

    def __init__(self, model: MaskedEncoder, tokenizer: Tokenizer, masking: Masking, length: int) -> None:
        self.model, self.tokenizer, self.masking, self.length = model, tokenizer, masking, length

    def parse(self, text: str) -> str:
        """The text. Raises: ConfigError where no `[MASK]` stands in it."""
        if self.tokenizer.imported is not None:
            text = text.replace(self._mask_name, MASK)
        if MASK not in text:
            raise ConfigError(f"'{visible(text[:40])}': there is nothing to tell; write {MASK} in place of a word")
        return text

    @torch.inference_mode()
    def predict(self, items: Sequence[str] | str, options: int | None = None) -> list[Filled]:
        """What stands in the masked places of each text.

        Args:
            options: how many tokens are told of each place.

        Raises: ConfigError for a text of more tokens than a training window.
        """
        texts = several(items)
        rows = [self._tokens(text) for text in texts]
        by_place: dict[int, Filled] = {}
        lengths = np.array([[len(row)] for row in rows], dtype=np.int64).reshape(-1, 1)

        def masked_odds(places: list[int]) -> tuple[Tensor, ...]:
            batch = self._batch([rows[place] for place in places])
            odds = wide(self.model(batch.inputs, batch.lens, batch.places)).softmax(-1)
            odds[:, :SPECIALS] = -1.0
            return odds.cpu().split([rows[place].count(self.masking.mask_id) for place in places])

        batches = token_batches(lengths, max_tokens=max(PREDICTION_TOKENS, self.length), shuffle=False)
        for places, split_odds in divided(masked_odds, batches):
            by_place |= {
                place: self._filled(rows[place], row_odds, options or _BEST)
                for place, row_odds in zip(places, split_odds, strict=True)
            }
        return [by_place[place] for place in range(len(texts))]

    def write(self, item: str, output: Filled, form: Form, options: int | None = None) -> list[str]:
        """The filled text, a tab, and the best tokens of each place; where their number is given, a line for each rank.

        A line of JSON has the text with its masks, the filled one, and the tokens of each place.
        """
        if form == "json":
            return [json.dumps({"masked": item, **asdict(output)}, ensure_ascii=False)]
        if options is None:
            ranked = [
                ", ".join(f"{visible(word)} {decimals(share)}" for word, share in choice.items())
                for choice in output.choices
            ]
            return ["\t".join([visible(output.text), *ranked])]
        ranks = zip(*(choice.items() for choice in output.choices), strict=True)
        return ["\t".join(f"{visible(word)}\t{probability(share)}" for word, share in rank) for rank in ranks]

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens beside the masks that are not in the vocabulary."""
        return unknown_tokens(self.tokenizer, [piece for item in items for piece in item.split(MASK) if piece])

    @torch.inference_mode()
    def scored(self, examples: Sequence[str], options: Any = None) -> Scored:
        """Cross entropy in nats, perplexity and accuracy of the masked tokens of a text; the masks are always the same.

        Args:
            examples: its lines.
        """
        device = self.model.output.weight.device

        def counted(batch: MaskedBatch) -> dict[str, list[float]]:
            return likelihood_of_each(self.model, batch.to(device))

        columns: dict[str, list[float]] = {"nll": [], "right": [], "tokens": []}
        for _, counts in divided(counted, self.masked(examples)):
            for name, values in counts.items():
                columns[name] += values
        scores = likelihood_scores({name: math.fsum(values) for name, values in columns.items()})
        return Scored({**scores}, Rows(columns, LIKELIHOOD, question_of(examples, columns["tokens"]), "windows"))

    def masked(self, examples: Sequence[str]) -> Iterator[MaskedBatch]:
        """What `evaluate` asks: the lines of a text in windows, always with the same masks."""
        text = text_of((line if line.endswith("\n") else f"{line}\n" for line in examples), self.tokenizer)
        return masked_windows(text, self.length, _SCORED_ROWS, self.masking, shuffle=False).once()

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """What each masked place looks at, in every attention layer.

        Raises:
            ConfigError: a target, or no mask.
            Unsupported: a model without attention.
        """
        if target is not None:
            raise ConfigError("what a mask stands for cannot be given here; leave the target out")
        text = self.parse(item)
        row = self._tokens(text)
        batch, filled = self._batch([row]), self.predict([text], 1)[0]
        mask_id = self.masking.mask_id
        names = [MASK if token == mask_id else self.tokenizer.shown(token) for token in row]
        # short, since figures cut long labels
        rows = [
            f"→ {word.strip(SPACE_MARK)} {decimals(share)}"
            for choice in filled.choices
            for word, share in choice.items()
        ]
        masked = batch.places.cpu().numpy()
        attention = looking.attended(self.model, batch.inputs, batch.lens, batch.places)
        layers = {
            name: attended.layer(rows, names, rows=np.eye(len(row))[masked]) for name, attended in attention.items()
        }
        return Explanation(text, filled.text, layers, tokens=[looking.tokens_of(self.tokenizer, row, names, mask_id)])

    @property
    def _mask_name(self) -> str:
        return self.tokenizer.entries()[self.masking.mask_id]

    def _tokens(self, text: str) -> list[int]:
        """The tokens of a text, with those of masks and what stands around a text."""
        if self.tokenizer.imported is not None:
            return self._fitting(text, self.tokenizer.encode(self.parse(text).replace(MASK, self._mask_name)))
        pieces = self.parse(text).split(MASK)
        if self.tokenizer.config.spaces == "kept":
            # there, a word has the space before it in its token
            pieces = [*(piece.removesuffix(" ") for piece in pieces[:-1]), pieces[-1]]
        cut = self.tokenizer.encode_batch(pieces)
        tokens = [*cut[0], *(token for piece in cut[1:] for token in [MASK_ID, *piece])]
        return self._fitting(text, tokens)

    def _fitting(self, text: str, tokens: list[int]) -> list[int]:
        if len(tokens) > self.length:
            raise ConfigError(
                f"'{visible(text[:40])}...' has {len(tokens)} tokens, but {self.length} are read; give a shorter text"
            )
        return tokens

    def _batch(self, rows: list[list[int]]) -> MaskedBatch:
        lens = torch.tensor([len(row) for row in rows])
        inputs = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=Tokenizer.pad_id)
        real = torch.arange(inputs.shape[1]) < lens[:, None]
        places = ((inputs == self.masking.mask_id) & real).flatten().nonzero().squeeze(1)
        return MaskedBatch(inputs, lens, places, places, []).to(self.model.output.weight.device)

    def _filled(self, row: list[int], odds: Tensor, count: int) -> Filled:
        best = odds.topk(min(count, odds.shape[1] - len(self.masking.special)))
        first = iter(best.indices[:, 0].tolist())
        text = self.tokenizer.decode([next(first) if token == self.masking.mask_id else token for token in row])
        choices = [
            {self.tokenizer.piece(token): share for token, share in zip(tokens, shares, strict=True)}
            for tokens, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return Filled(text, tuple(choices))


def masked_loss(model: MaskedEncoder, batch: MaskedBatch) -> Tensor:
    """Sum of the cross entropy over the masked tokens of a batch, in nats; only their places meet the vocabulary."""
    return output_loss(model.output, model.hidden(batch.inputs, batch.lens, batch.places), batch.targets)


def likelihood(model: MaskedEncoder, batch: MaskedBatch) -> dict[str, float]:
    """Negative log-likelihood in nats of the masked tokens, right predictions and number of masked tokens."""
    logits = wide(model(batch.inputs, batch.lens, batch.places))
    nll = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
    right = int((logits.argmax(-1) == batch.targets).sum())
    return {"nll": float(nll), "right": right, "tokens": batch.num_tokens}


def likelihood_of_each(model: MaskedEncoder, batch: MaskedBatch) -> dict[str, list[float]]:
    """The counts of `likelihood` of each row."""
    logits, width = wide(model(batch.inputs, batch.lens, batch.places)), batch.inputs.shape[1]
    rows = batch.places // width
    each = {
        "nll": torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none"),
        "right": logits.argmax(-1) == batch.targets,
        "tokens": torch.ones_like(batch.targets),
    }
    size = len(batch.inputs)
    return {name: torch.bincount(rows, values.double(), size).tolist() for name, values in each.items()}


class MaskedLMConfig(Config):
    """Which text to learn, with which tokens and model, and what is masked."""

    data: TextConfig = Field(description="the text")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how the text becomes tokens")
    model: EncoderConfig = Field(description="the encoder: token, window, cnn, rnn or attention")
    masking: MaskingConfig = Field(MaskingConfig(), description="which tokens are predicted, and what replaces them")
    length: int = Field(128, ge=1, description="length of a window, in tokens")
    tie_output: bool = Field(True, description="the matrix before the vocabulary is that of the embeddings")
    transform_bias: bool = Field(True, description="the layer below the one before the vocabulary has a bias")
    embedding_std: float = Field(0.05, gt=0, description="standard deviation of the first embeddings")
    show: list[str] = Field(default=[], description=f"texts with {MASK} that are filled at each validation")

    def model_post_init(self, context: object) -> None:
        model = self.model
        if isinstance(model, AttentionConfig) and self.length > (model.places() or self.length):
            raise ConfigError(
                f"length ({self.length}) is above the {model.max_len} places of the model; raise model.max_len"
            )
        if wrong := [text for text in self.show if MASK not in text]:
            raise ConfigError(f"show: '{wrong[0][:40]}' has nothing to tell; write {MASK} in place of a word")


class MaskedLM(running.RunningText):
    """Telling masked tokens from those on both sides, trained on plain text.

    Source: Devlin et al. 2019, arXiv 1810.04805, task 1 of section 3.1; there is no second task.
    """

    name: ClassVar[str] = "masked-lm"
    demo: ClassVar[Demo | None] = MASKED_LM
    config_type: ClassVar[type[Config]] = MaskedLMConfig
    options = (BestOptions,)
    metrics = (Metric("loss", "low"), Metric("perplexity", "low"), Metric("accuracy", "high"))
    config: MaskedLMConfig

    @classmethod
    def prepare_with(cls, config: MaskedLMConfig, given: Given) -> Assets[dict[str, Text]]:
        read = running.read(config.data, config.tokenizer, given, config.length)
        if (
            read.tokenizer.vocab_size <= SPECIALS
            or not word_counts(read.data["train"], read.tokenizer.vocab_size, read.tokenizer.special_ids).any()
        ):
            raise DataError(f"{config.data.train}: no token of the training part is known, so there is none to mask")
        notes = [*read.notes, *_baselines(read.data, read.tokenizer)]
        return Assets({TOKENIZER_FILE: read.tokenizer.to_bytes()}, read.data, read.digests, tuple(notes))

    @classmethod
    def baselines(cls, config: MaskedLMConfig, predictor: Filler, examples: Sequence[str]) -> Iterator[Baseline]:
        """The frequencies of tokens in training, on the same masked tokens: see `_knowing_nothing`."""
        size = predictor.tokenizer.vocab_size
        special = predictor.tokenizer.special_ids
        train = word_counts(running.trained_on(config.data, predictor.tokenizer), size, special)
        target_counts = np.zeros(size, dtype=np.int64)
        for batch in predictor.masked(examples):
            target_counts += np.bincount(batch.targets.numpy(), minlength=size)
        if not (train.any() and target_counts.any()):
            return
        right, perplexity = _knowing_nothing(train, target_counts, special)
        scores = {"accuracy": right, "perplexity": perplexity, "loss": math.log(perplexity)}
        yield Baseline("frequencies of tokens", scores, int(target_counts.sum()))

    @classmethod
    def suggest(cls, data: Mapping[str, Any]) -> Suggestion:
        """An encoder of attention, with the sizes of a language model of this text."""
        values = LanguageModel.suggest(data).values
        model = {name: value for name, value in values["model"].items() if name != "num_layers"}
        training = {**values["training"], "learning_rate": 1e-3, "max_epochs": 20, "monitor": "loss"}
        model = {"kind": "attention", **model, "encoder_layers": 4}
        return Suggestion(values | {"model": model, "training": training}, "A masked language model of plain text")

    def build(self) -> MaskedEncoder:
        config = self.config
        return build_masked_encoder(
            config.model,
            self.tokenizer.vocab_size,
            embedding_std=config.embedding_std,
            tie_output=config.tie_output,
            transform_bias=config.transform_bias,
        )

    def source(self, split: str, limits: Limits) -> Source[MaskedBatch] | None:
        text = (self.assets.data or {}).get(split)
        if text is None:
            return None
        text, rows = running.limited(text, self.tokenizer, self.config.length, limits)
        train = split == "train"
        return masked_windows(text, self.config.length, rows, self._masking(limits.seed if train else 0), shuffle=train)

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Float[Tensor, ""]:
        assert isinstance(model, MaskedEncoder)
        return masked_loss(model, batch)

    def measure(self, model: nn.Module, batches: Iterable[MaskedBatch]) -> Stats:
        assert isinstance(model, MaskedEncoder)
        return summed(likelihood(model, batch) for batch in batches)

    def summarise(self, stats: Stats) -> dict[str, float]:
        return likelihood_scores(stats)

    def samples(self, model: nn.Module) -> list[str]:
        filler = self.predictor(model)
        pairs = zip(self.config.show, filler.predict(self.config.show), strict=True)
        return [f"{text} → {filler.write(text, filled, 'text')[0]}" for text, filled in pairs]

    def probes(self, predictor: Any) -> list[Probe]:
        words = running.beginning(self.assets.data, self.tokenizer, self.config.length).split()
        middle = len(words) // 2
        masked = " ".join([*words[:middle], MASK, *words[middle + 1 :]])
        return [Probe(text) for text in self.config.show or [masked]]

    def predictor(self, model: nn.Module) -> Filler:
        assert isinstance(model, MaskedEncoder)
        return Filler(model, self.tokenizer, self._masking(0), self.config.length)

    def description(self) -> Description:
        commands = (f'predict RUN "a text with {MASK} in it"', "evaluate RUN --data text.txt")
        more = (
            " A classifier or regressor of texts starts from it\nwith the same `[tokenizer]` and `[model]`, and"
            ' `[start] weights = "RUN/model.safetensors"`.'
        )
        return self.described("Masked language model", f"An encoder of kind {self.config.model.kind}", commands, more)

    def _masking(self, seed: int) -> Masking:
        return Masking.of(self.config.masking, self.tokenizer, seed)


def _baselines(data: Mapping[str, Text], tokenizer: Tokenizer) -> list[str]:
    """What knowing nothing of the context is worth, over all tokens of a part that may be masked."""
    special = tokenizer.special_ids
    train = word_counts(data["train"], tokenizer.vocab_size, special)
    notes = []
    for part, text in data.items():
        counts = word_counts(text, len(train), special)
        if part == "train" or not counts.any():
            continue
        right, perplexity = _knowing_nothing(train, counts, special)
        notes.append(
            f"{part}: always saying '{tokenizer.shown(int(train.argmax()))}' is right for {right:.1%} of the tokens;"
            f" their frequencies in training have a perplexity of {perplexity:.4g}"
        )
    return notes


def _knowing_nothing(train: np.ndarray, target_counts: np.ndarray, special: Collection[int]) -> tuple[float, float]:
    """Of tokens asked for: the share of training's most frequent one, and the perplexity of its frequencies plus one.

    Args:
        train, target_counts: how often each token of the vocabulary occurs.
        special: tokens that are never asked for.
    """
    ordinary = np.delete(np.arange(len(train)), list(special))
    shares = (train[ordinary] + 1) / (train.sum() + len(ordinary))
    perplexity = np.exp(-(target_counts[ordinary] * np.log(shares)).sum() / target_counts.sum())
    return float(target_counts[train.argmax()] / target_counts.sum()), float(perplexity)
