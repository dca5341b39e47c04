"""What is exported, and the held-out examples on which both sides are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from headwise import metrics
from headwise.data.batches import Ragged
from headwise.data.files import sha256
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.constraints import Stopping
from headwise.decoding.search import DecodingConfig
from headwise.runs.publish import MODEL
from headwise.runs.weights import ties
from headwise.training.recipe import Recipe, flattened

# examples that are compared, where there are so many
COMPARED = 200
# rows that one side reads at once
ROWS = 32


class Written(NamedTuple):
    """What one side answers: the tokens of a text or another answer, and what outputs are ranked by."""

    tokens: list[Any]
    score: float


@dataclass(frozen=True)
class Case:
    """An example as tokens.

    Args:
        source: what is read, as the model reads it.
        target: what follows, with the token of its end where there is one.
        limit: tokens of an output at most.
    """

    source: list[int]
    target: list[int]
    limit: int


@dataclass(frozen=True)
class Subject:
    """A run of a model that writes, with examples.

    Args:
        split: where the examples come from.
        stopping: when a beam search ends, where the other program knows one way only.
    """

    run: Path
    recipe: Recipe
    predictor: Any
    held_out: Sequence[Any]
    split: str
    stopping: Stopping | None = None
    compares: ClassVar[str] = "log-probabilities"

    @property
    def model(self) -> nn.Module:
        model: nn.Module = self.predictor.model
        return model

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        """Of what is read, and of what is written where that is another one."""
        if not self.reads:
            return (self.predictor.tokenizer,)
        source, target = self.predictor.source_tokenizer, self.predictor.target_tokenizer
        return (source,) if target is source.target else (source, target)

    @property
    def reads(self) -> bool:
        """Whether it has an encoder."""
        return hasattr(self.predictor, "source_tokenizer")

    @property
    def decoding(self) -> DecodingConfig:
        """As the recipe says, without chance."""
        config: DecodingConfig = self.predictor.decoding
        config = config if self.stopping is None else config.model_copy(update={"stopping": self.stopping})
        return without_chance(config)

    def flat(self) -> dict[str, Any]:
        """The keys of the recipe."""
        return flattened(self.recipe)

    def tensors(self) -> dict[str, Tensor]:
        """The weights without those that are tied."""
        tied = ties(self.model)
        return {name: tensor.detach() for name, tensor in self.model.state_dict().items() if name not in tied}

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return sha256(self.run / MODEL)

    def cases(self) -> list[Case]:
        """The examples as tokens."""
        return self._pairs() if self.reads else self._continuations()

    def _pairs(self) -> list[Case]:
        predictor, eos = self.predictor, self.predictor.target_tokenizer.eos_id
        sources = [row.tolist() for row in predictor._read([pair.source for pair in self.held_out])]
        targets = predictor.target_tokenizer.encode_batch([pair.target for pair in self.held_out])
        cases = [
            Case([*source, eos], [*target, eos], self.decoding.limit(len(source) + 1))
            for source, target in zip(sources, targets, strict=True)
            if source
        ]
        places = self._places()
        return [case for case in cases if places is None or max(len(case.source), len(case.target)) <= places]

    def _continuations(self) -> list[Case]:
        """Windows of the text: the first half is read, the second follows."""
        tokenizer, length = self.predictor.tokenizer, self.predictor.length
        tokens = tokenizer.encode("".join(self.held_out))
        size = max(2, min(length, 32))
        begin = self.predictor.begin()
        windows = [[*begin, *tokens[start : start + size - len(begin)]] for start in range(0, len(tokens), size)]
        half = size // 2
        return [Case(row[:half], row[half:], size - half) for row in windows if len(row) > half][: len(self.held_out)]

    def _places(self) -> int | None:
        places: int | None = self.recipe.model.places()  # type: ignore[attr-defined]
        return places

    @torch.inference_mode()
    def search(self, cases: Sequence[Case]) -> list[Written]:
        """What Headwise writes of each."""
        outputs = self._search(cases)
        return [Written(list(output.tokens), output.score) for output in outputs]

    def _search(self, cases: Sequence[Case]) -> list[Any]:
        if self.reads:
            sources = Ragged.of([case.source[:-1] for case in cases])
            return [n_best[0] for n_best in self.predictor.search(sources, self.decoding)]
        return [self.predictor.continued([case.source], self._limited(case.limit))[0][0] for case in cases]

    def _limited(self, limit: int) -> DecodingConfig:
        return self.decoding.model_copy(update={"max_len": limit, "min_len": min(self.decoding.min_len, limit)})

    @torch.inference_mode()
    def log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        """The log-probability of every token of the targets."""
        rows = []
        for start in range(0, len(cases), ROWS):
            rows += self._log_probs(cases[start : start + ROWS])
        return rows

    def _log_probs(self, cases: Sequence[Case]) -> list[list[float]]:
        pad = self.tokenizers[-1].pad_id
        inputs = decoder_inputs(self, cases)
        tokens, _ = padded(inputs, pad)
        if self.reads:
            sources, lens = padded([case.source for case in cases], pad)
            logits = self.model(sources, lens, tokens)
        else:
            logits = self.model(tokens)
        return picked(logits, cases, reads=self.reads)

    def metric(
        self, cases: Sequence[Case], outputs: Sequence[Written], log_probs: Sequence[Sequence[float]]
    ) -> dict[str, float]:
        """The scores of one side: BLEU of its outputs, perplexity of the references."""
        total, count = sum(map(sum, log_probs)), sum(map(len, log_probs))
        scores = {"perplexity": metrics.perplexity(-total, count)}
        if not self.reads:
            return scores
        tokenizer = self.tokenizers[-1]
        target = tokenizer.target
        texts = [target.decode(output.tokens) for output in outputs]
        references = [target.decode(case.target[:-1]) for case in cases]
        return {"bleu": float(self.predictor.bleu_options().scores(texts, references)["bleu"]), **scores}


def without_chance(config: DecodingConfig) -> DecodingConfig:
    """The configuration; greedy where it draws."""
    if config.method != "sample":
        return config
    return config.model_copy(
        update={"method": "greedy", "num_samples": 1, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    )


def decoder_inputs(subject: Subject, cases: Sequence[Case]) -> list[list[int]]:
    """What a decoder reads where the targets are given."""
    if subject.reads:
        return [[subject.tokenizers[-1].bos_id, *case.target[:-1]] for case in cases]
    return [[*case.source, *case.target[:-1]] for case in cases]


def picked(logits: Tensor, cases: Sequence[Case], *, reads: bool) -> list[list[float]]:
    """The log-probabilities of the targets.

    Args:
        reads: the decoder reads the targets alone; otherwise what is read stands before them.
    """
    rows = []
    for row, case in zip(logits.double().log_softmax(-1), cases, strict=True):
        first = 0 if reads else len(case.source) - 1
        own = row[first : first + len(case.target)]
        rows.append(own.gather(1, torch.tensor(case.target)[:, None])[:, 0].tolist())
    return rows


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows as a tensor, and their lengths."""
    lens = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lens.max())), pad)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor(row)
    return tokens, lens
