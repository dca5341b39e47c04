"""Classification: a text in, a class out, with the probability of every class."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.labelled import Labelled
from headwise.data.sources import Limits, Source
from headwise.data.suggestions import Suggestion
from headwise.data.text_batches import LabelledBatch
from headwise.data.text_suggestions import suggest_for_labelled
from headwise.errors import DataError
from headwise.models.pooled_encoder import PooledEncoder
from headwise.predictors.baselines import Baseline, logistic_regression, named, of_labels, sample, tfidf
from headwise.predictors.classes import most_frequent
from headwise.predictors.classifier import Classifier
from headwise.tasks import _texts
from headwise.tasks._files import as_json, counts_of
from headwise.tasks._labelling import Labelling
from headwise.tasks._texts import TOKENIZER_FILE, Texts, TextsConfig
from headwise.tasks.task import Assets, Given, Probe

CLASSES_FILE = "classes.json"

_NAMED = 5
# of logistic regression: texts of unit length want a weaker penalty than standardised features
_STRENGTH = 10.0


class ClassifyConfig(TextsConfig):
    """What to classify, with which tokens and model, and how to train it to."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over the classes")


class Classify(Labelling[dict[str, Texts]]):
    """Classification of whole texts, each of which has one class."""

    name: ClassVar[str] = "classify"
    unit: ClassVar[str] = "texts"
    config_type: ClassVar[type[Config]] = ClassifyConfig
    config: ClassifyConfig

    def __init__(self, config: ClassifyConfig, assets: Assets[dict[str, Texts]]):
        super().__init__(config, assets)
        self.tokenizer, self.classes = _texts.tokenizer_of(assets.files, config), _classes(assets.files)

    @classmethod
    def prepare(cls, config: ClassifyConfig) -> Assets[dict[str, Texts]]:
        return cls.prepare_with(config, Given())

    @classmethod
    def prepare_with(cls, config: ClassifyConfig, given: Given) -> Assets[dict[str, Texts]]:
        parts = _texts.read_all(config, numbers=False)
        train = parts.examples["train"]
        if given.files is None:
            tokenizer, classes = _texts.trained_tokenizer(train, config), _counted(train, config.data.train)
        else:
            tokenizer, classes = _texts.tokenizer_of(given.files, config), _classes(given.files)
            _refuse_unknown(train, classes, config.data.train)
        data, notes = {}, parts.notes + _rare(train)
        for split, examples in parts:
            numbers, told = _numbered(split, examples, classes)
            data[split], cut = _texts.encoded(split, examples, numbers, tokenizer, config.data.max_len)
            notes += cut + told
        files = {TOKENIZER_FILE: tokenizer.to_bytes(), CLASSES_FILE: as_json(classes, ordered=True)}
        return Assets(files, data, parts.digests, tuple(notes))

    @classmethod
    def examples(cls, config: ClassifyConfig, split: str) -> list[Labelled]:
        return _texts.read_split(config, split, numbers=False)

    @classmethod
    def baselines(
        cls, config: ClassifyConfig, predictor: Classifier, examples: Sequence[Labelled]
    ) -> Iterator[Baseline]:
        """Logistic regression on words and pairs of words."""
        every = cls.examples(config, "train")
        train = sample(every)
        known, features = tfidf([one.text for one in train], [one.text for one in examples])
        predicted = logistic_regression(known, [_label(one) for one in train], features, _STRENGTH)
        name = named("TF-IDF and logistic regression", len(train), len(every))
        yield of_labels(name, predicted, [_label(one) for one in examples])

    @classmethod
    def suggest(cls, data: Mapping[str, object]) -> Suggestion:
        return suggest_for_labelled(data, numbers=False)

    def fewest_tensors(self) -> int:
        return self.config.model.fewest_tensors()

    def build(self) -> PooledEncoder:
        return _texts.built(self.config, self.tokenizer, len(self.classes))

    def initialise(self, model: nn.Module, seed: int) -> list[str]:
        return _texts.started(model, self.tokenizer, self.config, seed)

    def source(self, split: str, limits: Limits) -> Source[LabelledBatch] | None:
        return _texts.source_of(_texts.split_of(self.assets, split), limits, shuffle=split == "train")

    @property
    def num_labels(self) -> int:
        return len(self.classes)

    def answered(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        return model(batch.tokens, batch.lens), batch.targets

    def samples(self, model: nn.Module) -> list[str]:
        texts, classifier = _texts.shown(self.config, self.assets), self.predictor(model)
        found = zip(texts, classifier.predict(texts), strict=True)
        return [f"{text} → {verdict.label} ({verdict.probability:.0%})" for text, verdict in found]

    def probes(self, predictor: Any) -> list[Probe]:
        return [Probe(text) for text in _texts.shown(self.config, self.assets)]

    def predictor(self, model: nn.Module) -> Classifier:
        return Classifier(_texts.reader_of(model, self.tokenizer, self.config), self.classes, self.config.data)

    def card(self, metrics: Mapping[str, float]) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        answer = f"one of {len(self.classes)} classes"
        return _texts.card(self.config, "Classifier", sum(self.classes.values()), scores, answer)


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
        notes.append(f"{split}: always saying '{best}', the most frequent class, is right for {_share(counts, best)}")
    if others:
        named = ", ".join(f"{name} ({counts[name]:,})" for name in others[:_NAMED])
        more = ", ..." if len(others) > _NAMED else ""
        notes.append(f"{split}: classes that training lacks, so that they cannot be got right: {named}{more}")
    return [number[_label(example)] for example in examples], notes


def _share(counts: Mapping[str, int], name: str) -> str:
    total = sum(counts.values())
    return f"{counts.get(name, 0) / total:.1%} of {total:,} texts"


def _counted(train: Sequence[Labelled], name: str) -> dict[str, int]:
    """How often each class occurs, in alphabetical order. Raises: DataError where there is nothing to learn."""
    counts = Counter(map(_label, train))
    _texts.refuse_equal(list(counts), name, "label")
    if len(counts) == len(train) > 2:
        raise DataError(
            f"{name}: every text of the training part has a label of its own, such as '{min(counts)[:40]}';"
            " name the column or field of the labels: data.label_key or data.columns"
        )
    return dict(sorted(counts.items()))


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
