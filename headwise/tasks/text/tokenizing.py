"""`headwise data tokenize`: a text to a folder of token files, by several processes, and on from where it broke off."""

import hashlib
import io
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.data.files import digested, require_file, resolve, sha256
from headwise.data.splits import SPLITS
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import ConfigError, DataError, MachineError
from headwise.locks import LOCK, OWNER, FolderLock
from headwise.tasks.text.plain import (
    Portion,
    TextConfig,
    chunks,
    commit,
    dtype_of,
    encoded,
    portions,
    shares,
    train_tokenizer,
)
from headwise.tasks.text.token_files import FORMAT, INDEX, TOKENIZER, VERSION, Index, lines_of, read_index, shard_name

# characters of a shard at least, which a process has in memory
SHARD_CHARS = 1 << 24
# what a folder that is not finished is known by
_WORK = "unfinished.json"

# (characters done, characters in all)
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class _Piece:
    """The text of a shard."""

    path: Path
    text: str
    begun: bool


def tokenize(config: TextConfig, tokens: TokenizerConfig, folder: Path, workers: int, tell: Tell) -> Index:
    """Makes the token files of a text, those of its parts that have no file of their own.

    Every file appears only when it is whole, so that the same call goes on after any end. Memory: a few shards of text
    a process, however long the text is, and once what a tokenizer is trained on.

    Args:
        workers: processes; 1: this one.

    Raises:
        ConfigError: the folder holds something else.
        RunBusy: another process writes the folder.
        DataError: the text cannot be read, or changed meanwhile.
        MachineError: the folder cannot be written, or a process was killed.
    """
    source = resolve(config.train)
    if source.is_dir():
        raise ConfigError(f"{config.train}: is a folder; name a text in data.train")
    require_file(source)
    try:
        return _tokenized(source, config, tokens, folder, workers, tell)
    except BrokenProcessPool:
        raise MachineError(
            "a process was killed (out of memory?); run the same command to go on, or fewer --workers"
        ) from None
    except OSError as error:
        raise MachineError(f"{error.filename or folder}: {error.strerror}; run the same command to go on") from None


def _tokenized(
    source: Path, config: TextConfig, tokens: TokenizerConfig, folder: Path, workers: int, tell: Tell
) -> Index:
    check = _unchanged(source)
    with ExitStack() as stack:
        with digested({"train": source}) as digests:
            work = _work(config, tokens, digests["train"])
            if _is_done(folder, work):
                return read_index(folder)[0]
            # before the folder is taken: there may be something to correct in the text
            cut = [part for part in SPLITS if part == "train" or getattr(config, part) is None]
            parts = {part: portion for part, portion in portions(config).items() if portion.chars and part in cut}
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FolderLock(folder))
            if _is_done(folder, work):
                return read_index(folder)[0]
            _take(folder, work)
            tokenizer = _tokenizer(folder, parts["train"], tokens, check)
            counts = _make(folder, parts, tokenizer, workers, tell, check)
        values = {"source": digests["train"], "work": _digest(work), "bad": parts["train"].bad}
        shard_counts = {part: (portion, counts[part]) for part, portion in parts.items()}
        return _finished(folder, values, shares(config), shard_counts, tokenizer)


def _unchanged(source: Path) -> Callable[[], None]:
    """Raises, when it is called: DataError, the text is no longer what it was; nothing is kept of another one."""

    def facts() -> tuple[int, ...]:
        status = os.stat(source)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    before = facts()

    def check() -> None:
        if facts() != before:
            raise DataError(f"{source}: changed while it was read; start again")

    return check


def _work(config: TextConfig, tokens: TokenizerConfig, source: str) -> str:
    """Everything that the files follow from, as JSON."""
    how: dict[str, Any] = {"source": source, "tokenizer": tokens.model_dump(mode="json"), "held_out": shares(config)}
    how |= {"bad_lines": config.bad_lines, "max_line_bytes": config.max_line_bytes, "shard_chars": SHARD_CHARS}
    return json.dumps({"format": FORMAT, "version": VERSION, **how}, sort_keys=True, indent=1) + "\n"


def _is_done(folder: Path, work: str) -> bool:
    """Whether all of this work is in the folder. Raises: ConfigError, something else is."""
    other = f"{folder}: holds token files of another text, tokenizer or version; name another folder with --output"
    if (folder / INDEX).exists():
        if read_index(folder)[0].work != _digest(work):
            raise ConfigError(other)
        return True
    if (folder / _WORK).exists():
        if (folder / _WORK).read_bytes() != work.encode():
            raise ConfigError(f"{other}, or remove this one, which is not finished")
    elif folder.exists() and {path.name for path in folder.iterdir()} - {LOCK, OWNER}:
        raise ConfigError(f"{folder}: is not empty and holds no token files; name another folder with --output")
    return False


def _take(folder: Path, work: str) -> None:
    """Makes the folder one of this work."""
    if not (folder / _WORK).exists():
        commit(folder / _WORK, [work.encode()])
    # of processes that were killed; what is whole has its name
    for left in folder.glob(".*.tmp"):
        left.unlink()


