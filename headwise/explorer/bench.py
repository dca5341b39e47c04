"""Measured times and memory, as a benchmark wrote them into a file: read once, shown, and never measured here."""

import csv
import io
import json
from pathlib import Path

from pydantic import Field

from headwise.config import Config, build
from headwise.errors import DataError

# a file of results has hundreds of records
_MOST_RECORDS = 10_000


class Quantiles(Config):
    """Milliseconds."""

    p50: float = Field(ge=0, description="half of the passes took less")
    p90: float = Field(ge=0, description="nine in ten took less")


class Measurement(Config):
    """One mechanism at one length."""

    mechanism: str = Field(min_length=1, max_length=100, description="what was measured")
    n: int = Field(ge=1, description="length of queries and keys")
    d: int = Field(ge=1, description="width of a head")
    heads: int = Field(ge=1, description="number of heads")
    dtype: str = Field(max_length=20, description="type of the numbers")
    device: str = Field(max_length=100, description="where it ran")
    hardware: str = Field(max_length=300, description="name of the processor or accelerator")
    fwd_ms: Quantiles = Field(description="milliseconds of a forward pass")
    mem_mib: float = Field(ge=0, description="MiB that a forward pass needs at its height")
    commit: str = Field("", max_length=60, description="state of the code")


def read_measurements(path: Path) -> list[Measurement]:
    """The records of a file that `python -m benchmarks.lengths --json FILE` wrote.

    Raises: DataError or ConfigError naming the file, and the record that is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is no JSON; python -m benchmarks.lengths --json FILE writes it") from None
    records = document.get("records") if isinstance(document, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise DataError(f'{path}: has no list "records" of objects; python -m benchmarks.lengths --json FILE writes it')
    if len(records) > _MOST_RECORDS:
        raise DataError(f"{path}: has {len(records):,} records; at most {_MOST_RECORDS:,} are shown")
    return [build(Measurement, record, f"{path}: record {place}") for place, record in enumerate(records)]


def as_csv(records: list[Measurement]) -> str:
    """The same as a table, a line for each record."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    names = [name for name in Measurement.model_fields if name != "fwd_ms"]
    rows.writerow([*names, "fwd_ms_p50", "fwd_ms_p90"])
    for record in records:
        rows.writerow([*(_cell(getattr(record, name)) for name in names), record.fwd_ms.p50, record.fwd_ms.p90])
    return stream.getvalue()


def _cell(value: object) -> object:
    """A text that a table's program would take for a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
