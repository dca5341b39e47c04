"""What tasks and predictors share that write: BLEU, search, forced outputs, loss and scores."""

import math
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise import metrics
from headwise.caches import Cache
from headwise.config import Config, build
from headwise.data.batches import PairBatch
from headwise.data.text import script_counts
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.decoding.beam import BeamSearch
from headwise.decoding.constraints import Constraints
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError
from headwise.explain.places import Places
from headwise.layers.loss import output_loss, real_rows
from headwise.models.protocols import Memory, Seq2Seq
from headwise.predictors.classes import mean, summed
from headwise.predictors.drafting import Draft
from headwise.predictors.engines import Engines
from headwise.predictors.rows import Column, Formula
from headwise.predictors.twins import Requested, Twin
from headwise.processes import divided
from headwise.tasks.task import Metric, Stats, Task

_UNSPACED = ("Han", "Hiragana", "Katakana")


class Scoring(NamedTuple):
    """sacreBLEU's tokenizer, and whether small letters are compared."""

    tokenize: str
    lowercase: bool

    def scores(self, outputs: Sequence[str], references: Sequence[metrics.Reference]) -> dict[str, float | str]:
        """BLEU, chrF and exact matches, with signatures; warns where the tokenizer takes a whole line for a word."""
        scripts = list(script_counts(Counter("".join(map("".join, references)))))
        if self.tokenize == "13a" and scripts[:1] and scripts[0] in _UNSPACED:
            better = "ja-mecab" if {"Hiragana", "Katakana"} & set(scripts[:3]) else "zh"
            warnings.warn(
                f"BLEU with the tokenizer 13a takes a line of {scripts[0]} for one word; set bleu.tokenize = "
                f'"{better}" in the recipe, or give --tokenize {better}',
                stacklevel=3,
            )
        bleu = metrics.bleu(outputs, references, tokenize=self.tokenize, lowercase=self.lowercase)
        chrf = metrics.chrf(outputs, references, lowercase=self.lowercase)
        bleu_scores: dict[str, float | str] = {"bleu": bleu.value, "bleu_signature": bleu.signature}
        exact = metrics.exact_match(outputs, references, lowercase=self.lowercase)
        return bleu_scores | {"chrf": chrf.value, "chrf_signature": chrf.signature, "exact": exact}

    def rows(self, outputs: Sequence[str], references: Sequence[metrics.Reference]) -> dict[str, Column]:
        """Of each output what BLEU adds up, and whether it is a reference."""
        pairs = zip(outputs, references, strict=True)
        return {
            "bleu": metrics.bleu_rows(outputs, references, tokenize=self.tokenize, lowercase=self.lowercase),
            "exact": [int(metrics.exact_match([one], [texts], lowercase=self.lowercase)) for one, texts in pairs],
        }


class BleuConfig(Config):
    """How BLEU is computed: sacreBLEU's options."""

    tokenize: Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200", "none"] = Field(
        "13a", description="sacreBLEU's tokenizer: zh for Chinese, ja-mecab for Japanese, char for any script"
    )
    lowercase: bool = Field(False, description="compare in lower case; always if the tokenizer lowercases the target")

    def scoring(self, tokenizer: Tokenizer, tokenize: str | None = None) -> Scoring:
        """How outputs in these tokens are compared: those without capitals meet references without them.

        Args:
            tokenize: sacreBLEU's tokenizer in place of the one that is configured.
        """
        return Scoring(tokenize or self.tokenize, self.lowercase or tokenizer.config.lowercase)


@dataclass(frozen=True, slots=True)
class Request:
    """What `predict` is told: how to search, what to write beside each output; `tokenize` is for `evaluate`.

    Args:
        prefix: tokens that every output begins with.
        stop: a text that ends a continuation, itself left out.
    """

    decoding: DecodingConfig
    scores: bool = False
    alignments: bool = False
    tokenize: str | None = None
    prefix: tuple[int, ...] = ()
    stop: str | None = None

    @classmethod
    def of(cls, decoding: DecodingConfig, options: Mapping[str, Any], engines: Engines | None = None) -> "Request":
        """From options by name.

        Args:
            engines: what may search besides Headwise's own decoder.

        Raises: ConfigError for an unknown option, or a value that is not allowed here.
        """
        if options.get("engine") == "ctranslate2" and engines is None:
            raise ConfigError("--engine ctranslate2: it runs models that read and write texts; leave it out")
        own: dict[str, Any] = {name: bool(options[name]) for name in ("scores", "alignments") if name in options}
        if "tokenize" in options:
            own["tokenize"] = build(BleuConfig, {"tokenize": options["tokenize"]}, "--tokenize").tokenize
        if "prefix" in options:
            own["prefix"] = tuple(options["prefix"])
        return cls(decoding.with_options({name: options[name] for name in options if name not in own}), **own)


