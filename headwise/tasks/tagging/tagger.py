"""A trained tagger: applies a model to sentences of words, many at a time; scores of words, spans and transitions."""

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise import metrics
from headwise.data.batches import NO_TAG
from headwise.data.buckets import token_batches
from headwise.data.spans import Scheme, Span, spans, strict_spans
from headwise.errors import ConfigError, DataError, QuotingWarning
from headwise.explain.explanation import Explanation, Layer
from headwise.labels import columns, decimals, padded, shorten, visible
from headwise.predictors import looking
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import by_tag, f1_by_label, mean
from headwise.predictors.predictor import Form, Predictor, Unknown
from headwise.predictors.rows import Formula, Scored, label_rows
from headwise.processes import divided
from headwise.tasks.tagging.model import Independent, LinearChain, TokenTagger
from headwise.tasks.text.tagged import Tagged, TaggedConfig, read_words
from headwise.tasks.text.words import WordBatch, WordRows, WordTokenizer, collate_words, encode_words

_WORDS = 8

T = TypeVar("T")


class Transitions(NamedTuple):
    """The scores that a linear chain learned: of tags that begin, that follow each other (rows first), that end."""

    first: Float[np.ndarray, "tags"]
    between: Float[np.ndarray, "tags tags"]
    last: Float[np.ndarray, "tags"]


def transitions_table(
    words: Sequence[str],
    tags: Sequence[str],
    names: Sequence[str],
    alone: Float[np.ndarray, "words tags"],
    together: Float[np.ndarray, "words tags"],
    scores: Transitions,
) -> str:
    """The words whose probabilities the transitions changed most, in their order, as lines for a terminal.

    Of each word: what it would be alone, what it is in the sentence, with probabilities, and the scores in nats of the
    transitions to its neighbours.

    Args:
        tags: those that were chosen.
        names: all tags, by their numbers.
        alone: the probabilities without transitions.
        together: the probabilities given the sentence.

    >>> scores = Transitions(np.zeros(2), np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros(2))
    >>> odds = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.95, 0.05], [0.2, 0.8]])
    >>> print(transitions_table(["to", "saw"], ["TO", "VERB"], ["TO", "VERB"], *odds, scores))
    word  alone    in the sentence  from the left  to the right
    to    TO 0.90  TO 0.95          begin +0.00    VERB +2.00
    saw   TO 0.60  VERB 0.80        TO +2.00       end +0.00
    """
    number = {name: place for place, name in enumerate(names)}
    path = [number[tag] for tag in tags]
    changes = np.abs(together - alone).sum(1)
    rows = [["word", "alone", "in the sentence", "from the left", "to the right"]]
    for place in sorted(np.argsort(-changes, kind="stable")[:_WORDS].tolist()):
        here, guess = path[place], int(alone[place].argmax())
        left = ("begin", scores.first[here])
        if place:
            left = (tags[place - 1], scores.between[path[place - 1], here])
        right = ("end", scores.last[here])
        if place + 1 < len(path):
            right = (tags[place + 1], scores.between[here, path[place + 1]])
        cells = [f"{names[guess]} {decimals(alone[place, guess])}", f"{tags[place]} {decimals(together[place, here])}"]
        cells += [f"{name} {value:+.2f}" for name, value in (left, right)]
        rows.append([shorten(visible(words[place]), 16), *map(visible, cells)])
    widths = [max(columns(row[place]) for row in rows) for place in range(5)]
    return "\n".join("  ".join(map(padded, row, widths)).rstrip() for row in rows)


_Tags = Sequence[Sequence[str]]
_Spans = Sequence[Sequence[Span]]


def tag_scores(best: _Tags, gold: _Tags, trained: Sequence[Sequence[bool]], scheme: Scheme) -> dict[str, float | str]:
    """Accuracy, macro-F1 over the tags, accuracy of words that training has and of those it lacks, scores of spans.

    `unseen` is the share of words that training lacks, `per_tag` the F1 of each tag with how often it occurs. Shares of
    nothing are NaN.

    Args:
        best, gold: the tags of each sentence.
        trained: whether training has a word.
        scheme: how the gold tags mark spans; "none": they do not.

    >>> scores = tag_scores([["A", "B"]], [["A", "A"]], [[True, False]], "none")
    >>> scores["accuracy"], scores["accuracy_seen"], scores["accuracy_unseen"], scores["per_tag"]
    (0.5, 1.0, 0.0, 'A 0.6667 (2), B 0.0000 (0)')
    """
    flat_best, flat_gold = ([tag for tags in rows for tag in tags] for rows in (best, gold))
    right = np.array([tag == correct for tag, correct in zip(flat_best, flat_gold, strict=True)])
    familiar = np.array([flag for row in trained for flag in row], dtype=bool)
    macro, per_tag = by_tag(flat_best, flat_gold)
    selected = {"accuracy": right, "accuracy_seen": right[familiar], "accuracy_unseen": right[~familiar]}
    scores: dict[str, float | str] = {name: mean(float(row.sum()), len(row)) for name, row in selected.items()}
    scores |= {"macro_f1": macro, "unseen": mean(float((~familiar).sum()), len(familiar)), "per_tag": per_tag}
    return scores if scheme == "none" else scores | span_scores(best, gold, scheme)


