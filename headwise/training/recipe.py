"""A recipe: the fields of a task with `task`, `seed` and `[training]`, read from TOML and checked as a whole."""

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from pydantic import Field, create_model, model_validator

from headwise.config import Config, build, override, parse, read_toml
from headwise.errors import CheckpointError, ConfigError, Untrusted
from headwise.tasks import registry


class TrainingConfig(Config):
    """How a model is trained: the `[training]` section of a recipe. Where 0 switches something off, it says so."""

    optimizer: Literal["adamw", "adam", "sgd"] = Field("adamw", description="adamw runs as one fused kernel")
    learning_rate: float = Field(1e-3, gt=0, description="peak of the schedule; for noam, the factor in its formula")
    betas: tuple[float, float] = Field((0.9, 0.98), description="decay of Adam's two running means")
    epsilon: float = Field(1e-8, gt=0, description="added to Adam's denominator")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd; 0: plain sgd")
    weight_decay: float = Field(0.01, ge=0, description="of weight matrices; biases and norms are never decayed")
    decay_embeddings: bool = Field(False, description="apply weight_decay to embedding tables too")
    schedule: Literal["noam", "inverse_sqrt", "cosine", "linear", "constant", "budget"] = Field(
        "inverse_sqrt",
        description="learning rate after warm-up; cosine and linear need max_steps; budget falls linearly "
        "to zero at the end of the run, whichever limit comes first",
    )
    warmup_steps: int = Field(400, ge=0, description="steps over which the learning rate rises from zero")
    warmup_share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="warm-up as a share of the run, instead of warmup_steps (schedules budget and constant); "
        "0: use warmup_steps",
    )
    noam_width: int | None = Field(None, gt=0, description="d_model in the formula of noam; if absent, model.d_model")
    final_share: float = Field(0.0, ge=0, le=1, description="where cosine and linear end, as a share of the peak")

    max_steps: int = Field(0, ge=0, description="stop after this many steps; 0: no limit")
    max_epochs: int = Field(20, ge=0, description="stop after this many epochs; 0: no limit")
    max_cpu_s: float = Field(
        0.0,
        ge=0,
        description="stop after this many CPU seconds of the process over all threads, preparation, validation and "
        "earlier parts of a resumed run included; 0: no limit; where a run stops then depends on the machine",
    )
    max_minutes: float = Field(
        0.0,
        ge=0,
        description="stop after this many minutes of wall-clock time, preparation, validation and earlier parts of a "
        "resumed run included; 0: no limit; where a run stops then depends on the machine",
    )

    adapter: str | None = Field(
        None,
        description="train low-rank adapters around projections alone, for a model that starts from another "
        "(model.start): lora:rank=8, or lora:rank=8,on=projection+inner",
    )
    frozen: tuple[str, ...] = Field(
        (), description='parts of the model that are not trained, by their names, such as "encoder"'
    )

    batch_tokens: int = Field(4096, gt=0, description="budget of a batch in padded tokens")
    budget: Literal["longest", "target"] = Field("longest", description="the side of examples that the budget counts")
    batch_sentences: int | None = Field(None, gt=0, description="largest number of examples in a batch")
    accumulate: int = Field(1, gt=0, description="batches per optimizer step; the gradient is that of one large batch")
    clip_norm: float = Field(1.0, ge=0, description="largest norm of the gradient of all parameters; 0: no clipping")
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the moving average of the weights, which is validated and saved instead of them; 0: none",
    )
    average_last: int = Field(
        0,
        ge=0,
        description="at the end, average this many validated checkpoints and keep the average if it is better; 0: none",
    )

    validate_every: int = Field(0, ge=0, description="steps between validations; 0: validate by epochs only")
    validate_every_epochs: int = Field(1, ge=0, description="epochs between validations; 0: validate by steps only")
    valid_limit: int | None = Field(None, gt=0, description="validate on only this many examples")
    monitor: str = Field("loss", description="the metric that decides which model is best")
    mode: Literal["auto", "min", "max"] = Field("auto", description="what is better; auto: min for loss and perplexity")
    patience: int = Field(0, ge=0, description="stop after this many validations without a new best; 0: never")

    save_every: int = Field(0, ge=0, description="steps between checkpoints, besides those at validations; 0: none")
    keep_last: int = Field(2, ge=1, description="number of newest verified checkpoints to keep, besides the best")
    on_disk_full: Literal["retry", "stop"] = Field("retry", description="retry: go on and save later; or stop")

    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="auto: a GPU if there is one")
    precision: Literal["fp32", "bf16", "auto"] = Field(
        "fp32",
        description="bf16: autocast of the loss; weights and recurrent layers stay in fp32. auto: measured when a run "
        "begins, then kept: bf16 where its products are fast",
    )
    parallel: Literal["auto", "none", "ddp", "fsdp"] = Field(
        "auto",
        description="how the processes of a launcher such as torchrun share the model: each has all of it (ddp) or a "
        "part (fsdp); auto: ddp where there are several",
    )
    offload: bool = Field(False, description="under fsdp on a GPU: weights, gradients and optimizer stay in CPU memory")
    recompute: bool = Field(
        False,
        description="keep only what enters a block of the model, and compute the block again for the gradient: less "
        "memory, a third more time",
    )
    compile: bool = Field(False, description="compile the loss where that works; resumed runs may differ in rounding")

    baseline_cpu_s: float = Field(30.0, ge=0, description="CPU seconds after which no baseline is fitted; 0: none")
    log_every: int = Field(50, gt=0, description="steps between lines of metrics.jsonl")
    print_every_s: float = Field(10.0, ge=0, description="seconds between progress lines if the output is no terminal")
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = Field(
        (), description="services that log the run; each needs the extra of the same name"
    )
    tracker_project: str = Field("headwise", description="project under which they log the run")

    @model_validator(mode="after")
    def _consistent(self) -> "TrainingConfig":
        if not (self.max_steps or self.max_epochs or self.max_cpu_s or self.max_minutes):
            raise ValueError("training never ends: set max_steps, max_epochs, max_cpu_s or max_minutes")
        if self.schedule in ("cosine", "linear") and not self.max_steps:
            raise ValueError(f"schedule '{self.schedule}' needs max_steps, where it ends")
        if self.warmup_share and self.schedule not in ("budget", "constant"):
            raise ValueError(f"schedule '{self.schedule}' counts its warm-up in warmup_steps; leave warmup_share out")
        if self.schedule == "noam" and not self.warmup_steps:
            raise ValueError("schedule 'noam' needs warmup_steps of at least 1")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas {self.betas} must be at least 0 and below 1")
        return self

    def follows_clock(self) -> bool:
        """Whether a limit is a time, so that no two runs are the same bit for bit."""
        return bool(self.max_cpu_s or self.max_minutes)


