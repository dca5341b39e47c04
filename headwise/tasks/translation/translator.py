"""A trained translator: many sentences at a time, or each as it comes, from one flow of searches."""

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.data.batches import PairBatch, Ragged, collate, pair_lengths
from headwise.data.buckets import token_batches
from headwise.data.files import read_lines
from headwise.data.readers import Pair
from headwise.data.tables import named_format
from headwise.data.tokenizers import Tokenizer
from headwise.decoding.beam import Flow, Member
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, DataError, QuotingWarning
from headwise.explain.explanation import Explanation
from headwise.labels import visible
from headwise.models.protocols import Memory, Seq2Seq
from headwise.predictors import looking
from headwise.predictors.drafting import Draft
from headwise.predictors.engines import Engine, Engines, Tokens
from headwise.predictors.predictor import Form, Predictor, Unknown, several, unknown_tokens
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.predictors.twins import Twin
from headwise.processes import divided
from headwise.tasks.text.writer import (
    LIKELIHOOD,
    WRITTEN,
    BleuConfig,
    Likelihood,
    Output,
    Request,
    Scoring,
    Writing,
    likelihood_of_each,
    likelihoods,
    outputs_of,
    text_of,
)
from headwise.tasks.translation.alignment import Aligning, Links, pharaoh, word_links
from headwise.tasks.translation.rouge import NAMES, RougeConfig, rouge_counts, rouge_of, rouge_rows


def distinct(outputs: Sequence[str], n: int) -> float:
    """Different n-grams of all outputs together, divided by their words; NaN without a word.

    Words stand between spaces. 1 if no word comes twice; near 0 for a model that always says the same.

    Source: Li et al. 2016, arXiv:1510.03055, section 5.3 (distinct-1 and distinct-2).

    >>> distinct(["i see", "i see you"], 1), distinct(["i see", "i see you"], 2)
    (0.6, 0.4)
    """
    words = [output.split() for output in outputs]
    grams = {tuple(row[start : start + n]) for row in words for start in range(len(row) - n + 1)}
    total = sum(map(len, words))
    return len(grams) / total if total else float("nan")


# padding, in tokens, that takes longer to read than sentences that attend by themselves
_PADDING = 12


