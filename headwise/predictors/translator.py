"""A trained translator: applies a model to sentences, many at a time, and scores it."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.config import build
from headwise.data.batches import PairBatch, Ragged, collate, pair_lengths, token_batches
from headwise.data.files import read_lines
from headwise.data.readers import Pair
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.options import asked
from headwise.decoding.sampling import Draws
from headwise.decoding.search import DecodingConfig, search
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation, Layer
from headwise.labels import visible
from headwise.layers.decoding import Precision, for_inference, is_current
from headwise.models.protocols import Seq2Seq
from headwise.predictors import looking
from headwise.predictors.aligning import Aligning, Links, pharaoh, word_links
from headwise.predictors.bleu import BleuConfig, Scoring
from headwise.predictors.forced import likelihood, likelihood_scores
from headwise.predictors.predictor import Form, Predictor, Unknown, unknown_tokens
from headwise.records.watching import watched

# source tokens that are decoded together, padding included
DECODING_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation: its text, the score it is ranked by, its log-probability, its token numbers, and word links."""

    text: str
    score: float
    log_prob: float
    tokens: list[int]
    links: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What `predict` is told: how to search, what to write beside each translation; `tokenize` is for `evaluate`."""

    decoding: DecodingConfig
    scores: bool = False
    alignments: bool = False
    tokenize: str | None = None


class Translator(Predictor[str, list[Translation], Pair]):
    """A model with its tokenizers. An empty sentence has no translation.

    Samples come from the stream `draws`, so no two sentences share their numbers.

    Args:
        model: in `eval()` while it translates.
        decoding: how to search unless told otherwise.
        bleu: how BLEU is computed.
        longest: source tokens at most; of a longer source the rest is left out, with a warning.
    """

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        decoding: DecodingConfig,
        bleu: BleuConfig | None = None,
        longest: int | None = None,
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.decoding = decoding
        self.bleu = bleu or BleuConfig()
        self.longest = longest
        self.draws = Draws()
        self._twin: tuple[Precision, Seq2Seq] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # the twin holds weights of this model, so a copy makes its own
        return {**self.__dict__, "_twin": None}

    def translate(self, sentences: Sequence[str] | str, *, config: DecodingConfig | None = None) -> list[str]:
        """The best translation of each sentence, in the order given; of an empty sentence the empty string."""
        return [found[0].text if found else "" for found in self.n_best(sentences, config)]

    def n_best(self, sentences: Sequence[str] | str, config: DecodingConfig | None = None) -> list[list[Translation]]:
        """The best translations of each sentence, best first; how many is the configuration's `n_best`."""
        sentences = [sentences] if isinstance(sentences, str) else sentences
        return self._search(self._read(sentences), config or self.decoding)

    def parse(self, text: str) -> str:
        return text

    def read(self, path: Path) -> Iterator[str]:
        return (line for _, line in read_lines(path))

    def options(self, given: Mapping[str, Any]) -> Asked:
        if "stop" in given:
            raise ConfigError("--stop is for continuations; a translation ends by itself")
        own: dict[str, Any] = {name: bool(given[name]) for name in ("scores", "alignments") if name in given}
        if "tokenize" in given:
            own["tokenize"] = build(BleuConfig, {"tokenize": given["tokenize"]}, "--tokenize").tokenize
        return Asked(asked(self.decoding, {name: given[name] for name in given if name not in own}), **own)

    def predict(self, items: Sequence[str] | str, options: Asked | None = None) -> list[list[Translation]]:
        items = [items] if isinstance(items, str) else items
        options = options or Asked(self.decoding)
        found = self.n_best(items, options.decoding)
        return self._linked(items, found) if options.alignments else found

    def write(self, item: str, output: list[Translation], form: Form, options: Asked | None = None) -> list[str]:
        if form == "json":
            answers = [{key: value for key, value in asdict(one).items() if value is not None} for one in output]
            return [json.dumps({"source": item, "translations": answers}, ensure_ascii=False)]
        lines = []
        for one in output:
            columns = [f"{one.score:.4f}"] if options is not None and options.scores else []
            columns += [visible(one.text), *([] if one.links is None else [one.links])]
            lines.append("\t".join(columns))
        return lines or [""]

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model reads a sentence and writes a translation of it."""
        if not item.strip():
            raise ConfigError("the sentence is empty; there is nothing to look at")
        if target is None:
            found = self.n_best([item], None)[0]
            text, tokens = (found[0].text, found[0].tokens) if found else ("", [])
        else:
            text, tokens = target, self.target_tokenizer.encode(target)
        batch = self._collate(self._read([item]), Ragged.of([tokens]), [0])
        read = looking.source_labels(self.source_tokenizer, item, int(batch.src_lens[0]))
        written = [*map(self.target_tokenizer.shown, tokens), looking.EOS]
        inputs = [looking.BOS, *written[:-1]]
        layers = {}
        for name, one in looking.attended(self.model, batch.src, batch.src_lens, batch.tgt_in).items():
            if one.kind == "cross":
                layers[name] = Layer(one.weights[0], written, read, "cross")
            elif name.startswith("encoder"):
                layers[name] = Layer(one.weights[0], read, read, "self")
            else:
                layers[name] = Layer(one.weights[0], inputs, inputs, "self", causal=True)
        return Explanation(item, text, layers)

    def align(self, pairs: Sequence[Pair], how: Aligning | None = None) -> list[Links]:
        """The words of each pair that belong together, as (source word, target word) from 0.

        Words are what stands between spaces. Each target word has the source word that the model attends to most.

        Raises:
            Unsupported: if the model has no attention from target to source.
            ConfigError: for a layer or head that is not there.
        """
        texts = [pair.target for pair in pairs]
        tokens = self.target_tokenizer.encode_batch(texts)
        words = [
            looking.source_words(self.target_tokenizer, text, len(row) + 1)
            for text, row in zip(texts, tokens, strict=True)
        ]
        return self._links([pair.source for pair in pairs], tokens, words, how or Aligning())

    def batch(self, sources: Sequence[str], targets: Sequence[str]) -> PairBatch:
        """Sentence pairs as the model reads them in training."""
        encoded = self.source_tokenizer.encode_batch(sources), self.target_tokenizer.encode_batch(targets)
        return self._collate(Ragged.of(encoded[0]), Ragged.of(encoded[1]), range(len(sources)))

    def evaluate(self, examples: Sequence[Pair], *, options: Asked | None = None) -> dict[str, float | str]:
        """BLEU and chrF with their signatures, and loss, perplexity and token accuracy of the references."""
        sources = self._read([pair.source for pair in examples])
        targets = Ragged.of(self.target_tokenizer.encode_batch([pair.target for pair in examples]))
        found = self._search(sources, self.decoding if options is None else options.decoding)
        outputs = [translations[0].text if translations else "" for translations in found]
        references = [pair.target for pair in examples]
        scores = self.bleu_options(None if options is None else options.tokenize).scores(outputs, references)
        unknown = self.unknown([pair.source for pair in examples])
        return scores | self.likelihood(sources, targets) | {"unseen": unknown.share}

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens of sources, words or pieces of them, that are not in the vocabulary."""
        return unknown_tokens(self.source_tokenizer, items)

    def bleu_options(self, tokenize: str | None = None) -> Scoring:
        """How outputs are compared: those of a tokenizer without capitals meet references without them."""
        lowercase = self.bleu.lowercase or self.target_tokenizer.config.lowercase
        return Scoring(tokenize or self.bleu.tokenize, lowercase)

    @torch.inference_mode()
    def of_batch(self, batch: PairBatch, config: DecodingConfig) -> list[list[Translation]]:
        """The best translations of the sources of a batch, best first; none of an empty one."""
        found = self._found(batch, config)
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
        for places in self._batches(lengths[real]):
            indices = [real[place] for place in places]
            found = self._found(self._collate(sources, sources, indices), config)
            for index, translations in zip(indices, found, strict=True):
                results[index] = translations
        return results

    def _read(self, sentences: Sequence[str]) -> Ragged:
        """The tokens of sources, cut to what the model can read."""
        rows = Ragged.of(self.source_tokenizer.encode_batch(sentences))
        if self.longest is None or not len(rows) or int(rows.lengths.max()) <= self.longest:
            return rows
        place = int(rows.lengths.argmax())
        warnings.warn(
            f"'{sentences[place][:40]}...' has {rows.lengths[place]:,} tokens; only the first {self.longest:,} are"
            " read, since this model was trained on shorter ones: split it into sentences",
            stacklevel=3,
        )
        return rows.cut(self.longest)

    def _linked(self, sources: Sequence[str], found: list[list[Translation]]) -> list[list[Translation]]:
        flat = [(source, one) for source, every in zip(sources, found, strict=True) for one in every]
        tokens = [one.tokens for _, one in flat]
        words = [looking.target_words(self.target_tokenizer, row) for row in tokens]
        rows = iter(self._links([source for source, _ in flat], tokens, words, Aligning()))
        return [[replace(one, links=pharaoh(next(rows))) for one in every] for every in found]

    def _links(
        self, sources: Sequence[str], tokens: Sequence[list[int]], words: Sequence[list[int]], how: Aligning
    ) -> list[Links]:
        """Links of sources and the tokens of their translations, whose words are given."""
        read, written = self._read(sources), Ragged.of(tokens)
        found: list[Links] = [[] for _ in sources]
        for places in self._batches(pair_lengths(read, written)):
            batch = self._collate(read, written, places)
            keys = [
                looking.source_words(self.source_tokenizer, sources[place], length)
                for place, length in zip(places, batch.src_lens.tolist(), strict=True)
            ]
            lines = word_links(self.model, batch, keys, [words[place] for place in places], how)
            for place, line in zip(places, lines, strict=True):
                found[place] = line
        return found

    def _found(self, batch: PairBatch, config: DecodingConfig) -> list[list[Translation]]:
        model, ids = self._decoding_model(config.precision), self.target_tokenizer
        banned = ids.pad_id, ids.bos_id, ids.unk_id
        rules = config.constraints(batch.src_lens.tolist(), bos_id=ids.bos_id, eos_id=ids.eos_id, banned=banned)
        cache = model.decoder.start(model.encoder(batch.src, batch.src_lens), batch.src_lens)
        found = search(model.decoder, cache, config, rules, draws=self.draws)
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
