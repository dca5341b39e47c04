"""Random and damaged inputs: each must be read, or refused in one short line, within limits of time and memory.

python tools/fuzz.py --count 100000
"""

import argparse
import contextlib
import hashlib
import io
import json
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise import runtime
from headwise.cli.failures import describe
from headwise.cli.main import main as command_line
from headwise.data.bad_lines import strict
from headwise.data.inspection import guess
from headwise.data.tokenizers import Tokenizer
from headwise.errors import HeadwiseError
from headwise.runs import publish
from headwise.runs.commits import MANIFEST, seal
from headwise.tasks.registry import data_kinds
from headwise.tasks.text.plain import TextConfig, portions
from headwise.tasks.text.tagged import TaggedConfig, read_words, scan_tagged
from headwise.tasks.translation.data import DataConfig, pair_set
from headwise.training.loading import load
from headwise.training.recipe import read_recipe
from headwise.training.train import train

Readers = dict[str, Callable[[random.Random], Any]]
LIMIT_S, MEMORY_BYTES = 60.0, 32 << 30
# of one input, beside what is in memory already
MOST_CPU_S, MOST_MIB = 10.0, 512
_LONGEST = 2500

PAIRS = "Go.\tVa !\nI am home.\tJe suis chez moi.\nhi\tsalut\n"
JSONL = """{"source": "Go.", "target": "Va !"}
{"translation": {"en": "a", "fr": "b"}}
{"words": ["a"], "tags": ["X"]}
"""
CONLLU = """# text
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
1-2\tIt\t_\t_\t_\t_\t_\t_\t_\t_
2\tsee\tsee\tVERB\tVB\t_\t0\troot\t_\t_

"""
RECIPE = """task = "translate"
seed = 3
data = { train = "pairs.tsv", columns = [0, 1], valid_fraction = 0.0, test_fraction = 0.0 }
tokenizer = { kind = "word", joint = false }
training = { max_steps = 1, batch_tokens = 64, validate_every_epochs = 0 }
decoding.max_len = 7
[model]
kind = "transformer"
d_model = 8
d_ff = 16
num_heads = 2
encoder_layers = 1
decoder_layers = 1
"""
# what breaks readers: control characters, marks, numbers at the edge, words of the formats, length and depth
MARKS = "\x00\x1b\x7f\x85\u202e\u2028\ufeff\ufffd\u0301\U0001f600\t\n\r[]{}\"'#=,.:\\-_|&~"
NUMBERS = "nan inf -inf 1e309 -1 0 1 2 7 16 99999999999999999999 9223372036854775807 1048576 1e-320 0.5 true false null"
WORDS = (
    "train model data training task kind d_model num_heads vocab_size format config tokenizer shape dtype translate tag"
    " language-model transformer recurrent word char bpe unigram scored causal window:3,3 F32 I64 a.b.c=1 \x1b[2J"
)
LONG = ("[" * 300, '{"a":' * 300, "x" * 5000, "9" * 5000)
PIECES = (*MARKS, *NUMBERS.split(), *WORDS.split(), *LONG)
VERBS: tuple[tuple[str, ...], ...] = (
    ("list", "mechanisms"),
    ("plan", "--mask", "causal & window:3,3", "--pair", "3,5"),
    ("plan", "--batch", "2", "--heads", "2", "--query-len", "7", "--head-dim", "4", "--score", "dot", "--json"),
    ("plan", "--dtype", "bfloat16", "--kernel", "fused", "--normalizer", "sparsemax", "--dropout", "0.1"),
    ("config", "translate", "--section", "training", "--json"),
    ("data", "report", "x.tsv", "--columns", "0", "1", "--limit", "3"),
    ("data", "report", "x.tsv", "--kind", "tagged", "data.column=xpos"),
    ("evaluate", "nowhere", "--data", "x.tsv"),
    ("predict", "nowhere", "--text", "a", "--beam", "3"),
    ("init", "translate", "--data", "nowhere.tsv"),
    ("train", "x.toml", "training.max_steps=many", "--run-folder", "run"),
)


class Slow(BaseException):
    """The time limit of one input has passed."""


