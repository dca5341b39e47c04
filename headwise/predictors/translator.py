"""A trained translator: applies a model to sentences, many at a time, and scores it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from headwise import metrics
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.config import Config
from headwise.data.batches import PairBatch, Ragged, collate, pair_lengths, token_batches
from headwise.data.readers import Pair
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.search import DecodingConfig, search
from headwise.layers.decoding import Precision, for_inference, is_current
from headwise.layers.loss import output_loss, real_rows
from headwise.models.protocols import Seq2Seq
from headwise.records.watching import watched

# source tokens that are decoded together, padding included
DECODING_TOKENS = 1024


class BleuConfig(Config):
    """How BLEU is computed: sacreBLEU's options."""

    tokenize: Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200", "none"] = Field(
        "13a", description="sacreBLEU's tokenizer: zh for Chinese, ja-mecab for Japanese, char for any script"
    )
    lowercase: bool = Field(False, description="compare small letters; so it is too where the target is lowercased")


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation: its text, the score it is ranked by, its log-probability and its token numbers."""

    text: str
    score: float
    log_prob: float
    tokens: list[int]


class Translator:
    """A model with its tokenizers.

    Args:
        model: in `eval()` while it translates.
        decoding: how to search unless told otherwise.
        bleu: how BLEU is computed.
    """

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        decoding: DecodingConfig,
        bleu: BleuConfig | None = None,
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.decoding = decoding
        self.bleu = bleu or BleuConfig()
        self._twin: tuple[Precision, Seq2Seq] | None = None

    def translate(self, sentences: Sequence[str], *, config: DecodingConfig | None = None) -> list[str]:
        """The best translation of each sentence, in the order given; of an empty sentence the empty string."""
        return [found[0].text if found else "" for found in self.n_best(sentences, config)]

    def n_best(self, sentences: Sequence[str], config: DecodingConfig | None = None) -> list[list[Translation]]:
        """The best translations of each sentence, best first; how many is the configuration's `n_best`."""
        rows = Ragged.of(self.source_tokenizer.encode_batch(sentences))
        return self._search(rows, config or self.decoding)

    def batch(self, sources: Sequence[str], targets: Sequence[str]) -> PairBatch:
        """Sentence pairs as the model reads them in training."""
        encoded = self.source_tokenizer.encode_batch(sources), self.target_tokenizer.encode_batch(targets)
        return self._collate(Ragged.of(encoded[0]), Ragged.of(encoded[1]), range(len(sources)))

    def evaluate(self, pairs: Sequence[Pair], *, config: DecodingConfig | None = None) -> dict[str, float | str]:
        """BLEU and chrF with their signatures, and loss, perplexity and token accuracy of the references."""
        sources = Ragged.of(self.source_tokenizer.encode_batch([pair.source for pair in pairs]))
        targets = Ragged.of(self.target_tokenizer.encode_batch([pair.target for pair in pairs]))
        found = self._search(sources, config or self.decoding)
        outputs = [translations[0].text if translations else "" for translations in found]
        references = [pair.target for pair in pairs]
        bleu, chrf = metrics.bleu(outputs, references, **self.bleu_options()), metrics.chrf(outputs, references)
        scores: dict[str, float | str] = {"bleu": bleu.value, "bleu_signature": bleu.signature}
        scores |= {"chrf": chrf.value, "chrf_signature": chrf.signature}
        return scores | self.likelihood(sources, targets)

    def bleu_options(self) -> dict[str, Any]:
        """Options of `metrics.bleu`: outputs of a tokenizer without capitals meet references without them."""
        lowercase = self.bleu.lowercase or self.target_tokenizer.config.lowercase
        return {"tokenize": self.bleu.tokenize, "lowercase": lowercase}

    @torch.inference_mode()
    def of_batch(self, batch: PairBatch, config: DecodingConfig) -> list[list[Translation]]:
        """The best translations of the sources of a batch, best first; none of an empty one."""
        found = self._found(batch, config, None)
        # the end token is all that an empty source has
        return [list_ if length > 1 else [] for list_, length in zip(found, batch.src_lens.tolist(), strict=True)]

    @torch.inference_mode()
    def likelihood(self, sources: Ragged, targets: Ragged) -> dict[str, float]:
        """Loss in nats per target token, perplexity and token accuracy of the targets under teacher forcing."""
        stats: Counter[str] = Counter()
        for indices in self._batches(pair_lengths(sources, targets)):
            stats.update(likelihood(self.model, self._collate(sources, targets, indices)))
        return likelihood_scores(stats)

    @torch.inference_mode()
    def _search(self, sources: Ragged, config: DecodingConfig) -> list[list[Translation]]:
        results: list[list[Translation]] = [[] for _ in range(len(sources))]
        real = [index for index in range(len(sources)) if sources.lengths[index]]
        lengths = pair_lengths(sources, sources)
        generator = torch.Generator().manual_seed(torch.initial_seed()) if config.method == "sample" else None
        for places in self._batches(lengths[real]):
            indices = [real[place] for place in places]
            found = self._found(self._collate(sources, sources, indices), config, generator)
            for index, translations in zip(indices, found, strict=True):
                results[index] = translations
        return results

    def _found(
        self, batch: PairBatch, config: DecodingConfig, generator: torch.Generator | None
    ) -> list[list[Translation]]:
        model, tokenizer = self._decoding_model(config.precision), self.target_tokenizer
        found = search(
            model.decoder,
            model.decoder.start(model.encoder(batch.src, batch.src_lens), batch.src_lens),
            config,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            src_lens=batch.src_lens.tolist(),
            banned=(tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id),
            generator=generator,
        )
        return [[self._translation(hypothesis) for hypothesis in hypotheses] for hypotheses in found]

    def _decoding_model(self, precision: Precision) -> Seq2Seq:
        """The model's inference twin, made anew when weights changed; the model itself while it is watched."""
        if any(watched(module) for module in self.model.modules() if isinstance(module, Mechanism)):
            return self.model
        if self._twin is None or self._twin[0] != precision or not is_current(self._twin[1], self.model):
            self._twin = (precision, for_inference(self.model, precision))
        return self._twin[1]

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        text = self.target_tokenizer.decode(hypothesis.tokens)
        return Translation(text, hypothesis.score, hypothesis.log_prob, hypothesis.tokens)

    def _batches(self, lengths: np.ndarray) -> Iterator[list[int]]:
        if not len(lengths):
            return iter(())
        longest = int(lengths.max())
        return iter(token_batches(lengths, max_tokens=max(DECODING_TOKENS, longest), shuffle=False))

    def _collate(self, sources: Ragged, targets: Ragged, indices: Iterable[int]) -> PairBatch:
        ids = self.target_tokenizer
        device = self.model.decoder.output.weight.device
        rows = list(indices)
        return collate(sources, targets, rows, pad_id=ids.pad_id, bos_id=ids.bos_id, eos_id=ids.eos_id).to(device)


def likelihood(model: Seq2Seq, batch: PairBatch) -> dict[str, float]:
    """Negative log-likelihood in nats, right tokens and number of tokens of a batch under teacher forcing."""
    hidden, wanted = real_states(model, batch, batch.tgt_in)
    output = model.decoder.output
    right = int((output(hidden).argmax(-1) == wanted).sum())
    return {"nll": float(output_loss(output, hidden, wanted)), "right": right, "tokens": batch.num_tokens}


def likelihood_scores(counts: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per target token, perplexity and token accuracy of summed counts."""
    nll, tokens = counts.get("nll", 0.0), int(counts.get("tokens", 0))
    perplexity = metrics.perplexity(nll, tokens) if tokens else float("nan")
    right = counts.get("right", 0.0)
    return {"loss": nll / max(1, tokens), "perplexity": perplexity, "accuracy": right / max(1, tokens)}


def real_states(model: Seq2Seq, batch: PairBatch, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """(decoder states, targets) of the real target positions only."""
    memory = model.encoder(batch.src, batch.src_lens)
    hidden = model.decoder.hidden(tgt_in, memory, batch.src_lens)
    return real_rows(hidden, batch.tgt_out, batch.tgt_lens, batch.num_tokens)
