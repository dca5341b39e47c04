"""What `headwise data report` says of tagged, labelled and running text."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from headwise.data.bad_lines import BadLines
from headwise.data.files import resolve
from headwise.data.inspection import DataKind, Inspection, Odd, Opening, add_long
from headwise.data.readers import take
from headwise.data.report import measure, measure_texts, split_off
from headwise.tasks.text.labelled import Label, LabelledConfig, scan_labelled
from headwise.tasks.text.plain import TextConfig, scan_texts
from headwise.tasks.text.tagged import TaggedConfig, scan_tagged


def _tagged(data: TaggedConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    sentences = take(bad.good(scan_tagged(path, data)), data.limit)
    tags = Counter(tag for sentence in sentences for tag in sentence.tags or ())
    add_long(odd, [(len(sentence.words), sentence.line) for sentence in sentences])
    for sentence in sentences:
        if len(sentence.words) > data.max_len:
            odd.add("beyond max_len", sentence.line)
    words = Counter(word for sentence in sentences for word in sentence.words)
    facts: dict[str, Any] = {"words": words.total(), "vocabulary": len(words), "tags": dict(tags.most_common())}
    lines = [f"words                    {words.total():,}", f"vocabulary               {len(words):,}"]
    lines += [f"tags                     {len(tags):,}"]
    lines += [f"  {tag[:40]:<22} {count:,} ({count / tags.total():.1%})" for tag, count in tags.most_common(40)]
    if sentences:
        facts["lengths"] = asdict(measure([len(sentence.words) for sentence in sentences]))
    return Inspection(str(path), "sentences", len(sentences), bad, odd, facts, tuple(lines))


def _labelled(data: LabelledConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    examples = take(bad.good(scan_labelled(path, data)), data.limit)
    labels = Counter(str(example.label) for example in examples)
    add_long(odd, [(len(example.text), example.line) for example in examples])
    labels_by_text: dict[str, Label | None] = {}
    for example in examples:
        if labels_by_text.setdefault(example.text, example.label) != example.label:
            odd.add("text of another label", example.line)
    facts: dict[str, Any] = {"labels": dict(labels.most_common()), "different_texts": len(labels_by_text)}
    lines = [f"different texts          {len(labels_by_text):,}", f"labels                   {len(labels):,}"]
    lines += [f"  {label[:22]:<22} {count:,} ({count / labels.total():.1%})" for label, count in labels.most_common(40)]
    if texts := [example.text for example in examples]:
        words = (_training(data), texts) if part != "train" else split_off(texts, str)
        side = measure_texts(texts, [example.line for example in examples], *words)
        facts |= {"lengths": asdict(side.characters), "words": asdict(side)}
        lines += ["", "texts" if part == "train" else "texts (unknown: not in the texts of train)", *side.lines()]
    return Inspection(str(path), "texts", len(examples), bad, odd, facts, tuple(lines))


def _training(data: LabelledConfig) -> list[str]:
    """The texts that are trained on, whatever their lines that are bad."""
    return [row.text for row in take(BadLines().good(scan_labelled(resolve(data.train), data)), data.limit)]


def _text(data: TextConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    sizes: list[int] = []
    letters: set[str] = set()
    for text in bad.good(scan_texts(path, data.max_line_bytes)):
        sizes.append(len(text))
        letters.update(text)
    facts: dict[str, Any] = {"characters": sum(sizes) + len(sizes), "different_characters": len(letters)}
    lines = [f"characters               {facts['characters']:,}", f"different characters     {len(letters):,}"]
    if sizes:
        facts["lengths"] = asdict(measure(sizes))
    return Inspection(str(path), "lines", len(sizes), bad, odd, facts, tuple(lines))


def _like_tagged(opening: Opening) -> int:
    if opening.ending in (".conllu", ".conll", ".iob", ".iob2", ".bio", ".bioes"):
        return 4
    if opening.ending == ".csv":
        return 0
    first, *others = opening.lines
    if opening.is_jsonl:
        return 3 if '"words"' in first else 0
    begins = first.startswith("# ") and any(text.count("\t") == 9 for text in others)
    return 3 if begins or first.count("\t") == 9 else 0


def _like_labelled(opening: Opening) -> int:
    if opening.ending == ".csv":
        return 4
    return 2 if opening.is_jsonl and '"label"' in opening.lines[0] else 0


TAGGED = DataKind("tagged", TaggedConfig, _tagged, _like_tagged)
LABELLED = DataKind("labelled", LabelledConfig, _labelled, _like_labelled)
# what looks like nothing else is text, but for pairs, which need a tab
TEXT = DataKind("text", TextConfig, _text, lambda opening: 1)
