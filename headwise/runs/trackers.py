"""Services that draw the curves of runs: TensorBoard, Weights & Biases, MLflow, Trackio; each by choice, as an extra.

A resumed run continues the same curve and repeats no event: `trackers.json` has the last one that a tracker took.
"""

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from headwise.errors import CheckpointError, ConfigError, MachineError
from headwise.runs.commits import commit_file, seal
from headwise.runs.log import NUMBERED, TIMING, Event, Listener
from headwise.runs.reading import read_sealed

STATE = "trackers.json"


class Tracker(ABC):
    """A service that takes numbers by name and step, in a run of the service that `key` names.

    Args:
        project: the name that the service groups runs by.
        recipe: its keys and values, shown beside the curves.
        key: the identity of a resumed run in the service; None the first time.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    key: str

    @abstractmethod
    def __init__(self, run: Path, project: str, recipe: Mapping[str, Any], key: str | None) -> None: ...

    @abstractmethod
    def write(self, step: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Numbers and texts of a step, by names such as valid/loss."""

    @abstractmethod
    def close(self) -> None: ...


class TensorBoard(Tracker):
    """Event files in `tensorboard/` of the run folder."""

    name, package = "tensorboard", "tensorboard"

    def __init__(self, run: Path, project: str, recipe: Mapping[str, Any], key: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.key = "tensorboard"
        self._writer: Any = SummaryWriter(run / "tensorboard")

    def write(self, step: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        for name, text in texts.items():
            self._writer.add_text(name, text, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB(Tracker):
    """Weights & Biases; WANDB_MODE=offline keeps the run on this machine."""

    name, package = "wandb", "wandb"

    def __init__(self, run: Path, project: str, recipe: Mapping[str, Any], key: str | None) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=project, name=run.name, dir=str(run), config=dict(recipe), id=key, resume="allow"
        )
        self.key = self._run.id

    def write(self, step: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        self._run.log({**numbers, **texts}, step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow(Tracker):
    """MLflow; MLFLOW_TRACKING_URI names a folder or a server."""

    name, package = "mlflow", "mlflow-skinny"

    def __init__(self, run: Path, project: str, recipe: Mapping[str, Any], key: str | None) -> None:
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient()
        if key is None:
            existing = self._client.get_experiment_by_name(project)
            experiment = existing.experiment_id if existing is not None else self._client.create_experiment(project)
            key = str(self._client.create_run(experiment, run_name=run.name).info.run_id)
            for name, value in recipe.items():
                self._client.log_param(key, name, value)
        self.key = key

    def write(self, step: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self.key, [Metric(name, value, now, step) for name, value in numbers.items()])

    def close(self) -> None:
        self._client.set_terminated(self.key)


class Trackio(WandB):
    """Trackio, on this machine: `trackio show`. Its runs have the methods of those of Weights & Biases."""

    name, package = "trackio", "trackio"

    def __init__(self, run: Path, project: str, recipe: Mapping[str, Any], key: str | None) -> None:
        import trackio

        # Trackio identifies runs by name, which two folders may share
        self.key = key or f"{run.name}-{time.time_ns():x}"
        self._run: Any = trackio.init(
            project=project,
            name=self.key,
            config=dict(recipe),
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )


TRACKERS: dict[str, type[Tracker]] = {kind.name: kind for kind in (TensorBoard, WandB, MLflow, Trackio)}


class TrackerListener(Listener):
    """A tracker that takes every event once, however often a run is resumed from before it."""

    def __init__(self, run: Path, tracker: Tracker) -> None:
        self._run, self._tracker = run, tracker
        last = _state(run).get(tracker.name, {})
        self._step, self._kinds = int(last.get("step", -1)), list(last.get("kinds", ()))

    def __str__(self) -> str:
        return self._tracker.name

    def take(self, event: Event) -> None:
        kind, step = event["event"], event.get("step", -1)
        if kind not in NUMBERED or step < self._step or (step == self._step and kind in self._kinds):
            return
        group = "valid" if kind == "validation" else "train"
        values = {**event, **event.get("metrics", {}), **event.get(TIMING, {})}
        numbers = {
            f"{group}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and name != "step" and math.isfinite(value)
        }
        texts = {f"samples/{index}": text for index, text in enumerate(event.get("samples", []))}
        self._tracker.write(step, numbers, texts)
        self._step, self._kinds = step, [*(self._kinds if step == self._step else ()), kind]
        state = _state(self._run)
        state[self._tracker.name] = {"key": self._tracker.key, "step": self._step, "kinds": self._kinds}
        # without it a resumed run may repeat an event, which is no reason to lose the tracker
        with contextlib.suppress(MachineError):
            commit_file(self._run / STATE, seal(state))

    def sync(self) -> None:
        """Nothing: a service keeps its events."""

    def close(self) -> None:
        self._tracker.close()


def open_trackers(
    run: Path, names: tuple[str, ...], project: str, recipe: Mapping[str, Any], note: Callable[[str], None]
) -> list[Listener]:
    """The trackers of these names; one whose service does not answer is reported to `note` and left out.

    Raises: ConfigError naming the extra that is not installed.
    """
    opened: list[Listener] = []
    for name in names:
        kind, key = TRACKERS[name], _state(run).get(name, {}).get("key")
        try:
            opened.append(TrackerListener(run, kind(run, project, recipe, key)))
        except ImportError:
            _close(opened)
            raise ConfigError(
                f"training.trackers: {name} needs {kind.package}; install it with: pip install 'headwise[{name}]'"
            ) from None
        except Exception as error:
            note(f"{name} gets no events: {type(error).__name__}: {str(error)[:200]}")
    return opened


def _close(listeners: list[Listener]) -> None:
    for listener in listeners:
        with contextlib.suppress(Exception):
            listener.close()


def _state(run: Path) -> dict[str, dict[str, Any]]:
    """By tracker: its key, the last step it took, and the kinds of events of that step. Empty if damaged."""
    try:
        return read_sealed(run / STATE)
    except CheckpointError:
        return {}
