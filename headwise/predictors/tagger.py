"""A trained tagger: applies a model to sentences of words, many at a time, and scores it."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise import metrics
from headwise.data.batches import token_batches
from headwise.data.tagged import Tagged, TaggedConfig, read_words
from headwise.data.words import WordTokenizer, collate_words, encode_words
from headwise.errors import ConfigError, DataError
from headwise.explain.alignment import merge
from headwise.explain.explanation import Explanation, Layer
from headwise.labels import visible
from headwise.models.token_tagger import TokenTagger
from headwise.predictors import looking
from headwise.predictors.predictor import Form, Predictor, Unknown

# tokens that are read together, padding included
PREDICTION_TOKENS = 4096


class Tagger(Predictor[Tagged, list[str], Tagged]):
    """A model with its tokenizer and tags.

    Args:
        model: in `eval()` while it tags.
        tags: by their numbers.
        words: every word of training and its most frequent tag there.
        data: how files are read, and the longest sentence of training in words. A sentence of more words than four
            times that is tagged in parts, with a warning: attention over all of it would cost the square of its length.
    """

    def __init__(
        self,
        model: TokenTagger,
        tokenizer: WordTokenizer,
        tags: Sequence[str],
        words: Mapping[str, str],
        data: TaggedConfig,
    ):
        self.model, self.tokenizer, self.data = model, tokenizer, data
        self.tags, self.words = list(tags), words

    def parse(self, text: str) -> Tagged:
        """A sentence of words between spaces."""
        return Tagged(tuple(self.tokenizer.clean(text).split()), None, 1)

    def read(self, path: Path) -> Iterator[Tagged]:
        """The sentences of a CoNLL-U file, of JSON lines, or of plain text with words between spaces, one a line."""
        return read_words(path, self.data, self.tokenizer.pieces.config.normalize)

    def tag(self, sentences: Sequence[str] | str) -> list[list[str]]:
        """The tags of sentences of words between spaces."""
        return self.predict(sentences)

    @torch.inference_mode()
    def predict(self, items: Sequence[Tagged | str] | str, options: Any = None) -> list[list[str]]:
        """A tag for each word of each sentence, in their order; `options` are none."""
        given = [self._tagged(item) for item in ([items] if isinstance(items, str) else items)]
        parts = self._parts(given)
        rows = encode_words([words for _, words in parts], self.tokenizer)
        tags: list[list[str]] = [[] for _ in parts]
        longest = int(rows.lengths().max(initial=0))
        device = self.model.head.weight.device
        for batch in token_batches(rows.lengths(), max_tokens=max(PREDICTION_TOKENS, longest), shuffle=False):
            made = collate_words(rows, batch).to(device)
            best = self.model(made.tokens, made.pieces).argmax(-1)
            for row, number in zip(best.tolist(), batch, strict=True):
                tags[number] = [self.tags[tag] for tag in row[: len(parts[number][1])]]
        found: list[list[str]] = [[] for _ in given]
        for (place, _), part in zip(parts, tags, strict=True):
            found[place] += part
        return found

    def _parts(self, given: Sequence[Tagged]) -> list[tuple[int, tuple[str, ...]]]:
        """The words to be read together: sentences by place, cut where they are far longer than those of training."""
        limit = 4 * self.data.max_len
        if long := [item for item in given if len(item.words) > limit]:
            warnings.warn(
                f"'{' '.join(long[0].words)[:40]}...' has {len(long[0].words):,} words; sentences of more than "
                f"{limit:,} are tagged in parts",
                stacklevel=3,
            )
        return [
            (place, tuple(item.words[start : start + limit]))
            for place, item in enumerate(given)
            for start in range(0, len(item.words), limit)
        ]

    def write(self, item: Tagged, output: list[str], form: Form, options: Any = None) -> list[str]:
        """`word/TAG word/TAG`, or a line of JSON that can be read again as data."""
        if form == "text":
            return [visible(" ".join(f"{word}/{tag}" for word, tag in zip(item.words, output, strict=True)))]
        fields = {self.data.words_key: item.words, self.data.tags_key: output}
        return [json.dumps(fields, ensure_ascii=False)]

    def unknown(self, items: Sequence[Tagged]) -> Unknown:
        """Words that the training part has not."""
        words = [self.tokenizer.clean(word) for item in items for word in item.words]
        unseen = [word for word in words if word not in self.words]
        return Unknown(len(unseen), len(words), tuple(dict.fromkeys(unseen))[:5], "words")

    def explain(self, item: Tagged | str, target: str | None = None) -> Explanation:
        """The attention of every layer while the model tags a sentence, between words; subwords are merged."""
        if target is not None:
            raise ConfigError("the tags of a sentence cannot be given here; leave the target out")
        item = self._tagged(item)
        if not item.words:
            raise ConfigError("the sentence is empty; there is nothing to look at")
        rows = encode_words([item.words], self.tokenizer)
        batch = collate_words(rows, [0]).to(self.model.head.weight.device)
        pieces = rows.pieces[0]
        # before the pooling a word has several tokens
        word_of = np.repeat(np.arange(len(pieces)), pieces if self.model.place == "after" else 1).tolist()
        tags = self.predict([item])[0]
        said = [f"{word}/{tag}" for word, tag in zip(item.words, tags, strict=True)]
        layers = {}
        for name, one in looking.attended(self.model, batch.tokens, batch.pieces).items():
            weights = np.stack([merge(head, word_of, word_of) for head in one.weights[0]])
            layers[name] = Layer(weights, said, list(item.words), one.kind)
        return Explanation(" ".join(item.words), " ".join(said), layers)

    def evaluate(self, examples: Sequence[Tagged], *, options: Any = None) -> dict[str, float | str]:
        """Accuracy and macro-F1; of words that training has and has not; of the most frequent tag of each word.

        `per_tag` is the F1 of each tag with how often it occurs. `baseline` gives each word its most frequent tag in
        training, and other words the most frequent tag of those that occur there once. Shares of nothing are NaN.

        Raises:
            DataError: no words, or words without a tag.
        """
        gold = [tag for example in examples for tag in example.tags or ()]
        words = [self.tokenizer.clean(word) for example in examples for word in example.words]
        if not words:
            raise DataError("there is nothing to score: no words")
        if len(gold) != len(words):
            line = next(example.line for example in examples if len(example.tags or ()) != len(example.words))
            raise DataError(f"the sentence of line {line} has no tags to compare with; tag all of its words")
        said = [tag for tags in self.predict(examples) for tag in tags]
        right = np.array([a == b for a, b in zip(said, gold, strict=True)])
        seen = np.array([word in self.words for word in words])
        guesses = [self.words.get(word, self.words.get("", "")) for word in words]
        scores: dict[str, float | str] = {"accuracy": float(right.mean()), "macro_f1": 0.0}
        scores |= {"accuracy_seen": _mean(right[seen]), "accuracy_unseen": _mean(right[~seen])}
        scores["unseen"] = float(1 - seen.mean())
        scores["baseline"] = _mean(np.array([a == b for a, b in zip(guesses, gold, strict=True)]))
        scores["macro_f1"], scores["per_tag"] = by_tag(said, gold)
        return scores

    def _tagged(self, item: Tagged | str) -> Tagged:
        return self.parse(item) if isinstance(item, str) else item


def most_frequent(sentences: Iterable[Tagged]) -> dict[str, str]:
    """The most frequent tag of every word, of equally frequent ones the first; under "" that of words that occur once.

    >>> most_frequent([Tagged(("a", "saw"), ("DET", "NOUN"), 1), Tagged(("saw",), ("NOUN",), 2)])
    {'a': 'DET', 'saw': 'NOUN', '': 'DET'}
    """
    tags: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            tags.setdefault(word, Counter())[tag] += 1
    once = Counter(next(iter(found)) for found in tags.values() if found.total() == 1)
    all_tags = sum(tags.values(), Counter[str]())
    best = {word: found.most_common(1)[0][0] for word, found in tags.items()}
    rare = (once or all_tags).most_common(1)
    return best | ({"": rare[0][0]} if rare else {})


def _mean(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else float("nan")


def by_tag(said: Sequence[str], gold: Sequence[str]) -> tuple[float, str]:
    """Macro-F1, and the F1 of each tag with its count, the most frequent first."""
    predicted, wanted = Counter(said), Counter(gold)
    right = Counter(tag for tag, other in zip(said, gold, strict=True) if tag == other)
    tags = sorted(predicted | wanted, key=lambda tag: (-wanted[tag], tag))
    counts = [[float(counter[tag]) for tag in tags] for counter in (right, predicted, wanted)]
    scores = [metrics.f1(*found) for found in zip(*counts, strict=True)]
    each = [f"{tag} {score:.4f} ({wanted[tag]:,})" for tag, score in zip(tags, scores, strict=True)]
    return metrics.macro_f1(*counts), ", ".join(each)
