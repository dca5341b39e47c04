"""docs/exchange.md says of every task which formats take it: as the code declares it."""

from pathlib import Path

import pytest
from life import built_of, task_of
from tiny_tasks import CASES

from headwise.exchange.huggingface import FAMILIES
from headwise.export import formats, huggingface, onnx, torch_programs
from headwise.export.answers import writes_texts
from headwise.tasks import registry

PAGE = Path(__file__).parents[2] / "docs" / "exchange.md"
PROGRAMS = (onnx.NAME, torch_programs.NAME)


def predictor_of(case, folder, monkeypatch):
    folder.mkdir()
    monkeypatch.chdir(folder)
    case.write(folder)
    task = task_of(case.task, case.recipe)
    return task.predictor(built_of(task))


def cell(task, predictor, name):
    if not formats.FORMATS[name].everything and not writes_texts(predictor):
        return "no: no translator or language model"
    if name in PROGRAMS and not predictor.passes:
        return "no: a table of vectors, no program"
    if name != huggingface.NAME:
        return "yes"
    families = [family.name for family in FAMILIES.values() if any(task in kinds for kinds in family.classes.values())]
    return ", ".join(f"`{family}`" for family in sorted(families)) or "no: no class is for it"


@pytest.mark.slow
def test_the_page_has_a_row_for_every_task(tmp_path, monkeypatch):
    first = {}
    for case in CASES.values():
        first.setdefault(case.task, case)
    assert first.keys() == set(registry.task_names())
    columns = list(formats.FORMATS)
    lines = [f"| task | {' | '.join(f'`{name}`' for name in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for task in sorted(first):
        predictor = predictor_of(first[task], tmp_path / task, monkeypatch)
        lines.append(f"| `{task}` | {' | '.join(cell(task, predictor, name) for name in columns)} |")
    assert "\n".join(lines) + "\n" in PAGE.read_text(encoding="utf-8"), "\n".join(["the table is:", *lines])
