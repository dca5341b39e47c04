"""Claims and what was found of them, as Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headwise.compare.claim import Claim, ClaimRecord
from headwise.compare.verdicts import Cell, Verdict
from headwise.explain.canvas import Picture
from headwise.explain.comparisons import forest

# at the head of the page
TELLING = ("attention-cheaper-than-recurrence", "tied-queries-and-keys-give-the-identity")


_ABOUT = (
    "Each sentence is an experiment: a rule says beforehand how its verdict follows from the numbers, and"
    " `headwise claims run NAME` runs it",
    "again. *Holds only where* means that some conditions confirm it and others refute it. Each section says what"
    " weakens its experiment.",
    "",
    "Intervals are over what the rule names. Over seeds and examples: mean ± t √(s²/n + v), s over n seeds, v the"
    " variance of the mean",
    "as the test examples are drawn anew, at least what one more example would change. Over seeds alone where what"
    " is measured is no mean over examples.",
    "",
    "Every experiment was attacked after it was built. *Without a seed* is the verdict where the rule judges all"
    " seeds but"
    " one, each left out",
    "in turn. Two seeds have a Student's t of 12.7 in place of 4.3, so that *undecided* is what most verdicts of"
    " three seeds"
    " fall to: they need",
    "each of their seeds. In the table of a claim *another seed* is how often the outcome would change with one"
    " more seed:"
    " the share of 99",
    "places of its prediction, mean ± s √(1 + 1/n) t. A rule that was changed is a new version; what earlier"
    " ones came to"
    " stands below it. Nothing is",
    "corrected for the number of claims: where all conditions have to hold, chance makes *holds* less often than"
    " 5 %, but"
    " one of many conditions",
    "may hold or be refuted by chance, and make *holds only where* of the others.",
)
# what is believed, and does not hold or in part alone, has a picture that says so
_PICTURED: tuple[Verdict, ...] = ("holds only where", "does not hold")


def page(
    claims: Iterable[Claim],
    records: Mapping[str, ClaimRecord],
    pictures: str | None = None,
    history: Mapping[str, Sequence[ClaimRecord]] | None = None,
) -> str:
    """A table of all claims with their verdicts, and a section for each.

    Args:
        history: of each claim, records of versions before the present one.
        pictures: the folder of `picture_names`, as the page links it; None: without pictures.
    """
    claims = list(claims)
    shown = picture_names(records) if pictures is not None else {}
    rows = ["| claim | verdict | without a seed |", "|---|---|---|"]
    for claim in claims:
        record = records.get(claim.name)
        judged = f"**{record.verdict}** ({record.variant})" if record is not None else "not run"
        turned = _turned(record.verdict, record.left_out) if record is not None else "–"
        rows.append(f"| [{claim.sentence}](#{claim.name}) | {judged} | {turned} |")
    return "\n".join(
        [
            "# Claims about attention",
            "",
            *_ABOUT,
            "",
            *(
                line
                for claim in claims
                if claim.name in TELLING and claim.name in shown
                for line in (_linked(claim, pictures), "", f"*{claim.sentence}* {records[claim.name].why}", "")
            ),
            *rows,
            *(
                f"\n{section(claim, records.get(claim.name), shown_in, (history or {}).get(claim.name, ()))}"
                for claim in claims
                for shown_in in [pictures if claim.name in shown else None]
            ),
            "",
        ]
    )


def picture_names(records: Mapping[str, ClaimRecord]) -> dict[str, str]:
    """The file of the picture of each claim that has one in the page."""
    return {
        name: f"claim-{name}.png" for name, record in records.items() if name in TELLING or record.verdict in _PICTURED
    }


def draw(claim: Claim, record: ClaimRecord) -> Picture:
    """The conditions of a run, below the sentence and its verdict."""
    cells = {cell.where: (cell.value, cell.low, cell.high, cell.outcome) for cell in record.cells}
    return forest(cells, f"{claim.across}, 95 % interval", f"“{claim.sentence}” {record.verdict.capitalize()}.")


def _linked(claim: Claim, pictures: str | None) -> str:
    return f"![{claim.sentence}]({pictures}/claim-{claim.name}.png)"


def _turned(outcome: str, others: Sequence[str]) -> str:
    """What becomes of an outcome without each seed.

    >>> _turned("holds", ["holds", "undecided", "undecided"]), _turned("holds", ["holds"] * 3), _turned("holds", [])
    ('undecided 2 of 3', 'the same', '–')
    """
    turned = Counter(other for other in others if other != outcome)
    words = ", ".join(f"{other} {count} of {len(others)}" for other, count in turned.items())
    return words or ("the same" if others else "–")


def section(
    claim: Claim, record: ClaimRecord | None, pictures: str | None = None, history: Sequence[ClaimRecord] = ()
) -> str:
    """A claim, the rule of its verdict, and the numbers of a run; below the picture in this folder, if any."""
    lines = [f"## {claim.name}", "", f"> {claim.sentence}", "", f"Source: {claim.source}.", ""]
    lines += [f"Rule, written on {claim.written}: {claim.rule}.", ""]
    lines += [f"Weakness: {claim.weakness}.", ""] if claim.weakness else []
    if history:
        verdicts = ", ".join(f"{old.version} {old.verdict} ({old.variant}, {old.ran})" for old in history)
        lines += [f"Version {claim.version} of the experiment. Earlier: {verdicts}.", ""]
    if record is None:
        return "\n".join([*lines, f"Not run: `headwise claims run {claim.name}`."])
    lines += [f"**{record.verdict.capitalize()}.** {record.why}", ""]
    lines += [_linked(claim, pictures), ""] if pictures is not None else []
    lines += [
        "| condition | value | 95 % interval | outcome | without a seed | another seed |",
        "|---|---|---|---|---|---|",
    ]
    for cell in record.cells:
        more = "–" if cell.turned is None else f"{100 * cell.turned:.0f} %"
        numbers = f"{_number(cell.value)} | {_interval(cell, record)}"
        lines.append(f"| {cell.where} | {numbers} | {cell.outcome} | {_turned(cell.outcome, cell.left_out)} | {more} |")
    lines += ["", *(f"Control: {control.what} ({_number(control.value)})." for control in record.controls)]
    for part in (_sides(record), [f"Note: {note}." for note in record.notes]):
        lines += ["", *part] if part else []
    lines += [
        "",
        f"{record.variant.capitalize()} variant, {record.cpu_s:g} CPU s on one thread of {record.processor},"
        f" {record.ran}; headwise {record.release}, PyTorch {record.torch}.",
    ]
    return "\n".join(lines)


def _sides(record: ClaimRecord) -> list[str]:
    """A row for each side that was trained: what it is, and its score with each seed."""
    if not record.sides:
        return []
    lines = ["| data | side | parameters | tuned | score, seed by seed |", "|---|---|---|---|---|"]
    for side in record.sides:
        scores = ", ".join(f"{_number(score)}" for score in side.scores.values())
        size = "–" if side.parameters is None else f"{side.parameters:,}"
        lines.append(f"| {side.where} | {side.side} | {size} | {side.tuned or '–'} | {side.metric} {scores} |")
    return lines


def _interval(cell: Cell, record: ClaimRecord) -> str:
    """The ends; of runs that all gave the same number it has no width, which does not make that number exact."""
    if cell.low == cell.high and cell.low is not None:
        return "no width: a count, or all runs agree" if record.sides else "exact"
    low, high = ("no limit" if end is None else _number(end) for end in (cell.low, cell.high))
    return f"{low} to {high}"


def _number(value: float) -> str:
    """Four significant digits.

    >>> _number(0.123456), _number(263168.0)
    ('0.1235', '263,168')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
