"""Passages cut from documents: which document is one of, and are two of the same one?"""

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headwise.data.files import data_cache, is_hidden, read_lines
from headwise.data.synthetic import write_drawn
from headwise.errors import ConfigError, DataError

# of WikiText, whose headings of articles have one sign of equality on each side
_DEFAULT = Path("wikitext-2", "wiki.train.tokens.gz")
_ENDINGS = (".txt", ".text", ".md", ".txt.gz")
_HELD_OUT = 0.1
# between the two passages of a pair
MARK = "|"
_LABELS = ("other", "same")

# (random numbers, part) -> text and label
Row = Callable[[random.Random, str], tuple[str, str]]


def documents(source: Path | None = None) -> dict[str, str]:
    """The texts of the documents in a folder, or of the articles of one file, by their names; white space is one blank.

    A document of a folder is a text file, in folders inside it too. A file has articles between headings `= Title =`.

    Args:
        source: None: the training text of WikiText-2, from the folder of data.

    Raises: DataError: there are fewer than two documents, or one that is no text.
    """
    source = data_cache() / _DEFAULT if source is None else source
    if not source.exists():
        advice = "headwise data fetch wikitext-2, or give another with --source"
        raise DataError(f"{source}: no such file or folder; {advice}")
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if _is_text(path, source))
        texts = {str(path.relative_to(source)): _joined(line for _, line in read_lines(path)) for path in files}
    else:
        texts = {title: _joined(lines) for title, lines in _articles(source).items()}
    texts = {name: text for name, text in texts.items() if text}
    if len(texts) < 2:
        what = f"text files ({', '.join(_ENDINGS)})" if source.is_dir() else "articles under headings `= Title =`"
        raise DataError(f"{source}: has {len(texts)} {what}, and two or more are needed")
    return texts


def make_passages(
    folder: Path, seed: int = 1, count: int = 2000, *, source: Path | None = None, length: int = 256
) -> dict[Path, int]:
    """Writes `train.tsv`, `valid.tsv` and `test.tsv`: a passage, and the document, or the folder of it, that it is of.

    Every document is cut in three: its beginning is trained on, what follows is for the others, so that no passage has
    anything of one in another part. Classes are equally frequent.

    Args:
        source: as of `documents`.
        length: characters of a passage.

    Raises:
        ConfigError: documents that are too short.
        DataError: as `documents`; the folder holds other data under one of these names.
    """
    classes: dict[str, list[str]] = {}
    for name, text in documents(source).items():
        parent = str(Path(name).parent) if source is not None and source.is_dir() else "."
        classes.setdefault(name if parent == "." else parent, []).append(text)
    parts: dict[str, dict[str, list[str]]] = {}
    for part, (begin, end) in {"train": (0.0, 0.8), "valid": (0.8, 0.9), "test": (0.9, 1.0)}.items():
        pieces = {
            name: [text[round(begin * len(text)) : round(end * len(text))] for text in texts]
            for name, texts in classes.items()
        }
        parts[part] = _long_enough(pieces, length)
    common = sorted(set.intersection(*(set(pieces) for pieces in parts.values())))
    if len(common) < 2:
        raise ConfigError(f"length ({length}) is too long: fewer than two documents have passages of it in every part")

    def row(numbers: random.Random, part: str) -> tuple[str, str]:
        name = numbers.choice(common)
        return _passage(numbers, numbers.choice(parts[part][name]), length), name

    return _write(folder, seed, count, row)


def make_retrieval(
    folder: Path, seed: int = 1, count: int = 2000, *, source: Path | None = None, length: int = 128
) -> dict[Path, int]:
    """Writes `train.tsv`, `valid.tsv` and `test.tsv`: two passages with a mark between, `same` or `other` document.

    A document is in one part alone, so that a model cannot learn documents by heart. The two passages of one document
    do not overlap. Half of the pairs are of the same document.

    Args:
        source: as of `documents`.
        length: characters of each passage.

    Raises: as `make_passages`.
    """
    names = sorted(texts := {name: text for name, text in documents(source).items() if len(text) >= 2 * length + 1})
    random.Random(f"retrieval {seed}").shuffle(names)
    held_out = max(2, round(_HELD_OUT * len(names)))
    if len(names) < 2 * held_out + 2:
        raise ConfigError(f"{len(names)} documents have two passages of {length} characters; six or more are needed")
    parts = {
        "train": names[2 * held_out :],
        "valid": names[:held_out],
        "test": names[held_out : 2 * held_out],
    }

    def row(numbers: random.Random, part: str) -> tuple[str, str]:
        first, other = numbers.sample(parts[part], 2)
        label = numbers.choice(_LABELS)
        text = texts[first]
        middle = numbers.randint(length, len(text) - length)
        passages = [_passage(numbers, text[:middle], length), _passage(numbers, text[middle:], length)]
        if label == "other":
            passages[1] = _passage(numbers, texts[other], length)
        numbers.shuffle(passages)
        return f" {MARK} ".join(passages), label

    return _write(folder, seed, count, row)


def _write(folder: Path, seed: int, count: int, row: Row) -> dict[Path, int]:
    contents, sizes = dict[Path, str | bytes](), dict[Path, int]()
    for part in ("train", "valid", "test"):
        size = count if part == "train" else max(1, count // 10)
        rows = [row(random.Random(f"{seed} {part} {place}"), part) for place in range(size)]
        contents[folder / f"{part}.tsv"] = "".join("\t".join(cells) + "\n" for cells in [("text", "label"), *rows])
        sizes[folder / f"{part}.tsv"] = size
    write_drawn(contents)
    return sizes


def _long_enough(pieces: Mapping[str, list[str]], length: int) -> dict[str, list[str]]:
    long = {name: [text for text in texts if len(text) >= length] for name, texts in pieces.items()}
    return {name: texts for name, texts in long.items() if texts}


def _passage(numbers: random.Random, text: str, length: int) -> str:
    start = numbers.randint(0, len(text) - length)
    return text[start : start + length].strip()


def _articles(path: Path) -> dict[str, list[str]]:
    articles: dict[str, list[str]] = {}
    lines: list[str] = []
    for _, line in read_lines(path):
        text = line.strip()
        if text.startswith("= ") and text.endswith(" =") and not text.startswith("= ="):
            # two articles of one name are one
            lines = articles.setdefault(text.strip("= "), [])
        else:
            lines.append(text)
    return articles


def _joined(lines: Iterable[str]) -> str:
    return " ".join(" ".join(line.split()) for line in lines if line.strip())


def _is_text(path: Path, source: Path) -> bool:
    hidden = any(is_hidden(part) for part in path.relative_to(source).parts)
    return path.is_file() and not hidden and path.name.lower().endswith(_ENDINGS)
