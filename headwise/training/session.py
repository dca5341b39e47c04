"""The state of a training run, and its checkpoint files: written by `Session.files`, read by `Session.restore`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from headwise.config import Config, build, to_toml
from headwise.data.files import digested
from headwise.data.sources import Limits, Source
from headwise.errors import CheckpointError, ConfigError, DataError, ShapeError
from headwise.layers.adapters import adapt, apart, freeze
from headwise.processes import ALONE, Processes, together
from headwise.runs.commits import Writable, canonical
from headwise.runs.parts import Content
from headwise.runs.publish import ADAPTER, CONFIG, EMA, MODEL, OPTIMIZER, OWN_FILES, STREAM, TRAINER
from headwise.runs.reading import Saved
from headwise.runs.tensors import TensorFile
from headwise.runs.weights import load_weights, match_weights, ties, weights_as_file, weights_file
from headwise.tasks.task import Task
from headwise.training import numerics, parallel, randomness
from headwise.training.ema import RunningMean, exchange
from headwise.training.optimizers import build_optimizer, optimizer_tensors, restore_optimizer
from headwise.training.progress import COUNTED, Progress
from headwise.training.recipe import Recipe
from headwise.training.recipes import named_files
from headwise.training.start import start_is_gone, start_of, value_of_start


class Trainer(Config):
    """The content of trainer.json: the state of a run besides tensors."""

    progress: Progress
    # epoch and position, and other state of the source of batches
    sampler: dict[str, Annotated[int, Field(ge=-COUNTED, le=COUNTED)]]
    randomness: dict[str, Any]
    # the same of every process but the first
    others: list[dict[str, Any]] = Field(default=[])
    machine: dict[str, Any]
    data: dict[str, str]

    @classmethod
    def read(cls, saved: Saved) -> "Trainer":
        """The trainer.json of a checkpoint. Raises: CheckpointError naming the file and the wrong keys."""
        values, name = saved.json(TRAINER), str(saved.folder / TRAINER)
        try:
            trainer = build(cls, values, name)
        except ConfigError as error:
            raise CheckpointError(str(error)) from None
        if trainer.progress.step != saved.facts.get("step", trainer.progress.step):
            raise CheckpointError(f"{name}: counts {trainer.progress.step} steps, not {saved.facts['step']}")
        if trainer.progress.window_steps and not trainer.progress.window_tokens:
            raise CheckpointError(f"{name}: progress: {trainer.progress.window_steps} steps of a window without tokens")
        for state in (trainer.randomness, *trainer.others):
            randomness.check(state, name)
        return trainer


class Session:
    """Model, optimizer, running mean, order of batches and counters of one run, as one of its processes has them."""

    def __init__(self, task: Task[Any], recipe: Recipe, processes: Processes = ALONE) -> None:
        training = recipe.training
        self.task = task
        self.recipe = recipe
        self.processes = processes
        self.kind = parallel.kind_of(training, processes)
        self.device = numerics.device(training.device)
        randomness.seed_all(recipe.seed, self.device)
        # a sharded model goes to the device block by block
        self.model = task.build() if self.kind == "fsdp" else task.build().to(self.device)
        if training.adapter is not None:
            self._adapt(training.adapter)
        freeze(self.model, training.frozen)
        parallel.check(self.model, processes)
        if training.recompute:
            parallel.recompute(self.model)
        self.objective = parallel.Objective(task, self.model)
        if self.kind == "fsdp":
            parallel.shard(self.objective, training, self.device)
        self.optimizer = build_optimizer(self.model, training)
        self.mean = RunningMean(self.model, training.ema_decay) if training.ema_decay else None
        source = self.source_of("train")
        if source is None:
            raise DataError("there is no example to train on")
        self.source: Source[Any] = source
        self.progress = Progress()
        # SHA-256 of every file that the run has read, by key
        self.digests = dict(task.assets.digests)
        self.validates = self.source_of("valid") is not None
        # random numbers of training follow the seed, however many the model took; each process has its own
        randomness.seed_all(randomness.seed_of(recipe.seed, processes.rank), self.device)

    def _adapt(self, adapter: str) -> None:
        """Raises: ConfigError where there is nothing that adapters could be around."""
        if value_of_start(self.recipe) is None:
            raise ConfigError("training.adapter trains adapters alone, so model.start must name weights to start from")
        if self.kind == "fsdp":
            raise ConfigError("training.adapter does not go with training.parallel = 'fsdp'; take 'ddp' or 'none'")
        adapt(self.model, adapter)

    def begin(self) -> list[str]:
        """Initialises the new model from files that the recipe names, such as vectors; returns notes for the log."""
        files = {name: path for name, path in named_files(self.recipe).items() if name not in self.digests}
        with digested(files) as digests:
            notes = self._initialise()
        self.digests |= digests
        if self.mean is not None:
            self.mean.restart()
        return notes

    def source_of(self, split: str, examples: int | None = None) -> Source[Any] | None:
        """The batches of a split, or of its first examples; None if there is no such split."""
        training = self.recipe.training
        limits = Limits(training.batch_tokens, training.batch_sentences, training.budget, self.recipe.seed, examples)
        return self.task.source(split, limits)

    @contextmanager
    def averaged_model(self) -> Iterator[nn.Module]:
        """The model with the weights to validate and publish: the running mean where there is one.

        Where processes share the model, a full copy in each of them, with which each computes by itself.
        """
        if self.kind == "fsdp":
            yield self._full_model()
        elif self.mean is None:
            yield self.model
        else:
            with self.mean.applied():
                yield self.model

    @contextmanager
    def with_weights(self, tensors: Mapping[str, Tensor], tied: Mapping[str, str]) -> Iterator[nn.Module]:
        """The model with these weights inside, and its own afterwards; for one process alone."""
        if self.kind == "fsdp":
            model = self._build()
            load_weights(model, tensors, tied, "the model to score")
            yield model
            return
        with exchange(match_weights(self.model, tensors, tied, "the model to score")):
            yield self.model

    def published_weights(self) -> TensorFile:
        """The weights to publish as the content of a file: views, which further training changes."""
        if self.mean is None:
            return weights_file(self.model)
        return weights_as_file(self.mean.weights(), ties(self.model))

    def model_files(self) -> dict[str, Writable]:
        """The files that prediction needs besides the weights."""
        files = self.task.assets.files
        if clash := OWN_FILES & files.keys():
            raise ConfigError(f"the task's file '{min(clash)}' has the name of a file of the run folder")
        return {CONFIG: to_toml(self.recipe).encode(), **files}

    def files(self) -> dict[str, Writable]:
        """The files of a checkpoint; called by all processes.

        Raises: Diverged when weights or optimizer state are not finite: such a checkpoint is never written.
        """
        optimizer = optimizer_tensors(self.optimizer, self.model)
        numerics.check_finite({**self.model.state_dict(), **optimizer}, self.progress.step, self.processes)
        files = {**self.model_files(), MODEL: weights_file(self.model), OPTIMIZER: TensorFile(optimizer, {})}
        if self.mean is not None:
            files[EMA] = self.published_weights()
        if stream := self._stream():
            files[STREAM] = TensorFile(stream, {})
        return {**files, TRAINER: canonical(self._trainer().model_dump(mode="json"))}

    def restore(self, saved: Saved, digests: Mapping[str, str], *, next_pass: bool = False) -> None:
        """Continues exactly where `files` was called.

        Args:
            digests: SHA-256 of the run's files.
            next_pass: continue at the beginning of the next pass over the data, since it has changed.

        Raises: CheckpointError naming the file that does not fit.
        """
        trainer = Trainer.read(saved)
        load_weights(self.model, *self._read(saved, MODEL), str(saved.folder / MODEL))
        restore_optimizer(self.optimizer, self.model, self._read(saved, OPTIMIZER)[0], str(saved.folder / OPTIMIZER))
        if self.mean is not None:
            self.mean.restore(*self._read(saved, EMA), str(saved.folder / EMA))
        self.progress = trainer.progress
        stream = saved.file(STREAM)[0] if STREAM in saved.tensor_files else {}
        sampler, self.digests = trainer.sampler, dict(digests)
        if next_pass and sampler.get("position"):
            sampler, stream = {**sampler, "epoch": sampler.get("epoch", 0) + 1, "position": 0}, {}
        try:
            stream = {name: tensor.to(self.device) for name, tensor in stream.items()}
            self.source.restore(sampler, stream, self.processes.rank, self.processes.world)
        except ShapeError as error:
            raise CheckpointError(f"{saved.folder / STREAM}: {error}") from None
        except DataError as error:
            raise CheckpointError(f"{saved.folder / TRAINER}: {error}") from None
        self._restore_randomness(trainer, str(saved.folder / TRAINER))

    def _read(self, saved: Saved, name: str) -> Content:
        """A file of a checkpoint; where processes share the model, the rows of this process."""
        if self.kind != "fsdp":
            return saved.file(name)
        model = self.model.state_dict()
        # tensors of the optimizer are called slot:parameter
        return together(self.processes, lambda: saved.file(name, lambda key: model.get(key.rpartition(":")[2])))

    def _initialise(self) -> list[str]:
        if self.kind != "fsdp":
            return self._initialised(self.model)
        model = self._full_model()
        notes = self._initialised(model)
        weights = weights_as_file(model.state_dict(), ties(model))
        load_weights(self.model, weights.tensors, weights.metadata, "the new model")
        return notes

    def _initialised(self, model: nn.Module) -> list[str]:
        notes = self.task.initialise(model, self.recipe.seed)
        start = start_of(self.recipe)
        return notes if start is None else [*notes, start.load_into(model, self.recipe, self.task)]

    @property
    def start_line(self) -> str | None:
        """What the run starts from, with its SHA-256 and its licence; None where it starts from nothing.

        Where that is gone, the card has the SHA-256 alone.
        """
        if value_of_start(self.recipe) is None or start_is_gone(self.recipe):
            return None
        start = start_of(self.recipe)
        return None if start is None else start.origin.line()

    def _build(self) -> nn.Module:
        with randomness.isolated(self.recipe.seed, self.device):
            return self.task.build().to(self.device)

    def _full_model(self) -> nn.Module:
        """A copy of the model, gathered tensor by tensor, with the running mean where there is one."""
        model = self._build()
        shared = self.mean.weights() if self.mean is not None else self.model.state_dict()
        with torch.no_grad():
            for name, value in model.state_dict().items():
                tensor: Any = shared[name].detach()
                value.copy_(tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor)
        return model

    def _restore_randomness(self, trainer: Trainer, name: str) -> None:
        states, rank = (trainer.randomness, *trainer.others), self.processes.rank
        if rank < len(states):
            randomness.restore(states[rank], name, self.device)
        else:
            # a process that the run did not have: new random numbers
            randomness.seed_all(randomness.seed_of(self.recipe.seed, rank, trainer.progress.step), self.device)

    def _stream(self) -> dict[str, Tensor]:
        """The state that the source carries from batch to batch, of all processes."""
        own = self.source.tensors()
        if self.processes.world == 1:
            return own
        return self.source.together(self.processes.gather({name: tensor.cpu() for name, tensor in own.items()}))

    def machine(self) -> dict[str, Any]:
        """What the last bits of a result depend on, the number of processes included."""
        shared = {"processes": self.processes.world, "parallel": self.kind}
        return machine(self.device) | (shared if self.processes.world > 1 else {})

    def _trainer(self) -> Trainer:
        states = self.processes.gather(randomness.capture(self.device))
        return Trainer(
            progress=self.progress,
            sampler=self.source.state(),
            randomness=states[0],
            others=states[1:],
            machine=self.machine(),
            data=dict(self.digests),
        )


def weight_files(weights: TensorFile) -> dict[str, Writable]:
    """The weights of a published model; the tensors of adapters in a file of their own too."""
    adapters = apart(weights.tensors)
    return {MODEL: weights, **({ADAPTER: TensorFile(adapters, {"format": "pt"})} if adapters else {})}


def machine(device: torch.device) -> dict[str, Any]:
    """What the last bits of a result depend on: device, threads, torch, instruction set, matrix-product precision."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "float32_products": getattr(torch.backends.mkldnn, "matmul").fp32_precision,  # noqa: B009
    }
