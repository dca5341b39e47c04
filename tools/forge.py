"""Forged films, measurements, arrays, tokens and checkpoints, and bombs: each is read, or refused with its name.

python tools/forge.py --count 2000

The files are whole at first; then a few bytes, numbers or words of one are changed, and what vouches for it (digests,
seals) is made to agree, as somebody would who means it. Beside `tools/fuzz.py`, whose inputs are what users write.
"""

import contextlib
import hashlib
import io
import json
import random
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bombs import bombs
from fuzz import PAIRS, RECIPE, Readers, Tally, command, mutated, tried

from headwise.data.tokenizers import TokenizerConfig
from headwise.errors import HeadwiseError
from headwise.explain.reel import Reel
from headwise.explorer.bench import as_csv, read_measurements
from headwise.explorer.films import described
from headwise.files import json_text
from headwise.runs.commits import MANIFEST, Draft, seal
from headwise.runs.parts import TABLE
from headwise.runs.reading import read_folder
from headwise.runs.tensors import TensorFile
from headwise.tasks.images.images import ImagesConfig, scan_images
from headwise.tasks.speech.recordings import RecordingsConfig, scan_recordings
from headwise.tasks.text.plain import TextConfig
from headwise.tasks.text.token_files import opened
from headwise.tasks.text.tokenizing import tokenize
from headwise.training.train import train

MEASURED = {"mechanism": "scored", "n": 64, "d": 8, "heads": 2, "dtype": "float32", "device": "cpu"}
MEASURED |= {"hardware": "x", "fwd_ms": {"p50": 1.0, "p90": 2.5}, "mem_mib": 3.5, "commit": "a1"}
PIECE = {"part": "part-1-of-1.safetensors", "offsets": [0, 0], "shape": [3, 2]}
SHAPED = {"dtype": "F32", "shape": [3, 2], "pieces": [PIECE]}


