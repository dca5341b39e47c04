"""Token files: the tokens of the text, made again after any end, and nothing believed that their index says."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from headwise.data.tokenizers import TokenizerConfig
from headwise.errors import ConfigError, DataError, MachineError, RunBusy
from headwise.locks import FolderLock
from headwise.tasks.text import token_files, tokenizing
from headwise.tasks.text.plain import TextConfig, encode, portions, train_tokenizer
from headwise.tasks.text.token_files import opened
from headwise.tasks.text.tokenizing import tokenize

# what a reader of files takes off: a mark at the beginning, a carriage return at the end
LINES = [f"{'word ' * (place % 5)}né {place}" for place in range(50)] + ["\ufeffmark", "end\r", ""] * 4
CHARS = TokenizerConfig(kind="char", spaces="kept")


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizing, "SHARD_CHARS", 100)
    (tmp_path / "text.txt").write_bytes("".join(f"{line}\n" for line in LINES).replace("\r\n", "\r\r\n").encode())
    return TextConfig(train=str(tmp_path / "text.txt"), valid_fraction=0.2, test_fraction=0.1)


def made(config, folder, workers=1, tokens=CHARS):
    told = []
    index = tokenize(config, tokens, folder, workers, lambda *progress: told.append(progress))
    return index, told


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_they_are_the_tokens_and_lines_of_the_text(text, tmp_path):
    index, told = made(text, tmp_path / "made")
    parts = portions(text)
    tokenizer = train_tokenizer(parts["train"], CHARS)
    found = opened(tmp_path / "made")
    assert found.tokenizer.to_bytes() == tokenizer.to_bytes()
    assert len(index.parts["train"].shards) > 3
    for part, one in found.texts().items():
        wanted = encode(parts[part], tokenizer)
        assert (one.tokens[:].tolist(), one.tokens[:].dtype) == (wanted.tokens.tolist(), np.uint16)
        assert (one.chars, len(one)) == (wanted.chars, len(wanted))
        if part != "train":
            assert list(found.lines(part)) == list(parts[part].lines())
    assert told[-1] == (len("".join(f"{line}\n" for line in LINES)),) * 2
    with pytest.raises(DataError, match=r"made: the lines of 'train' are not kept in it; name a text"):
        found.lines("train")


def test_a_part_with_a_file_of_its_own_is_not_among_them(text, tmp_path):
    own = text.model_copy(update={"valid": text.train, "test_fraction": 0.0})
    assert list(made(own, tmp_path / "made")[0].parts) == ["train"]


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_what_was_broken_off_goes_on(text, tmp_path, monkeypatch, whole):
    made(text, tmp_path / "at once")
    real, names = tokenizing._write, []

    def failing(piece, tokenizer):
        if len(names) == whole:
            raise KeyboardInterrupt
        names.append(piece.path.name)
        return real(piece, tokenizer)

    monkeypatch.setattr(tokenizing, "_write", failing)
    with pytest.raises(KeyboardInterrupt):
        made(text, tmp_path / "made")
    assert (tmp_path / "made" / "unfinished.json").exists()
    with pytest.raises(DataError, match=r"made: is a folder without index.json; name a text file, or a folder of"):
        opened(tmp_path / "made")
    # what a process that was killed leaves
    (tmp_path / "made" / ".train-00003.tokens.00000000.tmp").write_bytes(b"half")
    # what somebody else left is none of them
    (tmp_path / "made" / "train-copy.tokens").touch()
    monkeypatch.setattr(
        tokenizing, "_write", lambda piece, tokenizer: names.append(piece.path.name) or real(piece, tokenizer)
    )
    made(text, tmp_path / "made")
    (tmp_path / "made" / "train-copy.tokens").unlink()
    assert contents(tmp_path / "made") == contents(tmp_path / "at once")
    # nothing was made twice
    assert len(names) == len(set(names))
    # what is finished is left alone
    names.clear()
    made(text, tmp_path / "made")
    assert names == []


@pytest.mark.slow
def test_several_processes_make_the_same_files(text, tmp_path):
    made(text, tmp_path / "one")
    made(text, tmp_path / "two", workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@pytest.mark.slow
def test_processes_that_are_killed_leave_what_is_whole(text, tmp_path):
    code = (
        "import sys\nfrom headwise.tasks.text import tokenizing\nfrom headwise.tasks.text.plain import TextConfig\n"
        "from headwise.data.tokenizers import TokenizerConfig\n"
        "if __name__ == '__main__':\n"
        "    tokenizing.SHARD_CHARS = 100\n"
        "    config = TextConfig(train=sys.argv[1], valid_fraction=0.2, test_fraction=0.1)\n"
        "    tokens = TokenizerConfig(kind='char', spaces='kept')\n"
        "    tokenizing.tokenize(config, tokens, __import__('pathlib').Path(sys.argv[2]), 2, lambda *_: input())\n"
    )
    (tmp_path / "make.py").write_text(code)
    command = [sys.executable, str(tmp_path / "make.py"), text.train, str(tmp_path / "made")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((tmp_path / "made").glob("*.tokens")):
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # the processes that it started end too: nobody is left in its session
    while _alive(process.pid):
        time.sleep(0.02)
    made(text, tmp_path / "made")
    made(text, tmp_path / "at once")
    assert contents(tmp_path / "made") == contents(tmp_path / "at once")


def _alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_folder_of_something_else_is_left_alone(text, tmp_path, monkeypatch):
    folder = tmp_path / "made"
    made(text, folder)
    other = r"made: holds token files of another text, tokenizer or version; name another folder with --output"
    with pytest.raises(ConfigError, match=other):
        made(text, folder, tokens=CHARS.model_copy(update={"lowercase": True}))
    (folder / "index.json").unlink()
    (folder / "unfinished.json").write_text("{}")
    with pytest.raises(ConfigError, match=rf"{other}, or remove this one, which is not finished"):
        made(text, folder)
    (folder / "unfinished.json").unlink()
    with pytest.raises(ConfigError, match=r"made: is not empty and holds no token files; name another folder with"):
        made(text, folder)
    with pytest.raises(ConfigError, match=r"made: is a folder; name a text in data.train"):
        made(TextConfig(train=str(folder)), tmp_path / "again")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MachineError, match=r"No space left on device; run the same command to go on"):
        made(text, tmp_path / "full")


def test_two_do_not_write_one_folder(text, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    with FolderLock(folder), pytest.raises(RunBusy, match=rf"made: is being written by process {os.getpid()} on"):
        made(text, folder)
    index, _ = made(text, folder)
    # what is finished is only read, whoever holds the lock
    with FolderLock(folder):
        assert made(text, folder) == (index, [])


def test_a_text_that_cannot_be_used_takes_no_folder(text, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"nul \0\n" + path.read_bytes())
    with pytest.raises(DataError, match=r"text.txt:1: NUL byte"):
        made(text, tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("place", ["train_tokenizer", "_as_file", "chunks"])
def test_nothing_is_kept_of_a_text_that_changes(text, tmp_path, monkeypatch, place):
    made(text, tmp_path / "at once")
    path, real = tmp_path / "text.txt", getattr(tokenizing, place)
    good = path.read_bytes()

    def changing(*given):
        path.write_bytes(b"more" + good[:-5] + b"other\n")
        return real(*given)

    monkeypatch.setattr(tokenizing, place, changing)
    with pytest.raises(DataError, match=r"text.txt: changed while it was read; start again"):
        made(text, tmp_path / "made")
    monkeypatch.setattr(tokenizing, place, real)
    with pytest.raises(ConfigError, match=r"or remove this one, which is not finished"):
        made(text, tmp_path / "made")
    # the text as it was goes on from what was made of it alone
    path.write_bytes(good)
    made(text, tmp_path / "made")
    assert contents(tmp_path / "made") == contents(tmp_path / "at once")


def test_a_recipe_that_wants_other_tokens_or_parts_is_refused(text, tmp_path):
    made(text, tmp_path / "made")
    found = opened(tmp_path / "made")
    found.check(text, CHARS)
    with pytest.raises(ConfigError, match=r'tokenizer.kind = "char", the recipe says "word"; change the recipe, or'):
        found.check(text, TokenizerConfig(kind="word", spaces="kept"))
    with pytest.raises(ConfigError, match=r"0.1 of its text is held out as 'test', but 0.3 is asked for; set data.te"):
        found.check(text.model_copy(update={"test_fraction": 0.3}), CHARS)
    with pytest.raises(ConfigError, match=r"0.2 of its text is held out as 'valid', but 0 is asked for"):
        found.check(text.model_copy(update={"valid": "x.txt"}), CHARS)


def _index(change):
    def work(folder):
        values = json.loads((folder / "index.json").read_text())
        change(values)
        (folder / "index.json").write_text(json.dumps(values))

    return work


def _shard(name, content):
    return lambda folder: (folder / name).write_bytes(content((folder / name).read_bytes()))


def _linked(folder):
    shutil.move(folder / "train-00001.tokens", folder.parent / "elsewhere")
    (folder / "train-00001.tokens").symlink_to(folder.parent / "elsewhere")


def _consistent(folder):
    """A token that the vocabulary has not, with the digest that belongs to it."""
    from headwise.data.files import sha256

    path = folder / "train-00001.tokens"
    path.write_bytes(b"\xff\xff" + path.read_bytes()[2:])
    _index(lambda index: index["parts"]["train"]["shards"][1].update(sha256=sha256(path)))(folder)


def _first(index):
    return index["parts"]["train"]["shards"][0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            _shard("train-00001.tokens", lambda data: data[:-2]),
            r"train-00001.tokens: has \d+ bytes, but index.json says",
        ),
        (_shard("train-00001.tokens", lambda data: data[:2] + data[:2] + data[4:]), r"tokens: is not what was written"),
        (_shard("valid.txt", lambda data: b"x" + data[1:]), r"valid.txt: is not what was written: its SHA-256 is"),
        (_shard("tokenizer.json", lambda data: data + b" "), r"tokenizer.json: is another tokenizer than the tokens"),
        (_shard("index.json", lambda data: data[:-20]), r"index.json: not an index of token files: "),
        (_shard("index.json", lambda data: b"[" * 100_000), r"index.json: not an index of token files: "),
        (_shard("index.json", lambda data: b"\xff" + data), r"index.json: not an index of token files: "),
        (_shard("index.json", lambda data: b"[]"), r"index.json: not an index of token files: it is no JSON object"),
        (_linked, r"train-00001.tokens: is a link, but must be a file in this folder"),
        (_consistent, r"train-00001.tokens: token 65,535 is beyond the vocabulary of \d+;"),
        (lambda folder: (folder / "train-00001.tokens").unlink(), r"train-00001.tokens: cannot be read: No such file"),
        (_index(lambda index: index.update(version=2)), r"format 'headwise-tokens' version 2 is not known"),
        (_index(lambda index: index.update(dtype="uint32")), r"numbers of \d+ tokens are not uint32"),
        (_index(lambda index: index.update(vocab_size=1 << 40)), r"tokenizer.json: is another tokenizer than"),
        (_index(lambda index: index["parts"].pop("train")), r"index.json: not an index of token files: it has no"),
        (
            _index(lambda index: _first(index).update(file="../text.txt")),
            r"'../text.txt' is not the name of shard 0",
        ),
        (_index(lambda index: _first(index).update(tokens=1 << 47)), r"train-00000.tokens: has \d+ bytes, but index"),
        (_index(lambda index: _first(index).update(tokens=1 << 70)), r"index.json: parts.*tokens"),
        (_index(lambda index: _first(index).update(tokens=-1)), r"index.json: parts.*tokens"),
        (_index(lambda index: index["parts"]["train"].update(shards=[])), r"index.json: parts.*shards"),
        (_index(lambda index: index.update(more=1)), r"index.json: unknown key 'more'|index.json: .*more"),
    ],
)
def test_a_folder_that_is_not_what_it_says_is_refused(text, tmp_path, change, told):
    made(text, tmp_path / "made")
    change(tmp_path / "made")
    with pytest.raises(DataError, match=told) as found:
        opened(tmp_path / "made")
    assert str(found.value).startswith(str(tmp_path / "made"))
    assert "\n" not in str(found.value)
    assert "headwise data tokenize" in str(found.value) or "is not the name" in str(found.value)


def test_an_index_of_any_size_is_not_read(text, tmp_path, monkeypatch):
    made(text, tmp_path / "made")
    monkeypatch.setattr(token_files, "_MAX_INDEX_BYTES", 10)
    with pytest.raises(DataError, match=r"index.json: larger than 10 bytes: not an index of token files"):
        opened(tmp_path / "made")
