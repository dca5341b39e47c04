"""A task of a few numbers for the tests of training: tagging tokens, with one or two sides, dropout, tied weights."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.tasks import registry
from headwise.tasks.task import Sample, Task

VOCABULARY = 11


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

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        context = self.embedding(source).mean(1, keepdim=True)
        return self.output(self.dropout(self.norm(self.mix(self.embedding(inputs) + context))))


class ToyTask(Task):
    """Learns token -> (3 token + 1) mod 11."""

    name: ClassVar[str] = "toy"
    config_type: ClassVar[type[Config]] = ToyConfig
    config: ToyConfig

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        rng = np.random.default_rng(5)
        count = {"train": config.examples, "valid": config.valid_examples}
        self._rows = {
            split: [rng.integers(0, VOCABULARY, rng.integers(1, 8)).tolist() for _ in range(size)]
            for split, size in count.items()
        }
        for place in range(config.without_tokens):
            self._rows["train"][place] = []

    def build(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return ToyModel(self.config)

    def lengths(self, split: str) -> np.ndarray:
        sizes = [[len(row) + 1 + side for side in range(self.config.sides)] for row in self._rows.get(split, [])]
        return np.array(sizes, dtype=np.int64).reshape(len(sizes), self.config.sides)

    def collate(self, split: str, indices: list[int]) -> ToyBatch:
        rows = [self._rows[split][index] for index in indices]
        longest = max(1, max(map(len, rows)))
        inputs = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        targets = torch.tensor(
            [[(3 * t + 1) % VOCABULARY for t in row] + [-100] * (longest - len(row)) for row in rows]
        )
        source = inputs[:, :1] if self.config.sides == 1 else inputs
        return ToyBatch(source, inputs, targets, list(indices))

    def loss(self, model: nn.Module, batch: ToyBatch) -> Tensor:
        logits = model(batch.source, batch.inputs).float()
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="sum")

    def evaluate(self, model: nn.Module, split: str, *, limit: int | None = None) -> dict[str, float]:
        batch = self.collate(split, list(range(len(self._rows[split])))[:limit])
        right = model(batch.source, batch.inputs).argmax(-1) == batch.targets
        loss = self.loss(model, batch).item() / batch.num_tokens
        return {"loss": loss, "accuracy": right.sum().item() / batch.num_tokens}

    def samples(self, model: nn.Module) -> list[Sample]:
        output = model(torch.tensor([[2]]), torch.tensor([[2]])).argmax(-1).item()
        return [Sample("2 →", "7", str(output))]

    def files(self) -> dict[str, bytes]:
        return {"labels.json": json.dumps(list(range(VOCABULARY))).encode()}

    def fingerprint(self) -> dict[str, str]:
        return {"train": hashlib.sha256(str(self._rows["train"]).encode()).hexdigest()}

    @classmethod
    def restore(cls, files: Mapping[str, bytes], config: Any) -> "ToyTask":
        task = cls(config)
        assert len(json.loads(files["labels.json"])) == VOCABULARY
        return task

    def predictor(self, model: nn.Module) -> nn.Module:
        return model

    def card(self, metrics: Mapping[str, float]) -> str:
        return "# Toy\n\nMultiplies by three."


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
    from headwise.training.checkpoints import Checkpoints
    from headwise.training.log import read_metrics

    saved = Checkpoints(run).read(Checkpoints(run).entries()[0])
    progress = {key: value for key, value in saved.json("trainer.json").items() if key != "machine"}
    # the checks of annotations, which are on in tests, draw from Python's generator; training here does not
    progress["randomness"] = progress["randomness"]["torch"]
    progress["progress"] = {key: value for key, value in progress["progress"].items() if key != "cpu_s"}
    lines = [{key: value for key, value in event.items() if key != "timing"} for event in read_metrics(run)]
    parts = {name: hashlib.sha256((saved.folder / name).read_bytes()) for name in saved.tensors}
    parts["trainer"] = hashlib.sha256(json.dumps(progress, sort_keys=True).encode())
    parts["metrics"] = hashlib.sha256(json.dumps(lines, sort_keys=True).encode())
    parts["published"] = hashlib.sha256((run / "model.safetensors").read_bytes())
    return {name: part.hexdigest() for name, part in parts.items()}
