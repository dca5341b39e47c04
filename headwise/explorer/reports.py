"""Reports of `headwise compare` and `headwise complexity`: read once from their folders, and shown."""

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response

from headwise.errors import DataError
from headwise.service.app import Service
from headwise.service.responses import as_json

_FILE = "results.json"
_KINDS = {"headwise comparison": "comparison", "headwise complexity": "complexity"}
_MADE_BY = "--output FOLDER of `headwise compare`, or --report FOLDER of `headwise complexity`, writes one"
# a figure of 170 mm at 300 dots an inch has far less
_MOST_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Report:
    """What a command wrote into a folder.

    Args:
        kind: "comparison" or "complexity".
        content: of results.json.
    """

    folder: Path
    kind: str
    content: Mapping[str, Any]

    def runs(self) -> list[Path]:
        """The first run of each side, where its folder is still there."""
        folders = [Path(next(iter(side["runs"].values()), "")) for side in self.content.get("sides", ())]
        return [folder for folder in folders if folder.name and folder.is_dir()]

    def shown(self, served: Collection[str]) -> dict[str, Any]:
        """What the page draws; sides name their run where it is served."""
        content = self.content
        sides = [
            {"name": str(side["name"]), "model": name}
            for side in content.get("sides", ())
            if (name := Path(next(iter(side["runs"].values()), "")).name) in served
        ]
        lists = {name: list(content.get(name, ())) for name in ("rows", "paths", "notes", "conditions")}
        return {
            "name": self.folder.name,
            "kind": self.kind,
            "metric": content.get("metric"),
            "command": content.get("command", ""),
            "figures": list(self._figures()),
            "sides": sides,
            **lists,
        }

    def _figures(self) -> Iterable[dict[str, str]]:
        for figure in self.content.get("figures", ()):
            # a name alone: no path leads out of the folder
            path = self.folder / Path(str(figure["file"])).name
            if path.suffix == ".png" and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                data = base64.b64encode(path.read_bytes()).decode()
                yield {"caption": str(figure["caption"]), "image": f"data:image/png;base64,{data}"}


def read_report(folder: Path) -> Report:
    """The report in a folder. Raises: DataError where there is none."""
    path = folder / _FILE
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path}: has more than {_MOST_BYTES:,} bytes; {_MADE_BY}")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; {_MADE_BY}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is no JSON; {_MADE_BY}") from None
    kind = next((kind for key, kind in _KINDS.items() if isinstance(content, dict) and content.get(key) == 1), None)
    if kind is None:
        raise DataError(f"{path}: is no report of a comparison or of costs; {_MADE_BY}")
    report = Report(folder, kind, content)
    try:
        report.shown(())
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{path}: lacks what a report has; {_MADE_BY}") from None
    return report


def reports_in(place: Path) -> list[Report]:
    """The reports in the folders of this one, by their names; other files of that name are passed over."""
    reports = []
    for path in sorted(place.glob(f"*/{_FILE}")):
        try:
            reports.append(read_report(path.parent))
        except DataError:
            continue
    return reports


def report_routes(reports: Sequence[Report]) -> Callable[[FastAPI, Service], None]:
    """What adds the route of these reports to a service."""

    def add(app: FastAPI, service: Service) -> None:
        shown = [report.shown(service.runs) for report in reports]

        @app.get("/api/v1/reports")
        async def named() -> Response:
            """Reports of comparisons and of costs, with their figures."""
            return as_json({"reports": shown})

    return add
