"""A task of a few numbers for the tests of training: tagging tokens, with one or two sides, dropout, tied weights."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.config import Config
from headwise.data.sources import Limits, Source, bucketed
from headwise.predictors.predictor import Predictor
from headwise.tasks import registry
from headwise.tasks.task import Assets, Metric, Stats, Task

VOCABULARY = 11
# counters of a run that are times
TIMES = ("cpu_s", "wall_s", "schedule_from")


class ToyConfig(Config):
    """Sizes of the toy task."""

    examples: int = 23
    valid_examples: int = 5
    without_tokens: int = 0
    width: int = 6
    dropout: float = 0.2
    sides: int = 1
    tied: bool = True


@dataclass
class ToyBatch:
    """Padded tokens; a target of -100 is padding."""

    source: Tensor
    inputs: Tensor
    targets: Tensor
    indices: list[int]

    @property
    def num_tokens(self) -> int:
        return int((self.targets >= 0).sum())

    def to(self, device: Any) -> "ToyBatch":
        return replace(self, **{name: getattr(self, name).to(device) for name in ("source", "inputs", "targets")})


class ToyModel(nn.Module):
    """Embedding, mean of the other side, norm, dropout, output over the same table."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, config.width)
        self.mix = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.width, VOCABULARY)
        if config.tied:
            self.output.weight = self.embedding.weight

    def twin(self):
        return None

    def engines(self):
        return None

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        context = self.embedding(source).mean(1, keepdim=True)
        return self.output(self.dropout(self.norm(self.mix(self.embedding(inputs) + context))))


Rows = list[list[int]]


# the tests look at the model itself
Predictor.register(ToyModel)


class ToyTask(Task[dict[str, Rows]]):
    """Learns token -> (3 token + 1) mod 11."""

    name: ClassVar[str] = "toy"
    config_type: ClassVar[type[Config]] = ToyConfig
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("loss", "low"), Metric("accuracy", "high"))
    config: ToyConfig

    @classmethod
    def prepare(cls, config: ToyConfig) -> Assets[dict[str, Rows]]:
        rng = np.random.default_rng(5)
        count = {"train": config.examples, "valid": config.valid_examples}
        rows = {
            split: [rng.integers(0, VOCABULARY, rng.integers(1, 8)).tolist() for _ in range(size)]
            for split, size in count.items()
        }
        for place in range(config.without_tokens):
            rows["train"][place] = []
        digest = hashlib.sha256(str(rows["train"]).encode()).hexdigest()
        return Assets({"labels.json": json.dumps(list(range(VOCABULARY))).encode()}, rows, {"train": digest})

    def __init__(self, config: ToyConfig, assets: Assets[dict[str, Rows]]) -> None:
        super().__init__(config, assets)
        assert len(json.loads(assets.file("labels.json"))) == VOCABULARY

    @classmethod
    def examples(cls, config: ToyConfig, split: str) -> Rows:
        data = cls.prepare(config).data
        assert data is not None
        return data[split]

    def build(self) -> nn.Module:
        return ToyModel(self.config)

    def source(self, split: str, limits: Limits) -> Source[ToyBatch] | None:
        rows = (self.assets.data or {}).get(split, [])
        sizes = [[len(row) + 1 + side for side in range(self.config.sides)] for row in rows]
        lengths = np.array(sizes, dtype=np.int64).reshape(len(sizes), self.config.sides)
        return bucketed(lengths, partial(self.collate, rows), limits, shuffle=split == "train") if rows else None

    def collate(self, every: Rows, indices: list[int]) -> ToyBatch:
        rows = [every[index] for index in indices]
        longest = max(1, max(map(len, rows)))
        inputs = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        targets = torch.tensor(
            [[(3 * t + 1) % VOCABULARY for t in row] + [-100] * (longest - len(row)) for row in rows]
        )
        source = inputs[:, :1] if self.config.sides == 1 else inputs
        return ToyBatch(source, inputs, targets, list(indices))

    def loss(self, model: nn.Module, batch: ToyBatch) -> Tensor:
        logits = wide(model(batch.source, batch.inputs))
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="sum")

    def measure(self, model: nn.Module, batches: Iterable[ToyBatch]) -> Stats:
        stats = {"loss": 0.0, "right": 0.0, "tokens": 0.0}
        for batch in batches:
            stats["loss"] += self.loss(model, batch).item()
            stats["right"] += (model(batch.source, batch.inputs).argmax(-1) == batch.targets).sum().item()
            stats["tokens"] += batch.num_tokens
        return stats

    def summarise(self, stats: Stats) -> dict[str, float]:
        return {"loss": stats["loss"] / stats["tokens"], "accuracy": stats["right"] / stats["tokens"]}

    def samples(self, model: nn.Module) -> list[str]:
        two = torch.tensor([[2]], device=next(model.parameters()).device)
        return [f"2 → {model(two, two).argmax(-1).item()} (7)"]

    def predictor(self, model: nn.Module) -> nn.Module:
        return model


def toy(config: Any = None) -> ToyTask:
    """The task of a recipe, its data read."""
    config = ToyConfig() if config is None else config
    return ToyTask(config, ToyTask.prepare(config))


def batch_of(task: ToyTask, indices: Iterable[int], split: str = "train") -> ToyBatch:
    """These examples."""
    assert task.assets.data is not None
    return task.collate(task.assets.data[split], list(indices))


def install() -> None:
    """Makes `task = "toy"` known to recipes."""
    real = registry.task_type

    def task_type(name: str) -> type[Task]:
        return ToyTask if name == "toy" else real(name)

    registry.task_type = task_type


def recipe(training: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A recipe of a few quick steps: 8 batches an epoch, a validation each 5 steps."""
    defaults = {
        "max_steps": 20,
        "max_epochs": 0,
        "batch_tokens": 24,
        "validate_every": 5,
        "validate_every_epochs": 0,
        "learning_rate": 0.05,
        "warmup_steps": 3,
        "log_every": 3,
        # its predictor is the model itself, and has none
        "baseline_cpu_s": 0,
    }
    return {"task": "toy", "seed": 3, **fields, "training": {**defaults, **(training or {})}}


def digest_of_weights(model: nn.Module) -> str:
    """SHA-256 over all weights."""
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


def final_digest(run: Any) -> dict[str, str]:
    """SHA-256 of everything that must be the same in an interrupted and in an uninterrupted run."""
    from headwise.runs.checkpoints import Checkpoints
    from headwise.runs.log import read_metrics

    saved = Checkpoints(run).read(Checkpoints(run).entries()[0])
    progress = {key: value for key, value in saved.json("trainer.json").items() if key != "machine"}
    # the checks of annotations, which are on in tests, draw from Python's generator; training here does not
    progress["randomness"] = progress["randomness"]["torch"]
    progress["progress"] = {key: value for key, value in progress["progress"].items() if key not in TIMES}
    lines = [{key: value for key, value in event.items() if key != "timing"} for event in read_metrics(run)]
    parts = {name: hashlib.sha256((saved.folder / name).read_bytes()) for name in saved.tensor_files}
    parts["trainer"] = hashlib.sha256(json.dumps(progress, sort_keys=True).encode())
    parts["metrics"] = hashlib.sha256(json.dumps(lines, sort_keys=True).encode())
    parts["published"] = hashlib.sha256((run / "model.safetensors").read_bytes())
    return {name: part.hexdigest() for name, part in parts.items()}
