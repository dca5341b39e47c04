"""A run that a service has loaded: its name, and answers equal to those of the command line."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.adoption import transformers_part
from headwise.data.files import digest
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError, Unsupported
from headwise.explain.explanation import Explanation
from headwise.explain.trace_formats import format_trace
from headwise.labels import visible
from headwise.predictors.adopted import Adopted
from headwise.predictors.predictor import Predictor
from headwise.predictors.saved import TEXT, input_of_folder
from headwise.predictors.watched_heads import steps
from headwise.runs.publish import MODEL
from headwise.runtime import version
from headwise.tasks.families import modules
from headwise.tasks.options import Options
from headwise.tasks.registry import task_type
from headwise.training.loading import load, recipe_of


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A run that a service answers with.

    Args:
        options: what requests may say of the answers.
        identity: what tells its weights, and the program that reads them, apart from others.
        folder: of a run that was trained here; it has examples.
        step: whose checkpoint it is, where it is not the run's model.
    """

    name: str
    task: str
    predictor: Predictor[Any, Any, Any]
    options: tuple[type[Options], ...] = ()
    identity: str = ""
    folder: Path | None = None
    step: int | None = None

    @property
    def verb(self) -> str:
        """What it is asked for; "predict" where its model has no verb of its own."""
        return self.predictor.verb

    def items(self, texts: Sequence[str], chat: bool | None = None) -> list[Any]:
        """The inputs.

        Args:
            chat: whether a chat template writes them; None: where there is one.

        Raises: HeadwiseError for a text that is none, or that would be opened as a file.
        """
        if self.predictor.reads == "file":
            raise Unsupported(f"{self.name} reads files, and no path is taken from a request")
        predictor = self.predictor
        return [predictor.parse(text) if chat is None else predictor.prompt(text, chat=chat) for text in texts]

    def attention_inputs(self, texts: Sequence[str], most: int, chat: bool | None = None) -> list[Any]:
        """The inputs, to look at their attention.

        Where a model cannot tell its tokens, each has a character at least.

        Raises: HeadwiseError as `items`, and for a text of more tokens than `most`.
        """
        items = self.items(texts, chat)
        for place, (text, item) in enumerate(zip(texts, items, strict=True)):
            _at_most(f"texts.{place}", self.predictor.unknown([item]).total or len(text), most)
        return items

    def check_target(self, target: str, most: int) -> None:
        """Raises: ConfigError for an output of more tokens than this, whose attention is to be looked at."""
        try:
            count = len(self.predictor.writes().encode(target))
        except Unsupported:
            count = len(target)
        _at_most("target", count, most)

    def answers(self, items: Sequence[Any], options: Any) -> list[Any]:
        """What `headwise predict --json` prints for each input, as an object."""
        outputs = self.predictor.predict(items, options)
        return [self.written(item, output, options) for item, output in zip(items, outputs, strict=True)]

    def written(self, item: Any, output: Any, options: Any) -> Any:
        """What `headwise predict --json` prints for an input and its output, as an object."""
        return self.predictor.fields(item, output, options)

    def decoding(self, options: Any) -> DecodingConfig | None:
        """How it searches when told `options`, as the recipe says where these do not; None: there is no search."""
        config: DecodingConfig | None = getattr(options or self.predictor, "decoding", None)
        return config

    def searches_in_batches(self, decoding: DecodingConfig) -> bool:
        """Whether another engine may search, whose batches nobody joins."""
        engines = self.predictor.engines()
        return engines is not None and (engines.instead or decoding.engine) != "headwise"

    def attention(self, item: Any) -> dict[str, Any]:
        """The weights of every layer while the model answers an input. Raises: Unsupported if it has no attention."""
        explanation = self.predictor.explain(item)
        if not isinstance(explanation, Explanation):
            raise Unsupported("this model has no attention to return")
        layers = {
            name: {
                "kind": layer.kind,
                "queries": layer.queries,
                "keys": layer.keys,
                "weights": layer.weights.round(6).tolist(),
            }
            for name, layer in explanation.layers.items()
        }
        return {"source": explanation.source, "output": explanation.output, "layers": layers}

    def steps(self, item: Any, target: str | None, layer: str | None, head: int) -> str:
        """Every step of one head while the model answers an input, as JSON."""
        return format_trace(steps(self.predictor, item, target, layer, head), "json")


def _at_most(name: str, count: int, most: int) -> None:
    if count > most:
        raise ConfigError(f"{name}: has {count:,} tokens; attention is shown of at most {most:,}")


def load_runs(folders: Sequence[Path], others: Sequence[Path] = (), *, files: bool = False) -> dict[str, LoadedRun]:
    """Loaded runs by name: that of the folder.

    Args:
        others: folders of Hugging Face models.
        files: also runs whose inputs are files; their inputs come another way than as paths in requests.

    Raises:
        CheckpointError: naming a folder without an intact run, or model.
        ConfigError: two folders of the same name, a name that is not UTF-8, or a run whose inputs are files where these
            are not wanted.
    """
    runs: dict[str, LoadedRun] = {}
    names = [folder.resolve().name for folder in (*folders, *others)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two runs are called {twice}; rename one of the folders")
    if odd := next((name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name)), None):
        raise ConfigError(f"{visible(odd)} is no name that a request can hold: it is not UTF-8; rename the folder")
    for name, folder in zip(names, folders, strict=False):
        task = recipe_of(folder).task
        predictor = load(folder)
        if predictor.reads == "file" and not files:
            raise ConfigError(
                f"{folder}: task {task} reads files, and no path is taken from a request; `headwise explain` reads them"
            )
        options = tuple(kind for kind in task_type(task).options if kind.adds_to == "predict")
        runs[name] = LoadedRun(name, task, predictor, options, _identity([folder / MODEL]), folder)
    for name, folder in zip(names[len(folders) :], others, strict=True):
        adopted = _adopted_type(str(folder), input_of_folder(folder)).at(folder)
        runs[name] = LoadedRun(name, adopted.task, adopted, (), _identity(adopted.files))
    return runs


def adopted_run(model: Any, preparation: Any) -> LoadedRun:
    """A model of transformers in memory, adopted in place unless it is so already.

    Args:
        preparation: its tokenizer, or its image processor.

    Raises: ConfigError: no model of transformers, or without what prepares its inputs; Unsupported: what it reads, or
        how it attends, cannot be shown.
    """
    if not isinstance(model, transformers_part("PreTrainedModel")):
        raise ConfigError(f"explored is a model of transformers, a predictor or a folder, not a {type(model).__name__}")
    name = type(model).__name__
    predictor = _adopted_type(name, model.main_input_name).of(model, preparation)
    # what tells its traces from those of other models
    return LoadedRun(name, predictor.task, predictor, (), secrets.token_hex(10))


def _adopted_type(name: str, reads: str) -> Any:
    """What applies models of transformers that read this. Raises: Unsupported."""
    types = {TEXT: Adopted}
    for module in modules("adopted"):
        types |= module.ADOPTED
    if reads not in types:
        raise Unsupported(f"{name}: it reads {reads}, and shown are models that read texts or pictures")
    return types[reads]


def _identity(files: Sequence[Path]) -> str:
    return " ".join([version(), *map(digest, files)])
