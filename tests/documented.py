"""What the documents say, for tests that hold them to it."""

from pathlib import Path

TRANSFORMS = Path(__file__).parents[1] / "docs" / "transforms.md"


def refused(kind: str) -> set[tuple[str, str]]:
    """What of a kind docs/transforms.md says is refused: (name, transform)."""
    rows = [line.strip("| \n").split(" | ") for line in TRANSFORMS.read_text(encoding="utf-8").splitlines()]
    return {(name, row[2]) for row in rows if len(row) == 4 and row[0] == kind for name in row[1].split(", ")}
