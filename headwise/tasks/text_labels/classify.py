"""The task of labelling whole texts, and the predictor that does it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.long_range import LISTOPS
from headwise.data.synthetic import Drawing
from headwise.data.tokenizers import Tokenizer
from headwise.errors import DataError
from headwise.labels import decimals, percent, probability, visible
from headwise.models.pooled_encoder import PooledEncoder
from headwise.predictors.baselines import Baseline, logistic_regression, majority, named, of_labels, sample, tfidf
from headwise.predictors.classes import most_frequent, verdict_scores
from headwise.predictors.predictor import Form
from headwise.predictors.rows import Scored
from headwise.tasks._files import as_json, counts_of
from headwise.tasks._labelling import Labelling, lacking
from headwise.tasks.demo import Demo
from headwise.tasks.task import Assets, Description, Generator, Given
from headwise.tasks.text.labelled import Labelled, LabelledBatch, LabelledConfig, encode_texts
from headwise.tasks.text_labels import passages
from headwise.tasks.text_labels.base import (
    TOKENIZER_FILE,
    TextPredictor,
    Texts,
    TextsConfig,
    TextTask,
    encoded,
    refuse_equal,
    tokenizer_for,
)
from headwise.tasks.text_labels.demo import CLASSIFY
from headwise.tasks.text_labels.guiding import Guide, adversary, guided, pooled_weights

Reweight = Callable[[int, np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a text, and the probability of every class, the likeliest first."""

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Of the class that was chosen."""
        return self.probabilities[self.label]


class Classifier(TextPredictor[Verdict]):
    """A model that reads texts, with the names of its classes.

    Args:
        classes: how often each class occurs in training, by name, in the order of the model's outputs.
        data: how files are read.
    """

    verb = "classify"

    def __init__(self, model: PooledEncoder, tokenizer: Tokenizer, data: LabelledConfig, classes: Mapping[str, int]):
        super().__init__(model, tokenizer, data)
        self.classes = classes

    def classify(self, texts: Sequence[str] | str) -> list[Verdict]:
        return self.predict(texts)

    def predict(self, items: Sequence[str] | str, options: Any = None) -> list[Verdict]:
        """The class of each text, in their order; `options` are none. An empty text has a class too."""
        texts = self.inputs(items)
        names = list(self.classes)
        verdicts = []
        for row in self.logits(texts).softmax(-1).tolist():
            order = sorted(range(len(names)), key=lambda place: -row[place])
            verdicts.append(Verdict(names[order[0]], {names[place]: row[place] for place in order}))
        return verdicts

    def write(self, item: str, output: Verdict, form: Form, options: Any = None) -> list[str]:
        """The class, a tab and its probability; or a line of JSON that can be read again as data."""
        if form == "text":
            return [f"{visible(output.label)}\t{probability(output.probability)}"]
        fields = {self.data.text_key: item, self.data.label_key: output.label}
        return [json.dumps(fields | {"probabilities": output.probabilities}, ensure_ascii=False)]

    def answer(self, output: Verdict) -> str:
        return f"{output.label} {decimals(output.probability)}"

    def scored(self, examples: Sequence[Labelled], options: Any = None) -> Scored:
        """Accuracy, macro-F1 and cross entropy in nats.

        `per_class` has precision, recall and F1 of each class with how often it occurs, `confused` the most frequent
        mistakes. The cross entropy is over the texts whose class training has; NaN where there are none.

        Raises: DataError: no texts.
        """
        gold, texts = [str(example.label) for example in examples], [example.text for example in examples]
        return verdict_scores([verdict.probabilities for verdict in self.predict(texts)], gold, texts)

    def guide(
        self, train: Sequence[Labelled], test: Sequence[Labelled], reweight: Reweight | None = None, *, seed: int = 0
    ) -> list[bool]:
        """Whether a classifier of single tokens is right on each test text when it is given this model's weights.

        Args:
            reweight: (number of the text, its weights) -> those in their place, such as uniform ones to compare with.
            seed: of the weights and the order that the classifier begins with.
        Raises:
            Unsupported: the pooling is not by attention.
            DataError: a label that the model does not know.
        """
        parts = self._guide(train, reweight), self._guide(test, reweight)
        return guided(*parts, self.tokenizer.vocab_size, len(self.classes), seed=seed)

    def _guide(self, examples: Sequence[Labelled], reweight: Reweight | None) -> Guide:
        texts = [self.parse(example.text) for example in examples]
        rows = encode_texts(texts, self.tokenizer, self.data.max_len, [self._number(example) for example in examples])
        weights = pooled_weights(self.model, rows)
        return Guide(rows, weights if reweight is None else list(map(reweight, range(len(weights)), weights)))

    def adversary(self, examples: Sequence[Labelled], *, strength: float = 0.03, seed: int = 0) -> "Classifier":
        """A classifier that answers alike, with weights as different as it can have them.

        Args:
            strength: what a nat of difference between weights is worth against a changed answer.
        Raises: Unsupported: the pooling is not by attention.
        """
        rows = encode_texts([self.parse(example.text) for example in examples], self.tokenizer, self.data.max_len)
        model = adversary(self.model, rows, strength=strength, seed=seed)
        return Classifier(model, self.tokenizer, self.data, self.classes)

    def _number(self, example: Labelled) -> int:
        if str(example.label) not in self.classes:
            raise DataError(f"line {example.line}: label '{_label(example)[:40]}' is none that the model knows")
        return list(self.classes).index(str(example.label))

    def baselines(self, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        yield majority([str(example.label) for example in examples])


CLASSES_FILE = "classes.json"

_NAMED = 5
# of logistic regression: texts of unit length want a weaker penalty than standardised features
_STRENGTH = 10.0


class ClassifyConfig(TextsConfig):
    """What to classify, with which tokens and model, and how to train it to."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the classes")


