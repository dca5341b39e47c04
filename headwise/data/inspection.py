"""What is in a data file: its bad lines by kind, the odd ones, and what the good ones are like; by kind of data."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum, isclose
from pathlib import PurePath
from typing import Any

from headwise.config import Config
from headwise.data import media_inspection
from headwise.data.bad_lines import BadLine, BadLines
from headwise.data.corpus import DataConfig, reading, resolve
from headwise.data.files import require_file, scan_lines
from headwise.data.readers import is_jsonl, scan_pairs, take
from headwise.data.report import measure, report
from headwise.errors import ConfigError, DataError
from headwise.tasks.images.images import ImagesConfig
from headwise.tasks.series.data import SeriesConfig, Step, numeric_columns, scan_steps
from headwise.tasks.speech.recordings import RecordingsConfig
from headwise.tasks.text.labelled import Label, LabelledConfig, scan_labelled
from headwise.tasks.text.plain import TextConfig, scan_texts
from headwise.tasks.text.tagged import TaggedConfig, scan_tagged
from headwise.tasks.translation.dialogues import DialogueConfig

PARTS = ("train", "valid", "test")
_SHOWN = 5
_LONG = 10.0
_SURE_CHARACTERS = 200


@dataclass
class Odd:
    """Lines that can be read but look wrong: of how many kinds, how many, and where the first stand."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[int]] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        """Counts a line."""
        self.counts[kind] += 1
        lines = self.first.setdefault(kind, [])
        if len(lines) < _SHOWN:
            lines.append(line)


@dataclass(frozen=True)
class Inspection:
    """What was found in one file: bad lines, odd lines, facts by name, and further lines of text for people.

    Without `bad` and `odd`, nothing is said of such lines.

    >>> Inspection("sums.txt", "sums", 24, facts={"largest": 9}, told=("largest 9",)).lines()
    ['sums.txt: 24 sums', '', 'largest 9']
    """

    file: str
    noun: str
    good: int
    bad: BadLines | None = None
    odd: Odd | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    # what numbers are of: media are counted as such, wherever a list has them
    counted: str = "line"

    def lines(self) -> list[str]:
        """The report as lines of text."""
        noun = self.noun.removesuffix("s") if self.good == 1 else self.noun
        blocks = [list(self._bad_and_odd()), list(self.told)]
        return [f"{self.file}: {self.good:,} {noun}", *(line for block in blocks if block for line in ("", *block))]

    def _bad_and_odd(self) -> Iterator[str]:
        for name, lines in (("bad", self.bad), ("odd", self.odd)):
            if lines is not None:
                yield f"{f'{name} {self.counted}s':<24} {lines.counts.total():,}"
                for kind, count in lines.counts.most_common():
                    yield from self._of_kind(kind, count, lines.first[kind])

    def _of_kind(self, kind: str, count: int, first: Sequence[BadLine] | Sequence[int]) -> Iterator[str]:
        """Bad lines each with what is wrong, odd ones by their numbers."""
        left = count - len(first)
        advised = [f"    {self.counted} {at.line}: {_advised(at)}" for at in first if isinstance(at, BadLine)]
        if advised:
            yield from (f"  {kind:<22} {count:,}", *advised, *([f"    and {left:,} more"] if left else []))
        else:
            yield f"  {kind:<22} {count:,}: {self.counted} {', '.join(map(str, first))}{', ...' if left else ''}"

    def values(self) -> dict[str, Any]:
        """The report as values for JSON: `bad` and `odd` by kind, each with its count and first lines."""
        kinds = {name: _by_kind(lines) for name, lines in (("bad", self.bad), ("odd", self.odd)) if lines is not None}
        return {"file": self.file, self.noun: self.good, **kinds, **self.facts}


def _by_kind(lines: BadLines | Odd) -> dict[str, Any]:
    first = {
        kind: [{"line": at} if isinstance(at, int) else {"line": at.line, "what": _advised(at)} for at in found]
        for kind, found in lines.first.items()
    }
    return {kind: {"count": count, "first": first[kind]} for kind, count in lines.counts.most_common()}


def inspect(
    data: Config | None, held_out: str | None = None, examples: Callable[[str], Sequence[Any]] = lambda part: ()
) -> list[Inspection]:
    """Reads the files that a recipe's `[data]` names to their ends, whatever is in them.

    Args:
        held_out: a file of pairs whose sources and words are looked up among those of train.
        examples: those of a part, which are counted where there is no more to say of this kind of data.

    Raises:
        ConfigError: held-out pairs beside other data.
        DataError: a file cannot be read any further.
    """
    if held_out is not None and not isinstance(data, DataConfig):
        raise ConfigError("--held-out goes with sentence pairs only; leave it out")
    chosen = next((look for kind, look in KINDS.values() if isinstance(data, kind)), None)
    if chosen is None:
        counts = {part: len(examples(part)) for part in PARTS}
        return [Inspection(part, "examples", count) for part, count in counts.items() if count]
    parts = [part for part in PARTS if getattr(data, part) is not None]
    return [chosen(data, part, held_out if part == "train" else None) for part in parts]


def guess(path: str) -> str:
    """The kind of data in a file, by the ending of its name, else by its first line that is not blank.

    Raises:
        DataError: the file cannot be read.
    """
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in (".conllu", ".conll", ".iob", ".iob2", ".bio", ".bioes"):
        return "tagged"
    if suffixes and suffixes[-1] == ".csv":
        return "labelled"
    require_file(path)
    lines = (text for _, text in scan_lines(path) if isinstance(text, str))
    first = next((text for text in lines if text and not text.isspace()), "")
    if is_jsonl(path, first):
        if '"turns"' in first or '"messages"' in first:
            return "dialogues"
        return "tagged" if '"words"' in first else "labelled" if '"label"' in first else "pairs"
    if first.startswith("# ") and any(text.count("\t") == 9 for text in take(lines, 9)):
        return "tagged"
    return "tagged" if first.count("\t") == 9 else "pairs" if "\t" in first else "text"


def _pairs(data: DataConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    how = reading(data.model_copy(update={"empty": "error"}), "nfc")
    path, target = resolve(getattr(data, part)), getattr(data, f"{part}_target")
    second = None if target is None else resolve(target)
    pairs = take(bad.good(scan_pairs(path, second, how)), data.limit, to_end=second is not None)
    for pair in pairs:
        if _quoted(pair.source) or _quoted(pair.target):
            odd.add("stray quotes", pair.line)
    others = None if held_out is None else list(BadLines().good(scan_pairs(held_out, None, how)))
    found = report(pairs, held_out=others) if pairs else None
    _long(odd, [(len(pair.source) + len(pair.target), pair.line) for pair in pairs])
    for line in found.outlier_lines if found else ():
        odd.add("length ratio", line)
    if found and found.outliers:
        odd.counts["length ratio"] = found.outliers
    facts = {} if found is None else asdict(found)
    return Inspection(str(path), "pairs", len(pairs), bad, odd, facts, tuple(found.lines() if found else ()))


def _tagged(data: TaggedConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    sentences = take(bad.good(scan_tagged(path, data)), data.limit)
    tags = Counter(tag for sentence in sentences for tag in sentence.tags or ())
    _long(odd, [(len(sentence.words), sentence.line) for sentence in sentences])
    for sentence in sentences:
        if len(sentence.words) > data.max_len:
            odd.add("beyond max_len", sentence.line)
    words = Counter(word for sentence in sentences for word in sentence.words)
    facts: dict[str, Any] = {"words": words.total(), "vocabulary": len(words), "tags": dict(tags.most_common())}
    told = [f"words                    {words.total():,}", f"vocabulary               {len(words):,}"]
    told += [f"tags                     {len(tags):,}"]
    told += [f"  {tag[:40]:<22} {count:,} ({count / tags.total():.1%})" for tag, count in tags.most_common(40)]
    if sentences:
        facts["lengths"] = asdict(measure([len(sentence.words) for sentence in sentences]))
    return Inspection(str(path), "sentences", len(sentences), bad, odd, facts, tuple(told))


def _labelled(data: LabelledConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    examples = take(bad.good(scan_labelled(path, data)), data.limit)
    labels = Counter(str(example.label) for example in examples)
    _long(odd, [(len(example.text), example.line) for example in examples])
    known: dict[str, Label | None] = {}
    for example in examples:
        if known.setdefault(example.text, example.label) != example.label:
            odd.add("text of another label", example.line)
    facts: dict[str, Any] = {"labels": dict(labels.most_common()), "different_texts": len(known)}
    told = [f"different texts          {len(known):,}", f"labels                   {len(labels):,}"]
    told += [f"  {label[:22]:<22} {count:,} ({count / labels.total():.1%})" for label, count in labels.most_common(40)]
    if examples:
        facts["lengths"] = asdict(measure([len(example.text) for example in examples]))
    return Inspection(str(path), "texts", len(examples), bad, odd, facts, tuple(told))


def _text(data: TextConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    sizes: list[int] = []
    letters: set[str] = set()
    for text in bad.good(scan_texts(path, data.max_line_bytes)):
        sizes.append(len(text))
        letters.update(text)
    facts: dict[str, Any] = {"characters": sum(sizes) + len(sizes), "different_characters": len(letters)}
    told = [f"characters               {facts['characters']:,}", f"different characters     {len(letters):,}"]
    if sizes:
        facts["lengths"] = asdict(measure(sizes))
    return Inspection(str(path), "lines", len(sizes), bad, odd, facts, tuple(told))


def _series(data: SeriesConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    columns, others = (data.columns, []) if data.columns else numeric_columns(path, data)
    steps = list(bad.good(scan_steps(path, data, columns)))
    known: dict[str, list[Step]] = {}
    for step in steps:
        if step.filled:
            odd.add("missing numbers", step.line)
        before = known.setdefault(step.series, [])
        if len(before) > 1 and _uneven(before, step):
            odd.add("uneven time", step.line)
        before.append(step)
    told = [f"series                   {len(known):,}", f"columns                  {len(columns):,}"]
    told += [f"  not read: {', '.join(map(repr, others[:_SHOWN]))}"] if others else []
    facts: dict[str, Any] = {"series": len(known), "columns": {}, "not_read": others}
    for place, column in enumerate(columns if steps else ()):
        numbers = [step.numbers[place] for step in steps]
        found = {"least": min(numbers), "mean": fsum(numbers) / len(numbers), "greatest": max(numbers)}
        facts["columns"][column] = found
        told.append(f"  {column[:22]:<22} " + ", ".join(f"{name} {number:.4g}" for name, number in found.items()))
    if steps:
        facts["lengths"] = asdict(measure([len(found) for found in known.values()]))
    return Inspection(str(path), "steps", len(steps), bad, odd, facts, tuple(told))


def _uneven(before: Sequence[Step], step: Step) -> bool:
    """Whether a step comes sooner or later than the second one came after the first."""
    times = [one.time for one in (before[0], before[1], before[-1], step) if one.time is not None]
    return len(times) == 4 and not isclose(times[3] - times[2], times[1] - times[0], rel_tol=1e-6)


def _quoted(text: str) -> bool:
    """Whether a side looks like a piece of a CSV file: quoted as a whole, or with a quote that has no second."""
    return (len(text) > 1 and text[0] == text[-1] == '"') or text.count('"') % 2 == 1


def _long(odd: Odd, sizes: Sequence[tuple[int, int]]) -> None:
    """Counts what is ten times as long as 95 of 100 are; a little text is never long."""
    if not sizes:
        return
    usual = measure([size for size, _ in sizes]).p95
    for size, line in sizes:
        if size > max(_LONG * usual, _SURE_CHARACTERS):
            odd.add("very long", line)


def _advised(line: BadLine) -> str:
    return DataError(line.what, line.settings).told("shell")


def _media(
    noun: str, look: Callable[[Any, str], media_inspection.Found], counted: str = "line"
) -> Callable[..., Inspection]:
    def inspected(data: Any, part: str, held_out: str | None) -> Inspection:
        good, bad, strange, facts = look(data, part)
        odd = Odd()
        for kind, place in strange:
            odd.add(kind, place)
        path = str(resolve(getattr(data, part)))
        return Inspection(path, noun, good, bad, odd, facts, media_inspection.told(facts), counted)

    return inspected


# of data: its section of a recipe, and what looks into its files
KINDS: Mapping[str, tuple[type[Any], Callable[..., Inspection]]] = {
    "pairs": (DataConfig, _pairs),
    "tagged": (TaggedConfig, _tagged),
    "labelled": (LabelledConfig, _labelled),
    "text": (TextConfig, _text),
    "series": (SeriesConfig, _series),
    "dialogues": (DialogueConfig, _media("dialogues", media_inspection.dialogues)),
    "images": (ImagesConfig, _media("images", media_inspection.images, "image")),
    "recordings": (RecordingsConfig, _media("recordings", media_inspection.recordings, "recording")),
}