def span_scores(best: _Tags, gold: _Tags, scheme: Scheme) -> dict[str, float | str]:
    """Precision, recall and F1 of spans, micro-averaged: label, begin and end must be right.

    `span_f1` is of the spans that `spans` finds, as in the CoNLL evaluation and seqeval's default mode, and
    `span_f1_strict` of those that are written as the scheme demands, as in its strict mode; 0 where there are none.
    `per_span` is the F1 of each label with how often it occurs.

    Args:
        best, gold: the tags of each sentence.
        scheme: of the gold tags, not "none".

    >>> scores = span_scores([["B-X", "O", "I-Y"]], [["B-X", "O", "B-Y"]], "iob2")
    >>> scores["span_f1"], round(scores["span_f1_strict"], 4), scores["per_span"]
    (1.0, 0.6667, 'X 1.0000 (1), Y 1.0000 (1)')
    """
    right, predicted, expected = _counted([spans(tags) for tags in best], [spans(tags) for tags in gold])
    strict = _counted([strict_spans(tags, scheme) for tags in best], [strict_spans(tags, scheme) for tags in gold])
    totals = [float(counter.total()) for counter in (right, predicted, expected)]
    return {
        "span_f1": metrics.f1(*totals),
        "span_precision": totals[0] / max(1.0, totals[1]),
        "span_recall": totals[0] / max(1.0, totals[2]),
        "span_f1_strict": metrics.f1(*(float(counter.total()) for counter in strict)),
        "per_span": f1_by_label(right, predicted, expected)[1],
    }


def tag_counts(best: Tensor, gold: Tensor, unseen: Tensor, names: Sequence[str], scheme: Scheme) -> dict[str, float]:
    """What `tag_count_scores` needs of a batch of sentences; counts of several batches add up.

    Args:
        best, gold: numbers of tags, (batch, words); gold is `NO_TAG` where there is no word.
        unseen: 1 for words that training lacks.
        names: of the tags by their numbers.
    """
    tagged, right = gold != NO_TAG, gold == best
    counts: dict[str, float] = {}
    for name, chosen in (("seen", tagged & (unseen == 0)), ("unseen", tagged & (unseen == 1))):
        counts |= {name: float(chosen.sum()), f"right_{name}": float((chosen & right).sum())}
    if scheme == "none":
        return counts
    lens = tagged.sum(1).tolist()
    read = [
        [spans([names[tag] for tag in row[:count]]) for row, count in zip(rows.tolist(), lens, strict=True)]
        for rows in (best, gold)
    ]
    totals = zip(("right", "predicted", "gold"), _counted(*read), strict=True)
    return counts | {f"spans_{name}": float(counter.total()) for name, counter in totals}


def tag_count_scores(stats: Mapping[str, float], scheme: Scheme) -> dict[str, float]:
    """Accuracy of words that training has and of those it lacks, NaN where there are none; F1 of spans if there are."""
    names = ("seen", "unseen")
    scores = {f"accuracy_{name}": mean(stats.get(f"right_{name}", 0.0), stats.get(name, 0.0)) for name in names}
    if scheme != "none":
        scores["span_f1"] = metrics.f1(*(stats.get(f"spans_{name}", 0.0) for name in ("right", "predicted", "gold")))
    return scores


def _counted(best: _Spans, gold: _Spans) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """By label how many spans are right, predicted and gold."""
    right: Counter[str] = Counter()
    for predicted_spans, gold_spans in zip(best, gold, strict=True):
        right.update(span.label for span in set(predicted_spans) & set(gold_spans))
    predicted, expected = (Counter(span.label for sentence in rows for span in sentence) for rows in (best, gold))
    return right, predicted, expected


# tokens that are read together, padding included
PREDICTION_TOKENS = 4096
# characters of a word on average, from which on sentences are cut by their characters
_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Chosen:
    """A tag for each word of a sentence, and its probability given the sentence; of a CRF the marginal one."""

    tags: list[str]
    probabilities: list[float]