class Classify(TextTask, Labelling[dict[str, Texts]]):
    """Classification of whole texts, each of which has one class."""

    name: ClassVar[str] = "classify"
    demo: ClassVar[Demo | None] = CLASSIFY
    generators: ClassVar[Mapping[str, Generator]] = {
        "listops": Drawing("listops", LISTOPS),
        "passages": passages.make_passages,
        "retrieval": passages.make_retrieval,
    }
    numbers: ClassVar[bool] = False
    config_type: ClassVar[type[Config]] = ClassifyConfig
    config: ClassifyConfig

    def __init__(self, config: ClassifyConfig, assets: Assets[dict[str, Texts]]):
        super().__init__(config, assets)
        self.classes = _classes(assets.files)

    @classmethod
    def prepare_with(cls, config: ClassifyConfig, given: Given) -> Assets[dict[str, Texts]]:
        parts = cls.data_set(config).read()
        train = parts.examples["train"]
        tokenizer = tokenizer_for(train, config, given)
        if given.files is None or given.start:
            classes = _counted(train, config.data.train, given.files or {})
        else:
            classes = _classes(given.files)
            _refuse_unknown(train, classes, config.data.train)
        data, notes = {}, parts.notes + _rare(train)
        for split, examples in parts:
            numbers, label_notes = _numbered(split, examples, classes)
            data[split], cut = encoded(split, examples, numbers, tokenizer, config.data.max_len)
            notes += cut + label_notes
        files = {TOKENIZER_FILE: tokenizer.to_bytes(), CLASSES_FILE: as_json(classes, ordered=True)}
        return Assets(files, data, parts.digests, tuple(notes))

    @classmethod
    def baselines(
        cls, config: ClassifyConfig, predictor: Classifier, examples: Sequence[Labelled]
    ) -> Iterator[Baseline]:
        """Logistic regression on words and pairs of words."""
        every = cls.examples(config, "train")
        train = sample(every)
        train_features, features = tfidf([example.text for example in train], [example.text for example in examples])
        predicted = logistic_regression(train_features, [_label(example) for example in train], features, _STRENGTH)
        name = named("TF-IDF and logistic regression", len(train), len(every))
        yield of_labels(name, predicted, [_label(example) for example in examples])

    @property
    def num_outputs(self) -> int:
        return len(self.classes)

    num_labels = num_outputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.classes)

    def answered(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        return model(batch.tokens, batch.lens), batch.targets

    def sample(self, output: Verdict) -> str:
        return f"{output.label} ({percent(output.probability)})"

    def predictor(self, model: nn.Module) -> Classifier:
        assert isinstance(model, PooledEncoder)
        return Classifier(model, self.tokenizer, self.config.data, self.classes)

    def description(self) -> Description:
        return self.described("Classifier", sum(self.classes.values()), f"one of {len(self.classes)} classes")


def _label(example: Labelled) -> str:
    return str(example.label)


def _numbered(split: str, examples: list[Labelled], classes: Mapping[str, int]) -> tuple[list[int], list[str]]:
    """The number of each example's class, those that training lacks behind the others, and what to tell about them."""
    counts = Counter(map(_label, examples))
    others = sorted(set(counts) - set(classes))
    number = {name: place for place, name in enumerate([*classes, *others])}
    notes = []
    if split != "train" and examples:
        best = most_frequent(classes)
        share = f"{counts[best] / len(examples):.1%} of {len(examples):,} texts"
        notes.append(f"{split}: always saying '{best}', the most frequent class, is right for {share}")
    return [number[_label(example)] for example in examples], notes + lacking(split, counts, classes)


def _counted(train: Sequence[Labelled], name: str, start: Mapping[str, bytes]) -> dict[str, int]:
    """How often each class occurs, in alphabetical order, or in that of a start which knows all of them.

    Raises: DataError where there is nothing to learn.
    """
    counts = Counter(map(_label, train))
    refuse_equal(list(counts), name, "label")
    if len(counts) == len(train) > 2:
        raise DataError(
            f"{name}: every text of the training part has a label of its own, such as '{min(counts)[:40]}';"
            " name the column or field of the labels: data.label_key or data.columns"
        )
    before = _classes(start) if CLASSES_FILE in start else {}
    return {name: counts[name] for name in before} if counts.keys() <= before.keys() else dict(sorted(counts.items()))


def _refuse_unknown(train: Sequence[Labelled], classes: Mapping[str, int], name: str) -> None:
    """The model has no output for another class than those of the run, so it cannot be trained on one."""
    for example in train:
        if _label(example) not in classes:
            raise DataError(
                f"{name}:{example.line}: label '{_label(example)[:40]}' is not one of the {len(classes)} that the run"
                " began with; take such texts out, or begin another run"
            )


def _rare(train: Sequence[Labelled]) -> list[str]:
    """A note on classes with a single example, such as a line of names that was read as a row."""
    counts = Counter(map(_label, train))
    rare = [example for example in train if counts[_label(example)] == 1]
    if not rare:
        return []
    named = ", ".join(f"'{_label(example)[:40]}' (line {example.line})" for example in rare[:_NAMED])
    return [f"train: classes with a single text: {named}{', ...' if len(rare) > _NAMED else ''}"]


def _classes(files: Mapping[str, bytes]) -> dict[str, int]:
    return counts_of(files, CLASSES_FILE, "classes")