class Forged:
    """Folders with whole files, and what reads each kind of them after one was changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.readers: Readers = {
            "film": self.film,
            "measurements": self.measurements,
            "pictures": self.pictures,
            "recordings": self.recordings,
            "tokens": self.tokens,
            "parts": self.parts,
            "bombs": self.bomb,
        }
        self.bombs = bombs()
        self.unread = iter(self.bombs)
        with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
            Path("pairs.tsv").write_text(PAIRS * 3, encoding="utf-8")
            Path("recipe.toml").write_text(RECIPE, encoding="utf-8")
            train("recipe.toml", folder / "run", overrides=["film.every=1"])
            Path("text.txt").write_text(PAIRS * 9, encoding="utf-8")
            config = TextConfig(train=str(folder / "text.txt"), valid_fraction=0.1, test_fraction=0.0)
            tokenize(config, TokenizerConfig(kind="char"), folder / "tokens", 1, lambda *_: None)
        np.savez(folder / "pictures.npz", images=np.zeros((4, 5, 3), np.uint8), labels=np.arange(4))
        sound = {"audio": np.zeros(700, np.int16), "offsets": np.array([0, 300, 700]), "sample_rate": np.array(8000)}
        np.savez(folder / "sound.npz", **sound, label=np.array(["a", "b"]))
        part = TensorFile({"a.safetensors/w": torch.ones(3, 2)}, {})
        table = json.dumps({"files": {"a.safetensors": {"metadata": {}, "tensors": {"w": SHAPED}}}}).encode()
        draft = Draft.begin(folder / "parts", 0)
        draft.commit({PIECE["part"]: part, TABLE: table}, {"format": 3, "kind": "checkpoint"})

    def film(self, rng: random.Random) -> None:
        """A film, of which all is asked for."""
        with self.changed("run/film", rng):
            reel = Reel(self.folder / "run")
            json_text(described(reel), ascii=True)
            for layer in reel.layers:
                reel.curves(layer)
                for step in reel.steps:
                    for probe in range(len(reel.probes)):
                        reel.axes(step, probe, layer)
                        reel.weights(step, probe, layer)

    def measurements(self, rng: random.Random) -> None:
        """What a benchmark measured."""
        path = self.folder / "lengths.json"
        path.write_bytes(mutated(json.dumps({"records": [MEASURED, MEASURED]}).encode(), rng))
        found = read_measurements(path)
        as_csv(found).encode()
        json_text([one.model_dump() for one in found]).encode()

    def pictures(self, rng: random.Random) -> None:
        """Pictures with labels in one archive."""
        path = self.archive("pictures.npz", rng)
        told(scan_images(path, None, ImagesConfig(train=str(path))))

    def recordings(self, rng: random.Random) -> None:
        """Recordings with labels in one archive."""
        path = self.archive("sound.npz", rng)
        told(scan_recordings(path, RecordingsConfig(train=str(path))))

    def tokens(self, rng: random.Random) -> None:
        """Token files."""
        with self.changed("tokens", rng):
            for text in opened(self.folder / "tokens").texts().values():
                _ = text.tokens[:]

    def parts(self, rng: random.Random) -> None:
        """A checkpoint that several processes have written."""
        with self.changed("parts", rng):
            for every in (True, False):
                saved = read_folder(self.folder / "parts", every_part=every)
                for name in saved.tensor_files:
                    saved.file(name)

    def bomb(self, rng: random.Random) -> None:
        """One bomb after another, then any of them."""
        name = next(self.unread, None) or rng.choice(list(self.bombs))
        write, read = self.bombs[name]
        path = self.folder / f"bomb-{name}"
        write(path)
        try:
            read(path)
        finally:
            path.unlink()

    @contextlib.contextmanager
    def changed(self, name: str, rng: random.Random) -> Any:
        """One file of a folder is changed while this is open; nine times of ten its manifest vouches for it."""
        folder = self.folder / name
        whole = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        chosen = rng.choice(sorted(whole))
        data = changed_tensors(whole[chosen], rng) if chosen.endswith(".safetensors") else mutated(whole[chosen], rng)
        (folder / chosen).write_bytes(data)
        if rng.random() < 0.9 and MANIFEST in whole:
            try:
                facts = json.loads(data if chosen == MANIFEST else whole[MANIFEST])
                if chosen != MANIFEST:
                    facts["files"][chosen] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                facts.pop("seal")
                (folder / MANIFEST).write_bytes(seal(facts))
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                # no manifest any more
                pass
        try:
            yield
        finally:
            for one, content in whole.items():
                (folder / one).write_bytes(content)

    def archive(self, name: str, rng: random.Random) -> Path:
        """An archive of arrays with a change: of its bytes, or of an array in it."""
        data, path = (self.folder / name).read_bytes(), self.folder / f"forged-{name}"
        if rng.random() < 0.4:
            path.write_bytes(mutated(data, rng))
            return path
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            chosen = rng.choice(old.namelist())
            for member in old.namelist():
                content = old.read(member)
                new.writestr(member, mutated(content, rng) if member == chosen else content)
        return path


def told(found: Iterable[Any]) -> None:
    """Reads all of a file. Raises: the errors that come out of it in place of what could not be read."""
    for one in list(found):
        if isinstance(one, HeadwiseError):
            raise one


def changed_tensors(data: bytes, rng: random.Random) -> bytes:
    """A file of tensors with a change: of its header, whose length is made to agree, or anywhere."""
    if rng.random() < 0.3:
        return mutated(data, rng)
    end = 8 + int.from_bytes(data[:8], "little")
    header = mutated(data[8:end], rng)
    return len(header).to_bytes(8, "little") + header + data[end:]


def forge(count: int, seed: int, folder: Path, only: str | None = None) -> Tally:
    """Tries `count` forgeries, or until it is interrupted; says what went wrong."""

    def check(message: str) -> None:
        if str(folder) not in message:
            raise AssertionError(f"names no file: {message[:300]}")

    return tried(Forged(folder).readers, count, seed, only, check)


if __name__ == "__main__":
    sys.exit(command(__doc__.partition("\n")[0], 2000, forge))
