"""The model in the root of a run folder, complete for prediction without `state/`; a reader sees the old or the new."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.commits import MANIFEST, Writable, commit_file, seal
from headwise.runs.migration import CONFIG, FORMAT
from headwise.runs.parts import TABLE
from headwise.runs.reading import Saved, read_folder

T = TypeVar("T")

MODEL = "model.safetensors"
EMA = "ema.safetensors"
# of a published model the tensors of its adapters, which are in MODEL too
ADAPTER = "adapter.safetensors"
TRAINER = "trainer.json"
OPTIMIZER = "optimizer.safetensors"
STREAM = "stream.safetensors"
# the fact of a published model with the data it was trained on: SHA-256 by key of the recipe
DATA = "data"
OWN_FILES = frozenset(
    {MODEL, EMA, ADAPTER, CONFIG, TRAINER, OPTIMIZER, STREAM, TABLE, MANIFEST, "metrics.jsonl", "log.txt", "README.md"}
)
# a reader that meets a replacement half done tries again after this long
_RETRY_S = 0.1


def publish(run: Path, files: Mapping[str, Writable], facts: Mapping[str, Any]) -> None:
    """Puts model, config and task files into the root of `run`; the manifest that binds them is written last.

    Raises: MachineError when the disk refuses; then the old model, or the checkpoints, can still be read.
    """
    entries = {name: commit_file(run / name, content) for name, content in files.items()}
    commit_file(run / MANIFEST, seal({"format": FORMAT, "kind": "model", "files": entries, **facts}))


def read_run(run: Path, warn: Callable[[str], None], accept: Callable[[Saved], T]) -> T:
    """The result of `accept` for the published model, or else for the best or the newest good checkpoint.

    Every file is verified before use; a damaged one is reported to `warn`.

    Raises: CheckpointError when none is good.
    """
    if not run.is_dir():
        raise CheckpointError(f"{run}: no such run folder")
    for last_try in (False, True):
        try:
            return accept(read_folder(run))
        except CheckpointError as error:
            problem = error
        if not last_try:
            time.sleep(_RETRY_S)
    checkpoints = Checkpoints(run)
    try:
        accepted = checkpoints.first_accepted(accept, warn, first=checkpoints.best_step(warn))
    except CheckpointError as error:
        raise CheckpointError(f"{problem}; {error}") from None
    if accepted is None:
        raise CheckpointError(f"{problem}; there is no checkpoint to fall back to")
    warn(f"{problem}; used a checkpoint in {checkpoints.folder} instead")
    return accepted


def evaluated(saved: Saved) -> tuple[str, Mapping[str, Any], Mapping[str, str]]:
    """Name, tensors and metadata of the weights to predict with: the running mean where there is one."""
    name = EMA if EMA in saved.tensor_files else MODEL
    tensors, metadata = saved.file(name)
    return name, tensors, metadata