@dataclass
class Tally:
    """Inputs by kind and outcome, and what went wrong with any."""

    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four changes: bytes, pieces put in or taken out, numbers replaced, the end cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place, stop = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        near = min(stop, place + rng.randint(1, 9))
        piece = rng.choice(PIECES).encode()
        change = rng.randrange(8)
        if change < 3 and (numbers := list(re.finditer(rb"-?\d+", data))):
            place, near = rng.choice(numbers).span()
            data = data[:place] + rng.choice(NUMBERS.split()).encode() + data[near:]
        elif change < 5:
            data = data[:place] + piece + data[rng.choice((place, near)) :]
        elif change < 6:
            data = data[:place] + bytes(rng.randrange(256) for _ in range(3)) + data[place:]
        elif change < 7:
            data = data[:stop] + data[place:]
        else:
            data = data[:place] + data[rng.choice((near, len(data))) :]
    return data[: 1 << 20]


class Inputs:
    """Where inputs are written, and what reads each kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pairs.tsv").write_text(PAIRS * 3, encoding="utf-8")
        (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
        with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
            self.run = train("recipe.toml", folder / "run").folder
        shutil.rmtree(self.run / "state", ignore_errors=True)
        self.whole = {path.name: path.read_bytes() for path in self.run.iterdir() if path.is_file()}
        self.covered = sorted(json.loads(self.whole[MANIFEST])["files"])
        self.predictor = load(self.run)
        self.readers: Readers = {
            "recipe": lambda rng: read_recipe(self.written("x.toml", RECIPE, rng)),
            "overrides": self.overrides,
            "tsv": lambda rng: self.data("x.tsv", PAIRS, rng),
            "jsonl": lambda rng: self.data("x.jsonl", JSONL, rng),
            "conllu": lambda rng: self.data("x.conllu", CONLLU, rng),
            "text": lambda rng: self.data("x.txt", PAIRS, rng),
            "tokenizer": self.tokenizer,
            "run": self.loaded,
            "predict": self.predicted,
            "command": self.command,
        }

    def written(self, name: str, text: str | bytes, rng: random.Random) -> Path:
        """A file with the text, changed."""
        path = self.folder / name
        path.write_bytes(mutated(text if isinstance(text, bytes) else text.encode(), rng))
        return path

    def overrides(self, rng: random.Random) -> None:
        """A recipe with settings that are made of pieces."""
        settings = [mutated(rng.choice((b"model.d_model=8", b"seed=3", b"training.max_steps=1")), rng) for _ in "ab"]
        read_recipe(self.folder / "recipe.toml", [setting.decode("utf-8", "replace") for setting in settings])

    def data(self, name: str, text: str, rng: random.Random) -> None:
        """A data file, read as every kind of data, with bad lines skipped or not."""
        path = str(self.written(name, text, rng))
        rule = rng.choice(("stop", "skip"))
        kind = rng.choice((guess(path, data_kinds().values()).name, "pairs", "tagged", "text"))
        if kind == "pairs":
            pair_set(DataConfig(train=path, bad_lines=rule, valid_fraction=0.0, test_fraction=0.0)).read()
        elif kind == "tagged":
            list(strict(rng.choice((scan_tagged, read_words))(path, TaggedConfig(train=path))))
        else:
            portions(TextConfig(train=path, bad_lines=rule, valid_fraction=0.0, test_fraction=0.0))

    def tokenizer(self, rng: random.Random) -> None:
        """A tokenizer's file; one that is accepted must take any text."""
        data = mutated(self.whole["source.tokenizer.json"], rng)
        Tokenizer.from_bytes(data, "tokenizer.json").encode("go .\x1b \U0001f600")

    def loaded(self, rng: random.Random) -> None:
        """A run folder with one file changed, most often under a manifest that vouches for it; then it predicts."""
        name = rng.choice([*self.covered, "config.toml", MANIFEST])
        changed = mutated(self.whole[name], rng)
        (self.run / name).write_bytes(changed)
        if name in self.covered and rng.random() < 0.9:
            facts = json.loads(self.whole[MANIFEST])
            facts.pop("seal")
            facts["files"][name] = {"bytes": len(changed), "sha256": hashlib.sha256(changed).hexdigest()}
            (self.run / MANIFEST).write_bytes(seal(facts))
        try:
            load(self.run).predict(["go ."])
        finally:
            for changed_name in (name, MANIFEST):
                (self.run / changed_name).write_bytes(self.whole[changed_name])

    def predicted(self, rng: random.Random) -> None:
        """A line of text that is translated."""
        line = mutated(b"I am home .", rng).decode("utf-8", "replace")[:200]
        self.predictor.predict([self.predictor.parse(line)])

    def command(self, rng: random.Random) -> None:
        """A command line, some of its words changed or put in another place."""
        words = list(rng.choice(VERBS))
        self.written("x.tsv", PAIRS, rng)
        self.written("x.toml", RECIPE, rng)
        for _ in range(rng.randint(0, 3)):
            place = rng.randrange(len(words))
            change = rng.choice((mutated(words[place].encode(), rng).decode("utf-8", "replace"), rng.choice(PIECES)))
            words[place : place + rng.randint(0, 1)] = [change[:300]]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command_line(words)
        told = err.getvalue()
        if told.startswith("error: unexpected") or code not in (0, 2, 3, 4):
            raise AssertionError(f"exit code {code}: {told} for {words}")
        _check_message(told.removesuffix("\n"))
        if hidden := _controls(out.getvalue().replace("\n", "").replace("\t", "")):
            raise AssertionError(f"control characters {hidden} on standard output for {words}")


