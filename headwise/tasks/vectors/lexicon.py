"""Two vectors for each word, and a trained lexicon: neighbours, analogies, scores."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from headwise import metrics
from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.sources import Limits
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, DataError
from headwise.labels import visible
from headwise.predictors.baselines import Baseline
from headwise.predictors.classes import mean, summed
from headwise.predictors.predictor import Form, Predictor, Unknown
from headwise.predictors.rows import Formula, Rows, Scored, question_of
from headwise.tasks.text.plain import SPECIALS, text_of
from headwise.tasks.text.vectors import vector_line
from headwise.tasks.vectors.contexts import ContextBatch, ContextConfig, Kind, Lines, Windows, context_source
from headwise.tasks.vectors.projection import Projection
from headwise.tasks.vectors.word_tests import Question, Test, WordLabel, WordPair, probe


class WordVectorsConfig(Config):
    """What predicts what, and how wide the vectors are."""

    kind: Literal["skip-gram", "cbow"] = Field(
        "skip-gram", description="skip-gram: a word predicts each word around it; cbow: their mean predicts the word"
    )
    embed_dim: int = Field(100, ge=1, description="numbers in a vector")


class WordVectors(nn.Module):
    """Scores of candidate words: the product of their output vectors with the mean of the input words' vectors.

    Input vectors, which are what is kept, begin uniform within 0.5 / width of 0, output vectors at 0.

    Source: Mikolov et al. 2013, arXiv 1301.3781 and 1310.4546.
    """

    def __init__(self, vocab_size: int, embed_dim: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, embed_dim)
        self.contexts = nn.Embedding(vocab_size, embed_dim)
        nn.init.uniform_(self.words.weight, -0.5 / embed_dim, 0.5 / embed_dim)
        nn.init.zeros_(self.contexts.weight)

    def forward(
        self,
        inputs: Int[Tensor, "targets words"],
        given: Bool[Tensor, "targets words"],
        outputs: Int[Tensor, "targets candidates"],
    ) -> Float[Tensor, "targets candidates"]:
        vectors = self.words(inputs) * given.unsqueeze(-1)
        mean = vectors.sum(1) / given.sum(1, keepdim=True).clamp(min=1)
        return (self.contexts(outputs) @ mean.unsqueeze(-1)).squeeze(-1)


def sampling_loss(
    scores: Float[Tensor, "targets candidates"], counted: Bool[Tensor, "targets candidates"]
) -> Float[Tensor, ""]:
    """The loss of negative sampling, summed over targets (nats): -log s(first) - sum of log s(-other), s the sigmoid.

    Source: Mikolov et al. 2013, arXiv 1310.4546, equation 4.

    >>> round(sampling_loss(torch.zeros(1, 3), torch.tensor([[True, True, False]])).item(), 4)
    1.3863
    """
    signs = torch.full_like(scores, -1.0)
    signs[:, 0] = 1.0
    return -(F.logsigmoid(wide(scores * signs)) * counted).sum()


_NEAREST = 10
# neighbours of each word of a picture
_AROUND = 7
# running words that are scored together
_SCORED_WORDS = 8192
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Query:
    """Words that are added or subtracted, with 1 or -1 each, and the text they were read from."""

    text: str
    terms: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """The words whose vectors have the largest cosine with that of a query, best first, and this cosine.

    Args:
        vector: that of the query: of a single word its own, else the sum of unit vectors; None with unknown words.
        unknown: words of the query without a vector; there are then no neighbours.
    """

    neighbours: dict[str, float]
    vector: tuple[float, ...] | None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Looking:
    """What `predict` is told: how many neighbours, a line each, or the vector in place of them."""

    n_best: int | None = None
    vectors: bool = False


class Lexicon(Predictor[Query, Nearest, str | Test]):
    """Word vectors with their vocabulary; an input is a word, or several with + and - between them.

    Vectors of several words are added at unit length; the words themselves are no answer (3CosAdd: Levy and Goldberg
    2014, equation 1). Equal cosines are in the order of the vocabulary, frequent words first.

    Args:
        counts: how often each token occurs in training, for the loss of a text.
        config, kind: the windows and draws of training, for the same.
    """

    option = "n_best"
    passes = False

    def __init__(
        self, model: WordVectors, tokenizer: Tokenizer, counts: np.ndarray, config: ContextConfig, kind: Kind
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.counts, self.config, self.kind = counts, config, kind

    def parse(self, text: str) -> Query:
        """A query such as `king`, `king - man + woman`, or `king queen`, which adds both.

        Signs stand between spaces; a lone sign is a word. Raises: ConfigError where a sign has no word behind it.
        """
        parts = self.tokenizer.clean(text).split()
        if not parts:
            raise ConfigError("no word: give one, or several with + and - between them")
        terms: list[tuple[int, str]] = []
        sign = 0
        for part in parts:
            if part in ("+", "-") and terms and not sign:
                sign = 1 if part == "+" else -1
                continue
            terms.append((sign or 1, part))
            sign = 0
        if sign:
            raise ConfigError(f"'{text}': a word is missing behind {parts[-1]}")
        return Query(" ".join(parts), tuple(terms))

    def everything(self, options: Looking | None = None) -> Sequence[Query]:
        """Where vectors are written, each word of the vocabulary, frequent ones first."""
        if options is None or not options.vectors:
            return super().everything()
        words = self.tokenizer.pieces()[SPECIALS:]
        return [Query(word, ((1, word),)) for word in words]

    def predict(self, items: Sequence[Query], options: Looking | None = None) -> list[Nearest]:
        how = options or Looking()
        vectors = self._vectors()
        units = None if how.vectors else _units(vectors)
        return [self._nearest(item, vectors, units, how.n_best or _NEAREST) for item in items]

    def write(self, item: Query, output: Nearest, form: Form, options: Looking | None = None) -> list[str]:
        """Neighbours in one line, or a line each where their number is given; a vector as in a file of vectors."""
        how = options or Looking()
        if form == "json":
            shown: dict[str, Any] = {"vector": output.vector} if how.vectors else {"neighbours": output.neighbours}
            return [json.dumps({"query": item.text, **shown, "unknown": output.unknown}, ensure_ascii=False)]
        if how.vectors:
            return [] if output.vector is None else [vector_line(item.text.replace(" ", ""), output.vector)]
        if how.n_best is None or output.unknown:
            return [f"{visible(item.text)}\t{self.told(output)}"]
        return [f"{visible(word)}\t{cosine:.4f}" for word, cosine in output.neighbours.items()]

    def told(self, output: Nearest) -> str:
        if output.unknown:
            return f"unknown: {', '.join(map(visible, output.unknown))}"
        return ", ".join(f"{visible(word)} {cosine:.2f}" for word, cosine in output.neighbours.items())

    def scored(self, examples: Sequence[str | Test], options: Any = None) -> Scored:
        """The loss of a text, the rank correlation of similarities, the share of analogies, or a probe of labels.

        Args:
            examples: all of one kind: lines of a text, `WordPair`, `Question` or `WordLabel`.

        Raises: DataError where no example has all its words in the vocabulary.
        """
        if isinstance(examples[0], WordLabel):
            return self._probed(cast(Sequence[WordLabel], examples))
        if isinstance(examples[0], WordPair):
            return self._similar(cast(Sequence[WordPair], examples))
        if isinstance(examples[0], Question):
            return self._analogies(cast(Sequence[Question], examples))
        lines = Lines(text_of(cast(Sequence[str], examples), self.tokenizer))
        batches = context_source(
            Windows(lines, self.counts, self.config, self.kind, 0), Limits(_SCORED_WORDS), shuffle=False
        )
        device = self.model.words.weight.device
        with torch.inference_mode():
            counts = [held_out_loss(self.model, [batch.to(device)]) for batch in batches.once()]
        columns = {name: [count[name] for count in counts] for name in ("nll", "targets")}
        formulas = {"loss": Formula("mean", ("nll", "targets"))}
        rows = Rows(columns, formulas, question_of(examples, columns["targets"]), "blocks of the text")
        return Scored({**loss_of(summed(counts))}, rows)

    def baselines(self, examples: Sequence[str | Test]) -> Iterator[Baseline]:
        # vectors of zeros give each word, right or drawn, the probability 1/2
        if isinstance(examples[0], str):
            yield Baseline("vectors of zeros", {"loss": (1 + self.config.negatives) * math.log(2)})

    def options(self, given: Mapping[str, Any]) -> Looking | None:
        n_best = super().options({name: given[name] for name in given if name != "vectors"})
        return Looking(n_best, bool(given.get("vectors"))) if given else None

    def unknown(self, items: Sequence[Query]) -> Unknown:
        """Words without a vector."""
        words = [word for item in items for _, word in item.terms]
        lost = [word for word in words if self.number(word) is None]
        return Unknown(len(lost), len(words), tuple(dict.fromkeys(lost))[:_NAMED], "words")

    def explain(self, item: Query | str, target: str | None = None) -> Projection:
        """The words of a query, the neighbours of each and of their sum, as points of a plane.

        Raises: ConfigError naming words without a vector; `target`, which there is none of here.
        """
        if target is not None:
            raise ConfigError("word vectors have no output to look at; leave the target out")
        (query,) = self.inputs(item)
        if (lost := self.unknown([query])).count:
            raise ConfigError(f"no vector for: {', '.join(map(visible, lost.examples))}")
        words = list(dict.fromkeys(word for _, word in query.terms))
        around = self.predict([Query(word, ((1, word),)) for word in words], Looking(_AROUND))
        groups = {word: nearest.neighbours for word, nearest in zip(words, around, strict=True)}
        answer = self.predict([query], Looking(_AROUND))[0].neighbours if len(query.terms) > 1 else {}
        names = list(dict.fromkeys([*words, *answer, *(word for group in groups.values() for word in group)]))
        numbers = [number for name in names if (number := self.number(name)) is not None]
        return Projection(query.text, names, _units(self._vectors()[numbers]), query.terms, groups, answer)

    def number(self, word: str) -> int | None:
        """The token of a word; None where it has no vector."""
        ids = self.tokenizer.encode(word)
        return ids[0] if len(ids) == 1 and ids[0] >= SPECIALS else None

    def _vectors(self) -> Float[np.ndarray, "words dim"]:
        vectors: np.ndarray = self.model.words.weight.detach().float().cpu().numpy()
        return vectors

    def _nearest(self, item: Query, vectors: np.ndarray, units: np.ndarray | None, count: int) -> Nearest:
        numbers = [self.number(word) for _, word in item.terms]
        if lost := [word for (_, word), number in zip(item.terms, numbers, strict=True) if number is None]:
            return Nearest({}, None, tuple(dict.fromkeys(lost)))
        tokens = [number for number in numbers if number is not None]
        if len(tokens) == 1 and item.terms[0][0] > 0:
            sought = vectors[tokens[0]]
        else:
            parts = _units(vectors[tokens])
            sought = sum((sign * part for (sign, _), part in zip(item.terms, parts, strict=True)), 0.0 * parts[0])
        vector = tuple(sought.tolist())
        if units is None:
            return Nearest({}, vector)
        cosines = units @ _units(sought[None])[0]
        cosines[[*range(SPECIALS), *tokens]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[:count]
        neighbours = {self.tokenizer.piece(int(n)): float(cosines[n]) for n in best if np.isfinite(cosines[n])}
        return Nearest(neighbours, vector)

    def _similar(self, pairs: Sequence[WordPair]) -> Scored:
        units = _units(self._vectors())
        numbers = [(self.number(pair.first), self.number(pair.second)) for pair in pairs]
        known = [(a, b, pair) for (a, b), pair in zip(numbers, pairs, strict=True) if a and b]
        rows = [(units[a] @ units[b], pair.score) for a, b, pair in known]
        _require(len(rows), "pairs of words")
        cosines, gold = ([float(row[side]) for row in rows] for side in (0, 1))
        formulas = {"spearman": Formula("rank_correlation", ("cosine", "gold"))}
        each = Rows(
            {"cosine": cosines, "gold": gold}, formulas, question_of([pair for *_, pair in known]), "pairs of words"
        )
        return Scored({"spearman": metrics.spearman(cosines, gold), **_coverage(len(rows), len(pairs))}, each)

    def _analogies(self, questions: Sequence[Question]) -> Scored:
        answered: list[Question] = []
        hits: list[int] = []
        right: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        units = _units(self._vectors())
        for question in questions:
            numbers = [self.number(word) for word in (question.b, question.a, question.c, question.d)]
            if None in numbers:
                continue
            item = Query("", ((1, question.b), (-1, question.a), (1, question.c)))
            best = next(iter(self._nearest(item, units, units, 1).neighbours), "")
            answered.append(question)
            hits.append(int(self.number(best) == numbers[3]))
            counts[question.section] += 1
            right[question.section] += hits[-1]
        _require(counts.total(), "questions")
        scores: dict[str, float | str] = {"accuracy": right.total() / counts.total()}
        if len(counts) > 1:
            scores["sections"] = ", ".join(
                f"{name} {right[name] / count:.3f} of {count}" for name, count in counts.items()
            )
        rows = Rows({"right": hits}, {"accuracy": Formula("mean", ("right",))}, question_of(answered), "questions")
        return Scored({**scores, **_coverage(counts.total(), len(questions))}, rows)

    def _probed(self, labels: Sequence[WordLabel]) -> Scored:
        counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for word_label in labels:
            if number := self.number(word_label.word):
                counts[number][word_label.label] += word_label.count
        _require(len(counts), "labelled words")
        numbers = sorted(counts)
        # the most frequent label of a word, the first of equals by name
        gold = [min(counts[number].items(), key=lambda pair: (-pair[1], pair[0]))[0] for number in numbers]
        probed = probe(torch.from_numpy(self._vectors()[numbers]), gold)
        coverage = _coverage(len(numbers), len({word_label.word for word_label in labels}))
        formulas = {"probe_accuracy": Formula("mean", ("right",))}
        question = question_of([self.tokenizer.piece(number) for number in numbers], gold)
        rows = Rows({"right": probed.right}, formulas, question, "words")
        return Scored({**probed.scores(), **coverage}, rows)


def held_out_loss(model: WordVectors, batches: Iterable[ContextBatch]) -> dict[str, float]:
    """The summed loss of batches (nats), and the number of their targets; both add up."""
    total, targets = 0.0, 0
    for batch in batches:
        total += sampling_loss(model(batch.inputs, batch.given, batch.outputs), batch.counted).item()
        targets += batch.num_tokens
    return {"nll": total, "targets": float(targets)}


def loss_of(stats: Mapping[str, float]) -> dict[str, float]:
    """The mean loss of a target, in nats: (1 + negatives) ln 2 for a model that knows nothing; NaN without targets."""
    return {"loss": mean(stats.get("nll", 0.0), stats.get("targets", 0.0))}


def _units(vectors: np.ndarray) -> np.ndarray:
    """In float64, of length 1; a vector of zeros stays."""
    values = vectors.astype(np.float64)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    return values / np.where(lengths > 0, lengths, 1.0)


def _require(count: int, what: str) -> None:
    if not count:
        raise DataError(f"none of the {what} has all its words in the vocabulary; is it the right language and case?")


def _coverage(scored: int, total: int) -> dict[str, float | str]:
    return {"known": float(scored), "given": float(total)}
