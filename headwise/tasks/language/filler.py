"""A trained masked language model: tells the words that `[MASK]` stands for, and how well it tells those of a text."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise import metrics
from headwise.attention.precision import wide
from headwise.data.buckets import token_batches
from headwise.data.text import SPACE_MARK
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation
from headwise.labels import decimals, probability, visible
from headwise.layers.loss import output_loss
from headwise.predictors import looking
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.processes import divided
from headwise.tasks.language.masked import MASK_ID, MaskedBatch, MaskedEncoder, Masking, masked_windows
from headwise.tasks.text.plain import SPECIALS, text_of

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
        model: in `eval()` while it reads.
        masking: which tokens of a text are masked to score the model, and how.
        length: tokens of a training window, the most that an input may have.
    """

    option = "n_best"
    verb = "fill"

    def __init__(self, model: MaskedEncoder, tokenizer: Tokenizer, masking: Masking, length: int) -> None:
        self.model, self.tokenizer, self.masking, self.length = model, tokenizer, masking, length

    def parse(self, text: str) -> str:
        """The text. Raises: ConfigError where no `[MASK]` stands in it."""
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
            return odds.cpu().split([rows[place].count(MASK_ID) for place in places])

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
    def scores_of(self, examples: Sequence[str], options: Any = None) -> dict[str, float | str]:
        """Cross entropy in nats, perplexity and accuracy of the masked tokens of a text; the masks are always the same.

        Args:
            examples: its lines.
        """
        device = self.model.output.weight.device
        counts: Counter[str] = Counter()

        def counted(batch: MaskedBatch) -> dict[str, float]:
            return told_counts(self.model, [batch.to(device)])

        for _, batch_counts in divided(counted, self.masked(examples)):
            counts.update(batch_counts)
        return {**told_scores(counts)}

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
        names = [MASK if token == MASK_ID else self.tokenizer.shown(token) for token in row]
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
        return Explanation(text, filled.text, layers, tokens=[looking.tokens_of(self.tokenizer, row, names, MASK_ID)])

    def _tokens(self, text: str) -> list[int]:
        """The tokens of a text, of which those of masks are `MASK_ID`."""
        pieces = self.parse(text).split(MASK)
        if self.tokenizer.config.spaces == "kept":
            # there, a word has the space before it in its token
            pieces = [*(piece.removesuffix(" ") for piece in pieces[:-1]), pieces[-1]]
        cut = self.tokenizer.encode_batch(pieces)
        tokens = [*cut[0], *(token for piece in cut[1:] for token in [MASK_ID, *piece])]
        if len(tokens) > self.length:
            raise ConfigError(
                f"'{visible(text[:40])}...' has {len(tokens)} tokens, but {self.length} are read; give a shorter text"
            )
        return tokens

    def _batch(self, rows: list[list[int]]) -> MaskedBatch:
        lens = torch.tensor([len(row) for row in rows])
        inputs = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=Tokenizer.pad_id)
        real = torch.arange(inputs.shape[1]) < lens[:, None]
        places = ((inputs == MASK_ID) & real).flatten().nonzero().squeeze(1)
        return MaskedBatch(inputs, lens, places, places, []).to(self.model.output.weight.device)

    def _filled(self, row: list[int], odds: Tensor, count: int) -> Filled:
        best = odds.topk(min(count, odds.shape[1] - SPECIALS))
        first = iter(best.indices[:, 0].tolist())
        text = self.tokenizer.decode([next(first) if token == MASK_ID else token for token in row])
        choices = [
            {self.tokenizer.piece(token): share for token, share in zip(tokens, shares, strict=True)}
            for tokens, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return Filled(text, tuple(choices))


def masked_loss(model: MaskedEncoder, batch: MaskedBatch) -> Tensor:
    """Sum of the cross entropy over the masked tokens of a batch, in nats; only their places meet the vocabulary."""
    return output_loss(model.output, model.hidden(batch.inputs, batch.lens, batch.places), batch.targets)


def told_counts(model: MaskedEncoder, batches: Iterable[MaskedBatch]) -> dict[str, float]:
    """Negative log-likelihood in nats, masked tokens, and how many of them are told."""
    counts: Counter[str] = Counter()
    for batch in batches:
        logits = wide(model(batch.inputs, batch.lens, batch.places))
        nll = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
        right = int((logits.argmax(-1) == batch.targets).sum())
        counts.update({"nll": float(nll), "masked": batch.num_tokens, "told": right})
    return dict(counts)


def told_scores(counts: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per masked token, perplexity and accuracy of summed counts; NaN where nothing is masked.

    >>> {name: round(value, 2) for name, value in told_scores({"nll": 2.0, "masked": 4, "told": 3}).items()}
    {'loss': 0.5, 'perplexity': 1.65, 'accuracy': 0.75}
    """
    masked = int(counts.get("masked", 0))
    if not masked:
        return dict.fromkeys(("loss", "perplexity", "accuracy"), float("nan"))
    perplexity = metrics.perplexity(counts["nll"], masked)
    return {"loss": counts["nll"] / masked, "perplexity": perplexity, "accuracy": counts["told"] / masked}
