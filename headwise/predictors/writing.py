"""What a trained encoder-decoder writes about the sources of a batch, whatever they are: searches, as texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.caches import Cache
from headwise.data.batches import PairBatch
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.beam import BeamSearch
from headwise.decoding.constraints import Constraints
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.explain.places import Places
from headwise.layers.decoding import Precision
from headwise.models.protocols import Memory, Seq2Seq
from headwise.predictors.drafting import Draft
from headwise.predictors.twins import Twin


@dataclass(frozen=True, slots=True)
class Asked:
    """What `predict` is told: how to search, what to write beside each translation; `tokenize` is for `evaluate`.

    Args:
        prefix: tokens that every output begins with.
    """

    decoding: DecodingConfig
    scores: bool = False
    alignments: bool = False
    tokenize: str | None = None
    prefix: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """One output: its text, the score it is ranked by, its log-probability, its token numbers, and word links."""

    text: str
    score: float
    log_prob: float
    tokens: list[int]
    links: str | None = None


class Writing:
    """Searches for outputs, in a twin of the model that is made for it and made anew when weights changed.

    Args:
        model: in `eval()` while it writes.
        tokenizer: of what is written.
        least: the length of the shortest source about which there is anything to write.
    """

    def __init__(self, model: Seq2Seq, tokenizer: Tokenizer, least: int = 1):
        self.model, self.tokenizer, self.least = model, tokenizer, least
        self.draws = Draws()
        self._twin = Twin[Seq2Seq]()

    @torch.inference_mode()
    def found(self, batch: PairBatch, config: DecodingConfig, prefix: Sequence[int] = ()) -> list[list[Translation]]:
        """The outputs for every source of a batch, best first; none for one that is too short.

        Args:
            prefix: tokens that every output begins with.
        """
        model, lens = self.decoding_model(config.precision), batch.src_lens
        cache = model.decoder.start(model.encoder(batch.src, lens), lens)
        found = search(model.decoder, cache, config, self._rules(lens, config, prefix), draws=self.draws)
        return [
            self.written(hypotheses) if length >= self.least else []
            for hypotheses, length in zip(found, lens.tolist(), strict=True)
        ]

    @torch.inference_mode()
    def begun(
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

    def written(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        """Hypotheses as texts."""
        return [
            Translation(self.tokenizer.decode(one.tokens), one.score, one.log_prob, one.tokens) for one in hypotheses
        ]

    def draft(self, batch: PairBatch, read: list[str], places: Places | None = None) -> Draft:
        """The only source of a batch, to be followed; `read`, `places`: what the decoder looks at."""
        model = self.model

        def start() -> Cache:
            return model.decoder.start(model.encoder(batch.src, batch.src_lens), batch.src_lens)

        return Draft(model, model.decoder, start, self.tokenizer.bos_id, read, self.tokenizer, places)

    def decoding_model(self, precision: Precision) -> Seq2Seq:
        """What searches: the model's inference twin; the model itself while it is watched."""
        return self._twin.of(self.model, precision)

    def _rules(self, lens: Tensor, config: DecodingConfig, prefix: Sequence[int]) -> Constraints:
        ids, lengths = self.tokenizer, lens.tolist()
        banned = ids.pad_id, ids.bos_id, ids.unk_id
        forced = [prefix] * len(lengths) if prefix else None
        return config.constraints(lengths, bos_id=ids.bos_id, eos_id=ids.eos_id, banned=banned, prefix=forced)


def text_of(found: Sequence[Translation]) -> str:
    """The text of the best output; empty where there is none."""
    return found[0].text if found else ""