class Tagger(Predictor[Tagged, Chosen, Tagged]):
    """A model with its tokenizer and tags.

    Args:
        tags: by their numbers.
        words: every word of training and its most frequent tag there.
        data: how files are read, and the longest sentence of training in words. A sentence of more words than four
            times that, or of 8 times as many characters, is tagged in parts, with a warning: attention over all of it
            would cost the square of its length.
        scheme: how the tags mark spans.
        places: tokens of a sentence that the model has positions for; None: any number. A longer one is tagged in
            parts, with a warning.
    """

    verb = "tag"

    def __init__(
        self,
        model: TokenTagger,
        tokenizer: WordTokenizer,
        tags: Sequence[str],
        words: Mapping[str, str],
        data: TaggedConfig,
        scheme: Scheme = "none",
        places: int | None = None,
    ):
        self.places = places
        self.model, self.tokenizer, self.data, self.scheme = model, tokenizer, data, scheme
        self.tags, self.words = list(tags), words

    def parse(self, text: str) -> Tagged:
        """A sentence of words between spaces."""
        return Tagged(tuple(self.tokenizer.clean(text).split()), None, 1)

    def read(self, path: Path) -> Iterator[Tagged]:
        """The sentences of a CoNLL-U file, of JSON lines, or of plain text with words between spaces, one a line."""
        return read_words(path, self.data, self.tokenizer.pieces.config.normalize)

    def tag(self, sentences: Sequence[Tagged | str] | str) -> list[list[str]]:
        """The tags of sentences; texts are of words between spaces."""
        return [chosen.tags for chosen in self.predict(sentences)]

    @torch.inference_mode()
    def predict(self, items: Sequence[Tagged | str] | str, options: Any = None) -> list[Chosen]:
        """A tag for each word of each sentence with its probability, in their order; `options` are none."""
        sentences = self.inputs(items)
        parts = self._parts(sentences)
        rows = encode_words([words for _, words in parts], self.tokenizer)
        tagged = [Chosen([], []) for _ in parts]
        longest = int(rows.lengths().max(initial=0))
        device = self.model.head.weight.device

        def chosen(batch: list[int]) -> tuple[list[list[int]], list[list[float]]]:
            inputs = collate_words(rows, batch).to(device)
            scores = self.model(inputs.tokens, inputs.pieces)
            best = self.model.tagging.best(scores, inputs.lens)
            odds = self.model.tagging.probabilities(scores, inputs.lens).gather(2, best[..., None])[..., 0]
            return best.tolist(), odds.tolist()

        batches = token_batches(rows.lengths(), max_tokens=max(PREDICTION_TOKENS, longest), shuffle=False)
        for batch, (best, odds) in divided(chosen, batches):
            for number, row, chances in zip(batch, best, odds, strict=True):
                count = len(parts[number][1])
                tagged[number] = Chosen([self.tags[tag] for tag in row[:count]], chances[:count])
        outputs = [Chosen([], []) for _ in sentences]
        for (place, _), part in zip(parts, tagged, strict=True):
            outputs[place].tags.extend(part.tags)
            outputs[place].probabilities.extend(part.probabilities)
        return outputs

    def _parts(self, sentences: Sequence[Tagged]) -> list[tuple[int, tuple[str, ...]]]:
        """The words to be read together: sentences by place, cut where they are far longer than those of training."""
        limit = 4 * self.data.max_len
        # a word may be a token for each character
        most = _CHARACTERS * limit
        long = (item.words for item in sentences if len(item.words) > limit or sum(map(len, item.words)) > most)
        if words := next(long, None):
            warnings.warn(
                f"'{' '.join(words)[:40]}...' has {len(words):,} words; sentences of more than {limit:,}, or of"
                f" {most:,} characters, are tagged in parts",
                QuotingWarning,
                stacklevel=3,
            )
        parts = [(place, part) for place, item in enumerate(sentences) for part in _cut(item.words, limit, most)]
        if self.places is None:
            return parts
        fitting = [(place, short) for place, part in parts for short in self._fitting(part)]
        if len(fitting) > len(parts):
            warnings.warn(
                f"some sentences have more than the {self.places:,} tokens that the model has positions for; they are"
                " tagged in parts",
                QuotingWarning,
                stacklevel=3,
            )
        return fitting

    def _fitting(self, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Parts of as many tokens as the model has positions for; of a word that is longer only the beginning."""
        assert self.places is not None
        room, size = self.places - sum(self.model.around), 0
        part: list[str] = []
        for word, ids in zip(words, self.tokenizer.encode(words), strict=True):
            count = len(ids)
            while count > room:
                word = word[: len(word) // 2]
                count = len(self.tokenizer.encode([word])[0])
            if size + count > room:
                yield tuple(part)
                part, size = [], 0
            part.append(word)
            size += count
        if part:
            yield tuple(part)

    def right(self, examples: Sequence[Tagged]) -> list[list[bool]]:
        pairs = zip(self.tag(examples), examples, strict=True)
        return [[tag == gold for tag, gold in zip(tags, item.tags or (), strict=True)] for tags, item in pairs]

    def write(self, item: Tagged, output: Chosen, form: Form, options: Any = None) -> list[str]:
        """`word/TAG word/TAG`, or a line of JSON that can be read again as data."""
        if form == "text":
            return [visible(" ".join(f"{word}/{tag}" for word, tag in zip(item.words, output.tags, strict=True)))]
        fields = {self.data.words_key: item.words, self.data.tags_key: output.tags}
        return [json.dumps(fields | {"probabilities": output.probabilities}, ensure_ascii=False)]

    def unknown(self, items: Sequence[Tagged]) -> Unknown:
        """Words that the training part has not."""
        words = [self.tokenizer.clean(word) for item in items for word in item.words]
        unseen = [word for word in words if word not in self.words]
        return Unknown(len(unseen), len(words), tuple(dict.fromkeys(unseen))[:5], "words")

    def explain(self, item: Tagged | str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model tags a sentence, between words; subwords are merged.

        Of a CRF the probabilities of tags at each word too, and a note on the transitions that mattered.

        Raises:
            ConfigError: the sentence is empty, or there is a target.
            Unsupported: the model has neither attention nor a CRF.
        """
        if target is not None:
            raise ConfigError("the tags of a sentence cannot be given here; leave the target out")
        (item,) = self.inputs(item)
        if not item.words:
            raise ConfigError("the sentence is empty; there is nothing to look at")
        rows = encode_words([item.words], self.tokenizer)
        batch = collate_words(rows, [0]).to(self.model.head.weight.device)
        tags, chain = self.tag([item])[0], self.model.tagging
        labels = [f"{word}/{tag}" for word, tag in zip(item.words, tags, strict=True)]
        source, output = " ".join(item.words), " ".join(labels)
        if not isinstance(chain, LinearChain):
            return Explanation(source, output, self._attended(batch, rows, item.words, labels))
        layers = self._attended(batch, rows, item.words, labels) if looking.has_attention(self.model) else {}
        with torch.inference_mode():
            scores = self.model(batch.tokens, batch.pieces)
            alone, odds = (
                tagging.probabilities(scores, batch.lens)[0].cpu().numpy() for tagging in (Independent(), chain)
            )
            learned = Transitions(*(part.cpu().numpy() for part in (chain.first, chain.between, chain.last)))
        layers["tagging"] = Layer(odds[None], labels, self.tags, "tags")
        table = transitions_table(item.words, tags, self.tags, alone, odds, learned)
        return Explanation(source, output, layers, note=f"what the transitions changed\n{table}")

    def _attended(self, batch: WordBatch, rows: WordRows, words: Sequence[str], labels: list[str]) -> dict[str, Layer]:
        """The attention between words of the only sentence; raises as `looking.attended`."""
        pieces, names = rows.pieces[0], list(words)
        # before the pooling a word has several tokens, and tokens of no word stand around the sentence
        parts = np.repeat(np.eye(len(pieces)), pieces if self.model.place == "after" else 1, axis=1)
        means = parts / np.maximum(parts.sum(1, keepdims=True), 1)
        before, behind = self.model.around
        if self.model.place == "after" and before + behind:
            means = np.pad(means, ((0, 0), (before, behind)))
            parts = _framed(parts, before, behind)
            around = [[self.tokenizer.pieces.piece(token) for token in ids] for ids in self.tokenizer.around]
            names = [*around[0], *names, *around[1]]
        return {
            name: attention.layer(labels, names, rows=means, columns=parts)
            for name, attention in looking.attended(self.model, batch.tokens, batch.pieces).items()
        }

    def text_of(self, example: Tagged) -> str:
        return " ".join(example.words)

    def scored(self, examples: Sequence[Tagged], options: Any = None) -> Scored:
        """Accuracy and macro-F1; of words that training has and has not; of spans. See `tag_scores`.

        Raises: DataError: no words, or words without a tag.
        """
        best = self.tag(examples)
        scores, gold = self._scores(examples, best), [list(example.tags or ()) for example in examples]
        rows = label_rows(best, gold, [example.text for example in examples], "sentences")
        if self.scheme == "none":
            return Scored(scores, rows)
        entities = [[set(spans(tags)) for tags in side] for side in (best, gold)]
        counts = {
            "spans_right": [len(a & b) for a, b in zip(*entities, strict=True)],
            "spans_predicted": list(map(len, entities[0])),
            "spans_gold": list(map(len, entities[1])),
        }
        formulas = {**rows.metrics, "span_f1": Formula("f1", tuple(counts))}
        return Scored(scores, replace(rows, columns={**rows.columns, **counts}, metrics=formulas))

    def baselines(self, examples: Sequence[Tagged]) -> Iterator[Baseline]:
        """Each word's most frequent tag in training; of other words that of those which occur there once."""
        rare = self.words.get("", "")
        guesses = [[self.words.get(self.tokenizer.clean(word), rare) for word in example.words] for example in examples]
        scores = self._scores(examples, guesses)
        numbers = {name: value for name, value in scores.items() if name != "unseen" and not isinstance(value, str)}
        yield Baseline("most frequent tag of each word", numbers, sum(map(len, guesses)))

    def _scores(self, examples: Sequence[Tagged], tags: Sequence[Sequence[str]]) -> dict[str, float | str]:
        """Scores of these tags. Raises: as `evaluate`."""
        gold = [list(example.tags or ()) for example in examples]
        words = [[self.tokenizer.clean(word) for word in example.words] for example in examples]
        if not any(words):
            raise DataError("there is nothing to score: no words")
        for example, row, own in zip(examples, words, gold, strict=True):
            if len(own) != len(row):
                raise DataError(
                    f"the sentence of line {example.line} has no tags to compare with; tag all of its words"
                )
        known = [[word in self.words for word in row] for row in words]
        if self.data.untagged is None:
            return tag_scores(tags, gold, known, self.scheme)
        counting = [[tag != self.data.untagged for tag in row] for row in gold]
        if not any(map(any, counting)):
            raise DataError(f"there is nothing to score: every tag is '{self.data.untagged}', data.untagged")
        chosen, correct, trained = (
            _selected(tags, counting),
            _selected(gold, counting),
            _selected(known, counting),
        )
        return tag_scores(chosen, correct, trained, self.scheme)


def _framed(parts: np.ndarray, before: int, behind: int) -> np.ndarray:
    """The tokens of each word, with those before and behind all words as words of their own.

    >>> _framed(np.array([[1.0, 1.0]]), 1, 0).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    framed = np.pad(parts, (before, behind))
    framed[:before, :before] = np.eye(before)
    framed[len(framed) - behind :, framed.shape[1] - behind :] = np.eye(behind)
    return framed


def _selected(rows: Sequence[Sequence[T]], flags: Sequence[Sequence[bool]]) -> list[list[T]]:
    return [list(itertools.compress(row, chosen)) for row, chosen in zip(rows, flags, strict=True)]


def _cut(words: Sequence[str], limit: int, most: int) -> Iterator[tuple[str, ...]]:
    """Parts of so many words and characters at most; of a longer word only the beginning.

    >>> list(_cut(["a", "bc", "defgh"], 9, 3))
    [('a', 'bc'), ('def',)]
    """
    start = size = 0
    for place, word in enumerate(words):
        length = min(len(word), most)
        if place - start == limit or size + length > most:
            yield tuple(piece[:most] for piece in words[start:place])
            start, size = place, 0
        size += length
    if words:
        yield tuple(piece[:most] for piece in words[start:])


def most_frequent(sentences: Iterable[Tagged], untagged: str | None = None) -> dict[str, str]:
    """The most frequent tag of every word, of equally frequent ones the first; under "" that of words that occur once.

    Words that are always untagged have the tag of words that occur once.

    >>> most_frequent([Tagged(("a", "saw"), ("DET", "NOUN"), 1), Tagged(("saw",), ("NOUN",), 2)])
    {'a': 'DET', 'saw': 'NOUN', '': 'DET'}
    """
    tags: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            tags.setdefault(word, Counter()).update([tag] * (tag != untagged))
    once = Counter(next(iter(counts)) for counts in tags.values() if counts.total() == 1)
    all_tags = sum(tags.values(), Counter[str]())
    rare = (once or all_tags).most_common(1)
    best = {word: (counts.most_common(1) or rare)[0][0] for word, counts in tags.items()}
    return best | ({"": rare[0][0]} if rare else {})