class TranslationStream:
    """The outputs of `Writing.search`, each returned as it ends; more sources may join.

    Args:
        read: sources as tokens.
        collate: tokens of sources as a batch.
        config: how to search, by a beam or greedily.
        prefix: tokens that every output begins with.
        room: tokens of sources under way at most, padding included; one that is longer goes alone.
    """

    def __init__(
        self,
        writing: Writing,
        read: Callable[[Sequence[Any]], Ragged],
        collate: Callable[[Ragged], PairBatch],
        config: DecodingConfig,
        prefix: Sequence[int],
        room: int,
    ):
        self._writing, self._read, self._collate = writing, read, collate
        self._config, self._prefix, self._room = config, prefix, room
        self._model = writing.decoding_model(config.precision)
        self._flow: Flow[int] = Flow(self._model.decoder)
        self._unread: list[tuple[int, Any]] = []
        self._waiting: list[tuple[int, np.ndarray]] = []
        self._added = 0

    def add(self, items: Sequence[Any]) -> range:
        """Sources that join when it pays; the numbers by which they are told."""
        numbers = range(self._added, self._added + len(items))
        self._unread.extend(zip(numbers, items, strict=True))
        self._added += len(items)
        return numbers

    def drop(self, numbers: Collection[int]) -> None:
        """Nobody waits for these any more; nothing is told of them."""
        self._unread = [pair for pair in self._unread if pair[0] not in numbers]
        self._waiting = [pair for pair in self._waiting if pair[0] not in numbers]
        self._flow.drop(set(numbers))

    def step(self, beside: Callable[[], object] = lambda: None) -> list[tuple[int, list[Output]]]:
        """One token more for all; the sources that are done with it and their outputs, best first."""
        finished: list[tuple[int, list[Output]]] = []
        if self._unread and self._enough(len(self._waiting) + len(self._unread)):
            finished = [(number, []) for number in self._read_all()]
        if self._waiting and self._enough(len(chosen := self._chosen())):
            self._begin(chosen)
        finished += [
            (number, outputs_of(hypotheses, self._writing.tokenizer)) for number, hypotheses in self._flow.step(beside)
        ]
        return finished

    def _enough(self, count: int) -> bool:
        """Whether it pays to begin so many: whoever begins together attends by itself, at every step to come."""
        return count >= len(self._flow)

    def _read_all(self) -> list[int]:
        """Reads what came, together, which takes less time; returns those that are empty."""
        (numbers, items), self._unread = zip(*self._unread, strict=True), []
        read = list(zip(numbers, self._read(items), strict=True))
        self._waiting += [(number, tokens) for number, tokens in read if len(tokens)]
        return [number for number, tokens in read if not len(tokens)]

    def _chosen(self) -> list[int]:
        """Places among those that wait: the first, and the nearest to it in length, as many as there is room for."""
        lengths = np.array([len(tokens) for _, tokens in self._waiting])
        order = np.abs(lengths - lengths[0]).argsort(kind="stable")
        padded = np.maximum.accumulate(lengths[order]) * np.arange(1, len(order) + 1)
        count = int((padded <= self._room - self._flow.tokens).sum())
        # what is too long for all the room goes alone
        return order[: max(count, not len(self._flow))].tolist()

    @torch.inference_mode()
    def _begin(self, places: list[int]) -> None:
        chosen = sorted((self._waiting[place] for place in places), key=lambda pair: len(pair[1]))
        self._waiting = [pair for place, pair in enumerate(self._waiting) if place not in places]
        rows = [tokens for _, tokens in chosen]
        batches = [self._collate(Ragged.of(rows[part])) for part in by_length([len(row) for row in rows])]
        memory = Memory.concatenate(self._model.encoder.read_all([(batch.src, batch.src_lens) for batch in batches]))
        lens = torch.cat([batch.src_lens for batch in batches])
        search = self._writing.start_search(self._model, memory, lens, self._config, self._prefix)
        self._flow.join(Member(search, [number for number, _ in chosen], len(rows[-1])))


def by_length(lengths: Sequence[int]) -> list[slice]:
    """Ascending lengths in parts, where a part of its own saves more padding than it costs.

    >>> by_length([3, 3, 4, 5]), by_length([3] * 20 + [20] * 2)
    ([slice(0, 4, None)], [slice(0, 20, None), slice(20, 22, None)])
    """
    saved = [place * (lengths[-1] - lengths[place - 1]) for place in range(1, len(lengths))]
    if not saved or max(saved) <= _PADDING:
        return [slice(0, len(lengths))]
    cut = saved.index(max(saved)) + 1
    rest = [slice(cut + part.start, cut + part.stop) for part in by_length(lengths[cut:])]
    return [*by_length(lengths[:cut]), *rest]


# source tokens that are decoded together, padding included
DECODING_TOKENS = 1024