class FilmConfig(Config):
    """A film of the training: where every head looks in a few inputs, step after step. It changes nothing else."""

    every: int = Field(0, ge=0, description="steps between frames, besides one at each end; 0: no film")
    probes: list[str] = Field([], description="inputs to look at; if empty those of show, or the first to validate on")
    targets: list[str] = Field(
        [],
        description="an answer that the model is made to give for each probe; if empty, as the data has it, or its own",
    )
    max_mib: int = Field(64, ge=1, description="MiB of all frames; beyond it every second frame goes, again and again")

    @model_validator(mode="after")
    def _as_many(self) -> "FilmConfig":
        if self.targets and len(self.targets) != len(self.probes):
            raise ValueError(f"{len(self.targets)} targets for {len(self.probes)} probes; give one for each, or none")
        return self


class Recipe(Config):
    """All that decides a run. A recipe of a task has the task's own fields besides these."""

    task: str = Field(description="name of the task")
    seed: int = Field(0, ge=0, lt=2**63, description="of all random numbers: initial weights, order of data, dropout")
    training: TrainingConfig = Field(TrainingConfig(), description="how it is trained")
    film: FilmConfig = Field(FilmConfig(), description="where its attention looks while it trains")


# what may change when a run continues, besides where files lie: where it ends and what is kept and told, but nothing
# that it computes
MAY_CHANGE = frozenset(
    f"training.{name}"
    for name in (
        "max_steps",
        "max_epochs",
        "max_cpu_s",
        "max_minutes",
        "patience",
        "save_every",
        "keep_last",
        "on_disk_full",
        "print_every_s",
        "device",
        "parallel",
        "offload",
        "recompute",
        "baseline_cpu_s",
        "trackers",
        "tracker_project",
    )
) | {f"film.{name}" for name in FilmConfig.model_fields}


def read_recipe(source: str | os.PathLike[str] | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """Reads a recipe from a TOML file or a mapping, with each `section.key=value` of `overrides` set.

    Raises: ConfigError that names the file and every wrong key.
    """
    if isinstance(source, Mapping):
        name, values = "recipe", dict(source)
    else:
        name, values = os.fspath(source), read_toml(source)
    values = override(values, overrides)
    task = values.get("task")
    if not isinstance(task, str):
        raise ConfigError(f'{name}: task is missing; write task = "...", one of: {", ".join(registry.task_names())}')
    return _with_width(build(recipe_type(task, registry.task_type(task).config_type), values, name), name)


def as_recipe(source: Recipe | str | os.PathLike[str] | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """The recipe itself, or what `read_recipe` makes of the source; overrides apply to both."""
    settings = list(overrides)
    if not isinstance(source, Recipe):
        return read_recipe(source, settings)
    return read_recipe(source.model_dump(mode="json", exclude_none=True), settings) if settings else source


def parse_recipe(data: bytes, name: str) -> Recipe:
    """The recipe of a run folder's config.toml. Raises: CheckpointError when it is none; Untrusted."""
    try:
        return read_recipe(parse(data.decode()))
    except Untrusted as error:
        raise Untrusted(f"{name}: {error}") from None
    except (UnicodeDecodeError, ConfigError) as error:
        raise CheckpointError(f"{name}: {error}") from None


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, as key -> (old, new)."""
    before, after = flattened(old), flattened(new)
    keys = sorted(before.keys() | after.keys())
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def flattened(recipe: Recipe) -> dict[str, Any]:
    """All values by `section.key`."""
    return _flat(recipe.model_dump(mode="json"))


@functools.cache
def recipe_type(task: str, config_type: type[Config]) -> type[Recipe]:
    """The recipes of a task: its own fields and those of every recipe."""
    recipe = create_model("Recipe", __base__=(Recipe, config_type), __doc__=f"A recipe of the task '{task}'.")
    return cast(type[Recipe], recipe)


def _with_width(recipe: Recipe, name: str) -> Recipe:
    training = recipe.training
    if training.schedule != "noam" or training.noam_width is not None:
        return recipe
    width = getattr(getattr(recipe, "model", None), "d_model", None)
    if not isinstance(width, int):
        raise ConfigError(f"{name}: training.schedule 'noam' needs training.noam_width: there is no model.d_model")
    return recipe.model_copy(update={"training": training.model_copy(update={"noam_width": width})})


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
