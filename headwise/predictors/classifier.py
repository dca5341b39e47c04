"""A trained classifier: gives each text a class with its probability, and scores itself."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.data.labelled import Labelled, LabelledConfig, read_texts
from headwise.errors import DataError
from headwise.explain.explanation import Explanation
from headwise.labels import decimals, visible
from headwise.predictors.baselines import Baseline, majority
from headwise.predictors.classes import verdict_scores
from headwise.predictors.predictor import Form, Predictor, Unknown, unknown_tokens
from headwise.predictors.texts import Reader


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a text, and the probability of every class, the likeliest first."""

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Of the class that was chosen."""
        return self.probabilities[self.label]


class Classifier(Predictor[str, Verdict, Labelled]):
    """A model that reads texts, with the names of its classes.

    Args:
        classes: how often each class occurs in training, by name, in the order of the model's outputs.
        data: how files are read.
    """

    verb = "classify"

    def __init__(self, reader: Reader, classes: Mapping[str, int], data: LabelledConfig):
        self.model, self.reader, self.classes, self.data = reader.model, reader, classes, data

    def parse(self, text: str) -> str:
        return self.reader.tokenizer.clean(text)

    def read(self, path: Path) -> Iterator[str]:
        """The texts of a table, its label column left out if there is one, or of the lines of a file."""
        return read_texts(path, self.data, self.reader.tokenizer.config.normalize)

    def classify(self, texts: Sequence[str] | str) -> list[Verdict]:
        """The class of each text."""
        return self.predict(texts)

    def predict(self, items: Sequence[str] | str, options: Any = None) -> list[Verdict]:
        """The class of each text, in their order; `options` are none. An empty text has a class too."""
        texts = [items] if isinstance(items, str) else items
        names = list(self.classes)
        found = []
        for row in self.reader.read(texts).softmax(-1).tolist():
            order = sorted(range(len(names)), key=lambda place: -row[place])
            found.append(Verdict(names[order[0]], {names[place]: row[place] for place in order}))
        return found

    def write(self, item: str, output: Verdict, form: Form, options: Any = None) -> list[str]:
        """The class, a tab and its probability; or a line of JSON that can be read again as data."""
        if form == "text":
            return [f"{visible(output.label)}\t{output.probability:.4f}"]
        fields = {self.data.text_key: item, self.data.label_key: output.label}
        return [json.dumps(fields | {"probabilities": output.probabilities}, ensure_ascii=False)]

    def unknown(self, items: Sequence[str]) -> Unknown:
        """Tokens that are not in the vocabulary."""
        return unknown_tokens(self.reader.tokenizer, items)

    def explain(self, item: str, target: str | None = None) -> Explanation:
        """What the pooling and every attention layer look at, token by token; raises as `Reader.explain`."""
        text = self.parse(item)
        said = self.predict([text])[0]
        return self.reader.explain(text, f"{said.label} {decimals(said.probability)}", target)

    def text_of(self, example: Labelled) -> str:
        return example.text

    def evaluate(self, examples: Sequence[Labelled], *, options: Any = None) -> dict[str, float | str]:
        """Accuracy, macro-F1 and cross entropy in nats.

        `per_class` has precision, recall and F1 of each class with how often it occurs, `confused` the most frequent
        mistakes. The cross entropy is over the texts whose class training has; NaN where there are none.

        Raises:
            DataError: no texts.
        """
        if not examples:
            raise DataError("there is nothing to score: no texts")
        gold = [str(example.label) for example in examples]
        verdicts = self.predict([example.text for example in examples])
        return verdict_scores([one.probabilities for one in verdicts], gold)

    def baselines(self, examples: Sequence[Labelled]) -> Iterator[Baseline]:
        yield majority([str(example.label) for example in examples])
