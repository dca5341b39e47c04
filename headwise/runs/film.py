"""The film of a training in its run folder: a frame for a step, each an atomic file, within a limit of bytes."""

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from headwise.errors import CheckpointError
from headwise.runs.checkpoints import set_aside
from headwise.runs.commits import MANIFEST, commit_file, make_folder, seal, sweep
from headwise.runs.migration import FORMAT
from headwise.runs.reading import read_manifest, read_tensor_file
from headwise.runs.tensors import TensorFile

FOLDER = "film"
_NAME = re.compile(r"step-(\d{8,})\.safetensors")


class Film:
    """The frames of a run by their steps; a sealed manifest lists them, with the SHA-256 of each.

    There is one every `stride` steps. Before a frame that would exceed the limit, the stride is doubled and frames
    between are removed until it fits: so a film covers a run of any length evenly.

    Args:
        every: steps between frames at first.
        limit: bytes of all frames together.
        check: called before each write; raises if another process has the folder.
    """

    def __init__(
        self, run: Path, every: int = 1, limit: int = 1 << 62, check: Callable[[], None] = lambda: None
    ) -> None:
        self.folder = run / FOLDER
        self._every, self._limit, self._check = every, limit, check
        self.stride = every
        self._entries: dict[int, dict[str, Any]] = {}

    @classmethod
    def read(cls, run: Path) -> "Film":
        """The film of a run; an empty one where there is none.

        Raises: CheckpointError naming a manifest that is damaged.
        """
        film = cls(run)
        path = film.folder / MANIFEST
        if not path.exists():
            return film
        manifest = read_manifest(film.folder)
        files = manifest["files"]
        steps = {name: match for name in files if (match := _NAME.fullmatch(name))}
        strides: list[Any] = [manifest.get("every"), manifest.get("stride")]
        if len(steps) < len(files) or not all(type(stride) is int and stride > 0 for stride in strides):
            raise CheckpointError(f"{path}: its list of files is not one of a film")
        film._every, film.stride = strides
        film._entries = dict(sorted((int(match[1]), files[name]) for name, match in steps.items()))
        return film

    @property
    def steps(self) -> list[int]:
        return list(self._entries)

    @property
    def bytes(self) -> int:
        return sum(entry["bytes"] for entry in self._entries.values())

    @property
    def identity(self) -> str:
        digests = "".join(entry["sha256"] for entry in self._entries.values())
        return hashlib.sha256(digests.encode()).hexdigest()[:20]

    def frame(self, step: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors and texts of a step's frame, verified. Raises: CheckpointError when it is missing or damaged."""
        if step not in self._entries:
            raise CheckpointError(f"{self.folder}: there is no frame of step {step}")
        return read_tensor_file(self.folder / _name(step), self._entries[step])

    def resume(self, step: int, note: Callable[[str], None]) -> None:
        """Continues the film of the folder after this step; later frames are removed.

        A damaged film is renamed, which `note` reports, and a new one begins.

        Raises: CheckpointError when the folder is a link.
        """
        if self.folder.is_symlink():
            raise CheckpointError(f"{self.folder}: is a link; a film must lie inside the run folder")
        try:
            earlier = Film.read(self.folder.parent)
        except CheckpointError as error:
            note(f"{error}; set aside as {set_aside(self.folder).name}, the film begins anew")
            earlier = Film(self.folder.parent)
        sweep(self.folder)
        if earlier._every == self._every:
            self.stride = earlier.stride
        self._entries = earlier._entries
        self._keep({at: entry for at, entry in self._entries.items() if at <= step})

    def due(self, step: int) -> bool:
        """Whether this step shall have a frame and has none."""
        return step not in self._entries and step % self.stride == 0

    def add(self, step: int, content: TensorFile, *, last: bool = False) -> bool:
        """Commits a frame, unless its step is no longer due once there is room for it; whether it did.

        Args:
            last: whether or not the step is due.

        Raises: MachineError when the disk refuses; then the film is as it was, or has fewer frames.
        """
        self._check()
        make_folder(self.folder)
        while self.bytes + content.size > self._limit and len(self._entries) > 1:
            self.stride *= 2
            self._keep({at: entry for at, entry in self._entries.items() if at % self.stride == 0})
        if not last and not self.due(step):
            return False
        entry = commit_file(self.folder / _name(step), content)
        self._entries = dict(sorted({**self._entries, step: entry}.items()))
        self._commit()
        return True

    def _keep(self, entries: Mapping[int, dict[str, Any]]) -> None:
        """Keeps only these frames: the others leave the manifest before their files are removed."""
        fewer = bool(self._entries.keys() - entries.keys())
        self._entries = dict(entries)
        if fewer:
            self._commit()
        names = {_name(step) for step in self._entries}
        for path in self.folder.glob("step-*"):
            if path.name not in names:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _commit(self) -> None:
        files = {_name(step): entry for step, entry in self._entries.items()}
        facts = {"format": FORMAT, "kind": "film", "every": self._every, "stride": self.stride, "files": files}
        commit_file(self.folder / MANIFEST, seal(facts))


def has_film(run: Path) -> bool:
    """Whether a run folder has a film, damaged or not."""
    return (run / FOLDER / MANIFEST).exists()


def _name(step: int) -> str:
    return f"step-{step:08d}.safetensors"