class Translator(Predictor[str, list[Output], Pair]):
    """A model with its tokenizers. An empty sentence has no translation.

    Samples come from the stream `writing.draws`, so no two sentences share their numbers.

    Args:
        decoding: how to search unless told otherwise.
        longest: source tokens at most; of a longer source the rest is left out, with a warning.
        rouge: how ROUGE is computed, where it is wanted too.
        cuts: leaving out is what the recipe asked for; there is no warning.
    """

    verb = "translate"

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        decoding: DecodingConfig,
        bleu: BleuConfig | None = None,
        longest: int | None = None,
        rouge: RougeConfig | None = None,
        *,
        cuts: bool = False,
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.decoding = decoding
        self.bleu = bleu or BleuConfig()
        self.longest = longest
        self.rouge, self.cuts = rouge, cuts
        # the end token is all that an empty source has
        self.writing = Writing(model, target_tokenizer, least=2)
        joint = target_tokenizer is source_tokenizer.target
        tokenizers = (source_tokenizer,) if joint else (source_tokenizer, target_tokenizer)
        known = target_tokenizer.imported
        first = () if known is None else known.first
        self._engines = Engines(Tokens(tokenizers, frozenset(target_tokenizer.banned_ids), first))

    def translate(self, sentences: Sequence[str] | str, *, config: DecodingConfig | None = None) -> list[str]:
        """The best translation of each sentence, in the order given; of an empty sentence the empty string."""
        return [text_of(translations) for translations in self.n_best(sentences, config)]

    def n_best(self, sentences: Sequence[str] | str, config: DecodingConfig | None = None) -> list[list[Output]]:
        """The best translations of each sentence, best first; how many is the configuration's `n_best`."""
        return self.search(self._read(several(sentences)), config or self.decoding)

    def parse(self, text: str) -> str:
        return text

    def read(self, path: Path) -> Iterator[str]:
        """A text a line. Raises: DataError for a file named as JSON lines or TSV whose lines are no texts."""
        form = named_format(str(path))
        if form == "jsonl":
            raise DataError(f"{path}: holds JSON lines, and each line of a file is read as a text; write plain texts")
        return (_single(line, f"{path}:{number}", form) for number, line in read_lines(path))

    def options(self, given: Mapping[str, Any]) -> Request:
        if "stop" in given:
            raise ConfigError("--stop is for continuations; a translation ends by itself")
        return Request.of(self.decoding, given, self._engines)

    def predict(self, items: Sequence[str] | str, options: Request | None = None) -> list[list[Output]]:
        items = several(items)
        options = options or Request(self.decoding)
        n_best = self.search(self._read(items), options.decoding, options.prefix)
        return self._linked(items, n_best) if options.alignments else n_best

    def flow(self, options: Request | None = None) -> TranslationStream | None:
        asked_for = options or Request(self.decoding)
        if asked_for.alignments or asked_for.decoding.method == "sample":
            return None
        if self._engines.of(self.model, asked_for.decoding, asked_for.prefix, 0) is not None:
            # it answers batches
            return None

        def collate(rows: Ragged) -> PairBatch:
            return self.collated(rows, rows, range(len(rows)))

        # as many as a batch has, though they are less alike
        room = 2 * DECODING_TOKENS
        return TranslationStream(self.writing, self._read, collate, asked_for.decoding, asked_for.prefix, room)

    def write(self, item: str, output: list[Output], form: Form, options: Request | None = None) -> list[str]:
        if form == "json":
            return [json.dumps(self.fields(item, output, options), ensure_ascii=False)]
        lines = []
        for translation in output:
            columns = [f"{translation.score:.4f}"] if options is not None and options.scores else []
            columns += [visible(translation.text), *([] if translation.links is None else [translation.links])]
            lines.append("\t".join(columns))
        return lines or [""]

    def fields(self, item: str, output: list[Output], options: Request | None = None) -> dict[str, Any]:
        return {"source": item, "translations": [translation.fields() for translation in output]}

    def twin(self) -> Twin[Seq2Seq]:
        return self.writing.twin

    def engines(self) -> Engines:
        return self._engines

    def draft(self, item: str, options: Request | None = None) -> Draft:
        if not item.strip():
            raise ConfigError("the sentence is empty; there is nothing to write about it")
        rows = self._read([item])
        batch = self.collated(rows, rows, [0])
        return self.writing.draft(batch, looking.source_labels(self.source_tokenizer, item, int(batch.src_lens[0])))

    def writes(self) -> Tokenizer:
        return self.target_tokenizer

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model reads a sentence and writes a translation of it."""
        if not item.strip():
            raise ConfigError("the sentence is empty; there is nothing to look at")
        text, tokens = self.writing.forced(target, lambda: self.n_best([item])[0])
        batch = self.collated(self._read([item]), Ragged.of([tokens]), [0])
        read = looking.source_labels(self.source_tokenizer, item, int(batch.src_lens[0]))
        written = [*map(self.target_tokenizer.shown, tokens), looking.EOS]
        attention = looking.attended(self.model, batch.src, batch.src_lens, batch.tgt_in)
        token_words = looking.written_tokens(self.target_tokenizer, tokens)
        token_words.append(looking.tokens_of(self.source_tokenizer, batch.src[0].tolist(), read))
        return Explanation(item, text, looking.layers_of(attention, read, read, written), tokens=token_words)

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
        return self.collated(Ragged.of(encoded[0]), Ragged.of(encoded[1]), range(len(sources)))

    def text_of(self, example: Pair) -> str:
        return example.source

    def scored(self, examples: Sequence[Pair], options: Request | None = None) -> Scored:
        """BLEU and chrF with their signatures, exact matches, and loss, perplexity and accuracy of the references."""
        sources = self._read([pair.source for pair in examples])
        targets = Ragged.of(self.target_tokenizer.encode_batch([pair.target for pair in examples]))
        n_best = self.search(sources, self.decoding if options is None else options.decoding)
        outputs = [text_of(translations) for translations in n_best]
        references = [pair.target for pair in examples]
        scoring, likelihood = (
            self.bleu_options(None if options is None else options.tokenize),
            self.likelihood(sources, targets),
        )
        scores, columns = scoring.scores(outputs, references), scoring.rows(outputs, references)
        formulas = dict(WRITTEN)
        if self.rouge is not None:
            scores |= rouge_of(rouge_counts(outputs, references, self.rouge.tokenize))
            columns |= rouge_rows(outputs, references, self.rouge.tokenize)
            formulas |= {name: Formula("mean", (name,)) for name in NAMES}
        scores |= likelihood.scores | {"unseen": self.unknown([pair.source for pair in examples]).share}
        question = question_of([(pair.source, pair.target) for pair in examples])
        return Scored(scores, Rows(columns | likelihood.columns, formulas | LIKELIHOOD, question))

    def state_bytes(self, examples: Sequence[Pair]) -> int:
        sources = self._read([pair.source for pair in examples])
        targets = Ragged.of(self.target_tokenizer.encode_batch([pair.target for pair in examples]))
        return self.kept_bytes(sources, targets)

    def kept_bytes(self, sources: Ragged, targets: Ragged) -> int:
        """Bytes that the decoder keeps of one hypothesis at the end of the longest pair."""
        place = int((sources.lengths + targets.lengths).argmax())
        draft = self.writing.draft(self.collated(sources, targets, [place]), [])
        return draft.kept_bytes(targets[place].tolist())

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens of sources, words or pieces of them, that are not in the vocabulary."""
        return unknown_tokens(self.source_tokenizer, items)

    def bleu_options(self, tokenize: str | None = None) -> Scoring:
        """How outputs are compared: those of a tokenizer without capitals meet references without them."""
        return self.bleu.scoring(self.target_tokenizer, tokenize)

    @torch.inference_mode()
    def likelihood(self, sources: Ragged, targets: Ragged) -> Likelihood:
        """Loss in nats per target token, perplexity and token accuracy of the targets under teacher forcing."""

        def counted(indices: Sequence[int]) -> tuple[dict[str, float], dict[str, list[float]]]:
            return likelihood_of_each(self.model, self.collated(sources, targets, indices))

        return likelihoods(counted, self._batches(pair_lengths(sources, targets)), len(targets))

    @torch.inference_mode()
    def search(self, sources: Ragged, config: DecodingConfig, prefix: Sequence[int] = ()) -> list[list[Output]]:
        """The translations of sources that are given as tokens, best first; of an empty one none.

        Args:
            prefix: tokens that every output begins with.
        """
        results: list[list[Output]] = [[] for _ in range(len(sources))]
        real = [index for index in range(len(sources)) if sources.lengths[index]]
        lengths = pair_lengths(sources, sources)
        engine = self._engines.of(self.model, config, prefix, len(real))

        def own(rows: Sequence[int]) -> list[list[Output]]:
            return self.writing.search(self.collated(sources, sources, rows), config, prefix)

        def written(places: list[int]) -> list[list[Output]]:
            rows = [real[place] for place in places]
            return own(rows) if engine is None else self._by_engine(engine, sources, rows, config, own)

        for places, n_best in divided(written, self._batches(lengths[real]), alone=config.method == "sample"):
            for place, translations in zip(places, n_best, strict=True):
                results[real[place]] = translations
        return results

    def _by_engine(
        self,
        engine: Engine,
        sources: Ragged,
        rows: Sequence[int],
        config: DecodingConfig,
        own: Callable[[Sequence[int]], list[list[Output]]],
    ) -> list[list[Output]]:
        """The translations of these rows by another engine, and by our own decoder where it leaves one to that."""
        eos = self.target_tokenizer.eos_id
        tokens = [[*sources[row].tolist(), eos] for row in rows]
        searched = engine.search(tokens, [config.limit(len(source)) for source in tokens], config)
        left = [row for row, hypotheses in zip(rows, searched, strict=True) if isinstance(hypotheses, str)]
        by_row = dict(zip(left, own(left), strict=True)) if left else {}
        results = []
        for row, hypotheses in zip(rows, searched, strict=True):
            if isinstance(hypotheses, str):
                self._engines.fell(hypotheses, 1)
                results.append(by_row[row])
            else:
                results.append(outputs_of(hypotheses, self.target_tokenizer))
        return results

    def _read(self, sentences: Sequence[str]) -> Ragged:
        """The tokens of sources, cut to what the model can read."""
        rows = Ragged.of(self.source_tokenizer.encode_batch(sentences))
        if self.longest is None or not len(rows) or int(rows.lengths.max()) <= self.longest:
            return rows
        place = int(rows.lengths.argmax())
        if not self.cuts:
            warnings.warn(
                f"'{sentences[place][:40]}...' has {rows.lengths[place]:,} tokens; only the first {self.longest:,} are"
                " read, since this model was trained on shorter ones: split it into sentences",
                QuotingWarning,
                stacklevel=3,
            )
        return rows.cut(self.longest)

    def _linked(self, sources: Sequence[str], n_best: list[list[Output]]) -> list[list[Output]]:
        flat = [(source, translation) for source, every in zip(sources, n_best, strict=True) for translation in every]
        tokens = [translation.tokens for _, translation in flat]
        words = [looking.target_words(self.target_tokenizer, row) for row in tokens]
        rows = iter(self._links([source for source, _ in flat], tokens, words, Aligning()))
        return [[replace(translation, links=pharaoh(next(rows))) for translation in every] for every in n_best]

    def _links(
        self, sources: Sequence[str], tokens: Sequence[list[int]], words: Sequence[list[int]], how: Aligning
    ) -> list[Links]:
        """Links of sources and the tokens of their translations, whose words are given."""
        read, written = self._read(sources), Ragged.of(tokens)
        links: list[Links] = [[] for _ in sources]
        for places in self._batches(pair_lengths(read, written)):
            batch = self.collated(read, written, places)
            keys = [
                looking.source_words(self.source_tokenizer, sources[place], length)
                for place, length in zip(places, batch.src_lens.tolist(), strict=True)
            ]
            lines = word_links(self.model, batch, keys, [words[place] for place in places], how)
            for place, line in zip(places, lines, strict=True):
                links[place] = line
        return links

    def _batches(self, lengths: np.ndarray) -> Iterator[list[int]]:
        if not len(lengths):
            return iter(())
        longest = int(lengths.max())
        return iter(token_batches(lengths, max_tokens=max(DECODING_TOKENS, longest), shuffle=False))

    def collated(self, sources: Ragged, targets: Ragged, indices: Iterable[int]) -> PairBatch:
        """The pairs at these places, given as tokens, as a batch on the device of the model."""
        ids = self.target_tokenizer
        device = self.model.decoder.output.weight.device
        rows = list(indices)
        return collate(sources, targets, rows, pad_id=ids.pad_id, bos_id=ids.bos_id, eos_id=ids.eos_id).to(device)


def _single(line: str, place: str, form: str | None) -> str:
    """The line of a file of texts. Raises: DataError for several columns of a TSV file."""
    if form == "tsv" and "\t" in line:
        raise DataError(f"{place}: has several columns, and each line is read as a text; write the sources alone")
    return line