def _check_message(message: str) -> None:
    lines = message.split("\n") if "warning: " in message else [message]
    for line in lines:
        if len(line) > _LONGEST or _controls(line):
            raise AssertionError(f"a message of {len(line):,} characters, {_controls(line)}: {line[:200]!r}")


def _controls(text: str) -> list[str]:
    return sorted({character for character in text if unicodedata.category(character) in ("Cc", "Zl", "Zp")})


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Slow when what is inside takes longer."""

    def stop(number: int, frame: Any) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(count: int, seed: int, folder: Path, only: str | None = None) -> Tally:
    """Tries `count` inputs, or until it is interrupted; says what went wrong."""
    return tried(Inputs(folder).readers, count, seed, only, _check_message)


def tried(readers: Readers, count: int, seed: int, only: str | None, check: Callable[[str], None]) -> Tally:
    """What becomes of `count` inputs, each made by a seed of its own; `check` raises AssertionError for a bad one."""
    tally, kinds = Tally(), [only] if only else list(readers)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        told = spending()
        try:
            with limited(LIMIT_S):
                readers[kind](random.Random(f"{seed} {kind} {number}"))
            tally.done[f"{kind}: read"] += 1
        except HeadwiseError as error:
            tally.done[f"{kind}: refused"] += 1
            try:
                check(describe(error)[0])
            except AssertionError as wrong:
                tally.problems.append(f"{seed} {kind} {number}: {wrong}")
        except KeyboardInterrupt:
            # what was tried so far is told
            break
        except BaseException as error:
            place = "".join(traceback.format_tb(error.__traceback__)[-3:])
            tally.problems.append(f"{seed} {kind} {number}: {type(error).__name__}: {str(error)[:300]}\n{place}")
        tally.problems += [f"{seed} {kind} {number}: {much}" for much in told()]
    return tally


def spending() -> Callable[[], list[str]]:
    """Says, when it is called later, what was spent since beyond the limits of one input."""
    resets = Path("/proc/self/clear_refs")
    if resets.exists():
        # what was used at its height is counted from now
        resets.write_text("5")
    resident, cpu = _mib("VmRSS"), time.process_time()

    def told() -> list[str]:
        seconds, mib = time.process_time() - cpu, _mib("VmHWM") - resident
        much = [f"took {seconds:.1f} CPU s, more than {MOST_CPU_S:g}"] if seconds > MOST_CPU_S else []
        return much + ([f"took {mib:,} MiB, more than {MOST_MIB}"] if mib > MOST_MIB else [])

    return told


def _mib(key: str) -> int:
    """A line of the state of this process; 0 where the system keeps none."""
    state = Path("/proc/self/status")
    lines = state.read_text().splitlines() if state.exists() else []
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith(key)), 0)


def command(about: str, count: int, work: Callable[[int, int, Path, str | None], Tally]) -> int:
    """A tool that tries so many inputs; returns its exit code."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one kind of input")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("ignore")
    runtime.apply(1)
    # no second look at a folder that may be half written
    publish._RETRY_S = 0.0
    with tempfile.TemporaryDirectory() as folder:
        tally = work(options.count, options.seed, Path(folder), options.only)
    print(*(f"{kind:<24} {number:,}" for kind, number in sorted(tally.done.items())), *tally.problems, sep="\n")
    print(f"{tally.done.total():,} inputs read or refused, {len(tally.problems)} problems")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(command(__doc__.partition("\n")[0], 100_000, fuzz))
