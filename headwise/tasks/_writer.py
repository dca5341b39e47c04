"""What all tasks have in common whose model writes a text about a source: keys, loss, and scores of what is written."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise import metrics
from headwise.config import Config
from headwise.data.batches import PairBatch
from headwise.data.tokenizers import TokenizerConfig
from headwise.decoding.search import DecodingConfig
from headwise.layers.loss import output_loss
from headwise.models.protocols import Seq2Seq
from headwise.predictors.bleu import BleuConfig, Scoring
from headwise.predictors.forced import likelihood, likelihood_scores, real_states, with_guesses
from headwise.predictors.writing import Writing, text_of
from headwise.tasks.task import Metric, Stats, Task

D = TypeVar("D")


class WriterConfig(Config):
    """How texts are cut into tokens, learned and decoded."""

    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a text becomes tokens")
    decoding: DecodingConfig = Field(DecodingConfig(), description="how outputs are decoded")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target spread over the vocabulary")
    scheduled_sampling: float = Field(
        0.0, ge=0, lt=1, description="share of decoder inputs that are the model's own guesses while training"
    )
    num_shown: int = Field(4, ge=0, description="number of outputs shown at each validation")
    bleu: BleuConfig = Field(BleuConfig(), description="how BLEU is computed")


class Writer(Task[D]):
    """A task of an encoder-decoder, trained by teacher forcing on batches of sources and targets."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "low"),
        Metric("perplexity", "low"),
        Metric("accuracy", "high"),
        Metric("bleu", "high"),
    )
    config: WriterConfig

    @abstractmethod
    def writing(self, model: nn.Module) -> Writing:
        """What searches for the outputs of batches."""

    @abstractmethod
    def scoring(self) -> Scoring:
        """How outputs are compared with references."""

    def more_counts(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Stats:
        """Counts of further scores of outputs, each with its references; here none."""
        return {}

    def more_scores(self, stats: Stats) -> dict[str, float]:
        """The scores of `more_counts` that were summed."""
        return {}

    def loss(self, model: nn.Module, batch: PairBatch) -> Float[Tensor, ""]:
        assert isinstance(model, Seq2Seq)
        tgt_in = batch.tgt_in
        if self.config.scheduled_sampling and model.training:
            tgt_in = with_guesses(model, batch, self.config.scheduled_sampling)
        hidden, targets = real_states(model, batch, tgt_in)
        return output_loss(model.decoder.output, hidden, targets, self.config.label_smoothing)

    def measure(self, model: nn.Module, batches: Iterable[PairBatch]) -> Stats:
        """Log-likelihood, right tokens, and the n-grams of greedy outputs for the sources that have references."""
        assert isinstance(model, Seq2Seq)
        writing = self.writing(model)
        stats: Counter[str] = Counter()
        outputs: list[str] = []
        references: list[list[str]] = []
        for batch in batches:
            stats.update(likelihood(model, batch))
            rows = [row for row, known in enumerate(batch.references) if known]
            if rows:
                references += [batch.references[row] for row in rows]
                outputs += [text_of(found) for found in writing.found(batch.take(rows), self.greedy())]
        if references:
            stats.update(metrics.bleu_counts(outputs, references, **self.scoring()._asdict()))
            stats.update(self.more_counts(outputs, references))
        return dict(stats)

    def summarise(self, stats: Stats) -> dict[str, float]:
        # of few captions none may be scored
        bleu = metrics.bleu_of(stats) if "bleu_length" in stats else math.nan
        return likelihood_scores(stats) | {"bleu": bleu} | self.more_scores(stats)

    def greedy(self) -> DecodingConfig:
        """The recipe's decoding, but greedy: for scores while training."""
        return self.config.decoding.model_copy(update={"method": "greedy"})
