"""The checkpoints of a run: self-contained folders `state/step-00000200`, each committed by its manifest."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headwise.errors import CheckpointError
from headwise.runs.commits import (
    Draft,
    Writable,
    commit_file,
    make_folder,
    remove_folder,
    seal,
    size_of,
    sweep,
    sync_folder,
)
from headwise.runs.migration import FORMAT
from headwise.runs.reading import Saved, read_folder, read_sealed, verify

STATE = "state"
T = TypeVar("T")

BEST = "best.json"
FINISHED = "finished.json"
_NAME = re.compile(r"step-(\d{8,})(?:\.(\d+))?")


class Entry(NamedTuple):
    """The place of a checkpoint; a second one of the same step has revision 1, so that none is ever replaced."""

    step: int
    revision: int
    path: Path


class Checkpoints:
    """Writes, finds, verifies and retires the checkpoints of one run folder. Order is by step, never by clock.

    Args:
        check: called before each write; raises if another process has the folder, as `FolderLock.check` does.
    """

    def __init__(self, run: Path, *, keep_last: int = 2, check: Callable[[], None] = lambda: None) -> None:
        self.run = run
        self.folder = run / STATE
        self._keep_last = keep_last
        self.check = check
        self._verified: set[Path] = set()
        self._damaged: dict[Path, str] = {}

    def sweep(self) -> list[str]:
        """Removes the leftovers of interrupted writes, here and in the run folder; returns the names."""
        if self.folder.is_symlink():
            raise CheckpointError(f"{self.folder}: is a link; checkpoints must lie inside the run folder")
        return sweep(self.run) + sweep(self.folder)

    def entries(self) -> list[Entry]:
        """All checkpoints, newest first, verified or not."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        matches = [(name, match) for name in names if (match := _NAME.fullmatch(name))]
        entries = [Entry(int(match[1]), int(match[2] or 0), self.folder / name) for name, match in matches]
        return sorted(entries, reverse=True)

    def save(
        self,
        step: int,
        files: Mapping[str, Writable],
        protected: Collection[int] = (),
        note: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Commits a checkpoint, then retires old ones; those of the `protected` steps stay.

        Damaged ones are renamed, which `note` reports: something in them may be worth rescuing.

        Raises: MachineError when the disk refuses; then everything is as it was.
        """
        draft = self.draft(step, sum(map(size_of, files.values())))
        return self.commit(step, files, protected, note, draft)

    def draft(self, step: int, needed: int) -> Draft:
        """An empty draft of a checkpoint of this step, for `needed` bytes. Raises: MachineError without room."""
        self.check()
        make_folder(self.folder)
        earlier = [entry.revision for entry in self.entries() if entry.step == step]
        suffix = f".{max(earlier) + 1}" if earlier else ""
        return Draft.begin(self.folder / f"step-{step:08d}{suffix}", needed)

    def commit(
        self,
        step: int,
        files: Mapping[str, Writable],
        protected: Collection[int],
        note: Callable[[str], None],
        draft: Draft,
        written: Mapping[str, dict[str, Any]] | None = None,
    ) -> Path:
        """Makes a draft a checkpoint, with these files and those whose entries are `written`; then as `save`."""
        draft.commit(files, {"format": FORMAT, "kind": "checkpoint", "step": step}, written)
        self._verified.add(draft.final)
        self.retire(protected, note)
        return draft.final

    def read(self, entry: Entry) -> Saved:
        """The verified content of one checkpoint. Raises: CheckpointError naming the bad file."""
        try:
            self._refuse_links(entry.path)
            saved = read_folder(entry.path)
            if saved.facts.get("step") != entry.step:
                raise CheckpointError(f"{entry.path}: holds step {saved.facts.get('step')}; it was renamed or mixed up")
        except CheckpointError as error:
            self._damaged[entry.path] = str(error)
            raise
        self._verified.add(entry.path)
        return saved

    def newest(self, warn: Callable[[str], None], *, first: int | None = None) -> Saved | None:
        """The newest good checkpoint; see `first_accepted`."""
        return self.first_accepted(lambda saved: saved, warn, first=first)

    def first_accepted(
        self,
        accept: Callable[[Saved], T],
        warn: Callable[[str], None],
        *,
        first: int | None = None,
        only: int | None = None,
    ) -> T | None:
        """The result of `accept` for the newest good checkpoint; None if there is no checkpoint at all.

        A checkpoint that is damaged, or that `accept` refuses with a CheckpointError, is reported to `warn`, and the
        one before it is tried.

        Args:
            first: a step whose checkpoints are tried before all others.
            only: the step whose checkpoints are tried; None: all.

        Raises: CheckpointError when there are some but none is good.
        """
        problems: list[str] = []
        for entry in sorted(self.entries(), key=lambda entry: entry.step != first):
            if only not in (None, entry.step):
                continue
            try:
                accepted = accept(self.read(entry))
            except CheckpointError as error:
                problems.append(str(error))
                continue
            for problem in problems:
                warn(f"{problem}; falling back to {entry.path.name}")
            return accepted
        if problems:
            raise CheckpointError(f"{problems[0]}; no other checkpoint in {self.folder} is good")
        return None

    def at(self, step: int) -> Saved:
        """The newest good checkpoint of exactly this step. Raises: CheckpointError when there is none."""
        saved = self.first_accepted(lambda saved: saved, lambda _: None, only=step)
        if saved is None:
            raise CheckpointError(f"{self.folder}: there is no checkpoint of step {step}")
        return saved

    def point_to_best(self, step: int, value: float | None) -> None:
        self.check()
        commit_file(self.folder / BEST, seal({"format": FORMAT, "step": step, "value": value}))

    def best_step(self, warn: Callable[[str], None]) -> int | None:
        """The step that `point_to_best` recorded; None, and a warning, when the record is damaged."""
        if not os.path.lexists(self.folder / BEST):
            return None
        try:
            step = read_sealed(self.folder / BEST).get("step")
        except CheckpointError as error:
            warn(str(error))
            return None
        return step if isinstance(step, int) else None

    def mark_finished(self, facts: Mapping[str, Any]) -> None:
        self.check()
        commit_file(self.folder / FINISHED, seal({"format": FORMAT, **facts}))

    def finished(self) -> dict[str, Any] | None:
        """The facts of `mark_finished`; None if the run went on since, or the record is damaged."""
        entries = self.entries()
        try:
            facts = read_sealed(self.folder / FINISHED)
        except CheckpointError:
            return None
        return facts if entries and facts.get("step") == entries[0].step else None

    def retire(self, protected: Collection[int], note: Callable[[str], None]) -> None:
        """Keeps the newest verified checkpoints and one of each protected step; one that cannot be moved stays.

        The leftovers of earlier removals are removed too.
        """
        try:
            sweep(self.folder, removed=True)
            self._retire_others(protected, note)
        except OSError as error:
            note(f"old checkpoints stay: {error}")

    def _retire_others(self, protected: Collection[int], note: Callable[[str], None]) -> None:
        steps = set[int]()
        for entry in self.entries():
            stays = entry.step not in steps and (len(steps) < self._keep_last or entry.step in protected)
            if problem := self._problem(entry) if stays else self._damaged.pop(entry.path, ""):
                note(f"{problem}; set aside as {set_aside(entry.path).name}")
            elif stays:
                steps.add(entry.step)
            else:
                remove_folder(entry.path)
                self._verified.discard(entry.path)

    def _problem(self, entry: Entry) -> str:
        if entry.path in self._verified:
            return ""
        try:
            self._refuse_links(entry.path)
            verify(entry.path)
        except CheckpointError as error:
            return str(error)
        self._verified.add(entry.path)
        return ""

    def _refuse_links(self, path: Path) -> None:
        for part in (self.folder, path):
            if part.is_symlink():
                raise CheckpointError(f"{part}: is a link; checkpoints must lie inside the run folder")


def set_aside(path: Path) -> Path:
    """Renames a damaged folder or link to a free name, and returns that."""
    number = 0
    while os.path.lexists(aside := path.with_name(f"damaged-{path.name}{f'.{number}' if number else ''}")):
        number += 1
    os.rename(path, aside)
    sync_folder(path.parent)
    return aside