@dataclass(frozen=True, slots=True)
class Output:
    """What was written: its text, the score it is ranked by, its log-probability, its token numbers, and word links."""

    text: str
    score: float
    log_prob: float
    tokens: list[int]
    links: str | None = None

    def fields(self) -> dict[str, Any]:
        """For JSON: all but the links where there are none."""
        own = {"text": self.text, "score": self.score, "log_prob": self.log_prob, "tokens": self.tokens}
        return own if self.links is None else own | {"links": self.links}


def outputs_of(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> list[Output]:
    """Hypotheses as texts."""
    return [
        Output(tokenizer.decode(hypothesis.tokens), hypothesis.score, hypothesis.log_prob, hypothesis.tokens)
        for hypothesis in hypotheses
    ]


class Writing:
    """Searches for outputs, in a twin of the model that is made for it and made anew when weights changed.

    Args:
        model: in `eval()` while it writes.
        tokenizer: of what is written.
        least: the length of the shortest source about which there is anything to write.
    """

    def __init__(self, model: Seq2Seq, tokenizer: Tokenizer, least: int = 1):
        self.model, self.tokenizer, self.min_source_len = model, tokenizer, least
        self.draws = Draws()
        self.twin = Twin[Seq2Seq]()

    @torch.inference_mode()
    def search(self, batch: PairBatch, config: DecodingConfig, prefix: Sequence[int] = ()) -> list[list[Output]]:
        """The outputs for every source of a batch, best first; none for one that is too short.

        Args:
            prefix: tokens that every output begins with.
        """
        model, lens = self.decoding_model(config.precision), batch.src_lens
        (memory,) = model.encoder.read_all([(batch.src, lens)])
        cache = model.decoder.start(memory, lens)
        n_best = search(model.decoder, cache, config, self._rules(lens, config, prefix), draws=self.draws)
        return [
            outputs_of(hypotheses, self.tokenizer) if length >= self.min_source_len else []
            for hypotheses, length in zip(n_best, lens.tolist(), strict=True)
        ]

    @torch.inference_mode()
    def start_search(
        self,
        model: Seq2Seq,
        memory: Memory,
        lens: Int[Tensor, "batch"],
        config: DecodingConfig,
        prefix: Sequence[int] = (),
    ) -> BeamSearch:
        """The same search, of what the encoder made, for others to go on with; greedy search is that of one beam."""
        beams, best = (1, 1) if config.method == "greedy" else (config.beam_size, config.n_best)
        cache = model.decoder.start(memory, lens)
        return BeamSearch(cache, self._rules(lens, config, prefix), beam_size=beams, n_best=best)

    def forced(self, target: str | None, outputs: Callable[[], list[Output]]) -> tuple[str, list[int]]:
        """The text and the tokens of a target, else of the best output, if there is one."""
        if target is not None:
            return target, self.tokenizer.encode(target)
        best = outputs()
        return (best[0].text, best[0].tokens) if best else ("", [])

    def draft(self, batch: PairBatch, read: list[str], places: Places | None = None) -> Draft:
        """The only source of a batch, to be followed; `read`, `places`: what the decoder looks at."""
        model = self.model

        def start() -> Cache:
            return model.decoder.start(model.encoder(batch.src, batch.src_lens), batch.src_lens)

        return Draft(model, model.decoder, start, self.tokenizer.bos_id, read, self.tokenizer, places)

    def decoding_model(self, precision: Requested) -> Seq2Seq:
        """What searches: the model's inference twin; the model itself while it is watched."""
        return self.twin.of(self.model, precision)

    def _rules(self, lens: Tensor, config: DecodingConfig, prefix: Sequence[int]) -> Constraints:
        ids, lengths = self.tokenizer, lens.tolist()
        first = () if ids.imported is None else ids.imported.first
        forced = [[*first, *prefix]] * len(lengths) if first or prefix else None
        rules = config.constraints(lengths, bos_id=ids.bos_id, eos_id=ids.eos_id, banned=ids.banned_ids, prefix=forced)
        return replace(rules, certain=len(first))


def text_of(translations: Sequence[Output]) -> str:
    """The text of the best output; empty where there is none."""
    return translations[0].text if translations else ""


# how the scores of outputs follow from what is counted of each
WRITTEN = {"bleu": Formula("bleu", ("bleu",)), "exact": Formula("mean", ("exact",))}
LIKELIHOOD = {
    "loss": Formula("mean", ("nll", "tokens")),
    "perplexity": Formula("perplexity", ("nll", "tokens")),
    "accuracy": Formula("mean", ("right", "tokens")),
}


class Likelihood(NamedTuple):
    """Scores of references under teacher forcing, and what was counted of each."""

    scores: dict[str, float]
    columns: dict[str, list[float]]


def likelihood(model: Seq2Seq, batch: PairBatch) -> dict[str, float]:
    """Negative log-likelihood in nats, right tokens and number of tokens of a batch under teacher forcing."""
    hidden, targets = real_states(model, batch, batch.tgt_in)
    output = model.decoder.output
    right = int((output(hidden).argmax(-1) == targets).sum())
    return {"nll": float(output_loss(output, hidden, targets)), "right": right, "tokens": batch.num_tokens}


def likelihood_of_each(model: Seq2Seq, batch: PairBatch) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The counts of `likelihood`, and the same of each target."""
    hidden, targets = real_states(model, batch, batch.tgt_in)
    output, lens = model.decoder.output, batch.tgt_lens.tolist()
    pairs = list(zip(hidden.split(lens), targets.split(lens), strict=True))
    rows = {
        "nll": [float(output_loss(output, states, own)) for states, own in pairs],
        "right": [float((output(states).argmax(-1) == own).sum()) for states, own in pairs],
        "tokens": [float(length) for length in lens],
    }
    # as in validation, to the last bit
    nll = float(output_loss(output, hidden, targets))
    return {"nll": nll, "right": sum(rows["right"]), "tokens": batch.num_tokens}, rows


def likelihoods(
    count: Callable[[Sequence[int]], tuple[dict[str, float], dict[str, list[float]]]],
    batches: Iterable[Sequence[int]],
    size: int,
) -> Likelihood:
    """Loss in nats per token, perplexity and token accuracy of so many targets, and the counts of each.

    Args:
        count: `likelihood_of_each` of the targets with these numbers.
    """
    sums, columns = list[dict[str, float]](), {name: [0.0] * size for name in ("nll", "right", "tokens")}
    for places, (counts, rows) in divided(count, batches):
        sums.append(counts)
        for name, values in rows.items():
            for place, value in zip(places, values, strict=True):
                columns[name][place] = value
    return Likelihood(likelihood_scores(summed(sums)), columns)


def likelihood_scores(counts: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per target token, perplexity and token accuracy of summed counts."""
    nll, tokens = counts.get("nll", 0.0), int(counts.get("tokens", 0))
    perplexity = metrics.perplexity(nll, tokens) if tokens else float("nan")
    right = counts.get("right", 0.0)
    return {"loss": mean(nll, tokens), "perplexity": perplexity, "accuracy": mean(right, tokens)}


def real_states(model: Seq2Seq, batch: PairBatch, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """(decoder states, targets) of the real target positions only."""
    memory = model.encoder(batch.src, batch.src_lens)
    hidden = model.decoder.hidden(tgt_in, memory, batch.src_lens)
    return real_rows(hidden, batch.tgt_out, batch.tgt_lens, batch.num_tokens)


def with_guesses(model: Seq2Seq, batch: PairBatch, share: float) -> Tensor:
    """Decoder inputs with a share of the gold tokens replaced by the model's guesses from a first, unrecorded pass.

    The two-pass form of scheduled sampling (Mihaylova and Martins 2019, arXiv:1906.07651), which keeps a Transformer
    parallel; Bengio et al. 2015, arXiv:1506.03099, go step by step. A share of 1 does too, one pass for each position
    (free running): every input is the guess that follows from the guesses before.
    """
    with torch.no_grad():
        if share == 1:
            return _free_running(model, batch)
        memory = model.encoder(batch.src, batch.src_lens)
        hidden = model.decoder.hidden(batch.tgt_in, memory, batch.src_lens)
        # the guess at position t is what the decoder would have read at t + 1
        guesses = torch.stack([model.decoder.output(rows).argmax(-1) for rows in hidden])[:, :-1]
    inputs = batch.tgt_in.clone()
    replaced = torch.rand(guesses.shape, device=guesses.device) < share
    inputs[:, 1:] = torch.where(replaced, guesses, inputs[:, 1:])
    return inputs


def _free_running(model: Seq2Seq, batch: PairBatch) -> Tensor:
    memory, inputs = model.encoder(batch.src, batch.src_lens), batch.tgt_in.clone()
    for place in range(1, inputs.shape[1]):
        hidden = model.decoder.hidden(inputs[:, :place], memory, batch.src_lens)
        inputs[:, place] = model.decoder.output(hidden[:, -1]).argmax(-1)
    return inputs


D = TypeVar("D")


class WriterConfig(Config):
    """How texts are cut into tokens, learned and decoded."""

    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a text becomes tokens")
    decoding: DecodingConfig = Field(DecodingConfig(), description="how outputs are decoded")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target spread over the vocabulary")
    scheduled_sampling: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of decoder inputs that are the model's own guesses in training; 1: all, one after another",
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
            rows = [row for row, texts in enumerate(batch.references) if texts]
            if rows:
                references += [batch.references[row] for row in rows]
                outputs += [text_of(translations) for translations in writing.search(batch.take(rows), self.greedy())]
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
