"""A trained model applied to new inputs: what `headwise.load` returns, and what the command line drives."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from headwise.data.files import read_lines
from headwise.data.tokenizers import Tokenizer
from headwise.errors import ConfigError, DataError, Unsupported, flag
from headwise.files import json_text
from headwise.labels import visible
from headwise.predictors.baselines import Baseline
from headwise.predictors.drafting import Draft, OutputTokens
from headwise.predictors.engines import Engines
from headwise.predictors.rows import Scored
from headwise.predictors.twins import Twin

# inputs, outputs, and examples with the answer that is right
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
E = TypeVar("E")
Input_I = TypeVar("Input_I", contravariant=True)
Output_O = TypeVar("Output_O", covariant=True)

Form = Literal["text", "json"]
Given = Literal["text", "image", "sound", "series", "node", "molecule"]

_NAMED = 5  # unknown words that a message names


@dataclass(frozen=True, slots=True)
class Unknown:
    """How many tokens of some inputs training has not taught the model, of how many, and which; counts add up.

    >>> str(Unknown(1, 3, ("zebra",), "words") + Unknown(0, 2, (), "words"))
    '1 of 5 words was never seen in training, or too rarely to be learned: zebra'
    """

    count: int = 0
    total: int = 0
    examples: tuple[str, ...] = ()
    what: str = "tokens"

    @property
    def share(self) -> float:
        """From 0 to 1; NaN of no tokens."""
        return self.count / self.total if self.total else float("nan")

    def __add__(self, other: "Unknown") -> "Unknown":
        examples = tuple(dict.fromkeys(self.examples + other.examples))[:_NAMED]
        return Unknown(self.count + other.count, self.total + other.total, examples, other.what)

    def __str__(self) -> str:
        named = ", ".join(map(visible, self.examples))
        verb = "was" if self.count == 1 else "were"
        return (
            f"{self.count:,} of {self.total:,} {self.what} {verb} never seen in training, or too rarely to be learned:"
            f" {named}"
        )


def unknown_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> Unknown:
    """The tokens of texts that are not in the vocabulary: words, characters, or pieces with a character it lacks."""
    rows = tokenizer.encode_batch(texts)
    where = {place for place, row in enumerate(rows) if tokenizer.unk_id in row}
    lost = {
        text: None
        for place in sorted(where)
        for token, text in zip(rows[place], tokenizer.tokens(texts[place]), strict=True)
        if token == tokenizer.unk_id
    }
    what = {"word": "words", "char": "characters"}.get(tokenizer.config.kind, "pieces of words")
    count = sum(row.count(tokenizer.unk_id) for row in rows)
    return Unknown(count, sum(map(len, rows)), tuple(lost)[:_NAMED], what)


def several(items: Any) -> list[Any]:
    """Items as a list, a single one too.

    >>> several("a text"), several(("two", "texts"))
    (['a text'], ['two', 'texts'])
    """
    return list(items) if isinstance(items, Sequence) and not isinstance(items, str) else [items]


@runtime_checkable
class OutputStream(Protocol[Input_I, Output_O]):
    """Outputs under way, which more inputs may join."""

    def add(self, items: Sequence[Input_I]) -> Sequence[int]:
        """Takes these too; the numbers by which they are told."""
        ...

    def drop(self, numbers: Collection[int]) -> None:
        """Nobody waits for these any more; nothing is told of them."""
        ...

    def step(self, beside: Callable[[], object] = lambda: None) -> Sequence[tuple[int, Output_O]]:
        """Goes on a little; the inputs that are done with it, and their outputs.

        Args:
            beside: called before long work that leaves the interpreter to other threads, once or twice.
        """
        ...


class Predictor(ABC, Generic[I, O, E]):
    """Reads inputs of type I, predicts outputs of type O, and scores itself on labelled examples of type E.

    `model` is the network that it applies; `reads` says whether an argument is the input itself or may name a file that
    `parse` opens: such a run is not served over HTTP; `ending` is that of the files that outputs are written to, one
    each, in a folder; empty: outputs are lines alone; `given` is what an input is, for those who show it; `verb` is the
    last part of its address in a service, besides "predict"; `streams` says whether a service may tell an output that
    is not searched for among several piece by piece, as `writes()` reads its tokens; `option` is the only option that
    `predict` takes, such as "n_best"; empty: it takes none, or `options` says which; `passes` says whether outputs are
    made by a pass of the model; else they are looked up in a table of its.
    """

    model: Any
    reads: ClassVar[Literal["text", "file"]] = "text"
    ending: ClassVar[str] = ""
    given: ClassVar[Given] = "text"
    verb: str = "predict"
    streams: ClassVar[bool] = False
    option: ClassVar[str] = ""
    passes: ClassVar[bool] = True

    def parse(self, text: str) -> I:
        """One input from an argument of the command line, or a line of standard input; here the text itself."""
        return cast(I, text)

    def prompt(self, item: Any, *, chat: bool) -> I:
        """One input from a text, written by the model's chat template or not.

        Raises: ConfigError where there is no such template.
        """
        raise ConfigError("this model has no chat template; leave chat out")

    def read(self, path: Path) -> Iterator[I]:
        """The inputs in a file, one after another, however long it is; here its lines, but for blank ones."""
        return (self.parse(text) for _, text in read_lines(path) if text and not text.isspace())

    def variety(self, item: I) -> int:
        """How much an input has to show, to choose those that a page begins with; here all inputs are alike: 0."""
        return 0

    @property
    def has_chat_template(self) -> bool:
        """Whether a text is written as a message of a chat."""
        return False

    @abstractmethod
    def predict(self, items: Sequence[I], options: Any = None) -> list[O]:
        """The outputs of these inputs, in their order.

        Args:
            options: what `options` made; None: the recipe's own.
        """

    def inputs(self, items: Sequence[I | str] | I | str) -> list[I]:
        """Inputs as a list, a single one too; a text stands for what `parse` makes of it."""
        return [self.parse(item) if isinstance(item, str) else item for item in several(items)]

    def flow(self, options: Any = None) -> "OutputStream[I, O] | None":
        """The same outputs, each told as it ends, while more inputs may join; None where they are found in batches.

        For a service, whose inputs come one by one.
        """
        return None

    def write(self, item: I, output: O, form: Form, options: Any = None) -> list[str]:
        """An output as lines of text, or as one line of JSON with the input beside it; without line ends."""
        return [json_text({"input": item, "output": output}, ascii=True) if form == "json" else visible(str(output))]

    def fields(self, item: I, output: O, options: Any = None) -> Any:
        """An output as what `write` gives in JSON, before it is text."""
        return json.loads(self.write(item, output, "json", options)[0])

    def file_of(self, item: I, output: O) -> bytes:
        """An output as the content of a file of its own. Raises: Unsupported if outputs are lines alone."""
        raise Unsupported("what this model says is written as lines; name a file with --output")

    def evaluate(self, examples: Sequence[E], *, options: Any = None) -> dict[str, float | str]:
        """The field's scores of labelled examples; texts are signatures that say how a score was computed.

        Raises: DataError: there are no examples, or they have no answers to compare with.
        """
        if not examples:
            raise DataError("there is nothing to score: no examples")
        return self.scores_of(examples, options)

    def evaluate_each(self, examples: Sequence[E], *, options: Any = None) -> Scored:
        """The same scores with a row for each example, from which they and their intervals follow.

        Raises: as `evaluate`; Unsupported where a task gives scores alone.
        """
        if not examples:
            raise DataError("there is nothing to score: no examples")
        return self.scored(examples, options)

    def scores_of(self, examples: Sequence[E], options: Any = None) -> dict[str, float | str]:
        """What `evaluate` gives, of one example or more; a predictor has this, or `scored`."""
        return self.scored(examples, options).scores

    def scored(self, examples: Sequence[E], options: Any = None) -> Scored:
        """What `evaluate_each` gives, of one example or more."""
        if type(self).scores_of is Predictor.scores_of:
            raise Unsupported(f"{type(self).__name__} does not score examples: it defines no scored")
        raise Unsupported(f"{type(self).__name__} gives no row for each example: it defines scores_of, and not scored")

    def baselines(self, examples: Sequence[E]) -> Iterator[Baseline]:
        """Baselines that need nothing beyond the files of the run, scored on these examples; here none."""
        yield from ()

    def options(self, values: Mapping[str, Any]) -> Any:
        """What `predict` takes, from options by name; without any, None. Here the value of `option`.

        Raises: ConfigError: an option that this model does not have.
        """
        if others := [name for name in values if name != self.option]:
            raise ConfigError(f"this model has no option {flag(others[0])}: remove it")
        return values.get(self.option)

    def at_length(self, examples: Sequence[E], times: int, longest: int) -> Mapping[str, float] | None:
        """Scores of the same places with a context of `times` the length of training; `longest` is the most to come.

        None where an example is read whole: then examples of that length are scored.

        Raises: ShapeError: a model that cannot read so far.
        """
        return None

    def text_of(self, example: E) -> str:
        """What an example gives the model to read, with blanks between words. Raises: Unsupported if it is no text."""
        raise Unsupported("what this model reads is no text, so it has no length in words")

    def input_of(self, example: E) -> I:
        """The input of a labelled example; those that are read from files are inputs themselves.

        Raises: Unsupported where an example gives no input.
        """
        if self.reads == "file":
            return cast(I, example)
        try:
            return self.parse(self.text_of(example))
        except Unsupported:
            raise Unsupported("the data of this model gives no single inputs; type one") from None

    def opened(self, data: bytes, name: str) -> I:
        """The input in the content of a file, where `parse` opens one; of at most `MAX_PIXELS`, if it has pixels.

        Raises: Unsupported where a file is not read whole.
        """
        raise Unsupported("this model does not read the content of a file")

    def unknown(self, items: Sequence[I]) -> Unknown:
        """What of these inputs training has not taught the model; nothing where a model cannot tell."""
        return Unknown()

    def twin(self) -> Twin[Any] | None:
        """What makes the copies of the model that search token by token; None where there is no such search."""
        return None

    def engines(self) -> Engines | None:
        """What may search in place of Headwise's own decoder; None where nothing else can."""
        return None

    def everything(self, options: Any = None) -> Sequence[I]:
        """What `predict` answers where no input is given, as with these options every word of a vocabulary.

        Raises: ConfigError where there must be an input.
        """
        raise ConfigError("no input: give texts, --file FILE, or - for standard input")

    def explain(self, item: I, target: str | None = None) -> Any:
        """Where the model looks as it answers, or as it is made to give `target` for an answer: an `Explanation`.

        A text stands for the input that `parse` makes of it.

        Raises: Unsupported if there is nothing to look at.
        """
        raise Unsupported("this model does not say where it looks; headwise.record(model) gives its attention, if any")

    def draft(self, item: I, options: Any = None) -> Draft:
        """An input before anything is written about it, to follow a search token by token.

        Args:
            options: of the search, as for `predict`.

        Raises: Unsupported if the model does not write token by token.
        """
        raise Unsupported(
            "this model does not write token by token; a model that translates, summarises, answers, continues a text,"
            " or writes captions or what is said does"
        )

    def writes(self) -> OutputTokens:
        """The tokenizer of what is written token by token. Raises: Unsupported as `draft`."""
        raise Unsupported("this model does not write token by token, so no token can be forced")

    def outputs(self, item: I, options: Any = None) -> list[Any]:
        """What a search finds about an input, best first: each with its text, its tokens and its score."""
        (outputs,) = cast(Sequence[list[Any]], self.predict([item], options))
        return outputs

    def right(self, examples: Sequence[E]) -> list[list[bool]]:
        """Whether the answer for each word of each example is right.

        Raises: Unsupported if the model gives no answer for each word.
        """
        raise Unsupported("this model gives no answer for each word, so there is no score by place; a tagger does")

    def state_bytes(self, examples: Sequence[E]) -> int:
        """Bytes that a decoder keeps of one hypothesis at the end of the longest of these examples.

        Raises: Unsupported as `draft`.
        """
        raise Unsupported("this model does not write token by token, so it keeps nothing from step to step")

    def align(self, pairs: Sequence[E], how: Any = None) -> list[list[tuple[int, int]]]:
        """The (source, target) words of each example that belong together, counted from 0.

        Args:
            how: an `Aligning`; None: its defaults.

        Raises: Unsupported if the model writes nothing whose words could be aligned with those it reads.
        """
        raise Unsupported("this model writes no translation, so it gives no alignments")
