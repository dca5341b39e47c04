"""What `headwise data report` says of recordings."""

from collections import Counter
from typing import Any

from headwise.data.bad_lines import BadLines
from headwise.data.files import resolve
from headwise.data.inspection import DataKind, Inspection, Odd, entries, spread
from headwise.tasks.speech.recordings import RecordingsConfig, scan_recordings


def _recordings(data: RecordingsConfig, part: str, held_out: str | None) -> Inspection:
    """Rates, seconds and labels of recordings; one that is silent throughout is odd."""
    bad, odd = BadLines("recording"), Odd()
    rates: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    seconds: list[float] = []
    path = resolve(getattr(data, part))
    for number, recording in bad.numbered(scan_recordings(path, data)):
        rates[str(recording.rate)] += 1
        labels[str(recording.label)] += 1
        seconds.append(recording.seconds)
        if not recording.samples.any():
            odd.add("silent", number)
    facts: dict[str, Any] = {"rates": dict(rates.most_common()), "labels": dict(labels.most_common())}
    if seconds:
        facts["seconds"] = spread(seconds)
    return Inspection(str(path), "recordings", len(seconds), bad, odd, facts, entries(facts), "recording")


RECORDINGS = DataKind("recordings", RecordingsConfig, _recordings)
