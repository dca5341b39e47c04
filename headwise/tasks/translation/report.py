"""What `headwise data report` says of sentence pairs and of dialogues."""

from dataclasses import asdict

from headwise.data.bad_lines import BadLines
from headwise.data.files import Bytes, resolve
from headwise.data.inspection import DataKind, Inspection, Odd, Opening, add_long, entries, spread
from headwise.data.readers import scan_pairs, take
from headwise.data.report import report
from headwise.tasks.translation.data import DataConfig, DialogueConfig, pair_set, reading, scan_dialogues


def _pairs(data: DataConfig, part: str, held_out: str | None) -> Inspection:
    bad, odd = BadLines(), Odd()
    data = data.model_copy(update={"empty": "error"})
    path = resolve(getattr(data, part))
    to_end = getattr(data, f"{part}_target") is not None
    pairs = take(bad.good(pair_set(data).scan(part, Bytes(0))), data.limit, to_end=to_end)
    for pair in pairs:
        if _quoted(pair.source) or _quoted(pair.target):
            odd.add("stray quotes", pair.line)
    others = None if held_out is None else list(BadLines().good(scan_pairs(held_out, None, reading(data, "nfc"))))
    summary = report(pairs, held_out=others) if pairs else None
    add_long(odd, [(len(pair.source) + len(pair.target), pair.line) for pair in pairs])
    for line in summary.outlier_lines if summary else ():
        odd.add("length ratio", line)
    if summary and summary.outliers:
        odd.counts["length ratio"] = summary.outliers
    facts = {} if summary is None else asdict(summary)
    return Inspection(str(path), "pairs", len(pairs), bad, odd, facts, tuple(summary.lines() if summary else ()))


def _quoted(text: str) -> bool:
    """Whether a side looks like a piece of a CSV file: quoted as a whole, or with a quote that has no second."""
    return (len(text) > 1 and text[0] == text[-1] == '"') or text.count('"') % 2 == 1


def _dialogues(data: DialogueConfig, part: str, held_out: str | None) -> Inspection:
    """Turns and answers of each dialogue; one that comes twice is odd."""
    bad, odd = BadLines(), Odd()
    path = resolve(getattr(data, part))
    lengths, answers, earlier = [], 0, set()
    for dialogue in bad.good(scan_dialogues(path, data)):
        lengths.append(len(dialogue.turns))
        answers += len(dialogue.answers)
        if (turns := tuple(dialogue.turns)) in earlier:
            odd.add("duplicates", dialogue.line)
        earlier.add(turns)
    facts = {"turns": spread(lengths), "answers": answers} if lengths else {}
    return Inspection(str(path), "dialogues", len(lengths), bad, odd, facts, entries(facts))


def _like_pairs(opening: Opening) -> int:
    if opening.ending == ".csv":
        return 0
    return 2 if opening.is_jsonl or "\t" in opening.lines[0] else 0


def _like_dialogues(opening: Opening) -> int:
    first = "" if opening.ending == ".csv" or not opening.is_jsonl else opening.lines[0]
    return 4 if '"turns"' in first or '"messages"' in first else 0


PAIRS = DataKind("pairs", DataConfig, _pairs, _like_pairs, held_out=True)
DIALOGUES = DataKind("dialogues", DialogueConfig, _dialogues, _like_dialogues)