def _tokenizer(folder: Path, portion: Portion, config: TokenizerConfig, check: Callable[[], None]) -> Tokenizer:
    path = folder / TOKENIZER
    if not path.exists():
        content = train_tokenizer(portion, config).to_bytes()
        check()
        commit(path, [content])
    return Tokenizer.from_bytes(path.read_bytes(), str(path), config)


def _make(
    folder: Path, parts: dict[str, Portion], tokenizer: Tokenizer, workers: int, tell: Tell, check: Callable[[], None]
) -> dict[str, int]:
    """Writes every file that is not there; how many shards each part has."""
    for part, portion in parts.items():
        path = lines_of(folder, part)
        if part != "train" and not path.exists():
            commit(path, _as_file(portion.lines()), check)
    done, total = 0, sum(portion.chars for portion in parts.values())
    counts = dict.fromkeys(parts, 0)

    def pieces() -> Iterator[_Piece]:
        nonlocal done
        for part, portion in parts.items():
            for number, text in enumerate(map("".join, chunks(portion.lines(), SHARD_CHARS))):
                path = folder / shard_name(part, number)
                counts[part] = number + 1
                if path.exists():
                    done += len(text)
                    continue
                check()
                yield _Piece(path, text, begun=number > 0)

    with closing(_written(pieces(), tokenizer, workers)) as written:
        for chars in written:
            done += chars
            tell(done, total)
    return counts


def _written(pieces: Iterator[_Piece], tokenizer: Tokenizer, workers: int) -> Generator[int, None, None]:
    """Writes the shards, and says of each how many characters it took."""
    if workers == 1:
        yield from (_write(piece, tokenizer) for piece in pieces)
        return
    # no copy of this process, whose libraries have threads
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin, (tokenizer.to_bytes(),))
    waiting: set[Future[int]] = set()
    try:
        for piece in pieces:
            waiting.add(pool.submit(_write_there, piece))
            # one more than can be worked on, so that none is idle and no text waits in memory
            while len(waiting) > workers:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
        yield from (future.result() for future in waiting)
    finally:
        pool.shutdown(cancel_futures=True)


_THERE: dict[str, Tokenizer] = {}


def _begin(tokenizer: bytes) -> None:
    """The first thing that a process does: it ends with the one that started it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # each process is one of the workers that were asked for
    os.environ["RAYON_NUM_THREADS"] = "1"
    threading.Thread(target=_follow, daemon=True).start()
    _THERE["tokenizer"] = Tokenizer.from_bytes(tokenizer, TOKENIZER)


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _write_there(piece: _Piece) -> int:
    return _write(piece, _THERE["tokenizer"])


def _write(piece: _Piece, tokenizer: Tokenizer) -> int:
    dtype = dtype_of(tokenizer).newbyteorder("<")
    arrays = encoded(io.StringIO(piece.text, newline="\n"), tokenizer, begun=piece.begun)
    commit(piece.path, (array.astype(dtype, copy=False).tobytes() for array in arrays))
    return len(piece.text)


def _as_file(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines as a file that is read back as the same ones, whatever stands at their ends."""
    for number, line in enumerate(lines):
        # a reader drops one mark at the beginning of a file, and one carriage return at the end of a line
        mark = "\ufeff" if number == 0 and line.startswith("\ufeff") else ""
        end = "\r\n" if line.endswith("\r\n") else "\n"
        yield f"{mark}{line[:-1]}{end}".encode()


def _finished(
    folder: Path,
    values: Mapping[str, str],
    held_out: list[float],
    parts: Mapping[str, tuple[Portion, int]],
    tokenizer: Tokenizer,
) -> Index:
    """Writes the index, of what the files hold."""
    dtype = dtype_of(tokenizer)
    entries: dict[str, Any] = {}
    for part, (portion, count) in parts.items():
        paths = [folder / shard_name(part, number) for number in range(count)]
        shards = [
            {"file": path.name, "tokens": path.stat().st_size // dtype.itemsize, "sha256": sha256(path)}
            for path in paths
        ]
        lines = {} if part == "train" else {"lines_sha256": sha256(lines_of(folder, part))}
        entries[part] = {"chars": portion.chars, "shards": shards, **lines}
    fields = {"format": FORMAT, "version": VERSION, "dtype": dtype.name, "tokenizer": tokenizer.digest(), **values}
    fields |= {"vocab_size": tokenizer.vocab_size, "parts": entries}
    fields |= dict(zip(("valid_fraction", "test_fraction"), held_out, strict=True))
    index = Index.model_validate(fields)
    commit(folder / INDEX, [(index.model_dump_json(indent=1, exclude_none=True) + "\n").encode()])
    (folder / _WORK).unlink(missing_ok=True)
    return index


def _digest(work: str) -> str:
    return hashlib.sha256(work.encode()).hexdigest()
