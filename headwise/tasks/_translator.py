"""A trained translator: applies a model to sentences, many at a time, and scores it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headwise import metrics
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.data.batches import PairBatch, Ragged, collate, pair_lengths, token_batches
from headwise.data.readers import Pair
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.search import DecodingConfig, search
from headwise.layers.decoding import Precision, for_inference, is_current
from headwise.layers.loss import output_loss
from headwise.models.protocols import Seq2Seq
from headwise.records.watching import watched

# source tokens that are decoded together, padding included
DECODING_TOKENS = 1024


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
    """

    def __init__(
        self, model: Seq2Seq, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, decoding: DecodingConfig
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.decoding = decoding
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
        bleu, chrf = metrics.bleu(outputs, references), metrics.chrf(outputs, references)
        scores: dict[str, float | str] = {"bleu": bleu.value, "bleu_signature": bleu.signature}
        scores |= {"chrf": chrf.value, "chrf_signature": chrf.signature}
        return scores | self.likelihood(sources, targets)

    @torch.inference_mode()
    def likelihood(self, sources: Ragged, targets: Ragged) -> dict[str, float]:
        """Loss in nats per target token, perplexity and token accuracy of the targets under teacher forcing."""
        total, correct, tokens = 0.0, 0, 0
        for indices in self._batches(pair_lengths(sources, targets)):
            batch = self._collate(sources, targets, indices)
            hidden, wanted = real_states(self.model, batch, batch.tgt_in)
            output = self.model.decoder.output
            total += float(output_loss(output, hidden, wanted))
            correct += int((output(hidden).argmax(-1) == wanted).sum())
            tokens += batch.num_tokens
        loss = total / max(1, tokens)
        perplexity = metrics.perplexity(total, tokens) if tokens else float("nan")
        return {"loss": loss, "perplexity": perplexity, "accuracy": correct / max(1, tokens)}

    @torch.inference_mode()
    def _search(self, sources: Ragged, config: DecodingConfig) -> list[list[Translation]]:
        results: list[list[Translation]] = [[] for _ in range(len(sources))]
        real = [index for index in range(len(sources)) if sources.lengths[index]]
        lengths, model = pair_lengths(sources, sources), self._decoding_model(config.precision)
        generator = torch.Generator().manual_seed(torch.initial_seed()) if config.method == "sample" else None
        chosen = lengths[real]
        for places in self._batches(chosen):
            indices = [real[place] for place in places]
            batch = self._collate(sources, sources, indices)
            memory = model.encoder(batch.src, batch.src_lens)
            tokenizer = self.target_tokenizer
            found = search(
                model.decoder,
                model.decoder.start(memory, batch.src_lens),
                config,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
                src_lens=batch.src_lens.tolist(),
                banned=(tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id),
                generator=generator,
            )
            for index, hypotheses in zip(indices, found, strict=True):
                results[index] = [self._translation(hypothesis) for hypothesis in hypotheses]
        return results

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


def real_states(model: Seq2Seq, batch: PairBatch, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """(decoder states, targets) of the real target positions only: padding costs no vocabulary product."""
    memory = model.encoder(batch.src, batch.src_lens)
    hidden = model.decoder.hidden(tgt_in, memory, batch.src_lens).flatten(0, 1)
    if batch.num_tokens == batch.tgt_out.numel():
        return hidden, batch.tgt_out.flatten()
    real = torch.arange(batch.tgt_out.shape[1], device=batch.tgt_lens.device) < batch.tgt_lens[:, None]
    places = real.flatten().nonzero().squeeze(1)
    return hidden.index_select(0, places), batch.tgt_out.flatten().index_select(0, places)
